//! MuSiQue: questions over paragraphs that take several hops, with the hops.
//!
//! ```json
//! {"id": "2hop__1_2", "question": "Where was the author of Blue Hills born?",
//!  "paragraphs": [{"idx": 0, "title": "Blue Hills", "paragraph_text": "A novel. It is by Ada Poe.", "is_supporting": true}],
//!  "question_decomposition": [{"id": 1, "question": "Blue Hills >> author", "answer": "Ada Poe",
//!                              "paragraph_support_idx": 0},
//!                             {"id": 2, "question": "Where was #1 born?", "answer": "York"}],
//!  "answer": "York", "answer_aliases": ["City of York"], "answerable": true}
//! ```
//!
//! A hop becomes a sentence of the reference, with the answers of earlier hops filled in for `#1`: `The author of Blue Hills
//! is Ada Poe.`, `Where was Ada Poe born? The answer is York.` A paragraph becomes sentences of the context, the first with
//! the title before it. Paragraphs and hops stay in the metadata as they are. `paragraphs` may be missing.

use serde_json::{Value, json};

use super::row::problem_row;
use super::{Dataset, Fields, Parsed, Row, Written, has};
use gradus_core::steps::{SplitConfig, Strategy, split};
use gradus_core::{Domain, Fault, Problem, Record, id};

const NAME: &str = "musique";
const PARAGRAPHS: &str = "paragraphs";
const HOPS: &str = "question_decomposition";

pub(super) const DATASET: Dataset = Dataset {
    name: NAME,
    about: "MuSiQue: a question, its paragraphs and its hops",
    recognizes: |record| has(record, &["question", HOPS]),
    read,
    write,
};

fn read(mut fields: Fields) -> Result<Parsed, Fault> {
    let text = fields.string("question")?;
    let source_id = fields.id("id")?;
    let answer = fields.opt_string("answer")?;
    let aliases = fields.some_strings("answer_aliases")?;
    let problem = Problem {
        id: source_id.unwrap_or_else(|| id::problem(&text)),
        text,
        context: context(fields.peek(PARAGRAPHS))?,
        reference: reference(fields.peek(HOPS))?,
        answer,
        aliases,
        domain: Domain::Qa,
        source: NAME.into(),
        metadata: fields.rest(),
    };
    Ok(Record::new(problem, Vec::new()).into())
}

/// The sentences of all paragraphs.
fn context(paragraphs: Option<&Value>) -> Result<Vec<String>, Fault> {
    let mut sentences = Vec::new();
    for (path, mut paragraph) in objects(paragraphs, PARAGRAPHS)? {
        let text = paragraph.string("paragraph_text").map_err(|fault| fault.within(&path))?;
        let title = paragraph.peek("title").and_then(Value::as_str).filter(|title| !title.is_empty());
        let config = SplitConfig { strategy: Strategy::Sentences, ..SplitConfig::default() };
        let cut = split(&text, &config);
        sentences.extend(cut.steps().enumerate().map(|(index, sentence)| match title {
            Some(title) if index == 0 => format!("{title}: {sentence}"),
            _ => sentence.to_owned(),
        }));
    }
    Ok(sentences)
}

/// The hops as sentences; the last one says which answer is the final one.
fn reference(hops: Option<&Value>) -> Result<Vec<String>, Fault> {
    let mut hops = objects(hops, HOPS)?;
    let count = hops.len();
    let mut answers: Vec<String> = Vec::with_capacity(count);
    let mut sentences = Vec::with_capacity(count);
    for (index, (path, hop)) in hops.iter_mut().enumerate() {
        let question = hop.string("question").map_err(|fault| fault.within(path))?;
        let question = fill_in(&question, &answers);
        let answer = hop.opt_string("answer").map_err(|fault| fault.within(path))?.unwrap_or_default();
        let is_last = index + 1 == count;
        sentences.push(sentence(question.trim(), answer.trim(), is_last));
        answers.push(answer);
    }
    Ok(sentences)
}

/// The answers of earlier hops in place of `#1`, `#2`, …
fn fill_in(question: &str, answers: &[String]) -> String {
    let mut filled = question.to_owned();
    // From the last one down, so that `#1` does not take the beginning of `#10`.
    for (index, answer) in answers.iter().enumerate().rev() {
        filled = filled.replace(&format!("#{}", index + 1), answer);
    }
    filled
}

fn sentence(question: &str, answer: &str, is_last: bool) -> String {
    if answer.is_empty() {
        return question.to_owned();
    }
    let final_answer = if is_last { format!("The answer is {answer}.") } else { format!("{answer}.") };
    match question.split_once(" >> ") {
        Some((subject, relation)) if is_last => {
            format!("The {relation} of {subject} is {answer}, so the answer is {answer}.")
        }
        Some((subject, relation)) => format!("The {relation} of {subject} is {answer}."),
        None if question.ends_with(['?', '.', '!']) => format!("{question} {final_answer}"),
        None => format!("{question}? {final_answer}"),
    }
}

/// The objects of a list, which faults name by their place.
fn objects(list: Option<&Value>, name: &str) -> Result<Vec<(String, Fields)>, Fault> {
    let Some(list) = list else { return Ok(Vec::new()) };
    let Value::Array(items) = list else {
        return Err(Fault::new(name, super::fields::expected("a list", list)));
    };
    let nested = |(index, item): (usize, &Value)| {
        let path = format!("{name}[{index}]");
        Ok((path.clone(), Fields::nested(item.clone(), &path)?))
    };
    items.iter().enumerate().map(nested).collect()
}

fn write(record: &Record) -> Written {
    let problem = &record.problem;
    // What the metadata gives back is written as it was, also where it is an empty list or none.
    let kept = |name: &str| problem.metadata.get(name).filter(|_| problem.source == NAME);
    let same_context =
        context(kept(PARAGRAPHS).filter(|list| !list.is_null())).is_ok_and(|it| it == problem.context);
    let same_reference =
        reference(kept(HOPS).filter(|list| !list.is_null())).is_ok_and(|it| it == problem.reference);
    let paragraphs: Vec<Value> =
        (0..).zip(&problem.context).map(|(idx, entry)| plain_paragraph(idx, entry)).collect();
    let hops: Vec<Value> =
        problem.reference.iter().map(|step| json!({"question": step, "answer": null})).collect();
    let aliases = (!problem.aliases.is_empty()).then_some(problem.aliases.as_slice());
    let row = Row::default()
        .with_problem_id("id", problem, NAME)
        .with("question", problem.text.as_str())
        .with_some("answer", problem.answer.as_deref())
        .with_some("answer_aliases", aliases)
        .with_metadata(&problem.metadata, problem, NAME)
        .with_some(PARAGRAPHS, (!same_context).then_some(paragraphs))
        .with_some(HOPS, (!same_reference).then_some(hops));
    problem_row(record, Ok(row))
}

fn plain_paragraph(idx: usize, entry: &str) -> Value {
    json!({"idx": idx, "title": "", "paragraph_text": entry})
}
