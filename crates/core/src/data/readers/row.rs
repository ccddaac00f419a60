//! Builds one upstream record: known fields in the format's own order, then what came along as metadata.

use serde_json::Value;

use super::Written;
use crate::data::{Annotation, Metadata, Problem, Solution, StepLabel};

/// An upstream record being built.
#[derive(Debug, Default)]
pub(crate) struct Row(Metadata);

impl Row {
    /// Sets `key`.
    pub(crate) fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.0.insert(key.to_owned(), value.into());
        self
    }

    /// Sets `key` when there is a value.
    pub(crate) fn with_some(self, key: &str, value: Option<impl Into<Value>>) -> Self {
        match value {
            Some(value) => self.with(key, value),
            None => self,
        }
    }

    /// Adds the fields of `metadata`, over what is there, when the record came from `format`: a field that only
    /// another format knows means nothing here.
    pub(crate) fn with_metadata(mut self, metadata: &Metadata, problem: &Problem, format: &str) -> Self {
        if problem.source == format {
            self.0.extend(metadata.iter().map(|(key, value)| (key.clone(), value.clone())));
        }
        self
    }

    /// The finished record.
    pub(crate) fn done(self) -> Value {
        Value::Object(self.0)
    }
}

/// Steps with a label for each of them, for formats that know no missing label.
pub(crate) struct Labelled<'a> {
    pub(crate) steps: &'a [String],
    pub(crate) labels: Vec<&'a StepLabel>,
}

/// The longest labelled prefix of a solution under its first annotation; notes in `written` what was left out.
pub(crate) fn labelled_prefix<'a>(solution: &'a Solution, written: &mut Written) -> Option<Labelled<'a>> {
    let Some(Annotation { labels, .. }) = solution.annotations.first() else {
        written.dropped.push("no step labels");
        return None;
    };
    let labels: Vec<_> = labels.iter().map_while(Option::as_ref).collect();
    if labels.is_empty() && !solution.steps.is_empty() {
        written.dropped.push("the first step has no label");
        return None;
    }
    written.cut += usize::from(labels.len() < solution.steps.len());
    Some(Labelled { steps: &solution.steps[..labels.len()], labels })
}
