//! ProcessBench: solutions with the place of the first error, found by experts.
//!
//! ```json
//! {"id": "gsm8k-0", "generator": "some-model", "problem": "What is 2 + 3 * 4?",
//!  "steps": ["3 * 4 = 12", "2 + 12 = 15"], "final_answer_correct": false, "label": 1}
//! ```
//!
//! `label` is the 0-based index of the first error, or -1.

use super::row::known_first_error;
use super::{Dataset, Fields, Parsed, Row, Written, has};
use gradus_core::{Annotation, Fault, LabelSource, Outcome, Problem, Record, Solution, id};

const NAME: &str = "processbench";

pub(super) const DATASET: Dataset = Dataset {
    name: NAME,
    about: "ProcessBench: steps with the first error's index",
    recognizes: |record| has(record, &["problem", "steps", "label", "final_answer_correct"]),
    read,
    write,
};

fn read(mut fields: Fields) -> Result<Parsed, Fault> {
    let text = fields.string("problem")?;
    let source_id = fields.id("id")?;
    let generator = fields.opt_string("generator")?;
    let steps = fields.strings("steps")?;
    let outcome = Outcome::from_correct(fields.bool("final_answer_correct")?);
    let label = fields.int("label")?;
    let first_error = match usize::try_from(label) {
        Ok(index) if index < steps.len() => Some(index),
        Err(_) if label == -1 => None,
        _ => {
            let message =
                format!("is {label}: expected -1 or a 0-based index of one of {} steps", steps.len());
            return Err(Fault::new("label", message));
        }
    };
    let problem = Problem { id: id::problem(&text), text, source: NAME.into(), ..Problem::default() };
    let solution = Solution {
        id: source_id.unwrap_or_else(|| id::solution(&problem.id, generator.as_deref(), &steps)),
        problem_id: problem.id.clone(),
        generator,
        annotations: vec![Annotation::from_first_error(steps.len(), first_error, &LabelSource::Human)],
        steps,
        outcome,
        metadata: fields.rest(),
        ..Solution::default()
    };
    Ok(Record::new(problem, vec![solution]).into())
}

fn write(record: &Record) -> Written {
    let mut written = Written::default();
    for solution in &record.solutions {
        let Some(first_error) = known_first_error(solution, &mut written) else { continue };
        let label = first_error.map_or(-1, |index| index as i64);
        let Some(correct) = solution.outcome.is_correct() else {
            written.dropped.push("the outcome is unknown");
            continue;
        };
        let row = Row::default()
            .with_solution_id("id", solution, &record.problem, NAME)
            .with_some("generator", solution.generator.as_deref())
            .with("problem", record.problem.text.as_str())
            .with("steps", solution.steps.as_slice())
            .with("final_answer_correct", correct)
            .with("label", label)
            .with_metadata(&solution.metadata, &record.problem, NAME);
        written.rows.push(row.done());
    }
    written
}
