//! Reads a command's input: records with progress, a policy for invalid ones and solutions cut into steps where they are
//! needed, or text from standard input.

use std::collections::{BTreeMap, HashSet};
use std::io::{IsTerminal, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, bail};
use gradus_core::steps::{SplitConfig, Strategy, split};
use gradus_core::{JoinedPlace, Problem, Record, RecordJoin, Solution};
use gradus_data::files::{self, Item, ReadOptions};

use crate::arguments::dataset::{DatasetInput, DatasetOption, OnError};
use crate::exit::Usage;
use crate::terminal::printer;
use crate::terminal::progress::Progress;
use gradus_core::count::{counted, grouped};

/// What was read, beside the records themselves.
#[derive(Debug, Default)]
pub(crate) struct InputTally {
    /// Records read.
    pub(crate) records: u64,
    /// Invalid records that were skipped.
    pub(crate) skipped: u64,
    /// Issues in the sources; see [`Item::issues`].
    pub(crate) issues: u64,
    /// Solutions that were in an earlier file already, where records were joined.
    pub(crate) united: u64,
    /// Records by the format they were read as.
    pub(crate) formats: BTreeMap<&'static str, u64>,
}

/// Skipped records that are reported one by one.
const NAMED: u64 = 5;

/// What a command needs of its records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    /// Records as they are.
    Records,
    /// Records as they are, but solutions in steps: texts are cut on the way.
    StepsOfAny,
    /// At least one solution.
    Solutions,
    /// At least one solution, all of them in steps: texts are cut on the way.
    Steps,
}

/// Where records come from, and what is done with them on the way.
struct Source<'a> {
    paths: &'a [PathBuf],
    options: ReadOptions,
    on_error: OnError,
    steps: Option<Strategy>,
    need: Need,
}

/// Calls `each` for every record of `input`.
pub(crate) fn for_each(
    input: &DatasetInput,
    need: Need,
    mut each: impl FnMut(Item) -> Result<()>,
) -> Result<InputTally> {
    let DatasetInput { files, steps, on_error } = input;
    let (options, on_error, steps) = (files.options(), *on_error, *steps);
    read_source(Source { paths: &files.inputs, options, on_error, steps, need }, &mut each)
}

/// Calls `each` for every record of the datasets named with `--data`.
pub(crate) fn for_each_of(
    option: &DatasetOption,
    need: Need,
    mut each: impl FnMut(Item) -> Result<()>,
) -> Result<InputTally> {
    let DatasetOption { data, from, map, steps, on_error } = option;
    let options = ReadOptions { format: *from, map: map.clone(), ..ReadOptions::default() };
    let source = Source { paths: data, options, on_error: *on_error, steps: *steps, need };
    read_source(source, &mut each)
}

/// The records of several files, joined by problem.
#[derive(Default)]
pub(crate) struct JoinedFiles {
    join: RecordJoin,
    /// The file in which each record first came.
    pub(crate) paths: Vec<Arc<Path>>,
    file: Option<Arc<Path>>,
}

impl JoinedFiles {
    /// Adds a record, and says where its solutions are.
    pub(crate) fn add(&mut self, item: Item) -> Result<Vec<JoinedPlace>> {
        let path = item.place.path;
        if self.file.as_ref() != Some(&path) {
            self.join.begin_file();
            self.file = Some(path.clone());
        }
        let places = self.join.add(item.record).map_err(|fault| anyhow!("{}: {fault}", path.display()))?;
        self.paths.resize(self.join.records.len(), path);
        Ok(places)
    }

    /// The joined records so far.
    pub(crate) fn records(&self) -> &[Record] {
        &self.join.records
    }

    /// Solutions that were in an earlier file already.
    pub(crate) fn united(&self) -> usize {
        self.join.united
    }

    /// The joined records.
    pub(crate) fn into_records(self) -> Vec<Record> {
        self.join.records
    }
}

