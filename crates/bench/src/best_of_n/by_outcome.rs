//! Scores of solutions with a right and with a wrong answer: what a reward model tells apart, whoever chooses by it.
//!
//! Solutions whose outcome nobody knows are left out here, as are those without scores. The area under the ROC curve is the
//! chance that a solution with a right answer scores above one with a wrong answer, over all problems; its interval draws whole
//! problems.

use gradus_core::metrics::bootstrap::Settings;
use gradus_core::metrics::ranking::roc_auc_by_group;
use serde::{Deserialize, Serialize};

use crate::estimate::MetricEstimate;

/// Bars of the histogram.
pub(super) const BARS: usize = 20;

/// The scores of one class of solutions.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct OutcomeScores {
    /// Solutions.
    pub solutions: usize,
    /// Mean of their scores.
    pub mean: Option<f64>,
    /// Median of their scores.
    pub median: Option<f64>,
    /// Solutions by score, in bars of equal width over [`ScoresByOutcome::range`].
    pub by_score: Vec<u64>,
}

/// The scores of one scorer under one aggregation, by outcome.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ScoresByOutcome {
    /// Of solutions with a right answer.
    pub right: OutcomeScores,
    /// Of solutions with a wrong answer.
    pub wrong: OutcomeScores,
    /// Area under the ROC curve.
    pub auc: MetricEstimate,
    /// Ends of the histogram: 0 and 1, and beyond where a score is.
    pub range: (f64, f64),
}

/// The numbers of the solutions of each problem: their scores, and whether their answers are right.
pub(super) fn measure(problems: &[Vec<(f64, bool)>], settings: &Settings) -> ScoresByOutcome {
    let all = problems.concat();
    let (low, high) = all
        .iter()
        .fold((0.0, 1.0), |(low, high): (f64, f64), (score, _)| (low.min(*score), high.max(*score)));
    let class = |right: bool| {
        let of_class = all.iter().filter(|(_, outcome)| *outcome == right).map(|(score, _)| *score);
        outcome_scores(of_class.collect(), (low, high))
    };
    let auc = roc_auc_by_group(problems, settings).map(|(value, interval)| MetricEstimate {
        value: Some(value),
        interval: interval.map(|interval| (interval.low, interval.high)),
    });
    ScoresByOutcome {
        right: class(true),
        wrong: class(false),
        auc: auc.unwrap_or_default(),
        range: (low, high),
    }
}

fn outcome_scores(mut scores: Vec<f64>, (low, high): (f64, f64)) -> OutcomeScores {
    scores.sort_unstable_by(f64::total_cmp);
    let mut by_score = vec![0; BARS];
    for score in &scores {
        by_score[(((score - low) / (high - low) * BARS as f64) as usize).min(BARS - 1)] += 1;
    }
    let count = scores.len();
    OutcomeScores {
        solutions: count,
        mean: (count > 0).then(|| scores.iter().sum::<f64>() / count as f64),
        median: (count > 0).then(|| (scores[(count - 1) / 2] + scores[count / 2]) / 2.0),
        by_score,
    }
}
