//! StepVerify: pupils' wrong solutions to word problems, with the first wrong step marked by teachers.
//!
//! ```json
//! {"problem": "Ann has 3 bags of 4 nuts and 2 more. How many nuts?", "topic": "Math Word Problem",
//!  "reference_solution": "3 * 4 = 12\n12 + 2 = 14\n 14",
//!  "student_incorrect_solution": ["3 + 4 = 7", "7 + 2 = 9", " 9"], "incorrect_index": 0,
//!  "incorrect_step": "3 + 4 = 7", "error_category": "Misunderstanding of a question", "error_description": null}
//! ```
//!
//! `incorrect_index` counts from 0. The last line of `reference_solution` is the gold answer, the lines above it are the
//! reference steps.

use super::row::known_first_error;
use super::worked::{keep_unless, lines};
use super::{Dataset, Fields, Parsed, Row, Written, has};
use gradus_core::{Annotation, Fault, LabelSource, Problem, Record, Solution, id};

const NAME: &str = "stepverify";
const STEPS: &str = "student_incorrect_solution";
const REFERENCE: &str = "reference_solution";

pub(super) const DATASET: Dataset = Dataset {
    name: NAME,
    about: "StepVerify: students' solutions with the first wrong step",
    recognizes: |record| has(record, &["problem", STEPS, "incorrect_index"]),
    read,
    write,
};

fn read(mut fields: Fields) -> Result<Parsed, Fault> {
    let text = fields.string("problem")?;
    let steps = fields.strings(STEPS)?;
    let index = fields.int("incorrect_index")?;
    let Some(first_error) = usize::try_from(index).ok().filter(|&index| index < steps.len()) else {
        let message = format!("is {index}: expected a 0-based index of one of {} steps", steps.len());
        return Err(Fault::new("incorrect_index", message));
    };
    let (reference, answer) = match fields.opt_string(REFERENCE)? {
        None => (Vec::new(), None),
        Some(worked) => {
            let mut reference = lines(&worked);
            let answer = reference.pop().map(|line| line.trim().to_owned());
            keep_unless(&mut fields, REFERENCE, worked, join(&reference, answer.as_deref()).as_deref());
            (reference, answer)
        }
    };
    let problem = Problem {
        id: id::problem(&text),
        text,
        reference,
        answer,
        source: NAME.into(),
        metadata: fields.only(&["topic", REFERENCE]),
        ..Problem::default()
    };
    let solution = Solution {
        id: id::solution(&problem.id, None, &steps),
        problem_id: problem.id.clone(),
        annotations: vec![Annotation::from_first_error(steps.len(), Some(first_error), &LabelSource::Human)],
        steps,
        metadata: fields.rest(),
        ..Solution::default()
    };
    Ok(Record::new(problem, vec![solution]).into())
}

/// The answer stands on the last line, after a space.
fn join(reference: &[String], answer: Option<&str>) -> Option<String> {
    let answer = answer.map(|answer| format!(" {answer}"))?;
    Some(reference.iter().cloned().chain([answer]).collect::<Vec<_>>().join("\n"))
}

fn write(record: &Record) -> Written {
    let mut written = Written::default();
    let problem = &record.problem;
    for solution in &record.solutions {
        let Some(first_error) = known_first_error(solution, &mut written) else { continue };
        let Some(index) = first_error else {
            written.dropped.push("the solution has no error");
            continue;
        };
        // The format's own records have the step's text, or its absence, in the metadata.
        let wrong = (problem.source != NAME).then(|| solution.steps[index].as_str());
        let row = Row::default()
            .with("problem", problem.text.as_str())
            .with_some(REFERENCE, join(&problem.reference, problem.answer.as_deref()))
            .with(STEPS, solution.steps.as_slice())
            .with("incorrect_index", index)
            .with_some("incorrect_step", wrong)
            .with_metadata(&problem.metadata, problem, NAME)
            .with_metadata(&solution.metadata, problem, NAME);
        written.rows.push(row.done());
    }
    written
}