/// All records of `input`, joined by problem.
pub(crate) fn joined(input: &DatasetInput, need: Need) -> Result<(Vec<Record>, InputTally)> {
    let mut files = JoinedFiles::default();
    let mut tally = for_each(input, need, |item| files.add(item).map(drop))?;
    tally.united = files.united() as u64;
    Ok((files.into_records(), tally))
}

/// Leaves out problems that occur again with the same id and text.
pub(crate) fn distinct(problems: &mut Vec<Problem>) {
    let mut seen = HashSet::new();
    problems.retain(|problem| seen.insert((problem.id.clone(), problem.text.clone())));
}

/// Calls `each` for every record of `paths`, as it is.
pub(crate) fn read(
    paths: &[PathBuf],
    options: ReadOptions,
    on_error: OnError,
    each: &mut impl FnMut(Item) -> Result<()>,
) -> Result<InputTally> {
    read_source(Source { paths, options, on_error, steps: None, need: Need::Records }, each)
}

fn read_source(source: Source<'_>, each: &mut impl FnMut(Item) -> Result<()>) -> Result<InputTally> {
    let Source { paths, mut options, on_error, steps, need } = source;
    let solved = matches!(need, Need::Solutions | Need::Steps);
    options.prefer_solutions = need != Need::Records;
    let mut records = files::open_with(paths, options)?;
    for (copy, earlier) in records.leave_out_copies() {
        printer::note(format!("{}: the same file as {}, read once", copy.display(), earlier.display()));
    }
    let mut progress = Progress::new(records.progress().1, true);
    let mut tally = InputTally::default();
    let cuts = matches!(need, Need::Steps | Need::StepsOfAny) || steps.is_some();
    let mut cutter = cuts.then(|| Cutter::new(steps));
    let mut notes = HashSet::new();
    let mut solutions = 0;
    while let Some(item) = records.next() {
        match item {
            Ok(mut item) => {
                tally.records += 1;
                tally.issues += item.issues.len() as u64;
                *tally.formats.entry(item.format.name()).or_default() += 1;
                if let Some(note) = item.note.take()
                    && notes.insert(note.clone())
                {
                    printer::note(format!("{}: {note}", item.place.path.display()));
                }
                if let Some(cutter) = &mut cutter {
                    item.record.solutions.iter_mut().for_each(|solution| cutter.cut(solution));
                }
                let is_empty = |solution: &&Solution| solution.steps.is_empty() && solution.text.is_none();
                solutions += item.record.solutions.iter().filter(|solution| !is_empty(solution)).count();
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
    if solved && solutions == 0 {
        bail!(
            "no solutions in {} ({}): sample some with gradus sample, or name the field that holds them with --map \
             solution=FIELD",
            counted(tally.records, "record"),
            tally.formats.keys().copied().collect::<Vec<_>>().join(", "),
        );
    }
    if let Some(note) = cutter.and_then(|cutter| cutter.note()) {
        printer::note(note);
    }
    Ok(tally)
}

/// Cuts solutions that are text into steps, and counts how.
struct Cutter {
    config: SplitConfig,
    cut: BTreeMap<&'static str, u64>,
}

impl Cutter {
    fn new(strategy: Option<Strategy>) -> Self {
        let config = SplitConfig { strategy: strategy.unwrap_or_default(), ..SplitConfig::default() };
        Self { config, cut: BTreeMap::new() }
    }

    /// The text stays beside its steps, so that nothing is lost.
    fn cut(&mut self, solution: &mut Solution) {
        let Some(text) = solution.text.as_deref().filter(|_| solution.steps.is_empty()) else { return };
        let split = split(text, &self.config);
        if split.steps().len() > 0 {
            *self.cut.entry(split.strategy().name()).or_default() += 1;
            solution.steps = split.steps().map(str::to_owned).collect();
        }
    }

    fn note(&self) -> Option<String> {
        let total: u64 = self.cut.values().sum();
        let how: Vec<String> =
            self.cut.iter().map(|(name, count)| format!("{name} {}", grouped(*count))).collect();
        let solutions = counted(total, "solution");
        (total > 0).then(|| format!("{solutions} split into steps ({}); --steps chooses how", how.join(", ")))
    }
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
