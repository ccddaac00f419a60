//! Dataset formats: a file for each, with one raw record at its top.
//!
//! A reader turns one upstream record into one [`Record`]; a writer turns a record back into upstream records.
//! Reading and then writing the same format gives back what the format can express. To add a format: write its
//! file, add it to [`Format`] and to the `match` in `Format::dataset`, and give `tests/formats.rs` records of it.

mod best_of_n;
mod fields;
mod gradus;
mod math_shepherd;
mod prm800k;
mod processbench;
mod row;
mod trl;

use serde_json::Value;

use super::{Metadata, Record};
use crate::error::Fault;
use fields::Fields;
use row::Row;

/// What a reader returns.
#[derive(Debug, Clone)]
pub(crate) struct Parsed {
    pub(crate) record: Record,
    /// What the source says that cannot be right; see [`super::files::Item::issues`].
    pub(crate) issues: Vec<Fault>,
}

impl From<Record> for Parsed {
    fn from(record: Record) -> Self {
        Self { record, issues: Vec::new() }
    }
}

/// What a writer returns: rows, and for every solution it had to leave out, why.
#[derive(Debug, Clone, Default)]
pub struct Written {
    /// Records of the format.
    pub rows: Vec<Value>,
    /// One reason for each solution or problem that the format cannot express.
    pub dropped: Vec<&'static str>,
    /// Solutions whose steps after the first error were left out, because the format wants a label for every step.
    pub cut: usize,
}

/// One dataset format: how to recognise, read and write it.
pub(crate) struct Dataset {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    /// True for a record of this format, judged by its fields alone.
    pub(crate) recognises: fn(&Metadata) -> bool,
    pub(crate) read: fn(Fields) -> Result<Parsed, Fault>,
    pub(crate) write: fn(&Record) -> Written,
}

/// The formats Gradus reads and writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[expect(missing_docs, reason = "each is described by `Format::about`")]
pub enum Format {
    Gradus,
    Trl,
    Prm800k,
    MathShepherd,
    ProcessBench,
    BestOfN,
}

impl Format {
    /// Every format, in the order in which they are tried on a record: the most specific first.
    pub const ALL: [Self; 6] =
        [Self::Gradus, Self::Trl, Self::Prm800k, Self::MathShepherd, Self::ProcessBench, Self::BestOfN];

    fn dataset(self) -> &'static Dataset {
        match self {
            Self::Gradus => &gradus::DATASET,
            Self::Trl => &trl::DATASET,
            Self::Prm800k => &prm800k::DATASET,
            Self::MathShepherd => &math_shepherd::DATASET,
            Self::ProcessBench => &processbench::DATASET,
            Self::BestOfN => &best_of_n::DATASET,
        }
    }

    /// The name used on the command line and as a record's source.
    pub fn name(self) -> &'static str {
        self.dataset().name
    }

    /// One line about the format.
    pub fn about(self) -> &'static str {
        self.dataset().about
    }

    /// The format of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.name() == name)
    }

    /// The format of a record, judged by its fields.
    pub fn detect(record: &Metadata) -> Option<Self> {
        Self::ALL.into_iter().find(|format| (format.dataset().recognises)(record))
    }

    /// Reads one upstream record.
    pub(crate) fn read(self, record: Metadata) -> Result<Parsed, Fault> {
        let parsed = (self.dataset().read)(Fields::new(record))?;
        parsed.record.validate()?;
        Ok(parsed)
    }

    /// Writes one record in this format.
    pub fn write(self, record: &Record) -> Written {
        (self.dataset().write)(record)
    }
}

/// True when `record` has all of `keys`.
fn has(record: &Metadata, keys: &[&str]) -> bool {
    keys.iter().all(|key| record.contains_key(*key))
}
