//! `gradus data split`: splits by problem, stable under reordering and growth of the input.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;
use gradus_data::files::{Sink, Target};
use gradus_data::split;
use gradus_remote::Address;
use serde::Serialize;

use crate::arguments::JsonOption;
use crate::arguments::dataset::DatasetInput;
use crate::exit::{Status, Usage};
use crate::input::{self, Need};
use crate::terminal::printer::Printer;
use gradus_core::count::{grouped, percent_of};

#[derive(Debug, Args)]
pub(crate) struct SplitArgs {
    #[command(flatten)]
    input: DatasetInput,
    /// Names and shares of the splits, adding up to 1
    #[arg(
        long,
        alias = "parts",
        value_name = "NAME=SHARE,…",
        default_value = "train=0.9,dev=0.05,test=0.05"
    )]
    splits: String,
    /// Output folder; each split is written to NAME.jsonl
    #[arg(short, long, value_name = "FOLDER")]
    output: PathBuf,
    /// Random seed
    #[arg(long, default_value_t = 0)]
    seed: u64,
    #[command(flatten)]
    print: JsonOption,
}

#[derive(Debug, Serialize)]
struct SplitSummary {
    parts: Vec<Part>,
    /// Invalid records.
    skipped: u64,
}

#[derive(Debug, Serialize)]
struct Part {
    name: String,
    share: f64,
    records: u64,
    solutions: u64,
    file: String,
}

pub(super) fn run(args: &SplitArgs) -> Result<Status> {
    let shares = parse(&args.splits)?;
    let is_new = !args.output.exists();
    if Address::of(&args.output).is_none() {
        std::fs::create_dir_all(&args.output)
            .with_context(|| format!("cannot create the folder {}", args.output.display()))?;
    }
    let report = write(args, &shares).inspect_err(|_| {
        // Nothing was written; a folder that holds other files by now is left alone.
        if is_new {
            let _ = std::fs::remove_dir(&args.output);
        }
    })?;
    Printer::new(None).summary(args.print.json, &report, print)?;
    Ok(Status::Done)
}

fn write(args: &SplitArgs, shares: &[(String, f64)]) -> Result<SplitSummary> {
    let mut sinks = Vec::new();
    let mut parts = Vec::new();
    for (name, share) in shares {
        let path = args.output.join(format!("{name}.jsonl"));
        let file = path.display().to_string();
        parts.push(Part { name: name.clone(), share: *share, records: 0, solutions: 0, file });
        sinks.push(Sink::create(Target::new(&path))?);
    }
    let tally = input::for_each(&args.input, Need::Records, |item| {
        let part = split::part_of(&item.record.problem, shares, args.seed);
        parts[part].records += 1;
        parts[part].solutions += item.record.solutions.len() as u64;
        sinks[part].push(&item.record)?;
        Ok(())
    })?;
    for sink in sinks {
        sink.finish()?;
    }
    Ok(SplitSummary { parts, skipped: tally.skipped })
}

fn print(printer: Printer, report: &SplitSummary) -> Result<()> {
    let total: u64 = report.parts.iter().map(|part| part.records).sum();
    let rows: Vec<_> = report
        .parts
        .iter()
        .map(|part| {
            let share = percent_of(part.records, total);
            let (name, file) = (part.name.clone(), part.file.clone());
            vec![name, grouped(part.records), share, grouped(part.solutions), file]
        })
        .collect();
    printer.table(&["split", "records", "share", "solutions", "file"], &rows)?;
    let empty: Vec<&str> =
        report.parts.iter().filter(|part| part.records == 0).map(|part| part.name.as_str()).collect();
    if total > 0 && !empty.is_empty() {
        printer.line(format!(
            "no records for {}: what one split put together stays together in the next with the same --seed; try another",
            empty.join(", ")
        ))?;
    }
    printer.skipped(report.skipped)?;
    Ok(())
}

fn parse(parts: &str) -> Result<Vec<(String, f64)>, Usage> {
    let wrong = |message: String| Usage(format!("--splits {parts}: {message}"));
    let mut shares: Vec<(String, f64)> = Vec::new();
    for part in parts.split(',') {
        let Some((name, share)) = part.split_once('=') else {
            return Err(wrong(format!("`{part}` is not NAME=SHARE, such as train=0.9")));
        };
        let name = name.trim();
        if name.is_empty() || name.contains(['/', '\\']) || name.starts_with('.') {
            return Err(wrong(format!("`{name}` is not a valid file name")));
        }
        let share =
            share.trim().parse().map_err(|_| wrong(format!("`{share}` is not a number from 0 to 1")))?;
        shares.push((name.to_owned(), share));
    }
    split::check(&shares).map_err(|fault| match fault.field.strip_prefix("shares.") {
        Some(name) => wrong(format!("`{name}` {}", fault.message)),
        None => wrong(fault.message),
    })?;
    Ok(shares)
}
