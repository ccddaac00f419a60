//! Multiple choice: the choices stand below the question, and the right one is known by its letter and its text.
//!
//! ```json
//! {"question": "What is 2 + 3?", "choices": ["4", "5"], "answer": 1}
//! {"question": "What is 2 + 3?", "choices": {"text": ["4", "5"], "label": ["A", "B"]}, "answerKey": "B"}
//! ```
//!
//! The first is MMLU's form, where the answer counts from 0, the second ARC's. The list is also called `options`.

use serde_json::Value;

use super::fields::strings_of;
use gradus_core::{Fault, Metadata};

/// Names of the list.
pub(crate) const NAMES: [&str; 2] = ["choices", "options"];

/// The choices of one question.
pub(super) struct Choices {
    letters: Vec<String>,
    texts: Vec<String>,
}

/// The right choice.
pub(super) struct Gold {
    pub(super) letter: String,
    pub(super) text: String,
}

/// The choices among a row's fields, left where they are; none without a list of texts.
pub(super) fn find(row: &Metadata) -> Result<Option<Choices>, Fault> {
    let Some((name, value)) = NAMES.iter().find_map(|name| Some((*name, row.get(*name)?))) else {
        return Ok(None);
    };
    let (texts, letters) = match value {
        Value::Array(texts) => (texts, None),
        Value::Object(lists) => match (lists.get("text"), lists.get("label")) {
            (Some(Value::Array(texts)), letters) => (texts, letters),
            _ => return Ok(None),
        },
        _ => return Ok(None),
    };
    if texts.is_empty() || texts.len() > 26 || !texts.iter().all(|text| text.is_string() || text.is_number())
    {
        return Ok(None);
    }
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let texts: Vec<String> = texts.iter().map(text).collect();
    let letters = match letters {
        Some(Value::Array(letters)) => strings_of(letters.clone(), name)?,
        _ => ('A'..='Z').take(texts.len()).map(String::from).collect(),
    };
    if letters.len() != texts.len() {
        let message = format!("{} labels for {} choices", letters.len(), texts.len());
        return Err(Fault::new(name, message));
    }
    Ok(Some(Choices { letters, texts }))
}

/// The same, with the field taken out of the row.
pub(super) fn take(row: &mut Metadata) -> Result<Option<Choices>, Fault> {
    let found = find(row)?;
    if found.is_some() {
        NAMES.iter().find_map(|name| row.shift_remove(*name));
    }
    Ok(found)
}

impl Choices {
    /// The choices as they follow the question: a line for each. A text that has its letter already keeps it.
    pub(super) fn text(&self) -> String {
        let line = |(letter, text): (&String, &String)| {
            let has_letter = [".", ")", ":"].iter().any(|mark| text.starts_with(&format!("{letter}{mark}")));
            if has_letter { format!("\n{text}") } else { format!("\n{letter}. {text}") }
        };
        self.letters.iter().zip(&self.texts).map(line).collect()
    }

    /// The choice that an answer names: a number by its place counted from 0, a text by its letter or its own text.
    pub(super) fn gold(&self, answer: &Value) -> Option<Gold> {
        let index = match answer {
            Value::Number(number) => usize::try_from(number.as_u64()?).ok()?,
            Value::String(answer) => {
                let letter = answer.trim().trim_matches(['(', ')', '.']);
                let by_letter = self.letters.iter().position(|known| known == letter);
                let by_text = || self.texts.iter().position(|text| text.trim() == answer.trim());
                by_letter.or_else(by_text)?
            }
            _ => return None,
        };
        Some(Gold { letter: self.letters.get(index)?.clone(), text: self.texts.get(index)?.clone() })
    }
}
