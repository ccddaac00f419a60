//! What is wrong with one record, in one sentence with its field.

use std::fmt;

/// What is wrong with one record: the field and a sentence about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Path of the field inside the record, such as `candidates[3].steps`; empty for the record as a whole.
    pub field: String,
    /// What was expected, what was found, and what to do about it.
    pub message: String,
}

impl Fault {
    /// A fault in `field`.
    pub fn new(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { field: field.into(), message: message.into() }
    }

    /// The same fault seen from an enclosing field.
    #[must_use]
    pub fn within(mut self, outer: &str) -> Self {
        let separator = if self.field.is_empty() || self.field.starts_with('[') { "" } else { "." };
        self.field = format!("{outer}{separator}{}", self.field);
        self
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.field.is_empty() {
            f.write_str(&self.message)
        } else {
            write!(f, "field `{}`: {}", self.field, self.message)
        }
    }
}
