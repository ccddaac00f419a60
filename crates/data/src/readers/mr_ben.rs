//! MR-Ben: solutions in which people marked the first error.
//!
//! ```json
//! {"Question_UUID": "made-up-1", "Subject": "college_math", "Question": "What is 2 + 3 * 4?",
//!  "Options": "A: 14\nB: 20", "Ground_Truth_Answer": "A", "Sampled_Model": "some-model",
//!  "Model_Solution_Steps": ["Step 1: 2 + 3 = 5.", "Step 2: 5 * 4 = 20, so B."],
//!  "Model_Solution_Correctness": "incorrect", "Model_Solution_First_Error_Step": "1",
//!  "Model_Solution_Error_Reason": ["Multiplication comes first."]}
//! ```
//!
//! The file is one object that maps each question's id to a list of records; lists of records are read too. The error
//! is named by the number its step bears, see `numbered.rs`. The options are part of the problem's text. Whether the
//! final answer is right is not said: `Model_Solution_Correctness` is about the whole solution.

use serde_json::Value;

use super::numbered::Verdict;
use super::tagged::numbered;
use super::{Dataset, Fields, Parsed, Row, Written, has};
use gradus_core::{Domain, Fault, Metadata, Problem, Record, Solution, id};

const NAME: &str = "mr-ben";

const VERDICT: Verdict = Verdict {
    correctness: "Model_Solution_Correctness",
    step: "Model_Solution_First_Error_Step",
    wrong: "incorrect",
    number_as_text: true,
};

pub(super) const DATASET: Dataset = Dataset {
    name: NAME,
    about: "MR-Ben: the first error as a step number",
    recognizes: |record| has(record, &["Question", "Model_Solution_Steps", VERDICT.step]),
    read,
    write,
};

fn read(mut fields: Fields) -> Result<Parsed, Fault> {
    let question = fields.string("Question")?;
    let source_id = fields.opt_string("Question_UUID")?;
    let answer = fields.opt_string("Ground_Truth_Answer")?;
    let generator = fields.opt_string("Sampled_Model")?;
    let steps = fields.strings("Model_Solution_Steps")?;
    let mut issues = Vec::new();
    let annotation = VERDICT.read(&mut fields, &steps, &mut issues)?;
    let metadata = fields.only(&[
        "Question_UUID",
        "Subject",
        "Options",
        "Ground_Truth_Analysis",
        "Ground_Truth_Answer",
        "Ground_Truth_Answer_Modified",
    ]);
    let text = question + &options(&metadata);
    let about_maths = |subject: &Value| subject.as_str().is_none_or(|subject| subject.contains("math"));
    let problem = Problem {
        id: source_id.unwrap_or_else(|| id::problem(&text)),
        text,
        answer,
        domain: if metadata.get("Subject").is_none_or(about_maths) { Domain::Math } else { Domain::Other },
        source: NAME.into(),
        metadata,
        ..Problem::default()
    };
    let solution = Solution {
        id: match &generator {
            Some(model) => format!("{}/{model}", problem.id),
            None => id::solution(&problem.id, None, &steps),
        },
        problem_id: problem.id.clone(),
        generator,
        steps,
        annotations: vec![annotation],
        metadata: fields.rest(),
        ..Solution::default()
    };
    Ok(Parsed { issues, ..Record::new(problem, vec![solution]).into() })
}

/// The options as they follow the question in the problem's text.
fn options(metadata: &Metadata) -> String {
    match metadata.get("Options").and_then(Value::as_str) {
        Some(options) if !options.is_empty() => format!("\n{options}"),
        _ => String::new(),
    }
}

fn write(record: &Record) -> Written {
    let mut written = Written::default();
    let problem = &record.problem;
    let options = if problem.source == NAME { options(&problem.metadata) } else { String::new() };
    let question = problem.text.strip_suffix(&options).unwrap_or(&problem.text);
    for solution in &record.solutions {
        let steps = numbered(&solution.steps, problem.source == NAME);
        let row = Row::default()
            .with_problem_id("Question_UUID", problem, NAME)
            .with("Question", question)
            .with_some("Ground_Truth_Answer", problem.answer.as_deref())
            .with_some("Sampled_Model", solution.generator.as_deref())
            .with("Model_Solution_Steps", &*steps)
            .with_metadata(&problem.metadata, problem, NAME);
        match VERDICT.write(row, solution, &steps, problem, NAME) {
            Ok(row) => written.rows.push(row.done()),
            Err(reason) => written.dropped.push(reason),
        }
    }
    written
}
