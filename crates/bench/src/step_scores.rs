//! Quality of step scores at any threshold: ranking (AUC, average precision), calibration, distributions.

use gradus_core::metrics::calibration::{self, Bin};
use gradus_core::metrics::{exact, ranking};
use gradus_core::{FirstError, Mark};
use gradus_plot::histogram::{Distribution, Histogram};
use gradus_plot::reliability::{self, Reliability};
use gradus_plot::{Block, Estimate, Marker, Unit};
use serde::{Deserialize, Serialize};

use crate::judge::Judged;
use crate::sample::Sample;

/// Bars of the histogram.
const BARS: usize = 20;

/// Quality of step scores, over steps with a known label.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct StepScores {
    /// Right steps with a score.
    pub right: usize,
    /// Wrong steps with a score.
    pub wrong: usize,
    /// How often a right step has a higher score than a wrong one.
    pub roc_auc: Option<f64>,
    /// Average precision at finding wrong steps by low scores.
    pub average_precision: Option<f64>,
    /// Mean squared distance of score and truth.
    pub brier: Option<f64>,
    /// Expected calibration error over ten bins.
    pub ece: Option<f64>,
    /// The reliability diagram.
    pub bins: Vec<Bin>,
    /// Right steps by score, in bars of equal width from 0 to 1.
    pub right_by_score: Vec<u64>,
    /// Wrong steps by score.
    pub wrong_by_score: Vec<u64>,
}

/// Steps with a label and a score: the score, and whether the step is right. Steps after the first error count only
/// where the source judges each step on its own (`all`).
pub(crate) fn scored_steps(samples: &[Sample], judged: &[Judged], all: bool) -> Vec<(f64, bool)> {
    let mut found = Vec::new();
    for (sample, judged) in samples.iter().zip(judged) {
        let Some(scores) = judged.opinion.scores() else { continue };
        let end = match sample.first_error() {
            FirstError::At(step) if !all => step + 1,
            _ => scores.len(),
        };
        for (score, mark) in scores.iter().zip(sample.marks()).take(end) {
            if let Some(mark) = mark {
                found.push((*score, mark != Mark::Incorrect));
            }
        }
    }
    found
}

/// The numbers over `steps`; none when no step has a score.
pub(crate) fn measure(steps: &[(f64, bool)]) -> Option<StepScores> {
    if steps.is_empty() {
        return None;
    }
    let histogram = |right: bool| {
        let mut bars = vec![0; BARS];
        for (score, _) in steps.iter().filter(|(_, is_right)| *is_right == right) {
            bars[((score * BARS as f64) as usize).min(BARS - 1)] += 1;
        }
        bars
    };
    // Wrong steps are what is looked for, and the lower the score the likelier they are.
    let alarms: Vec<(f64, bool)> = steps.iter().map(|(score, right)| (-score, !right)).collect();
    let right = steps.iter().filter(|(_, right)| *right).count();
    Some(StepScores {
        right,
        wrong: steps.len() - right,
        roc_auc: ranking::roc_auc(steps),
        average_precision: ranking::average_precision(&alarms),
        brier: calibration::brier(steps),
        ece: calibration::ece(steps),
        bins: calibration::bins(steps).map(Vec::from).unwrap_or_default(),
        right_by_score: histogram(true),
        wrong_by_score: histogram(false),
    })
}

impl StepScores {
    /// The distribution of scores and the reliability diagram.
    pub(crate) fn blocks(&self, threshold: f64) -> Vec<Block> {
        let number = |value: Option<f64>| value.map_or("undefined".to_owned(), |value| format!("{value:.3}"));
        let distribution = |name: &str, counts: &[u64]| Distribution {
            name: name.to_owned(),
            counts: counts.to_vec(),
            missing: 0,
        };
        let histogram = Histogram {
            title: "Scores of right and wrong steps".to_owned(),
            caption: format!(
                "{} right and {} wrong steps. ROC AUC {}; average precision on wrong steps {}.",
                self.right,
                self.wrong,
                number(self.roc_auc),
                number(self.average_precision)
            ),
            x_label: "score".to_owned(),
            x_unit: Unit::Number,
            edges: (0..=BARS).map(|edge| edge as f64 / BARS as f64).collect(),
            series: vec![
                distribution("right steps", &self.right_by_score),
                distribution("wrong steps", &self.wrong_by_score),
            ],
            markers: vec![Marker { x: threshold, label: "threshold".to_owned() }],
        };
        let bin = |bin: &Bin| {
            let right = bin.share_right.map(|share| (share * bin.count as f64).round() as usize);
            let interval = right.and_then(|right| exact::wilson(right, bin.count, 0.95));
            reliability::Bin {
                edges: (bin.low, bin.high),
                score: bin.mean_score,
                observed: interval.map(|found| Estimate::between(found.share, found.low, found.high)),
                count: bin.count as u64,
            }
        };
        let reliability = Reliability {
            title: "Reliability".to_owned(),
            caption: format!(
                "Share of right steps among those with a given score. Expected calibration error {}, Brier score {}. Whiskers: 95 % Wilson intervals.",
                number(self.ece),
                number(self.brier)
            ),
            score_label: "mean score".to_owned(),
            observed_label: "share of right steps".to_owned(),
            noun: "step".to_owned(),
            bins: self.bins.iter().map(bin).collect(),
        };
        vec![Block::Histogram(histogram), Block::Reliability(reliability)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn low_scores_of_wrong_steps_are_found() {
        let found = measure(&[(0.9, true), (0.8, true), (0.1, false), (1.0, true)]).unwrap();
        assert_eq!((found.roc_auc, found.average_precision), (Some(1.0), Some(1.0)));
        assert_eq!((found.right, found.wrong), (3, 1));
        assert_eq!(found.right_by_score.iter().sum::<u64>(), 3);
        assert_eq!(found.right_by_score[BARS - 1], 1);
        assert_eq!(measure(&[]), None);
    }
}
