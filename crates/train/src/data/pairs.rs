//! Preference pairs: a chosen and a rejected solution of one problem, for ORPO.
//!
//! - by outcome: a right solution over a wrong one
//! - by outcome and steps (SPARE-ORPO): the right one's mean step label must be higher, too

use gradus_core::{FirstError, LabelsAfterError, Outcome, Record, Solution, StepLabel};

use serde::{Deserialize, Serialize};

use super::chat::Conversation;
use super::config::StepLabels;
use super::left_out::{Examples, LeftOut};
use super::prompt::SolvePrompt;
use super::steps::target;

/// Which of two solutions is preferred.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum PairRule {
    /// The right one over a wrong one.
    #[default]
    Outcome,
    /// The same, if its mean step label is higher, too (SPARE).
    OutcomeAndSteps,
}

/// A chosen and a rejected answer to the same question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pair {
    /// The question and the chosen answer.
    pub(crate) chosen: Conversation,
    /// The rejected answer.
    pub(crate) rejected: String,
}

/// Pairs of each record, at most `max_per_problem` per problem. Right and wrong solutions are matched round-robin, so that each
/// is used before any is used twice.
pub(crate) fn pairs(
    records: &[Record],
    rule: PairRule,
    labels: StepLabels,
    max_per_problem: Option<usize>,
    prompt: &SolvePrompt,
) -> Examples<Pair> {
    let (mut found, mut left_out) = (Vec::new(), LeftOut::default());
    for record in records {
        let of = |outcome: Outcome| -> Vec<&Solution> {
            record.solutions.iter().filter(|solution| solution.outcome == outcome).collect()
        };
        let (right, wrong) = (of(Outcome::Correct), of(Outcome::Wrong));
        if right.is_empty() || wrong.is_empty() {
            left_out.add("problem without both a right and a wrong solution");
            continue;
        }
        let mut here = 0;
        for turn in 0..wrong.len() {
            for (index, better) in right.iter().enumerate() {
                let worse = wrong[(index + turn) % wrong.len()];
                if max_per_problem.is_some_and(|most| here >= most) {
                    continue;
                }
                if rule == PairRule::OutcomeAndSteps {
                    match (mean_label(better, labels), mean_label(worse, labels)) {
                        (Some(high), Some(low)) if high > low => {}
                        (Some(_), Some(_)) => {
                            left_out.add("pair whose steps do not agree with the outcome");
                            continue;
                        }
                        _ => {
                            left_out.add("pair without step labels");
                            continue;
                        }
                    }
                }
                here += 1;
                let id = format!("{} over {}", better.id, worse.id);
                found.push(Pair {
                    chosen: Conversation::about(&record.problem, &id, better.full_text(), prompt),
                    rejected: worse.full_text(),
                });
            }
        }
    }
    (found, left_out)
}

/// The mean of a solution's step labels: a value where there is one, else 1 for a step that is not wrong. A step after
/// the first error whose label is unknown or dropped counts as wrong.
fn mean_label(solution: &Solution, labels: StepLabels) -> Option<f64> {
    let annotation = solution.annotations.first()?;
    if annotation.labels.iter().all(Option::is_none) {
        return None;
    }
    let dropped = match (annotation.first_error, labels.after_error) {
        (FirstError::At(first), rule)
            if rule.unwrap_or_else(|| annotation.labels_after_error()) == LabelsAfterError::Drop =>
        {
            first + 1
        }
        _ => annotation.labels.len(),
    };
    let value = |(step, label): (usize, &Option<StepLabel>)| match label {
        Some(label) if step < dropped => target(label, labels.neutral, true).map(f64::from),
        _ => Some(0.0),
    };
    let values: Vec<f64> = annotation.labels.iter().enumerate().filter_map(value).collect();
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}
