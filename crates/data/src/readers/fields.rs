//! Takes a dataset's fields out of a JSON object one by one, with faults that name the field.
//!
//! What nobody took stays behind and becomes metadata, so an unknown field is kept, not lost. A `null` counts as
//! absent and stays behind too.

use serde_json::Value;

use super::row::NOTE;
use gradus_core::{Fault, Metadata};

/// The fields of one record that have not been taken yet.
#[derive(Debug, Clone)]
pub(crate) struct Fields(Metadata);

type Found<T> = Result<T, Fault>;

impl Fields {
    /// The fields of a record. A name of ours among them is refused: it would mislead the writer, and be lost.
    pub(crate) fn new(map: Metadata) -> Found<Self> {
        match map.keys().find(|key| key.starts_with(NOTE)) {
            Some(key) => Err(Fault::new(key, format!("names that begin with `{NOTE}` are ours: rename it"))),
            None => Ok(Self(map)),
        }
    }

    /// The fields of a nested object; `path` names it in faults.
    pub(crate) fn nested(value: Value, path: &str) -> Found<Self> {
        match value {
            Value::Object(map) => Self::new(map).map_err(|fault| fault.within(path)),
            other => Err(Fault::new(path, expected("an object", &other))),
        }
    }

    /// Whatever was not taken.
    pub(crate) fn rest(self) -> Metadata {
        self.0
    }

    /// All of them.
    pub(crate) fn all(&self) -> &Metadata {
        &self.0
    }

    /// The value of `key` without taking it; `None` for null.
    pub(crate) fn peek(&self, key: &str) -> Option<&Value> {
        self.0.get(key).filter(|value| !value.is_null())
    }

    /// Takes a value of any type; `None` when absent or null.
    pub(crate) fn value(&mut self, key: &str) -> Option<Value> {
        self.peek(key)?;
        self.0.shift_remove(key)
    }

    /// Takes a value of any type, a null too; `None` only when absent.
    pub(crate) fn raw(&mut self, key: &str) -> Option<Value> {
        self.0.shift_remove(key)
    }

    /// Puts back a value that the writer would not spell as the source did.
    pub(crate) fn keep(&mut self, key: &str, value: impl Into<Value>) {
        self.0.insert(key.to_owned(), value.into());
    }

    /// Moves those of `keys` that are there into metadata of their own.
    pub(crate) fn only(&mut self, keys: &[&str]) -> Metadata {
        keys.iter().filter_map(|&key| Some((key.to_owned(), self.raw(key)?))).collect()
    }

    fn required<T>(&mut self, key: &str, found: Option<T>, what: &str) -> Found<T> {
        found.ok_or_else(|| match self.0.contains_key(key) {
            true => Fault::new(key, format!("is null: expected {what}")),
            false => Fault::new(key, format!("is missing: expected {what}")),
        })
    }

    /// Takes a string.
    pub(crate) fn string(&mut self, key: &str) -> Found<String> {
        let found = self.opt_string(key)?;
        self.required(key, found, "a string")
    }

    /// Takes a string, if there is one.
    pub(crate) fn opt_string(&mut self, key: &str) -> Found<Option<String>> {
        match self.value(key) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(Fault::new(key, expected("a string", &other))),
        }
    }

    /// Takes a list of strings.
    pub(crate) fn strings(&mut self, key: &str) -> Found<Vec<String>> {
        let list = self.list(key)?;
        strings_of(list, key)
    }

    /// Takes a list of strings, if there is one. An empty one stays behind, to be told from an absent one later.
    pub(crate) fn some_strings(&mut self, key: &str) -> Found<Vec<String>> {
        match self.peek(key) {
            None => Ok(Vec::new()),
            Some(Value::Array(items)) if items.is_empty() => Ok(Vec::new()),
            Some(_) => self.strings(key),
        }
    }

    /// Takes a list.
    pub(crate) fn list(&mut self, key: &str) -> Found<Vec<Value>> {
        let found = self.opt_list(key)?;
        self.required(key, found, "a list")
    }

    /// Takes a list, if there is one.
    pub(crate) fn opt_list(&mut self, key: &str) -> Found<Option<Vec<Value>>> {
        match self.value(key) {
            None => Ok(None),
            Some(Value::Array(items)) => Ok(Some(items)),
            Some(other) => Err(Fault::new(key, expected("a list", &other))),
        }
    }

    /// Takes a boolean.
    pub(crate) fn bool(&mut self, key: &str) -> Found<bool> {
        let found = self.opt_bool(key)?;
        self.required(key, found, "true or false")
    }

    /// Takes a boolean, if there is one.
    pub(crate) fn opt_bool(&mut self, key: &str) -> Found<Option<bool>> {
        match self.value(key) {
            None => Ok(None),
            Some(Value::Bool(value)) => Ok(Some(value)),
            Some(other) => Err(Fault::new(key, expected("true or false", &other))),
        }
    }

    /// Takes a whole number.
    pub(crate) fn int(&mut self, key: &str) -> Found<i64> {
        let found = self.opt_int(key)?;
        self.required(key, found, "a whole number")
    }

    /// Takes a whole number, if there is one.
    pub(crate) fn opt_int(&mut self, key: &str) -> Found<Option<i64>> {
        match self.value(key) {
            None => Ok(None),
            Some(value) => match value.as_i64() {
                Some(number) => Ok(Some(number)),
                None => Err(Fault::new(key, expected("a whole number", &value))),
            },
        }
    }

    /// A final answer that may be a string or a number. A string is taken; a number stays in the metadata, so that
    /// it can be written back as a number, and reads without a trailing `.0`.
    pub(crate) fn answer(&mut self, key: &str) -> Found<Option<String>> {
        match self.peek(key) {
            Some(Value::Number(number)) => {
                let text = number.to_string();
                Ok(Some(text.strip_suffix(".0").unwrap_or(&text).to_owned()))
            }
            _ => self.opt_string(key),
        }
    }

    /// An id that may be a string or a number. A string is taken; a number stays in the metadata, so that it can be
    /// written back as a number.
    pub(crate) fn id(&mut self, key: &str) -> Found<Option<String>> {
        match self.peek(key) {
            None => Ok(None),
            Some(Value::Number(number)) => Ok(Some(number.to_string())),
            Some(_) => self.opt_string(key),
        }
    }
}

/// The strings of a list.
pub(crate) fn strings_of(list: Vec<Value>, path: &str) -> Found<Vec<String>> {
    list.into_iter()
        .enumerate()
        .map(|(index, item)| match item {
            Value::String(text) => Ok(text),
            other => Err(Fault::new(format!("{path}[{index}]"), expected("a string", &other))),
        })
        .collect()
}

/// The numbers of a list.
pub(crate) fn numbers_of(list: &Value, path: &str) -> Found<Vec<f64>> {
    let Value::Array(items) = list else { return Err(Fault::new(path, expected("a list of numbers", list))) };
    items
        .iter()
        .enumerate()
        .map(|(index, item)| {
            item.as_f64().ok_or_else(|| Fault::new(format!("{path}[{index}]"), expected("a number", item)))
        })
        .collect()
}

/// `expected X, found Y`.
pub(crate) fn expected(what: &str, found: &Value) -> String {
    let found = match found {
        Value::Null => "null".to_owned(),
        Value::Bool(value) => format!("{value}"),
        Value::Number(number) => format!("the number {number}"),
        Value::String(text) => format!("the string {:?}", text.chars().take(40).collect::<String>()),
        Value::Array(items) => format!("a list of {}", items.len()),
        Value::Object(_) => "an object".to_owned(),
    };
    format!("expected {what}, found {found}")
}
