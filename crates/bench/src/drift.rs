//! Drift of a process reward model towards an outcome model (Zhang et al., 2025).
//!
//! Such a model gives its lowest score to the last step, where the answer is, and accepts solutions that reach the right
//! answer by a wrong process. Reported: where the lowest score lies, on wrong and on right answers, against chance; how many
//! right-answer solutions with a wrong step are detected, and how many without one are flagged.

use gradus_core::FirstError;
use gradus_core::metrics::drift::{self, Drift, Scored};
use gradus_core::metrics::exact::wilson;
use gradus_plot::bars::{BarSeries, Bars};
use gradus_plot::histogram::{Distribution, Histogram};
use gradus_plot::{Block, Estimate, Section, Unit};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::estimate::MetricEstimate;
use crate::judge::Judged;
use crate::sample::Sample;

/// The numbers of this benchmark.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DriftResults {
    /// A step with a score below it is flagged.
    pub threshold: f64,
    /// Counts and shares.
    pub drift: Drift,
    /// Of wrong answers: lowest score at the last step.
    pub wrong_at_last: MetricEstimate,
    /// Of right answers: lowest score at the last step.
    pub right_at_last: MetricEstimate,
    /// Right answer, wrong process: detected.
    pub detected: MetricEstimate,
    /// Right answer, right process: flagged all the same.
    pub false_alarms: MetricEstimate,
}

/// The numbers over samples whose outcome is known. Intervals are Wilson's, at 95 %.
pub fn measure(samples: &[Sample], judged: &[Judged], threshold: f64) -> Result<DriftResults> {
    let scored: Vec<Scored<'_>> = samples
        .iter()
        .zip(judged)
        .filter_map(|(sample, judged)| {
            Some(Scored {
                scores: judged.opinion.scores(),
                right_answer: sample.solution.outcome.is_correct()?,
                first_error: match sample.first_error() {
                    FirstError::Unknown => None,
                    FirstError::None => Some(None),
                    FirstError::At(step) => Some(Some(step)),
                },
            })
        })
        .collect();
    if scored.iter().all(|scored| scored.scores.is_none()) {
        return Err(Error::Data(
            "this benchmark needs step scores and outcomes: no solution has both".to_owned(),
        ));
    }
    let drift = drift::drift(&scored, threshold);
    Ok(DriftResults {
        threshold,
        wrong_at_last: of(drift.wrong_answer.at_last, drift.wrong_answer.solutions),
        right_at_last: of(drift.right_answer.at_last, drift.right_answer.solutions),
        detected: of(drift.detected.share, drift.detected.solutions),
        false_alarms: of(drift.false_alarms.share, drift.false_alarms.solutions),
        drift,
    })
}

fn of(share: Option<f64>, count: usize) -> MetricEstimate {
    let hits = share.map(|share| (share * count as f64).round() as usize);
    let interval = hits.and_then(|hits| wilson(hits, count, 0.95));
    MetricEstimate { value: share, interval: interval.map(|found| (found.low, found.high)) }
}

/// The page's sections.
pub fn sections(numbers: &DriftResults, judge: &str) -> Vec<Section> {
    let drift = &numbers.drift;
    let exactly = |value: Option<f64>| value.map(|value| Estimate::exactly(100.0 * value));
    let last = Bars {
        title: "Lowest score at the last step".to_owned(),
        caption: format!(
            "Solutions with two steps or more: {} with a wrong answer, {} with a right one. Far above chance on wrong answers: the model judges the final answer, not the process.",
            drift.wrong_answer.solutions, drift.right_answer.solutions
        ),
        value_label: "share of solutions, %".to_owned(),
        unit: Unit::Score,
        categories: vec!["wrong answer".to_owned(), "right answer".to_owned()],
        series: vec![
            BarSeries {
                name: judge.to_owned(),
                values: vec![numbers.wrong_at_last.for_chart(100.0), numbers.right_at_last.for_chart(100.0)],
            },
            BarSeries {
                name: "chance: 1 / steps".to_owned(),
                values: vec![exactly(drift.wrong_answer.by_chance), exactly(drift.right_answer.by_chance)],
            },
        ],
        references: Vec::new(),
    };
    let bars = drift.wrong_answer.positions.len();
    let distribution = |name: &str, positions: &[usize]| Distribution {
        name: name.to_owned(),
        counts: positions.iter().map(|count| *count as u64).collect(),
        missing: 0,
    };
    let positions = Histogram {
        title: "Where the lowest score lies".to_owned(),
        caption: "0 is the first step, 1 the last.".to_owned(),
        x_label: "relative position".to_owned(),
        x_unit: Unit::Number,
        edges: (0..=bars).map(|edge| edge as f64 / bars as f64).collect(),
        series: vec![
            distribution("wrong answer", &drift.wrong_answer.positions),
            distribution("right answer", &drift.right_answer.positions),
        ],
        markers: Vec::new(),
    };
    let flagged = Bars {
        title: "Right answers with a flagged step".to_owned(),
        caption: format!(
            "Threshold {}. {} solutions have the right answer and a wrong process, {} a right one; without step labels these bars are empty.",
            numbers.threshold, drift.detected.solutions, drift.false_alarms.solutions
        ),
        value_label: "share of solutions, %".to_owned(),
        unit: Unit::Score,
        categories: vec!["wrong process: detected".to_owned(), "right process: false alarm".to_owned()],
        series: vec![BarSeries {
            name: judge.to_owned(),
            values: vec![numbers.detected.for_chart(100.0), numbers.false_alarms.for_chart(100.0)],
        }],
        references: Vec::new(),
    };
    vec![Section {
        heading: "Process or outcome".to_owned(),
        intro: "Whiskers are 95 % Wilson intervals.".to_owned(),
        blocks: vec![Block::Bars(last), Block::Histogram(positions), Block::Bars(flagged)],
    }]
}
