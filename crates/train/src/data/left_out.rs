//! Records that could not become examples, counted by reason.

use std::collections::BTreeMap;

use serde::Serialize;

/// Examples, and what could not be one.
pub(crate) type Examples<T> = (Vec<T>, LeftOut);

/// Counts of what was left out, by reason.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct LeftOut(BTreeMap<&'static str, u64>);

impl LeftOut {
    /// Counts one.
    pub(crate) fn add(&mut self, reason: &'static str) {
        self.add_several(reason, 1);
    }

    /// Counts several, or none.
    pub(super) fn add_several(&mut self, reason: &'static str, count: usize) {
        if count > 0 {
            *self.0.entry(reason).or_default() += count as u64;
        }
    }

    /// Reasons and counts.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.0.iter().map(|(reason, count)| (*reason, *count))
    }

    /// Adds another's counts.
    pub(crate) fn join(&mut self, other: &Self) {
        for (reason, count) in other.iter() {
            *self.0.entry(reason).or_default() += count;
        }
    }
}
