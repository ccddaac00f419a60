//! Sampled solutions per problem, cut into steps, with one outcome for each solution.
//!
//! ```json
//! {"id": 7, "question": "What is 2 + 3 * 4?",
//!  "steps": [["3 * 4 = 12", "2 + 12 = 14"], ["2 + 3 = 5", "5 * 4 = 20"]], "labels": [true, false]}
//! ```
//!
//! `labels` looks like TRL's but says whether a whole solution reached the right answer, not whether a step is right.

use serde_json::Value;

use super::fields::{expected, strings_of};
use super::{Dataset, Fields, Parsed, Row, Written, has};
use gradus_core::count::counted;
use gradus_core::{Fault, Outcome, Problem, Record, Solution, id};

const NAME: &str = "candidate-outcomes";

pub(super) const DATASET: Dataset = Dataset {
    name: NAME,
    about: "several solutions' steps per problem, one outcome each",
    recognizes: |record| {
        has(record, &["question", "steps", "labels"])
            && record["steps"].as_array().is_some_and(|steps| steps.iter().all(Value::is_array))
    },
    read,
    write,
};

fn read(mut fields: Fields) -> Result<Parsed, Fault> {
    let text = fields.string("question")?;
    let problem_id = fields.id("id")?.unwrap_or_else(|| id::problem(&text));
    let candidates = fields.list("steps")?;
    let labels = fields.list("labels")?;
    if labels.len() != candidates.len() {
        let message = format!(
            "{} for {}: every solution needs exactly one",
            counted(labels.len(), "label"),
            counted(candidates.len(), "solution")
        );
        return Err(Fault::new("labels", message));
    }
    let mut solutions = Vec::with_capacity(candidates.len());
    for (index, (steps, label)) in candidates.into_iter().zip(labels).enumerate() {
        let path = format!("steps[{index}]");
        let Value::Array(steps) = steps else {
            return Err(Fault::new(path, expected("a list of steps", &steps)));
        };
        let Value::Bool(correct) = label else {
            return Err(Fault::new(format!("labels[{index}]"), expected("true or false", &label)));
        };
        solutions.push(Solution {
            id: format!("{problem_id}/{index}"),
            problem_id: problem_id.clone(),
            steps: strings_of(steps, &path)?,
            outcome: Outcome::from_correct(correct),
            ..Solution::default()
        });
    }
    let problem =
        Problem { id: problem_id, text, source: NAME.into(), metadata: fields.rest(), ..Problem::default() };
    Ok(Record::new(problem, solutions).into())
}

fn write(record: &Record) -> Written {
    let mut written = Written::default();
    let problem = &record.problem;
    let mut steps: Vec<Value> = Vec::with_capacity(record.solutions.len());
    let mut labels: Vec<bool> = Vec::with_capacity(record.solutions.len());
    for solution in &record.solutions {
        match solution.outcome.is_correct() {
            Some(correct) => {
                steps.push(solution.steps.as_slice().into());
                labels.push(correct);
            }
            None => written.dropped.push("the outcome is unknown"),
        }
    }
    let row = Row::default()
        .with_problem_id("id", problem, NAME)
        .with("question", problem.text.as_str())
        .with("steps", steps)
        .with("labels", labels)
        .with_metadata(&problem.metadata, problem, NAME);
    written.rows.push(row.done());
    written
}
