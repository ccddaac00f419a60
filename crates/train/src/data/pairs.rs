//! Pairs of a better and a worse solution of one problem, for ORPO.
//!
//! - by outcome: a right solution over a wrong one
//! - by outcome and steps (SPARE-ORPO): the right one's mean step label must be higher, too

use gradus_core::{Outcome, Record, Solution, StepLabel};

use super::LeftOut;
use super::chat::{Conversation, answer_text, question};
use super::steps::target;
use crate::run::recipe::{Neutral, Pairs};

/// A better and a worse answer to the same question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pair {
    /// The question and the better answer.
    pub chosen: Conversation,
    /// The worse answer.
    pub rejected: String,
}

/// Pairs of each record, at most `most` per problem. Right and wrong solutions are matched round-robin, so that each
/// is used before any is used twice.
pub fn pairs(records: &[Record], rule: Pairs, neutral: Neutral, most: Option<usize>) -> (Vec<Pair>, LeftOut) {
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
            for (place, better) in right.iter().enumerate() {
                let worse = wrong[(place + turn) % wrong.len()];
                if most.is_some_and(|most| here >= most) {
                    continue;
                }
                if rule == Pairs::OutcomeAndSteps {
                    match (mean_label(better, neutral), mean_label(worse, neutral)) {
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
                found.push(Pair {
                    chosen: Conversation {
                        id: format!("{} over {}", better.id, worse.id),
                        messages: question(record),
                        answer: answer_text(better),
                    },
                    rejected: answer_text(worse),
                });
            }
        }
    }
    (found, left_out)
}

/// The mean of a solution's step labels: a value where there is one, else 1 for a step that is not wrong. A step after
/// the first error has none of its own and counts as wrong.
fn mean_label(solution: &Solution, neutral: Neutral) -> Option<f64> {
    let annotation = solution.annotations.first()?;
    if annotation.labels.iter().all(Option::is_none) {
        return None;
    }
    let value = |label: &Option<StepLabel>| match label {
        Some(label) => target(label, neutral, true).map(f64::from),
        None => Some(0.0),
    };
    let values: Vec<f64> = annotation.labels.iter().filter_map(value).collect();
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}
