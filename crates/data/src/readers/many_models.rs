//! Many models' answers to the same problem, with outcomes.
//!
//! ```json
//! {"id": "made-up-1", "question": "What is 2 + 3 * 4?", "gold": "# 14",
//!  "solutions": [{"model": "some-model", "output": "2 + 3 is 5, times 4 is 20.", "answer": "20", "correct": false}]}
//! ```
//!
//! Outputs are free text, so solutions have no steps. `correct` comes from a program. Some files write `gold` with a
//! leading `#`, which is no part of the answer.

use serde_json::Value;

use super::{Dataset, Fields, Parsed, Row, Written, has};
use gradus_core::{Fault, Outcome, Problem, Record, Solution, id};

const NAME: &str = "many-models";

pub(super) const DATASET: Dataset = Dataset {
    name: NAME,
    about: "one problem answered by many models, with outcomes",
    recognizes: |record| has(record, &["question", "gold", "solutions"]),
    read,
    write,
};

fn read(mut fields: Fields) -> Result<Parsed, Fault> {
    let text = fields.string("question")?;
    let problem_id = fields.id("id")?.unwrap_or_else(|| id::problem(&text));
    let solutions = fields
        .list("solutions")?
        .into_iter()
        .enumerate()
        .map(|(index, solution)| {
            let path = format!("solutions[{index}]");
            let fields = Fields::nested(solution, &path)?;
            read_solution(fields, &problem_id, index).map_err(|fault| fault.within(&path))
        })
        .collect::<Result<Vec<_>, _>>()?;
    let answer = match fields.answer("gold")? {
        None => None,
        Some(gold) => {
            let clean = gold.trim_start_matches('#').trim().to_owned();
            if fields.peek("gold").is_none() && clean != gold {
                fields.keep("gold", gold);
            }
            Some(clean)
        }
    };
    let problem = Problem {
        id: problem_id,
        text,
        answer,
        source: NAME.into(),
        metadata: fields.rest(),
        ..Problem::default()
    };
    Ok(Record::new(problem, solutions).into())
}

fn read_solution(mut fields: Fields, problem_id: &str, index: usize) -> Result<Solution, Fault> {
    let generator = fields.opt_string("model")?;
    Ok(Solution {
        id: format!("{problem_id}/{index}"),
        problem_id: problem_id.to_owned(),
        generator,
        text: Some(fields.string("output")?),
        answer: fields.opt_string("answer")?,
        outcome: fields.opt_bool("correct")?.map_or(Outcome::Unknown, Outcome::from_correct),
        metadata: fields.rest(),
        ..Solution::default()
    })
}

fn write(record: &Record) -> Written {
    let problem = &record.problem;
    let solutions: Vec<Value> = record
        .solutions
        .iter()
        .map(|solution| {
            Row::default()
                .with_some("model", solution.generator.as_deref())
                .with("output", solution.full_text())
                .with_some("answer", solution.answer.as_deref())
                .with_some("correct", solution.outcome.is_correct())
                .with_metadata(&solution.metadata, problem, NAME)
                .done()
        })
        .collect();
    let row = Row::default()
        .with_problem_id("id", problem, NAME)
        .with("question", problem.text.as_str())
        .with_some("gold", problem.answer.as_deref())
        .with("solutions", solutions)
        .with_metadata(&problem.metadata, problem, NAME);
    Written { rows: vec![row.done()], ..Written::default() }
}
