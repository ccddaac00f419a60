//! Reads a command's input: records with progress and a policy for invalid ones, or text from standard input.

use std::collections::{BTreeMap, HashSet};
use std::io::{IsTerminal, Read as _};

use anyhow::{Context, Result, bail};
use gradus_core::{Problem, Record};
use gradus_data::files;
use gradus_data::files::Item;
use gradus_data::readers::Format;

use crate::arguments::dataset::{DatasetInput, DatasetOption, OnError};
use crate::exit::Usage;
use crate::terminal::printer;
use crate::terminal::progress::Progress;
use gradus_core::count::counted;

/// What was read, beside the records themselves.
#[derive(Debug, Default)]
pub(crate) struct InputTally {
    /// Records read.
    pub(crate) records: u64,
    /// Invalid records that were skipped.
    pub(crate) skipped: u64,
    /// Issues in the sources; see [`Item::issues`].
    pub(crate) issues: u64,
    /// Records by the format they were read as.
    pub(crate) formats: BTreeMap<&'static str, u64>,
}

/// Skipped records that are reported one by one.
const NAMED: u64 = 5;

/// Calls `each` for every record of `input`.
pub(crate) fn for_each(input: &DatasetInput, mut each: impl FnMut(Item) -> Result<()>) -> Result<InputTally> {
    read(&input.files.inputs, input.files.from, input.on_error, &mut each)
}

/// Calls `each` for every record of the datasets named with `--data`.
pub(crate) fn for_each_of(
    option: &DatasetOption,
    mut each: impl FnMut(Item) -> Result<()>,
) -> Result<InputTally> {
    read(&option.data, option.from, option.on_error, &mut each)
}

/// All records of `input`.
pub(crate) fn records(input: &DatasetInput) -> Result<(Vec<Record>, InputTally)> {
    let mut records = Vec::new();
    let tally = for_each(input, |item| {
        records.push(item.record);
        Ok(())
    })?;
    Ok((records, tally))
}

/// Leaves out problems that occur again with the same id and text.
pub(crate) fn distinct(problems: &mut Vec<Problem>) {
    let mut seen = HashSet::new();
    problems.retain(|problem| seen.insert((problem.id.clone(), problem.text.clone())));
}

/// Calls `each` for every record of `paths`.
pub(crate) fn read(
    paths: &[std::path::PathBuf],
    format: Option<Format>,
    on_error: OnError,
    each: &mut impl FnMut(Item) -> Result<()>,
) -> Result<InputTally> {
    let mut records = files::open(paths, format)?;
    let mut progress = Progress::new(records.progress().1, true);
    let mut tally = InputTally::default();
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
                bail!("{error} (use --on-error skip to skip such records)");
            }
            Err(error) => return Err(error.into()),
        }
        progress.at(records.progress().0, tally.records);
    }
    if tally.skipped > NAMED {
        printer::note(format!("skipped {} in total", counted(tally.skipped, "record")));
    }
    if tally.records == 0 && tally.skipped > 0 {
        bail!("no valid records: {} skipped", counted(tally.skipped, "record"));
    }
    Ok(tally)
}

/// All of standard input; refused at a terminal, where waiting would look like a hang.
pub(crate) fn standard_input(what: &str) -> Result<String> {
    if std::io::stdin().is_terminal() {
        bail!(Usage(format!("pass {what} as an argument or on standard input")));
    }
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text).context("cannot read standard input")?;
    Ok(text.trim_end_matches('\n').to_owned())
}
