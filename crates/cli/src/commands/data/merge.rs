//! `gradus data merge`: files about the same problems as one, with every solution and all that is said about it.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args;
use gradus_data::files::{Sink, Target};
use serde::Serialize;

use crate::arguments::JsonOption;
use crate::arguments::dataset::DatasetInput;
use crate::exit::Status;
use crate::input::{self, JoinedFiles, Need};
use crate::terminal::paint;
use crate::terminal::printer::{self, Printer};
use gradus_core::count::{counted, grouped};

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  gradus data merge qwen.jsonl llama.jsonl -o solutions.jsonl\n  \
gradus data merge mc.jsonl judged.jsonl scored.jsonl -o all.jsonl\n\n\
Problems are joined by id, solutions of different files by id: their annotations and scores are united.")]
pub(crate) struct MergeArgs {
    #[command(flatten)]
    input: DatasetInput,
    /// Output file (Gradus format)
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    #[command(flatten)]
    print: JsonOption,
}

#[derive(Debug, Default, Serialize)]
struct MergeSummary {
    problems: usize,
    solutions: usize,
    /// Solutions that were in several files.
    united: usize,
    /// Solutions by generator; those without one under `""`.
    generators: BTreeMap<String, usize>,
    /// Solutions by who labeled them.
    annotators: BTreeMap<String, usize>,
    /// Solutions by the name of their scores.
    scores: BTreeMap<String, usize>,
    /// Invalid records.
    skipped: u64,
}

pub(super) fn run(args: &MergeArgs) -> Result<Status> {
    let mut joined = JoinedFiles::default();
    let tally = input::for_each(&args.input, Need::Records, |item| joined.add(item).map(drop))?;
    refuse_shared_ids(&joined)?;
    let mut summary =
        MergeSummary { united: joined.united(), skipped: tally.skipped, ..MergeSummary::default() };
    let mut sink = Sink::create(Target::new(&args.output))?;
    for record in joined.into_records() {
        summary.problems += 1;
        for solution in &record.solutions {
            summary.solutions += 1;
            *summary.generators.entry(solution.generator.clone().unwrap_or_default()).or_default() += 1;
            for annotation in &solution.annotations {
                *summary.annotators.entry(annotation.source_name()).or_default() += 1;
            }
            for name in solution.scores.keys() {
                *summary.scores.entry(name.clone()).or_default() += 1;
            }
        }
        sink.push(&record)?;
    }
    sink.finish()?;
    Printer::new(Some(&args.output))
        .summary(args.print.json, &summary, |printer, summary| show(printer, summary, args))?;
    Ok(Status::Done)
}

/// Problems of two files with one id are not of one dataset. Within a file they are as its source has them.
fn refuse_shared_ids(joined: &JoinedFiles) -> Result<()> {
    let mut files = HashMap::new();
    for (record, path) in joined.records().iter().zip(&joined.paths) {
        if let Some(first) = files.insert(&record.problem.id, path).filter(|first| *first != path) {
            bail!(
                "{}: problem {} has another text or gold answer in {}: merge files of one dataset only",
                path.display(),
                record.problem.id,
                first.display()
            );
        }
    }
    Ok(())
}

fn show(printer: Printer, summary: &MergeSummary, args: &MergeArgs) -> Result<()> {
    printer.line(format!(
        "{} with {} {}",
        paint::bold(&counted(summary.problems, "problem")),
        counted(summary.solutions, "solution"),
        printer::written_to(&args.output)
    ))?;
    printer.counts(&[
        (summary.united as u64, "solution", "in several files, united"),
        (summary.skipped, "record", "skipped (invalid)"),
    ])?;
    let named = |name: &String| if name.is_empty() { "(unnamed)".to_owned() } else { name.clone() };
    let rows = |kind: &str, counts: &BTreeMap<String, usize>| -> Vec<Vec<String>> {
        counts.iter().map(|(name, count)| vec![kind.to_owned(), named(name), grouped(*count)]).collect()
    };
    let rows = [
        rows("generator", &summary.generators),
        rows("labels", &summary.annotators),
        rows("scores", &summary.scores),
    ]
    .concat();
    if rows.is_empty() { Ok(()) } else { printer.table(&["from", "name", "solutions"], &rows) }
}
