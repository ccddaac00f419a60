//! Plain lists of problems with their answers: AIME, AMC, OlympiadBench, college and school exams.
//!
//! ```json
//! {"id": 7, "problem": "What is 2 + 3 * 4?", "answer": 14, "solution": "First 3 * 4 = 12.\n\nThen 2 + 12 = 14."}
//! {"id": 8, "question": "Solve x^2 = 4.", "final_answer": ["-2", "2"], "solution": ["By inspection.", "By roots."]}
//! ```
//!
//! The text is `problem` or else `question`; the gold answer is `answer`, a string or a number, or else OlympiadBench's
//! list `final_answer`, joined by commas. `solution` may be a list of alternatives: the first is the reference. Choices
//! (`choices.rs`) are part of the problem's text; then `answer` or ARC's `answerKey` names the right one.

use serde_json::Value;

use super::choices;
use super::fields::{expected, strings_of};
use super::row::problem_row;
use super::worked::{joined, keep_unless, paragraphs};
use super::{Dataset, Fields, Parsed, Row, SOLUTION_IS_REFERENCE, Written};
use gradus_core::{Domain, Fault, Problem, Record, id};

const NAME: &str = "problems";

/// ARC's name of the answer.
const ANSWER_KEY: &str = "answerKey";

/// Metadata key: the text was in the field `question`.
const TEXT_IN: &str = "gradus:text_in";

pub(super) const DATASET: Dataset = Dataset {
    name: NAME,
    about: "plain problem lists: problem or question, answer or final_answer",
    recognizes: |record| {
        ["problem", "question"].iter().any(|key| record.get(*key).is_some_and(Value::is_string))
            && (record.get("answer").is_some_and(|answer| answer.is_string() || answer.is_number())
                || record.get("final_answer").is_some_and(Value::is_array)
                || record.get(ANSWER_KEY).is_some_and(Value::is_string))
    },
    read,
    write,
};

fn read(mut fields: Fields) -> Result<Parsed, Fault> {
    let asked = fields.peek("problem").is_none() && fields.peek("question").is_some();
    let mut text = fields.string(if asked { "question" } else { "problem" })?;
    let source_id = fields.id("id")?;
    let choices = choices::find(fields.all())?;
    let mut aliases = Vec::new();
    let named = match &choices {
        Some(choices) => {
            text += &choices.text();
            let field = if fields.peek("answer").is_some() { "answer" } else { ANSWER_KEY };
            fields.peek(field).and_then(|value| choices.gold(value))
        }
        None => None,
    };
    let answer = match named {
        // The field stays in the metadata, as the source put it.
        Some(gold) => {
            aliases.push(gold.text);
            Some(gold.letter)
        }
        None => read_answer(&mut fields)?,
    };
    let reference = match fields.value("solution") {
        None => Vec::new(),
        Some(Value::String(solution)) => {
            let reference = paragraphs(&solution);
            keep_unless(&mut fields, "solution", solution, joined(&reference).as_deref());
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
    let note = (!reference.is_empty()).then(|| SOLUTION_IS_REFERENCE.to_owned());
    let problem = Problem {
        id: source_id.unwrap_or_else(|| id::problem(&text)),
        text,
        reference,
        answer,
        aliases,
        domain: domain(choices.is_some(), metadata.get("subject")),
        source: NAME.into(),
        metadata,
        ..Problem::default()
    };
    Ok(Parsed { note, ..Record::new(problem, Vec::new()).into() })
}

/// Questions with choices are about anything, unless their subject is a part of mathematics.
fn domain(has_choices: bool, subject: Option<&Value>) -> Domain {
    let subject = subject.and_then(Value::as_str).unwrap_or_default();
    let is_math = ["math", "algebra", "statistics"].iter().any(|part| subject.contains(part));
    if has_choices && !is_math { Domain::Other } else { Domain::Math }
}

/// The gold answer: `answer`, or else the list `final_answer`.
fn read_answer(fields: &mut Fields) -> Result<Option<String>, Fault> {
    Ok(match fields.answer("answer")? {
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
    })
}

fn write(record: &Record) -> Written {
    let problem = &record.problem;
    let own = problem.source == NAME;
    let key = if own && problem.metadata.contains_key(TEXT_IN) { "question" } else { "problem" };
    let answer = problem.answer.as_deref().filter(|_| !own || is_plain_answer(problem));
    let choices = match choices::find(&problem.metadata) {
        Ok(Some(choices)) if own => choices.text(),
        _ => String::new(),
    };
    let text = problem.text.strip_suffix(&choices).unwrap_or(&problem.text);
    let row = Row::default()
        .with_problem_id("id", problem, NAME)
        .with(key, text)
        .with_some("answer", answer)
        .with_some("solution", joined(&problem.reference))
        .with_metadata(&problem.metadata, problem, NAME);
    problem_row(record, Ok(row))
}

/// True when the answer was a string that the reader took: numbers and lists are still in the metadata.
fn is_plain_answer(problem: &Problem) -> bool {
    ["answer", "final_answer", ANSWER_KEY]
        .iter()
        .all(|key| problem.metadata.get(*key).is_none_or(Value::is_null))
}
