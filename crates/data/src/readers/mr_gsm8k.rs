//! MR-GSM8K: solutions to GSM8K and its variations in which people marked the first error.
//!
//! ```json
//! {"uuid": "made-up-1", "question": "Ann has 3 bags of 4 nuts and 2 more. How many nuts?",
//!  "ground_truth_solution": "3*4=12\n12+2=14", "ground_truth_answer": "14",
//!  "model_output_steps": ["Step 1: 3*4=12.", "Step 2: 12-2=10."], "model_output_answer_correctness": "wrong",
//!  "model_output_solution_correctness": "wrong", "model_output_solution_first_error_step": 2,
//!  "model_output_solution_first_error_reason": "It should add.", "question_type": "original"}
//! ```
//!
//! The error is named by the number its step bears, see `numbered.rs`. `answer_correctness` is the outcome: a solution
//! can reach the right answer by a wrong step. The reference steps are the lines of `ground_truth_solution`.

use super::fields::expected;
use super::numbered::Verdict;
use super::tagged::numbered;
use super::worked::take_lines;
use super::{Dataset, Fields, Parsed, Row, Written, has};
use gradus_core::{Fault, Outcome, Problem, Record, Solution, id};

const NAME: &str = "mr-gsm8k";
const OUTCOME: &str = "model_output_answer_correctness";

const VERDICT: Verdict = Verdict {
    correctness: "model_output_solution_correctness",
    step: "model_output_solution_first_error_step",
    wrong: "wrong",
    number_as_text: false,
};

pub(super) const DATASET: Dataset = Dataset {
    name: NAME,
    about: "MR-GSM8K: the first error as a step number, and the outcome",
    recognizes: |record| has(record, &["question", "model_output_steps", VERDICT.step]),
    read,
    write,
};

fn read(mut fields: Fields) -> Result<Parsed, Fault> {
    let text = fields.string("question")?;
    let source_id = fields.id("uuid")?;
    let answer = fields.answer("ground_truth_answer")?;
    let steps = fields.strings("model_output_steps")?;
    let outcome = read_outcome(&mut fields)?;
    let mut issues = Vec::new();
    let annotation = VERDICT.read(&mut fields, &steps, &mut issues)?;
    let reference = take_lines(&mut fields, "ground_truth_solution")?;
    let problem = Problem {
        id: id::problem(&text),
        text,
        reference,
        answer,
        source: NAME.into(),
        metadata: fields.only(&["ground_truth_solution", "ground_truth_answer", "question_type"]),
        ..Problem::default()
    };
    let solution = Solution {
        id: source_id.unwrap_or_else(|| id::solution(&problem.id, None, &steps)),
        problem_id: problem.id.clone(),
        steps,
        outcome,
        annotations: vec![annotation],
        metadata: fields.rest(),
        ..Solution::default()
    };
    Ok(Parsed { issues, ..Record::new(problem, vec![solution]).into() })
}

/// Whether the final answer is `correct` or `wrong`.
pub(super) fn read_outcome(fields: &mut Fields) -> Result<Outcome, Fault> {
    match fields.value(OUTCOME) {
        None => Ok(Outcome::Unknown),
        Some(word) if word == "correct" => Ok(Outcome::Correct),
        Some(word) if word == "wrong" => Ok(Outcome::Wrong),
        Some(other) => Err(Fault::new(OUTCOME, expected("\"correct\" or \"wrong\"", &other))),
    }
}

/// Sets the outcome, if it is known.
pub(super) fn with_outcome(row: Row, outcome: Outcome) -> Row {
    row.with_some(OUTCOME, outcome.is_correct().map(|correct| if correct { "correct" } else { "wrong" }))
}

fn write(record: &Record) -> Written {
    let mut written = Written::default();
    let problem = &record.problem;
    let worked = (!problem.reference.is_empty()).then(|| problem.reference.join("\n"));
    for solution in &record.solutions {
        let steps = numbered(&solution.steps, problem.source == NAME);
        let row = Row::default()
            .with_solution_id("uuid", solution, problem, NAME)
            .with("question", problem.text.as_str())
            .with_some("ground_truth_solution", worked.as_deref())
            .with_some("ground_truth_answer", problem.answer.as_deref())
            .with("model_output_steps", &*steps)
            .with_metadata(&problem.metadata, problem, NAME);
        match VERDICT.write(with_outcome(row, solution.outcome), solution, &steps, problem, NAME) {
            Ok(row) => written.rows.push(row.done()),
            Err(reason) => written.dropped.push(reason),
        }
    }
    written
}
