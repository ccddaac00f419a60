//! Samples of lm-evaluation-harness, which a log has once for each filter that looks for the answer.
//!
//! All samples under one filter come before those under the next, so they are kept until the file ends. A sample is read
//! once. Where filters disagree it is right if one of them found the right answer, and its record is that filter's.

use std::collections::{BTreeSet, HashMap};

use serde_json::Value;

use super::Item;
use crate::Result;
use gradus_core::Metadata;
use gradus_core::count::counted;

/// A row under a named filter.
pub(super) struct FilteredRow {
    filter: String,
    /// The hash of the sample's id and of what the model wrote.
    sample: blake3::Hash,
}

impl FilteredRow {
    /// None where the row is of another kind, or not filtered.
    pub(super) fn of(row: &Metadata) -> Option<Self> {
        let filter = row.get("filter").and_then(Value::as_str).filter(|filter| *filter != "none")?;
        let doc = row.get("doc").filter(|doc| doc.is_object())?;
        let id = row.get("doc_id").unwrap_or(doc);
        let written = row.get("resps").unwrap_or(&Value::Null);
        let sample = blake3::hash(format!("{id} {written}").as_bytes());
        Some(Self { filter: filter.to_owned(), sample })
    }
}

/// What has been read of a log with filters.
#[derive(Default)]
pub(super) struct FilteredSamples {
    items: Vec<Result<Item>>,
    /// Where the first filter's samples are: several where the model wrote the same again.
    places: HashMap<blake3::Hash, Vec<usize>>,
    filter: Option<String>,
    disagreements: BTreeSet<usize>,
}

impl FilteredSamples {
    pub(super) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Keeps what was read of a row; `row` is none for one that has no filter.
    pub(super) fn add(&mut self, row: Option<FilteredRow>, item: Result<Item>) {
        let Some(row) = row else { return self.items.push(item) };
        let first = self.filter.get_or_insert_with(|| row.filter.clone());
        if *first == row.filter {
            self.places.entry(row.sample).or_default().push(self.items.len());
            return self.items.push(item);
        }
        let Some(places) = self.places.get(&row.sample) else { return self.items.push(item) };
        for &place in places {
            let outcomes = (outcome(&self.items[place]), outcome(&item));
            if !matches!(outcomes, (Some(known), Some(found)) if known != found) {
                continue;
            }
            self.disagreements.insert(place);
            if let (Ok(known), Ok(found), Some(true)) = (&mut self.items[place], &item, outcomes.1) {
                known.record = found.record.clone();
            }
        }
    }

    /// The samples in the order of the file, the first of them with a note where filters disagree.
    pub(super) fn finish(mut self) -> std::vec::IntoIter<Result<Item>> {
        if !self.disagreements.is_empty()
            && let Some(first) = self.items.iter_mut().find_map(|item| item.as_mut().ok())
        {
            first.note = Some(format!(
                "the filters of {} disagree: it is right where one of them found the right answer",
                counted(self.disagreements.len(), "sample")
            ));
        }
        self.items.into_iter()
    }
}

/// Whether the only solution is right.
fn outcome(item: &Result<Item>) -> Option<bool> {
    match item.as_ref().ok()?.record.solutions.as_slice() {
        [only] => only.outcome.is_correct(),
        _ => None,
    }
}
