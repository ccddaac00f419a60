//! Reads records for a command: progress, and the policy for bad ones.

use std::collections::BTreeMap;

use anyhow::{Result, bail};
use gradus_data::files;
use gradus_data::files::Item;
use gradus_data::readers::Format;

use crate::args::{Input, OnError};
use crate::printer;
use crate::progress::Progress;

/// What was read, beside the records themselves.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// Records read.
    pub(crate) records: u64,
    /// Records left out because they could not be read.
    pub(crate) skipped: u64,
    /// Odd things the sources say; see [`Item::issues`].
    pub(crate) issues: u64,
    /// Records by the format they were read as.
    pub(crate) formats: BTreeMap<&'static str, u64>,
}

/// How many skipped records are named one by one.
const NAMED: u64 = 5;

/// Calls `each` for every record of `input`.
pub(crate) fn for_each(input: &Input, mut each: impl FnMut(Item) -> Result<()>) -> Result<Tally> {
    read(&input.inputs, input.from, input.on_error, &mut each)
}

/// Calls `each` for every record of `paths`.
pub(crate) fn read(
    paths: &[std::path::PathBuf],
    format: Option<Format>,
    on_error: OnError,
    each: &mut impl FnMut(Item) -> Result<()>,
) -> Result<Tally> {
    let mut records = files::open(paths, format)?;
    let mut progress = Progress::new(records.progress().1, true);
    let mut tally = Tally::default();
    while let Some(item) = records.next() {
        match item {
            Ok(item) => {
                tally.records += 1;
                tally.issues += item.issues.len() as u64;
                *tally.formats.entry(item.format.name()).or_default() += 1;
                each(item)?;
            }
            Err(error) if error.is_record() && on_error == OnError::Skip => {
                tally.skipped += 1;
                if tally.skipped <= NAMED {
                    printer::note(format!("skipped {error}"));
                }
            }
            Err(error) if error.is_record() => {
                bail!("{error} (--on-error skip leaves such records out)");
            }
            Err(error) => return Err(error.into()),
        }
        progress.at(records.progress().0, tally.records);
    }
    if tally.skipped > NAMED {
        printer::note(format!("skipped {} records in all", printer::count(tally.skipped)));
    }
    if tally.records == 0 && tally.skipped > 0 {
        bail!("nothing is left to work on: {} could not be read", printer::counted(tally.skipped, "record"));
    }
    Ok(tally)
}
