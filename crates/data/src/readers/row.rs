//! Builds one upstream record: known fields in the format's own order, then what came along as metadata.

use serde_json::Value;

use super::Written;
use gradus_core::{Annotation, FirstError, Metadata, Problem, Record, Solution, StepLabel, id};

/// Begins the metadata keys under which a reader notes for its writer how the source put things.
pub(crate) const NOTE: &str = "gradus:";

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
    /// another format knows means nothing here. A reader's notes to its writer, [`NOTE`], are no fields.
    pub(crate) fn with_metadata(self, metadata: &Metadata, problem: &Problem, format: &str) -> Self {
        self.with_metadata_except(metadata, problem, format, &[])
    }

    /// The same, without some fields.
    pub(crate) fn with_metadata_except(
        mut self,
        metadata: &Metadata,
        problem: &Problem,
        format: &str,
        except: &[&str],
    ) -> Self {
        if problem.source == format {
            let kept =
                metadata.iter().filter(|(key, _)| !key.starts_with(NOTE) && !except.contains(&key.as_str()));
            self.0.extend(kept.map(|(key, value)| (key.clone(), value.clone())));
        }
        self
    }

    /// Sets `key` to the problem's id. A content hash that stands for the id its source did not give is left out.
    pub(crate) fn with_problem_id(self, key: &str, problem: &Problem, format: &str) -> Self {
        let ours = problem.source == format && problem.id == id::problem(&problem.text);
        if ours { self } else { self.with(key, problem.id.as_str()) }
    }

    /// Sets `key` to the solution's id, likewise.
    pub(crate) fn with_solution_id(
        self,
        key: &str,
        solution: &Solution,
        problem: &Problem,
        format: &str,
    ) -> Self {
        let hash = id::solution(&problem.id, solution.generator.as_deref(), &solution.steps);
        let ours = problem.source == format && solution.id == hash;
        if ours { self } else { self.with(key, solution.id.as_str()) }
    }

    /// True when `key` is set.
    pub(crate) fn contains(&self, key: &str) -> bool {
        self.0.contains_key(key)
    }

    /// The finished record.
    pub(crate) fn done(self) -> Value {
        Value::Object(self.0)
    }
}

/// Steps with a label for each of them, for formats that know no missing label.
pub(crate) struct Labeled<'a> {
    pub(crate) steps: &'a [String],
    pub(crate) labels: Vec<&'a StepLabel>,
}

/// The longest labelled prefix of a solution under its most trusted annotation; notes in `written` what was left out.
pub(crate) fn labeled_prefix<'a>(solution: &'a Solution, written: &mut Written) -> Option<Labeled<'a>> {
    let Some(Annotation { labels, .. }) = solution.most_trusted() else {
        written.dropped.push("no step labels");
        return None;
    };
    let labels: Vec<_> = labels.iter().map_while(Option::as_ref).collect();
    if labels.is_empty() && !solution.steps.is_empty() {
        written.dropped.push("the first step has no label");
        return None;
    }
    written.cut += usize::from(labels.len() < solution.steps.len());
    Some(Labeled { steps: &solution.steps[..labels.len()], labels })
}

/// The place of the first error under the most trusted annotation: `Some(None)` is no error. An unknown place is noted in
/// `written`.
pub(crate) fn known_first_error(solution: &Solution, written: &mut Written) -> Option<Option<usize>> {
    match solution.most_trusted().map(|annotation| annotation.first_error) {
        Some(FirstError::At(index)) => Some(Some(index)),
        Some(FirstError::None) => Some(None),
        Some(FirstError::Unknown) | None => {
            written.dropped.push("the first error is unknown");
            None
        }
    }
}

/// What a format of problems alone writes: at most one row, and a note for every solution it has no place for.
pub(crate) fn problem_row(record: &Record, row: Result<Row, &'static str>) -> Written {
    let mut written = Written::default();
    match row {
        Ok(row) => written.rows.push(row.done()),
        Err(reason) => written.dropped.push(reason),
    }
    written.dropped.extend(record.solutions.iter().map(|_| "the format has no place for solutions"));
    written
}
