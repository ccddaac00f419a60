//! Steps with the place of the first error, and nothing else.
//!
//! ```json
//! {"problem": "What is 2 + 3 * 4?", "steps": ["3 * 4 = 12", "2 + 12 = 15"], "first_error": 1}
//! ```
//!
//! `first_error` counts from 0; null is no error. Who says so is not stated.

use serde_json::Value;

use super::fields::expected;
use super::row::known_first_error;
use super::{Dataset, Fields, Parsed, Row, Written, has};
use gradus_core::{Annotation, Fault, LabelSource, Problem, Record, Solution, id};

const NAME: &str = "first-error";

pub(super) const DATASET: Dataset = Dataset {
    name: NAME,
    about: "steps with the first error's index, or null",
    recognizes: |record| has(record, &["problem", "steps", "first_error"]),
    read,
    write,
};

fn read(mut fields: Fields) -> Result<Parsed, Fault> {
    let text = fields.string("problem")?;
    let steps = fields.strings("steps")?;
    let first_error = read_index(fields.raw("first_error"), "first_error", steps.len())?;
    let problem = Problem { id: id::problem(&text), text, source: NAME.into(), ..Problem::default() };
    let solution = Solution {
        id: id::solution(&problem.id, None, &steps),
        problem_id: problem.id.clone(),
        annotations: vec![Annotation::from_first_error(steps.len(), first_error, &LabelSource::Unstated)],
        steps,
        metadata: fields.rest(),
        ..Solution::default()
    };
    Ok(Record::new(problem, vec![solution]).into())
}

/// A 0-based index of a step, or null for no error.
pub(super) fn read_index(found: Option<Value>, field: &str, steps: usize) -> Result<Option<usize>, Fault> {
    match found {
        None => Err(Fault::new(field, "is missing: expected a step index or null")),
        Some(Value::Null) => Ok(None),
        Some(found) => match found.as_u64() {
            Some(index) if index < steps as u64 => Ok(Some(index as usize)),
            _ => {
                let wanted = format!("null or a 0-based index of one of {steps} steps");
                Err(Fault::new(field, expected(&wanted, &found)))
            }
        },
    }
}

fn write(record: &Record) -> Written {
    let mut written = Written::default();
    let problem = &record.problem;
    for solution in &record.solutions {
        let Some(first_error) = known_first_error(solution, &mut written) else { continue };
        let row = Row::default()
            .with("problem", problem.text.as_str())
            .with("steps", solution.steps.as_slice())
            .with("first_error", first_error)
            .with_metadata(&solution.metadata, problem, NAME);
        written.rows.push(row.done());
    }
    written
}
