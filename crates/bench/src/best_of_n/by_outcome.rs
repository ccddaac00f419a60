//! Scores of solutions with a right and with a wrong answer: what a reward model tells apart, whoever chooses by it.
//!
//! Solutions whose outcome nobody knows are left out here, as are those without scores. The area under the ROC curve is the
//! chance that a solution with a right answer scores above one with a wrong answer, over all problems; its interval draws whole
//! problems.

use gradus_core::metrics::bootstrap::Settings;
use gradus_core::metrics::ranking::roc_auc_by_group;
use gradus_core::select::Aggregation;
use gradus_plot::histogram::{Distribution, Histogram};
use gradus_plot::table::Table;
use gradus_plot::{Block, Section, Unit};
use serde::{Deserialize, Serialize};

use super::results::{DatasetResults, Pool, ScorerResults, aggregated};
use crate::cells::{column, columns, count, decimal, number, text};
use crate::estimate::MetricEstimate;

/// Bars of the histogram.
const BARS: usize = 20;

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

/// The numbers over `pools`.
pub(super) fn measure(
    pools: &[&Pool],
    scorer: &str,
    aggregation: Aggregation,
    settings: &Settings,
) -> ScoresByOutcome {
    let scored = |pool: &&Pool| -> Vec<(f64, bool)> {
        let scores = aggregated(pool, scorer, aggregation).into_iter().zip(&pool.outcomes);
        let known = scores.filter_map(|(score, outcome)| score.zip(*outcome));
        known.filter(|(score, _)| score.is_finite()).collect()
    };
    let problems: Vec<Vec<(f64, bool)>> = pools.iter().map(scored).collect();
    let all = problems.concat();
    let (low, high) = all
        .iter()
        .fold((0.0, 1.0), |(low, high): (f64, f64), (score, _)| (low.min(*score), high.max(*score)));
    let class = |right: bool| {
        let of_class = all.iter().filter(|(_, outcome)| *outcome == right).map(|(score, _)| *score);
        outcome_scores(of_class.collect(), (low, high))
    };
    let auc = roc_auc_by_group(&problems, settings).map(|(value, interval)| MetricEstimate {
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

/// A table of all scorers and aggregations, and histograms of the two that are charted elsewhere, too.
pub(super) fn section(set: &DatasetResults) -> Section {
    let row = |scorer: &ScorerResults, aggregation: Aggregation, found: &ScoresByOutcome| {
        vec![
            text(&scorer.name),
            text(aggregation.name()),
            count(found.right.solutions),
            number(found.right.mean),
            number(found.right.median),
            count(found.wrong.solutions),
            number(found.wrong.mean),
            number(found.wrong.median),
            decimal(&found.auc),
        ]
    };
    let choices =
        || set.scorers.iter().flat_map(|scorer| scorer.choices.iter().map(move |choice| (scorer, choice)));
    let table = Table {
        title: format!("{}: scores by outcome", set.name),
        caption: "AUC: how often a solution with a right answer scores above one with a wrong answer; 95 % bootstrap intervals over problems."
            .to_owned(),
        columns: [
            columns(Unit::Number, &["scorer", "aggregation"]),
            vec![column("right answers", Unit::Count)],
            columns(Unit::Decimal, &["mean", "median"]),
            vec![column("wrong answers", Unit::Count)],
            columns(Unit::Decimal, &["mean", "median", "AUC"]),
        ]
        .concat(),
        rows: choices().map(|(scorer, choice)| row(scorer, choice.aggregation, &choice.by_outcome)).collect(),
    };
    let charted =
        choices().filter(|(_, choice)| [Aggregation::Last, Aggregation::Min].contains(&choice.aggregation));
    let histograms = charted.map(|(scorer, choice)| {
        Block::Histogram(histogram(&scorer.name, choice.aggregation, &choice.by_outcome))
    });
    Section {
        heading: format!("{}: right and wrong answers", set.name),
        intro: String::new(),
        blocks: histograms.chain([Block::Table(table)]).collect(),
    }
}

fn histogram(scorer: &str, aggregation: Aggregation, found: &ScoresByOutcome) -> Histogram {
    let distribution = |name: &str, of: &OutcomeScores| Distribution {
        name: name.to_owned(),
        counts: of.by_score.clone(),
        missing: 0,
    };
    let (low, high) = found.range;
    let edge = |edge: usize| low + (high - low) * edge as f64 / BARS as f64;
    Histogram {
        title: format!("{scorer}: {aggregation} score of right and wrong answers"),
        caption: format!("AUC {}.", found.auc.decimal()),
        x_label: "score".to_owned(),
        x_unit: Unit::Number,
        edges: (0..=BARS).map(edge).collect(),
        series: vec![distribution("right answer", &found.right), distribution("wrong answer", &found.wrong)],
        markers: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn unknown_outcomes_and_unscored_solutions_are_left_out() {
        let scores = vec![Some(vec![0.9]), Some(vec![-0.5]), Some(vec![0.2]), None, Some(vec![0.7])];
        let outcomes = vec![Some(true), Some(false), None, Some(true), Some(true)];
        let pool = Pool {
            correct: outcomes.iter().map(|outcome| *outcome == Some(true)).collect(),
            outcomes,
            scores: BTreeMap::from([("m".to_owned(), scores)]),
            ..Pool::default()
        };
        let found = measure(&[&pool], "m", Aggregation::Last, &Settings::default());
        assert_eq!((found.right.solutions, found.wrong.solutions), (2, 1));
        assert_eq!((found.right.median, found.wrong.mean), (Some(0.8), Some(-0.5)));
        assert_eq!((found.range, found.auc.value), ((-0.5, 1.0), Some(1.0)));
        assert_eq!((found.wrong.by_score[0], found.right.by_score.iter().sum::<u64>()), (1, 2));
    }
}
