//! Logs of evaluation programs, whose rows have a form of their own.
//!
//! lm-evaluation-harness (`--log_samples`): the dataset's row is `doc`, what the model wrote `resps`, one list for each
//! request. Inspect: `output.choices` of a sample, beside its `input` and `target`.
//!
//! ```json
//! {"doc_id": 0, "doc": {"question": "What is 2 + 3?", "answer": "2+3=5\n#### 5"}, "target": "5",
//!  "arguments": {"gen_args_0": {"arg_0": "Q: What is 2 + 3? A:"}}, "resps": [["It is 5."]],
//!  "filtered_resps": ["5"], "filter": "strict-match", "exact_match": 1.0}
//! {"id": 1, "epoch": 1, "input": "What is 2 + 3?", "target": "5",
//!  "output": {"model": "some-model", "choices": [{"message": {"role": "assistant", "content": "It is 5."}}]},
//!  "scores": {"match": {"value": "C", "answer": "5"}}}
//! ```

use serde_json::Value;

use super::roles::{FieldMap, Role};
use super::turns;
use crate::readers::fields::expected;
use gradus_core::{Fault, Metadata, Outcome, Solution};

/// What a log says about one problem.
pub(super) struct Logged {
    /// The fields of the problem, as they are in its dataset.
    pub(super) row: Metadata,
    /// The problem's text where `row` has none.
    pub(super) prompt: Option<String>,
    pub(super) target: Option<Value>,
    pub(super) id: Option<Value>,
    pub(super) solutions: Vec<Solution>,
    /// Fields that have been taken out of the log's row.
    pub(super) taken: &'static [&'static str],
}

pub(super) fn is_harness(row: &Metadata) -> bool {
    row.get("doc").is_some_and(Value::is_object)
        && (row.contains_key("resps") || row.contains_key("filtered_resps"))
}

pub(super) fn is_inspect(row: &Metadata) -> bool {
    row.contains_key("input")
        && row.get("output").is_some_and(|output| output.get("choices").is_some_and(Value::is_array))
}

/// One row of lm-evaluation-harness.
pub(super) fn harness(row: &Metadata) -> Result<Logged, Fault> {
    let doc = row["doc"].as_object().cloned().unwrap_or_default();
    let key = if row.contains_key("resps") { "resps" } else { "filtered_resps" };
    let mut texts = Vec::new();
    collect_texts(&row[key], key, &mut texts)?;
    let outcome = match texts.len() {
        1 => ["exact_match", "acc"].iter().find_map(|name| row.get(*name)?.as_f64()),
        _ => None,
    };
    let short = row.get("filtered_resps").filter(|_| key == "resps" && texts.len() == 1);
    let short = short.and_then(|found| found.get(0)?.as_str()).map(str::to_owned);
    let solutions = texts.into_iter().map(|text| Solution {
        answer: short.clone().filter(|short| *short != text && short != "[invalid]"),
        text: Some(text),
        outcome: outcome.map_or(Outcome::Unknown, outcome_of),
        ..Solution::default()
    });
    Ok(Logged {
        prompt: first_argument(row.get("arguments")),
        target: row.get("target").cloned(),
        id: row.get("doc_id").cloned(),
        solutions: solutions.collect(),
        row: doc,
        taken: &["doc", "doc_id", "resps", "filtered_resps", "target", "arguments"],
    })
}

/// The texts of `resps`: a list for each request, in it a text for each repeat.
fn collect_texts(value: &Value, path: &str, into: &mut Vec<String>) -> Result<(), Fault> {
    match value {
        Value::String(text) => into.push(text.clone()),
        Value::Array(items)
            if !is_log_likelihood(items) && items.iter().all(|item| item.is_array() || item.is_string()) =>
        {
            for (index, item) in items.iter().enumerate() {
                collect_texts(item, &format!("{path}[{index}]"), into)?;
            }
        }
        other => {
            let message = expected("generated texts (log-likelihood requests have none)", other);
            return Err(Fault::new(path, message));
        }
    }
    Ok(())
}

/// A log-likelihood and whether the choice is the greedy one, which newer logs have as texts: `["-1.5", "False"]`.
fn is_log_likelihood(pair: &[Value]) -> bool {
    let [Value::String(score), Value::String(is_greedy)] = pair else { return false };
    score.parse::<f64>().is_ok_and(|score| score <= 0.0) && matches!(is_greedy.as_str(), "True" | "False")
}

/// The prompt of the first request: `{"gen_args_0": {"arg_0": …}}`, or a list of lists in older logs.
fn first_argument(arguments: Option<&Value>) -> Option<String> {
    let first = match arguments? {
        Value::Object(requests) => requests.values().next()?.get("arg_0")?,
        Value::Array(requests) => requests.first()?.get(0)?,
        _ => return None,
    };
    first.as_str().map(str::to_owned)
}

/// One sample of Inspect.
pub(super) fn inspect(row: &Metadata) -> Result<Logged, Fault> {
    let output = &row["output"];
    let generator = output.get("model").and_then(Value::as_str).map(str::to_owned);
    let score = row.get("scores").and_then(|scores| scores.as_object()?.values().next());
    let choices = output["choices"].as_array().map_or(&[][..], Vec::as_slice);
    let mut solutions = Vec::with_capacity(choices.len());
    for (index, choice) in choices.iter().enumerate() {
        let message = choice.get("message").unwrap_or(&Value::Null);
        let text = turns::reply(message).ok_or_else(|| {
            let path = format!("output.choices[{index}].message");
            Fault::new(path, expected("a message of the assistant", message))
        })?;
        // The score is about the first choice, which is the completion.
        let score = score.filter(|_| index == 0);
        solutions.push(Solution {
            generator: generator.clone(),
            text: Some(text),
            answer: score.and_then(|score| score.get("answer")?.as_str()).map(str::to_owned),
            outcome: score.and_then(|score| score.get("value")).map_or(Outcome::Unknown, inspect_outcome),
            ..Solution::default()
        });
    }
    let prompt = match &row["input"] {
        Value::String(text) => Some(text.clone()),
        messages => turns::prompt(messages),
    };
    Ok(Logged {
        row: Metadata::new(),
        prompt,
        target: row.get("target").cloned(),
        id: row.get("id").cloned(),
        solutions,
        taken: &["input", "target", "id", "output", "messages", "events", "attachments", "store"],
    })
}

fn inspect_outcome(value: &Value) -> Outcome {
    match value {
        Value::String(grade) if grade == "C" => Outcome::Correct,
        Value::String(grade) if grade == "I" || grade == "N" => Outcome::Wrong,
        Value::Bool(correct) => Outcome::from_correct(*correct),
        Value::Number(number) => number.as_f64().map_or(Outcome::Unknown, outcome_of),
        _ => Outcome::Unknown,
    }
}

/// 1 is right, 0 and less is wrong; what lies between says nothing.
pub(super) fn outcome_of(score: f64) -> Outcome {
    match score {
        1.0 => Outcome::Correct,
        score if score <= 0.0 => Outcome::Wrong,
        _ => Outcome::Unknown,
    }
}

/// The samples of a whole Inspect log; none where the object is something else.
pub(crate) fn inspect_samples(log: &mut Metadata) -> Option<Vec<Value>> {
    let is_log = log.contains_key("eval") && log.get("samples").is_some_and(Value::is_array);
    match log.get_mut("samples").filter(|_| is_log)?.take() {
        Value::Array(samples) => Some(samples),
        _ => None,
    }
}

/// True where a field of `row` holds the problem.
pub(super) fn has_problem(row: &Metadata) -> bool {
    FieldMap::default().find(row, Role::Problem).is_some()
}
