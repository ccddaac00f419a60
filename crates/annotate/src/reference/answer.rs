//! What the model writes: the schema it is held to, and how its answer is read.

use gradus_core::{Evidence, Mark};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use thiserror::Error;

use super::case::Case;

/// Why an answer cannot be used; the sentences are counted, so they name no numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub(super) enum Unusable {
    /// No JSON object.
    #[error("the answer is not JSON")]
    NotJson,
    /// It ended before its end.
    #[error("the answer was cut off at the token limit")]
    CutOff,
    /// A field is missing or of the wrong kind.
    #[error("the answer's JSON lacks a field or has one of another kind")]
    WrongShape,
    /// Not one entry for each step.
    #[error("the answer has not one entry for each step")]
    WrongSteps,
    /// An id that does not exist, or the step itself.
    #[error("the answer names a sentence or step that does not exist")]
    UnknownId,
    /// A label other than 1 and −1.
    #[error("the answer has a label other than 1 and -1")]
    WrongLabel,
    /// An error category that was not offered.
    #[error("the answer names an error category that is not in the list")]
    UnknownCategory,
    /// A wrong step without a category.
    #[error("the answer names no error category for a wrong step")]
    NoCategory,
    /// A right step with one.
    #[error("the answer names an error category for a right step")]
    CategoryOfRight,
}

/// SPARE's error categories, which an annotator may name.
pub const ERROR_CATEGORIES: [&str; 8] =
    ["NUMERIC", "COMPREHENSION", "LOGIC", "REFERENCE", "MISSING", "UNIT", "CONTRADICTION", "OTHER"];

/// The JSON schema of an answer about `case`.
pub(super) fn schema(case: &Case) -> Value {
    let ids = |letter: char, count: usize, but: Option<usize>| {
        let names: Vec<String> = (0..count)
            .filter(|index| Some(*index) != but)
            .map(|index| format!("{letter}{}", index + 1))
            .collect();
        if names.is_empty() {
            return json!({"type": "array", "items": {"type": "string"}, "maxItems": 0});
        }
        json!({"type": "array", "items": {"type": "string", "enum": names}, "maxItems": names.len()})
    };
    let steps = case.solution.len();
    let entry = |step: usize| {
        json!({
            "type": "object",
            "properties": {
                "explanation": {"type": "string"},
                "context": ids('C', case.context.len(), None),
                "outputs": ids('O', steps, Some(step)),
                "references": ids('R', case.reference.len(), None),
                "errors": {"type": "array", "items": {"type": "string", "enum": ERROR_CATEGORIES}, "maxItems": 3},
                "label": {"type": "integer", "enum": [1, -1]},
            },
            "required": ["explanation", "context", "outputs", "references", "errors", "label"],
            "additionalProperties": false,
        })
    };
    // One named property per step: a list of so many entries, each with its own ids, is beyond what most servers know.
    let names: Vec<String> = (0..steps).map(id).collect();
    let properties: Map<String, Value> = names.iter().cloned().zip((0..steps).map(entry)).collect();
    json!({"type": "object", "properties": properties, "required": names, "additionalProperties": false})
}

/// A step's id, such as `O1`.
pub(super) fn id(step: usize) -> String {
    format!("O{}", step + 1)
}

#[derive(Deserialize)]
struct Entry {
    #[serde(default)]
    explanation: String,
    context: Vec<String>,
    outputs: Vec<String>,
    references: Vec<String>,
    #[serde(default)]
    errors: Vec<String>,
    label: i64,
}

/// Reads an answer: each step's mark and what it rests on. Text around the JSON is passed over; nothing else is forgiven.
pub(super) fn read(text: &str, case: &Case) -> Result<Vec<(Mark, Evidence)>, Unusable> {
    let mut answer = object(text).ok_or(Unusable::NotJson)?;
    let entries = (0..case.solution.len()).map(|step| {
        let entry = answer.remove(&id(step)).ok_or(Unusable::WrongSteps)?;
        let entry: Entry = serde_json::from_value(entry).map_err(|_| Unusable::WrongShape)?;
        entry.read(step, case)
    });
    let entries = entries.collect::<Result<_, _>>()?;
    if answer.is_empty() { Ok(entries) } else { Err(Unusable::WrongSteps) }
}

impl Entry {
    fn read(self, step: usize, case: &Case) -> Result<(Mark, Evidence), Unusable> {
        let steps = indices(&self.outputs, 'O', case.solution.len())?;
        if steps.contains(&step) {
            return Err(Unusable::UnknownId);
        }
        let errors: Vec<String> = self.errors.iter().map(|error| error.trim().to_uppercase()).collect();
        if errors.iter().any(|error| !ERROR_CATEGORIES.contains(&error.as_str())) {
            return Err(Unusable::UnknownCategory);
        }
        let mark = match (self.label, errors.is_empty()) {
            (1, true) => Mark::Correct,
            (-1, false) => Mark::Incorrect,
            (1, false) => return Err(Unusable::CategoryOfRight),
            (-1, true) => return Err(Unusable::NoCategory),
            _ => return Err(Unusable::WrongLabel),
        };
        let evidence = Evidence {
            explanation: self.explanation,
            context: indices(&self.context, 'C', case.context.len())?,
            steps,
            reference: indices(&self.references, 'R', case.reference.len())?,
            errors,
        };
        Ok((mark, evidence))
    }
}

/// 0-based indices of ids such as `R2`, each once.
fn indices(ids: &[String], letter: char, count: usize) -> Result<Vec<usize>, Unusable> {
    let mut found = Vec::with_capacity(ids.len());
    for id in ids {
        let number: Option<usize> = id.trim().strip_prefix(letter).and_then(|number| number.parse().ok());
        match number {
            Some(number) if (1..=count).contains(&number) => found.push(number - 1),
            _ => return Err(Unusable::UnknownId),
        }
    }
    found.sort_unstable();
    found.dedup();
    Ok(found)
}

/// The outermost JSON object in a text, such as one in a fence of Markdown.
fn object(text: &str) -> Option<Map<String, Value>> {
    let from = text.find('{')?;
    let mut read = serde_json::Deserializer::from_str(&text[from..]).into_iter();
    read.next()?.ok()
}
