//! Plain lists of problems with their answers: AIME, AMC, OlympiadBench, college and school exams.
//!
//! ```json
//! {"id": 7, "problem": "What is 2 + 3 * 4?", "answer": 14, "solution": "First 3 * 4 = 12.\n\nThen 2 + 12 = 14."}
//! {"id": 8, "question": "Solve x^2 = 4.", "final_answer": ["-2", "2"], "solution": ["By inspection.", "By roots."]}
//! ```
//!
//! The text is `problem` or else `question`; the gold answer is `answer`, a string or a number, or else OlympiadBench's
//! list `final_answer`, joined by commas. `solution` may be a list of alternatives: the first is the reference.

use serde_json::Value;

use super::fields::{expected, strings_of};
use super::math::paragraphs;
use super::row::problem_row;
use super::{Dataset, Fields, Parsed, Row, Written};
use gradus_core::{Fault, Problem, Record, id};

const NAME: &str = "problems";

/// Metadata key: the text was in the field `question`.
const TEXT_IN: &str = "gradus:text_in";

pub(super) const DATASET: Dataset = Dataset {
    name: NAME,
    about: "plain problem lists: problem or question, answer or final_answer",
    recognizes: |record| {
        ["problem", "question"].iter().any(|key| record.get(*key).is_some_and(Value::is_string))
            && (record.get("answer").is_some_and(|answer| answer.is_string() || answer.is_number())
                || record.get("final_answer").is_some_and(Value::is_array))
    },
    read,
    write,
};

fn read(mut fields: Fields) -> Result<Parsed, Fault> {
    let asked = fields.peek("problem").is_none() && fields.peek("question").is_some();
    let text = fields.string(if asked { "question" } else { "problem" })?;
    let source_id = fields.id("id")?;
    let answer = match fields.answer("answer")? {
        Some(answer) => {
            if fields.peek("answer").is_none() && fields.peek("final_answer").is_some() {
                fields.keep("answer", answer.as_str());
            }
            Some(answer)
        }
        None => match fields.peek("final_answer").cloned() {
            None => None,
            Some(Value::Array(answers)) => Some(strings_of(answers, "final_answer")?.join(", ")),
            Some(other) => return Err(Fault::new("final_answer", expected("a list of answers", &other))),
        },
    };
    let reference = match fields.value("solution") {
        None => Vec::new(),
        Some(Value::String(solution)) => {
            let reference = paragraphs(&solution);
            if reference.is_empty() || reference.join("\n\n") != solution {
                fields.keep("solution", solution);
            }
            reference
        }
        Some(Value::Array(solutions)) => {
            fields.keep("solution", solutions.clone());
            strings_of(solutions, "solution")?.first().map_or_else(Vec::new, |first| paragraphs(first))
        }
        Some(other) => return Err(Fault::new("solution", expected("a text or a list of texts", &other))),
    };
    let mut metadata = fields.rest();
    if asked {
        metadata.insert(TEXT_IN.into(), "question".into());
    }
    let problem = Problem {
        id: source_id.unwrap_or_else(|| id::problem(&text)),
        text,
        reference,
        answer,
        source: NAME.into(),
        metadata,
        ..Problem::default()
    };
    Ok(Record::new(problem, Vec::new()).into())
}

fn write(record: &Record) -> Written {
    let problem = &record.problem;
    let own = problem.source == NAME;
    let key = if own && problem.metadata.contains_key(TEXT_IN) { "question" } else { "problem" };
    let answer = problem.answer.as_deref().filter(|_| !own || is_plain_answer(problem));
    let solution = (!problem.reference.is_empty()).then(|| problem.reference.join("\n\n"));
    let row = Row::default()
        .with_problem_id("id", problem, NAME)
        .with(key, problem.text.as_str())
        .with_some("answer", answer)
        .with_some("solution", solution)
        .with_metadata(&problem.metadata, problem, NAME);
    problem_row(record, Ok(row))
}

/// True when the answer was a string that the reader took: numbers and lists are still in the metadata.
fn is_plain_answer(problem: &Problem) -> bool {
    ["answer", "final_answer"].iter().all(|key| problem.metadata.get(*key).is_none_or(Value::is_null))
}
