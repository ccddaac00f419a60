//! BIG-Bench Mistake: reasoning traces for symbolic tasks, with the first mistake marked by people.
//!
//! ```json
//! {"input": "Sort: pear apple fig", "steps": ["apple comes first.", "pear comes before fig."],
//!  "target": "apple fig pear", "answer": "apple pear fig", "mistake_index": 1}
//! ```
//!
//! `mistake_index` counts from 0; null is no mistake. The outcome is whether `answer` is `target`, letter by letter.

use super::first_error::read_index;
use super::row::known_first_error;
use super::{Dataset, Fields, Parsed, Row, Written, has};
use gradus_core::{Annotation, Domain, Fault, LabelSource, Outcome, Problem, Record, Solution, id};

const NAME: &str = "bigbench-mistake";
const MISTAKE: &str = "mistake_index";

pub(super) const DATASET: Dataset = Dataset {
    name: NAME,
    about: "BIG-Bench Mistake: traces with the first mistake's index",
    recognizes: |record| has(record, &["input", "steps", MISTAKE]),
    read,
    write,
};

fn read(mut fields: Fields) -> Result<Parsed, Fault> {
    let text = fields.string("input")?;
    let steps = fields.strings("steps")?;
    let target = fields.opt_string("target")?;
    let answer = fields.opt_string("answer")?;
    let outcome = match &target {
        Some(_) => Outcome::from_correct(answer == target),
        None => Outcome::Unknown,
    };
    let first_error = read_index(fields.raw(MISTAKE), MISTAKE, steps.len())?;
    let problem = Problem {
        id: id::problem(&text),
        text,
        answer: target,
        domain: Domain::Other,
        source: NAME.into(),
        metadata: fields.only(&["target"]),
        ..Problem::default()
    };
    let solution = Solution {
        id: id::solution(&problem.id, None, &steps),
        problem_id: problem.id.clone(),
        answer,
        outcome,
        annotations: vec![Annotation::from_first_error(steps.len(), first_error, &LabelSource::Human)],
        steps,
        metadata: fields.rest(),
        ..Solution::default()
    };
    Ok(Record::new(problem, vec![solution]).into())
}

fn write(record: &Record) -> Written {
    let mut written = Written::default();
    let problem = &record.problem;
    for solution in &record.solutions {
        let Some(first_error) = known_first_error(solution, &mut written) else { continue };
        let row = Row::default()
            .with("input", problem.text.as_str())
            .with("steps", solution.steps.as_slice())
            .with_some("target", problem.answer.as_deref())
            .with_some("answer", solution.answer.as_deref())
            .with(MISTAKE, first_error)
            .with_metadata(&problem.metadata, problem, NAME)
            .with_metadata(&solution.metadata, problem, NAME);
        written.rows.push(row.done());
    }
    written
}
