//! The steps of a solution, and their labels: in a list beside them, or in the steps themselves.
//!
//! ```json
//! {"prompt": "What is 2 + 3?", "steps": ["Add them.", "It is 6."], "labels": [1, 0]}
//! {"prompt": "What is 2 + 3?", "steps": [{"text": "Add them.", "label": "+"}, {"text": "It is 6.", "label": "-"}]}
//! ```
//!
//! Labels are true and false, 1 and 0, 1 and -1, `+` and `-`, or numbers from 0 to 1, which are soft. Who says so is not
//! stated. Beside a -1, a 0 may be neutral or wrong: such labels are refused.

use serde_json::Value;

use super::text_of;
use crate::readers::fields::expected;
use crate::readers::verdicts;
use gradus_core::{Annotation, Fault, Metadata, Solution, StepLabel};

/// Names of a list of labels beside the steps.
const LABELS: [&str; 2] = ["labels", "label"];

/// True for a list of texts, or of objects with a text.
pub(super) fn is_steps(value: &Value) -> bool {
    value.as_array().is_some_and(|items| items.iter().all(|item| text_in(item).is_some_and(Value::is_string)))
}

/// The text of a step, which may be inside an object.
fn text_in(step: &Value) -> Option<&Value> {
    match step {
        Value::Object(object) => ["text", "step", "content"].iter().find_map(|key| object.get(*key)),
        other => Some(other),
    }
}

/// A solution of the steps in `value`, with the labels that they have.
pub(super) fn read(value: &Value, path: &str) -> Result<Solution, Fault> {
    let Value::Array(items) = value else { return Err(Fault::new(path, expected("a list of steps", value))) };
    let read = |(index, item): (usize, &Value)| {
        text_in(item)
            .and_then(text_of)
            .ok_or_else(|| Fault::new(format!("{path}[{index}]"), expected("a step's text", item)))
    };
    let steps: Vec<String> = items.iter().enumerate().map(read).collect::<Result<_, _>>()?;
    let labels: Vec<&Value> = items.iter().map(|item| item.get("label").unwrap_or(&Value::Null)).collect();
    let annotations = match labels.iter().any(|label| !label.is_null()) {
        true => {
            let labels = labels_of(&labels)
                .map_err(|(index, message)| Fault::new(format!("{path}[{index}].label"), message))?;
            vec![Annotation::from_labels(labels)]
        }
        false => Vec::new(),
    };
    Ok(Solution { steps, annotations, ..Solution::default() })
}

/// Takes the list of labels that stands beside the steps of `solution`. A list that is something else stays.
pub(super) fn take_labels(row: &mut Metadata, solution: &mut Solution) -> Result<(), Fault> {
    let is_one = |value: &Value| {
        let count = value.as_array().filter(|list| list.iter().all(is_label)).map(Vec::len);
        count == Some(solution.steps.len()) && count != Some(0)
    };
    let Some(field) = LABELS.into_iter().find(|name| row.get(*name).is_some_and(is_one)) else {
        return Ok(());
    };
    let Some(Value::Array(list)) = row.shift_remove(field) else { return Ok(()) };
    let labels = labels_of(&list.iter().collect::<Vec<_>>())
        .map_err(|(index, message)| Fault::new(format!("{field}[{index}]"), message))?;
    solution.annotations.push(Annotation::from_labels(labels));
    Ok(())
}

fn is_label(value: &Value) -> bool {
    value.is_null() || value.as_i64() == Some(-1) || verdicts::read_one(value).is_some()
}

/// The labels of a list, or the place of the one that is none and what is wrong with it.
fn labels_of(list: &[&Value]) -> Result<Vec<Option<StepLabel>>, (usize, String)> {
    let has_minus_one = list.iter().any(|value| value.as_i64() == Some(-1));
    let read = |(index, value): (usize, &&Value)| match value.as_i64() {
        Some(0) if has_minus_one => {
            let message = "is 0 beside -1, so neutral or wrong: ratings of 1, 0 (neutral) and -1 are read from a \
                           field `ratings`";
            Err((index, message.to_owned()))
        }
        Some(-1) => Ok(verdicts::read_one(&Value::Bool(false))),
        _ if value.is_null() => Ok(None),
        _ => match verdicts::read_one(value) {
            Some(label) => Ok(Some(label)),
            None => {
                Err((index, expected("true, false, 1, 0, -1, \"+\", \"-\" or a number from 0 to 1", value)))
            }
        },
    };
    list.iter().enumerate().map(read).collect()
}
