//! GSM8K's example solutions: for each question what several models wrote, and whether the final answer is right.
//!
//! ```json
//! {"question": "Ann has 3 bags of 4 nuts and 2 more. How many nuts?",
//!  "ground_truth": "The bags hold 3*4=<<3*4=12>>12 nuts.\nIn all 12+2=<<12+2=14>>14.\nA: 14",
//!  "small_model": {"is_correct": false, "solution": "3*4=<<3*4=12>>12\nA: 12"}}
//! ```
//!
//! Every object with `solution` and `is_correct` is a solution, and its key the generator. A line is a step.
//! Calculator marks (`<<3*4=12>>`) are left out of all texts.

use serde_json::Value;

use super::row::NOTE;
use super::worked::{keep_unless, lines};
use super::{Dataset, Fields, Parsed, Row, Written, has};
use gradus_core::{Fault, Outcome, Problem, Record, Solution, id, without_calculator};

const NAME: &str = "gsm8k-solutions";
const GOLD: &str = "A: ";

pub(super) const DATASET: Dataset = Dataset {
    name: NAME,
    about: "GSM8K's example solutions: one object per model",
    recognizes: |record| has(record, &["question", "ground_truth"]) && record.values().any(is_solution),
    read,
    write,
};

fn is_solution(value: &Value) -> bool {
    value.get("solution").is_some_and(Value::is_string)
        && value.get("is_correct").is_some_and(Value::is_boolean)
}

fn read(mut fields: Fields) -> Result<Parsed, Fault> {
    let text = fields.string("question")?;
    let worked = fields.string("ground_truth")?;
    let (reference, answer) = match last_answer(&worked) {
        Some(answer) => (lines(&worked[..worked.len() - GOLD.len() - answer.len()]), Some(answer.to_owned())),
        None => (lines(&worked), None),
    };
    keep_unless(&mut fields, "ground_truth", worked, Some(&join(&reference, answer.as_deref())));
    let mut metadata = fields.rest();
    let models: Vec<String> =
        metadata.iter().filter(|(_, value)| is_solution(value)).map(|(model, _)| model.clone()).collect();
    let problem_id = id::problem(&text);
    let mut solutions = Vec::with_capacity(models.len());
    for model in models {
        let found = metadata.shift_remove(&model).unwrap_or_default();
        solutions.push(read_solution(Fields::nested(found, &model)?, &problem_id, &model)?);
    }
    let problem = Problem {
        id: problem_id,
        text,
        reference,
        answer,
        source: NAME.into(),
        metadata,
        ..Problem::default()
    };
    Ok(Record::new(problem, solutions).into())
}

fn read_solution(mut fields: Fields, problem_id: &str, model: &str) -> Result<Solution, Fault> {
    let written = fields.string("solution")?;
    let text = without_calculator(&written);
    keep_unless(&mut fields, "solution", written, Some(&text));
    let steps = lines(&text);
    Ok(Solution {
        id: format!("{problem_id}/{model}"),
        problem_id: problem_id.to_owned(),
        generator: Some(model.to_owned()),
        answer: last_answer(&text).map(str::to_owned),
        text: (steps.join("\n") != text).then_some(text),
        steps,
        outcome: Outcome::from_correct(fields.bool("is_correct")?),
        metadata: fields.rest(),
        ..Solution::default()
    })
}

/// What follows `A: ` on the last line.
fn last_answer(text: &str) -> Option<&str> {
    let last = text.rsplit('\n').next().unwrap_or_default();
    last.strip_prefix(GOLD)
}

fn join(reference: &[String], answer: Option<&str>) -> String {
    let answer = answer.map(|answer| format!("{GOLD}{answer}"));
    reference.iter().map(String::as_str).chain(answer.as_deref()).collect::<Vec<_>>().join("\n")
}

fn write(record: &Record) -> Written {
    let mut written = Written::default();
    let problem = &record.problem;
    let mut row = Row::default()
        .with("question", problem.text.as_str())
        .with("ground_truth", join(&problem.reference, problem.answer.as_deref()))
        .with_metadata(&problem.metadata, problem, NAME);
    for solution in &record.solutions {
        let Some(correct) = solution.outcome.is_correct() else {
            written.dropped.push("the outcome is unknown");
            continue;
        };
        let model = solution.generator.as_deref().unwrap_or("model");
        if row.contains(model) {
            written.dropped.push("another solution has the same generator");
            continue;
        }
        if model.starts_with(NOTE) {
            written.dropped.push("the generator's name cannot be a field");
            continue;
        }
        let entry = Row::default()
            .with("is_correct", correct)
            .with("solution", solution.full_text())
            .with_metadata(&solution.metadata, problem, NAME);
        row = row.with(model, entry.done());
    }
    written.rows.push(row.done());
    written
}
