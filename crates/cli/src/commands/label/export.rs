//! `gradus label export`: finished labels as a dataset. Works while the project is being labeled.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use gradus_core::count::{counted, grouped};
use gradus_data::files::{Sink, Target};
use gradus_label::{Combine, ExportFormat, Labeling};
use serde::Serialize;

use crate::arguments::JsonOption;
use crate::exit::Status;
use crate::terminal::paint;
use crate::terminal::printer::{self, Printer};

#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    /// Folder of the project
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
    /// Output format: gradus (an annotation per person), prm800k or trl (one label per step)
    #[arg(long, value_name = "FORMAT", default_value = "gradus")]
    to: ExportFormat,
    /// How labels of several people become one, for prm800k and trl: dawid-skene (the most probable first error) or
    /// majority
    #[arg(long, value_name = "RULE", default_value = "dawid-skene")]
    combine: Combine,
    /// Output file; the extension sets the file type (.json, .jsonl, .csv, .tsv or .parquet, optionally .gz or .zst); - writes
    /// JSONL to standard output
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    #[command(flatten)]
    print: JsonOption,
}

#[derive(Debug, Serialize)]
struct ExportSummary {
    rows: u64,
    /// Solutions with a finished label.
    labeled: usize,
    /// What is left out: solutions by reason, parts that the format has no place for by name.
    dropped: BTreeMap<&'static str, usize>,
    /// Solutions written up to their first error only.
    cut: usize,
}

pub(super) fn run(args: &ExportArgs) -> Result<Status> {
    let exported = Labeling::read(&args.folder)?.export(args.to, args.combine);
    let mut sink = Sink::create(Target::new(&args.output))?;
    for row in &exported.rows {
        sink.push(row)?;
    }
    let rows = sink.finish()?;
    let summary =
        ExportSummary { rows, labeled: exported.labeled, dropped: exported.dropped, cut: exported.cut };
    Printer::new(Some(&args.output)).summary(args.print.json, &summary, |printer, summary| {
        printer.line(format!(
            "{} in {} {}",
            paint::bold(&counted(summary.labeled, "labeled solution")),
            counted(summary.rows, "row"),
            printer::written_to(&args.output)
        ))?;
        for (reason, count) in &summary.dropped {
            printer.line(format!("{} omitted: {reason}", grouped(*count)))?;
        }
        printer.counts(&[(summary.cut as u64, "solution", "truncated after the first error")])
    })?;
    Ok(Status::Done)
}
