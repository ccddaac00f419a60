//! `gradus data convert`: any format and container to any other.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use gradus_core::Record;
use gradus_data::files::{Sink, Target};
use gradus_data::once::LabelsOnce;
use gradus_data::paragraphs::merge_steps;
use gradus_data::readers::Format;
use serde::Serialize;

use crate::arguments::JsonOption;
use crate::arguments::dataset::{DatasetInput, format_name};
use crate::exit::Status;
use crate::input::{self, Need};
use crate::terminal::printer::{self, Printer};
use gradus_core::count::{counted, grouped};

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  gradus data convert gsm8k.parquet -o gsm8k.jsonl\n  \
gradus data convert prefixes.jsonl.gz --merge-steps --labels-once -o paragraphs.jsonl.zst")]
pub(crate) struct ConvertArgs {
    #[command(flatten)]
    input: DatasetInput,
    /// Output file; the extension sets the file type (.json, .jsonl, .csv, .tsv or .parquet, optionally .gz or .zst); - writes
    /// JSONL to standard output
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Output format
    #[arg(long, value_name = "FORMAT", default_value = "gradus", value_parser = format_name)]
    to: Format,
    /// Join adjacent steps at random into paragraphs, as language models write them, with their labels; scores of steps are
    /// left out
    #[arg(long)]
    merge_steps: bool,
    /// Keep each label once: of solutions of a problem that begin with the same steps, only the first has labels for them
    #[arg(long)]
    labels_once: bool,
    /// Random seed of --merge-steps
    #[arg(long, default_value_t = 0, requires = "merge_steps")]
    seed: u64,
    #[command(flatten)]
    print: JsonOption,
}

#[derive(Debug, Default, Serialize)]
struct ConvertSummary {
    read: u64,
    written: u64,
    /// Invalid records.
    skipped: u64,
    /// What the format cannot express: solutions or problems by reason, parts of them by name.
    dropped: BTreeMap<&'static str, u64>,
    /// Solutions written up to their first error only.
    cut: u64,
    issues: u64,
    /// With `--merge-steps`: steps that were joined to the one before them.
    #[serde(skip_serializing_if = "Option::is_none")]
    merged: Option<u64>,
    /// With `--labels-once`: labels that an earlier solution has for the same steps.
    #[serde(skip_serializing_if = "Option::is_none")]
    repeated_labels: Option<u64>,
    formats: BTreeMap<&'static str, u64>,
}

pub(super) fn run(args: &ConvertArgs) -> Result<Status> {
    let mut sink = Sink::create(Target::new(&args.output))?;
    let mut report = ConvertSummary::default();
    let mut once = args.labels_once.then(LabelsOnce::default);
    report.merged = args.merge_steps.then_some(0);
    report.repeated_labels = args.labels_once.then_some(0);
    let tally = input::for_each(&args.input, Need::Records, |mut item| {
        let Record { problem, solutions, .. } = &mut item.record;
        for solution in solutions {
            if let Some(merged) = &mut report.merged {
                *merged += merge_steps(problem, solution, args.seed) as u64;
            }
            if let (Some(once), Some(repeated)) = (&mut once, &mut report.repeated_labels) {
                *repeated += once.keep(solution) as u64;
            }
        }
        if args.to == Format::Gradus {
            // The Gradus format is the record itself: rows are not needed.
            sink.push(&item.record)?;
            return Ok(());
        }
        let written = args.to.write(&item.record);
        for row in &written.rows {
            sink.push(row)?;
        }
        if written.rows.is_empty() && written.dropped.is_empty() {
            *report.dropped.entry("the record has no solution").or_default() += 1;
        }
        for (what, count) in written.omitted() {
            *report.dropped.entry(what).or_default() += count as u64;
        }
        report.cut += written.cut as u64;
        Ok(())
    })?;
    report.written = sink.finish()?;
    report.read = tally.records;
    report.skipped = tally.skipped;
    report.issues = tally.issues;
    report.formats = tally.formats;
    let printer = Printer::new(Some(&args.output));
    if args.print.json {
        printer.json(&report)?;
    } else {
        printer.line(summary(&report, args))?;
    }
    Ok(Status::Done)
}

fn summary(report: &ConvertSummary, args: &ConvertArgs) -> String {
    let formats = report.formats.keys().copied().collect::<Vec<_>>().join(", ");
    let mut text = format!(
        "{} ({formats}) → {} ({}) {}",
        counted(report.read, "record"),
        counted(report.written, "row"),
        args.to.name(),
        printer::written_to(&args.output)
    );
    for (reason, count) in &report.dropped {
        text += &format!("\n{} omitted: {reason}", grouped(*count));
    }
    if report.cut > 0 {
        text += &format!(
            "\n{} truncated after the first error: {} requires a label for every step",
            counted(report.cut, "solution"),
            args.to.name()
        );
    }
    if let Some(merged) = report.merged {
        text += &format!("\n{} joined to the one before", counted(merged, "step"));
    }
    if let Some(repeated) = report.repeated_labels {
        text += &format!("\n{} of an earlier solution, omitted", counted(repeated, "label"));
    }
    if report.skipped > 0 {
        text += &format!("\n{} skipped (invalid)", counted(report.skipped, "record"));
    }
    if report.issues > 0 {
        text += &format!("\n{} in the source (see `gradus data check`)", counted(report.issues, "issue"));
    }
    text
}
