//! What a format has no place for, told by its own reader: the parts of a record that the written rows, read again, do
//! not give back. So no format declares what it can express, and every writer is counted the same way.
//!
//! Counted are parts, not values: a soft label that becomes a hard one is one soft label less. Ids and metadata, and
//! whose labels they are, are left out.

use serde_json::Value;

use super::Format;
use gradus_core::{Annotation, FirstError, Outcome, Record, Solution};

/// What a part is, and how often something has it.
type Part<T, Count> = (&'static str, fn(&T) -> Count);

/// Parts of a solution, and how many of each it has.
const OF_SOLUTION: [Part<Solution, usize>; 6] = [
    ("step labels", |solution| solution.annotations.iter().map(labels).max().unwrap_or(0)),
    ("soft labels", |solution| solution.annotations.iter().map(soft).max().unwrap_or(0)),
    ("further annotations of a solution", |solution| solution.annotations.len().saturating_sub(1)),
    ("step scores", |solution| solution.scores.values().map(Vec::len).sum()),
    ("outcomes of solutions", |solution| usize::from(solution.outcome != Outcome::Unknown)),
    ("names of generators", |solution| usize::from(solution.generator.is_some())),
];

/// Parts of a problem, and whether it has them.
const OF_PROBLEM: [Part<Record, bool>; 2] = [
    ("gold answers", |record| record.problem.answer.is_some()),
    ("reference solutions", |record| !record.problem.reference.is_empty()),
];

/// Where the context is neither a field nor in the question.
const CONTEXT: &str = "context passages";

/// The known labels; a first error alone is one.
fn labels(annotation: &Annotation) -> usize {
    let known = annotation.labels.iter().flatten().count();
    known.max(usize::from(annotation.first_error != FirstError::Unknown))
}

fn soft(annotation: &Annotation) -> usize {
    annotation.labels.iter().flatten().filter(|label| label.value.is_some()).count()
}

/// The parts of `record` that `rows` lack, by what they are. What is left out as a whole, a problem or all its solutions,
/// has been counted as such.
pub(super) fn parts(format: Format, record: &Record, rows: &[Value]) -> Vec<(&'static str, usize)> {
    if format == Format::Gradus || rows.is_empty() {
        return Vec::new();
    }
    let read = |row: &Value| Some(format.read(row.as_object()?.clone()).ok()?.record);
    let written: Vec<Record> = rows.iter().filter_map(read).collect();
    let mut lost = Vec::new();
    let solutions = |records: &[Record], count: fn(&Solution) -> usize| -> usize {
        records.iter().flat_map(|record| &record.solutions).map(count).sum()
    };
    if written.iter().any(|record| !record.solutions.is_empty()) {
        for (part, count) in OF_SOLUTION {
            let had = solutions(std::slice::from_ref(record), count);
            lost.push((part, had.saturating_sub(solutions(&written, count))));
        }
    }
    for (part, has) in OF_PROBLEM {
        lost.push((part, usize::from(has(record) && !written.iter().any(has))));
    }
    let questions: Vec<String> = written.iter().map(|record| record.problem.question()).collect();
    let is_lost = |passage: &&String| !questions.iter().any(|question| question.contains(passage.as_str()));
    lost.push((CONTEXT, record.problem.context.iter().filter(is_lost).count()));
    lost.retain(|(_, count)| *count > 0);
    lost
}
