//! One set of a recipe's data: its files, their format, and how much of them is read.

use std::path::PathBuf;

use gradus_core::Record;
use gradus_data::files;
use gradus_data::readers::Format;

use crate::{Error, Result};

/// The training or the evaluation set.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DataSource<'a> {
    /// Files or folders of shards.
    pub(crate) paths: &'a [PathBuf],
    /// The format's name. Default: detected from the first record.
    pub(super) format: Option<&'a str>,
    /// Read at most this many records.
    pub(crate) limit: Option<usize>,
    /// Whether this is the training set.
    pub(crate) training: bool,
}

impl DataSource<'_> {
    /// The format that the recipe names, if it names one.
    pub(super) fn format(&self) -> Result<Option<Format>> {
        let known = |name: &str| {
            Format::from_name(name).ok_or_else(|| {
                Error::Data(format!("`format` in [data] is `{name}`: see gradus data formats"))
            })
        };
        self.format.map(known).transpose()
    }

    /// All records; the first bad one is an error that says where.
    pub(crate) fn records(&self) -> Result<Vec<Record>> {
        let records = files::open(self.paths, self.format()?)?.take(self.limit.unwrap_or(usize::MAX));
        let records: Vec<Record> =
            records.map(|item| item.map(|item| item.record)).collect::<Result<_, _>>()?;
        if records.is_empty() {
            let names: Vec<String> = self.paths.iter().map(|path| path.display().to_string()).collect();
            return Err(Error::Data(format!("{} has no records", names.join(", "))));
        }
        Ok(records)
    }
}
