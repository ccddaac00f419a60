//! MuSiQue: questions over paragraphs that take several hops, with the hops.
//!
//! ```json
//! {"id": "2hop__1_2", "question": "Where was the author of Blue Hills born?",
//!  "paragraphs": [{"idx": 0, "title": "Blue Hills", "paragraph_text": "A novel by Ada Poe.", "is_supporting": true}],
//!  "question_decomposition": [{"id": 1, "question": "Blue Hills >> author", "answer": "Ada Poe",
//!                              "paragraph_support_idx": 0}],
//!  "answer": "York", "answer_aliases": ["City of York"], "answerable": true}
//! ```
//!
//! A paragraph becomes a context entry `title: text`, a hop a reference step `question → answer`. What is left of both
//! stays in the metadata under their own names. `paragraphs` may be missing.

use serde_json::{Value, json};

use super::row::problem_row;
use super::{Dataset, Fields, Parsed, Row, Written, has};
use gradus_core::{Domain, Fault, Problem, Record, id};

const NAME: &str = "musique";
const PARAGRAPHS: &str = "paragraphs";
const HOPS: &str = "question_decomposition";
const TITLE_END: &str = ": ";
const ARROW: &str = " → ";

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
    let context = take_texts(&mut fields, PARAGRAPHS, "paragraph_text", |text, beside| {
        match beside.peek("title").and_then(Value::as_str) {
            None | Some("") => text,
            Some(title) => format!("{title}{TITLE_END}{text}"),
        }
    })?;
    let reference = take_texts(&mut fields, HOPS, "question", |text, beside| {
        match beside.peek("answer").and_then(Value::as_str) {
            None => text,
            Some(answer) => format!("{text}{ARROW}{answer}"),
        }
    })?;
    let problem = Problem {
        id: source_id.unwrap_or_else(|| id::problem(&text)),
        text,
        context,
        reference,
        answer,
        aliases,
        domain: Domain::Qa,
        source: NAME.into(),
        metadata: fields.rest(),
    };
    Ok(Record::new(problem, Vec::new()).into())
}

/// Takes `key` out of each object of `list` and leaves the rest of the objects where they were.
fn take_texts(
    fields: &mut Fields,
    list: &str,
    key: &str,
    describe: impl Fn(String, &Fields) -> String,
) -> Result<Vec<String>, Fault> {
    let Some(items) = fields.opt_list(list)? else { return Ok(Vec::new()) };
    let mut beside = Vec::with_capacity(items.len());
    let mut texts = Vec::with_capacity(items.len());
    for (index, item) in items.into_iter().enumerate() {
        let path = format!("{list}[{index}]");
        let mut item = Fields::nested(item, &path)?;
        let text = item.string(key).map_err(|fault| fault.within(&path))?;
        texts.push(describe(text, &item));
        beside.push(Value::Object(item.rest()));
    }
    fields.keep(list, beside);
    Ok(texts)
}

fn write(record: &Record) -> Written {
    let problem = &record.problem;
    let paragraphs = match kept(problem, PARAGRAPHS, &problem.context) {
        Some(kept) => kept
            .map(|(entry, beside)| put_back(beside, "paragraph_text", without_title(entry, beside)))
            .collect(),
        None => (0..).zip(&problem.context).map(|(idx, entry)| plain_paragraph(idx, entry)).collect(),
    };
    let hops = match kept(problem, HOPS, &problem.reference) {
        Some(kept) => {
            kept.map(|(step, beside)| put_back(beside, "question", without_answer(step, beside))).collect()
        }
        None => problem.reference.iter().map(|step| plain_hop(step)).collect(),
    };
    // Without entries, the metadata still tells an empty list from none.
    let some = |list: Vec<Value>| (!list.is_empty()).then_some(list);
    let aliases = (!problem.aliases.is_empty()).then_some(problem.aliases.as_slice());
    let row = Row::default()
        .with_problem_id("id", problem, NAME)
        .with("question", problem.text.as_str())
        .with_some("answer", problem.answer.as_deref())
        .with_some("answer_aliases", aliases)
        .with_metadata(&problem.metadata, problem, NAME)
        .with_some(PARAGRAPHS, some(paragraphs))
        .with_some(HOPS, some(hops));
    problem_row(record, Ok(row))
}

/// The entries with what [`take_texts`] left of their objects.
fn kept<'a>(
    problem: &'a Problem,
    list: &str,
    entries: &'a [String],
) -> Option<impl Iterator<Item = (&'a str, &'a Value)>> {
    let beside = problem.metadata.get(list).filter(|_| problem.source == NAME)?.as_array()?;
    (beside.len() == entries.len()).then(|| entries.iter().map(String::as_str).zip(beside))
}

fn put_back(beside: &Value, key: &str, text: &str) -> Value {
    let mut object = beside.clone();
    object[key] = text.into();
    object
}

fn without_title<'a>(entry: &'a str, beside: &Value) -> &'a str {
    let title = beside.get("title").and_then(Value::as_str);
    title
        .filter(|title| !title.is_empty())
        .and_then(|title| entry.strip_prefix(title)?.strip_prefix(TITLE_END))
        .unwrap_or(entry)
}

fn without_answer<'a>(step: &'a str, beside: &Value) -> &'a str {
    let answer = beside.get("answer").and_then(Value::as_str);
    answer.and_then(|answer| step.strip_suffix(answer)?.strip_suffix(ARROW)).unwrap_or(step)
}

fn plain_paragraph(idx: usize, entry: &str) -> Value {
    json!({"idx": idx, "title": "", "paragraph_text": entry})
}

fn plain_hop(step: &str) -> Value {
    match step.rsplit_once(ARROW) {
        Some((question, answer)) => json!({"question": question, "answer": answer}),
        None => json!({"question": step, "answer": null}),
    }
}
