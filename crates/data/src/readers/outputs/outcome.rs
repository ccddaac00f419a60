//! Whether a final answer is right, in the words that other programs have for it.

use serde_json::Value;

use super::roles::{FieldMap, Role};
use super::{logs, required};
use crate::readers::fields::expected;
use gradus_core::count::counted;
use gradus_core::{Fault, Metadata, Outcome, Solution};

const WANTED: &str =
    "true or false, 1 or 0, yes or no, y or n, correct, right, incorrect or wrong, pass or fail, ✓ or ✗";

/// Gives `solutions` the outcomes that the row states: one for the only solution, or a list with one for each. A field that
/// the user named must be that; one of a usual name that is something else stays where it is.
pub(super) fn take(row: &mut Metadata, map: &FieldMap, solutions: &mut [Solution]) -> Result<(), Fault> {
    let Some(field) = map.find(row, Role::Outcome).filter(|_| !solutions.is_empty()) else {
        take_score(row, solutions);
        return Ok(());
    };
    let outcomes = if map.named(Role::Outcome).is_some() {
        read_all(&required(row, &field)?, &field, solutions.len())?
    } else {
        let Ok(outcomes) = read_all(&row[&field], &field, solutions.len()) else { return Ok(()) };
        row.shift_remove(&field);
        outcomes
    };
    for (solution, outcome) in solutions.iter_mut().zip(outcomes) {
        // What an object says about itself is surer.
        if solution.outcome == Outcome::Unknown {
            solution.outcome = outcome;
        }
    }
    Ok(())
}

/// The score of verl's rollouts, which have one solution each.
fn take_score(row: &Metadata, solutions: &mut [Solution]) {
    if let [only] = solutions
        && only.outcome == Outcome::Unknown
        && row.contains_key("step")
        && let Some(score) = row.get("score").and_then(Value::as_f64)
    {
        only.outcome = logs::outcome_of(score);
    }
}

/// Takes the outcome of a solution out of its own fields.
pub(super) fn take_own(object: &mut Metadata) -> Option<Outcome> {
    let field = FieldMap::default().find(object, Role::Outcome)?;
    let outcome = read(&object[&field])?;
    object.shift_remove(&field);
    Some(outcome)
}

fn read_all(value: &Value, field: &str, solutions: usize) -> Result<Vec<Outcome>, Fault> {
    let read = |value: &Value, field: &str| {
        read(value).ok_or_else(|| Fault::new(field, expected(&format!("one of {WANTED}"), value)))
    };
    match value {
        Value::Array(list) if list.len() == solutions => list
            .iter()
            .enumerate()
            .map(|(index, value)| match value {
                Value::Null => Ok(Outcome::Unknown),
                value => read(value, &format!("{field}[{index}]")),
            })
            .collect(),
        value if solutions == 1 && !value.is_array() => Ok(vec![read(value, field)?]),
        value => {
            let wanted = format!("a list with one outcome for each of {}", counted(solutions, "solution"));
            Err(Fault::new(field, expected(&wanted, value)))
        }
    }
}

fn read(value: &Value) -> Option<Outcome> {
    let correct = match value {
        Value::Bool(correct) => *correct,
        Value::Number(number) => match number.as_f64()? {
            1.0 => true,
            0.0 => false,
            _ => return None,
        },
        Value::String(word) => match word.trim().to_lowercase().as_str() {
            "true" | "1" | "1.0" | "yes" | "y" | "correct" | "right" | "pass" | "passed" | "✓" | "✔" => {
                true
            }
            "false" | "0" | "0.0" | "no" | "n" | "incorrect" | "wrong" | "fail" | "failed" | "✗" | "✘" => {
                false
            }
            _ => return None,
        },
        _ => return None,
    };
    Some(Outcome::from_correct(correct))
}

/// True for a value that says whether an answer is right.
pub(super) fn is_outcome(value: &Value) -> bool {
    read(value).is_some()
}
