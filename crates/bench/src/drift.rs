//! Drift of a process reward model towards an outcome model (Zhang et al., 2025).
//!
//! Such a model gives its lowest score to the last step, where the answer is, and accepts solutions that reach the right
//! answer by a wrong process. Reported: where the lowest score lies, on wrong and on right answers, against chance; how many
//! right-answer solutions with a wrong step are detected, and how many without one are flagged.
//!
//! Intervals: where a problem has several solutions, which are alike, whole problems are drawn (bootstrap); otherwise they are
//! Wilson's, which have a width at 0 and at 1, too.

use std::collections::BTreeMap;

use gradus_core::FirstError;
use gradus_core::metrics::bootstrap::{Settings, by_weight};
use gradus_core::metrics::drift::{self, Drift, Scored};
use gradus_core::metrics::exact::wilson;
use gradus_core::select::DecisionRule;
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
    /// A solution is flagged where it sees a first error.
    #[serde(default)]
    pub decision: DecisionRule,
    /// The threshold, of a rule that has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threshold: Option<f64>,
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

/// The numbers over samples whose outcome is known.
pub fn measure(
    samples: &[Sample],
    judged: &[Judged],
    decision: DecisionRule,
    settings: &Settings,
) -> Result<DriftResults> {
    let mut problems: BTreeMap<(&str, &str), Vec<Scored<'_>>> = BTreeMap::new();
    for (sample, judged) in samples.iter().zip(judged) {
        let Some(right_answer) = sample.solution.outcome.is_correct() else { continue };
        problems.entry((&sample.subset, &sample.problem.id)).or_default().push(Scored {
            scores: judged.opinion.scores(),
            right_answer,
            first_error: match sample.first_error() {
                FirstError::Unknown => None,
                FirstError::None => Some(None),
                FirstError::At(step) => Some(Some(step)),
            },
        });
    }
    let problems: Vec<Vec<Scored<'_>>> = problems.into_values().collect();
    let scored = problems.concat();
    if scored.iter().all(|scored| scored.scores.is_none()) {
        return Err(Error::Data(
            "this benchmark needs step scores and outcomes: no solution has both".to_owned(),
        ));
    }
    let drift = drift::drift(&scored, decision);
    let by_problem: Vec<Drift> = problems.iter().map(|scored| drift::drift(scored, decision)).collect();
    let share = |of: fn(&Drift) -> (Option<f64>, usize)| {
        let counts: Vec<Counted> = by_problem.iter().map(|drift| Counted::of(of(drift))).collect();
        MetricEstimate { value: of(&drift).0, interval: interval(&counts, settings) }
    };
    Ok(DriftResults {
        decision,
        threshold: decision.threshold(),
        wrong_at_last: share(|drift| (drift.wrong_answer.at_last, drift.wrong_answer.solutions)),
        right_at_last: share(|drift| (drift.right_answer.at_last, drift.right_answer.solutions)),
        detected: share(|drift| (drift.detected.share, drift.detected.solutions)),
        false_alarms: share(|drift| (drift.false_alarms.share, drift.false_alarms.solutions)),
        drift,
    })
}

/// A problem's solutions of one kind.
#[derive(Clone, Copy, Default)]
struct Counted {
    hits: usize,
    solutions: usize,
}

impl Counted {
    fn of((share, solutions): (Option<f64>, usize)) -> Self {
        Self { hits: (share.unwrap_or_default() * solutions as f64).round() as usize, solutions }
    }
}

fn interval(problems: &[Counted], settings: &Settings) -> Option<(f64, f64)> {
    let sum = |weight: &dyn Fn(usize) -> usize| {
        let add = |all: Counted, (index, problem): (usize, &Counted)| Counted {
            hits: all.hits + weight(index) * problem.hits,
            solutions: all.solutions + weight(index) * problem.solutions,
        };
        problems.iter().enumerate().fold(Counted::default(), add)
    };
    if problems.iter().all(|problem| problem.solutions <= 1) {
        let all = sum(&|_| 1);
        return wilson(all.hits, all.solutions, settings.confidence).map(|found| (found.low, found.high));
    }
    let share = |drawn: &[u32]| {
        let all = sum(&|index| drawn[index] as usize);
        (all.solutions > 0).then(|| all.hits as f64 / all.solutions as f64)
    };
    by_weight(problems.len(), share, settings).map(|found| (found.low, found.high))
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
            "First errors by {}. {} solutions have the right answer and a wrong process, {} a right one; without step labels these bars are empty.",
            numbers.decision, drift.detected.solutions, drift.false_alarms.solutions
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
        intro: "Whiskers are 95 % intervals: Wilson's, or bootstrap over problems where a problem has several solutions.".to_owned(),
        blocks: vec![Block::Bars(last), Block::Histogram(positions), Block::Bars(flagged)],
    }]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::Opinion;
    use gradus_core::{Outcome, Problem, Solution};
    use std::sync::Arc;

    /// Wrong answers of each problem, and whether the lowest score is at the last step.
    fn at_last(problems: &[&[bool]]) -> MetricEstimate {
        let (mut samples, mut judged) = (Vec::new(), Vec::new());
        for (index, solutions) in problems.iter().enumerate() {
            let problem = Arc::new(Problem { id: index.to_string(), ..Problem::default() });
            for last in *solutions {
                let solution = Solution { outcome: Outcome::from_correct(false), ..Solution::default() };
                samples.push(Sample { subset: String::new(), problem: problem.clone(), solution });
                let scores = if *last { vec![0.9, 0.1] } else { vec![0.1, 0.9] };
                judged.push(Judged::free(Opinion::Scores(scores)));
            }
        }
        measure(&samples, &judged, DecisionRule::default(), &Settings::default()).unwrap().wrong_at_last
    }

    #[test]
    fn solutions_of_one_problem_are_drawn_together() {
        let alone = at_last(&[[true].as_slice(), &[false]].repeat(20));
        assert_eq!(alone.value, Some(0.5));
        let found = wilson(20, 40, 0.95).unwrap();
        assert_eq!(alone.interval, Some((found.low, found.high)));
        // Ten times as many solutions that say the same tell nothing more.
        let together = at_last(&[[true; 10].as_slice(), &[false; 10]].repeat(20));
        let width = |estimate: MetricEstimate| estimate.interval.map(|(low, high)| high - low).unwrap();
        assert!((width(together) - width(alone)).abs() < 0.05, "{together:?} {alone:?}");
        assert_eq!(
            at_last(&[&[false], &[false]]).interval.map(|(low, high)| (low, high > 0.5)),
            Some((0.0, true))
        );
    }
}
