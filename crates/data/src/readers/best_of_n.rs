//! Best-of-n files: many sampled solutions to one problem, with outcomes and the step scores of reward models.
//!
//! ```json
//! {"id": "gsm8k_000", "problem": "What is 2 + 3 * 4?", "gold_answer": "14", "generator": "some-model",
//!  "candidates": [{"steps": ["3 * 4 = 12", "2 + 12 = 14"], "solution": "3 * 4 = 12\n\n2 + 12 = 14", "answer": "14",
//!                  "correct": true, "prm_scores": {"some_prm": [0.98, 0.97]}}]}
//! ```
//!
//! `correct` and `prm_scores` come from programs, not from people.

use std::collections::BTreeMap;

use serde_json::Value;

use super::fields::{expected, numbers_of};
use super::{Dataset, Fields, Parsed, Row, Written, has};
use gradus_core::count::counted;
use gradus_core::{Fault, Outcome, Problem, Record, Solution, id};

const NAME: &str = "best-of-n";

pub(super) const DATASET: Dataset = Dataset {
    name: NAME,
    about: "sampled candidates per problem with outcomes and PRM step scores",
    recognizes: |record| has(record, &["problem", "candidates"]),
    read,
    write,
};

fn read(mut fields: Fields) -> Result<Parsed, Fault> {
    let text = fields.string("problem")?;
    let problem_id = fields.id("id")?.unwrap_or_else(|| id::problem(&text));
    let answer = fields.opt_string("gold_answer")?;
    let generator = fields.opt_string("generator")?;
    let solutions = fields
        .list("candidates")?
        .into_iter()
        .enumerate()
        .map(|(index, candidate)| {
            let path = format!("candidates[{index}]");
            Fields::nested(candidate, &path).and_then(|fields| {
                read_candidate(fields, &problem_id, index, generator.as_ref())
                    .map_err(|fault| fault.within(&path))
            })
        })
        .collect::<Result<Vec<_>, _>>()?;
    let mut metadata = fields.rest();
    if solutions.is_empty()
        && let Some(generator) = generator
    {
        metadata.insert("generator".into(), generator.into());
    }
    let problem =
        Problem { id: problem_id, text, answer, source: NAME.into(), metadata, ..Problem::default() };
    Ok(Record::new(problem, solutions).into())
}

fn read_candidate(
    mut fields: Fields,
    problem_id: &str,
    index: usize,
    generator: Option<&String>,
) -> Result<Solution, Fault> {
    let steps = fields.strings("steps")?;
    let mut scores = BTreeMap::new();
    if let Some(columns) = fields.value("prm_scores") {
        let Value::Object(columns) = columns else {
            return Err(Fault::new("prm_scores", expected("an object of score lists", &columns)));
        };
        for (name, values) in &columns {
            let path = format!("prm_scores.{name}");
            let values = numbers_of(values, &path)?;
            if values.len() != steps.len() {
                let message = format!(
                    "{} for {}: every step needs exactly one",
                    counted(values.len(), "score"),
                    counted(steps.len(), "step")
                );
                return Err(Fault::new(path, message));
            }
            scores.insert(name.clone(), values);
        }
        // Whole numbers, or no column at all: the writer needs to see how the source put it.
        if columns.is_empty()
            || scores.iter().any(|(name, values)| columns[name] != Value::from(values.as_slice()))
        {
            fields.keep("prm_scores", columns);
        }
    }
    Ok(Solution {
        id: format!("{problem_id}/{index}"),
        problem_id: problem_id.to_owned(),
        generator: generator.cloned(),
        steps,
        text: fields.opt_string("solution")?,
        answer: fields.opt_string("answer")?,
        outcome: fields.opt_bool("correct")?.map_or(Outcome::Unknown, Outcome::from_correct),
        scores,
        metadata: fields.rest(),
        ..Solution::default()
    })
}

fn write(record: &Record) -> Written {
    let problem = &record.problem;
    let candidates: Vec<Value> = record
        .solutions
        .iter()
        .map(|solution| {
            let kept = solution.metadata.get("prm_scores");
            let kept = kept.filter(|kept| kept.is_object() && problem.source == NAME);
            let scores = (!solution.scores.is_empty() || kept.is_some()).then(|| {
                let column = |(name, values): (&String, &Vec<f64>)| {
                    let kept = kept.and_then(|kept| kept.get(name));
                    let same = kept.filter(|kept| numbers_of(kept, name).as_ref() == Ok(values));
                    (name.clone(), same.cloned().unwrap_or_else(|| values.as_slice().into()))
                };
                Value::Object(solution.scores.iter().map(column).collect())
            });
            Row::default()
                .with("steps", solution.steps.as_slice())
                .with_some("solution", solution.text.as_deref())
                .with_some("answer", solution.answer.as_deref())
                .with_some("correct", solution.outcome.is_correct())
                .with_metadata(&solution.metadata, problem, NAME)
                .with_some("prm_scores", scores)
                .done()
        })
        .collect();
    let row = Row::default()
        .with_problem_id("id", problem, NAME)
        .with("problem", problem.text.as_str())
        .with_some("gold_answer", problem.answer.as_deref())
        .with_some("generator", record.solutions.first().and_then(|solution| solution.generator.as_deref()))
        .with("candidates", candidates)
        .with_metadata(&problem.metadata, problem, NAME);
    Written { rows: vec![row.done()], ..Written::default() }
}
