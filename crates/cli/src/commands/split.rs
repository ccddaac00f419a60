//! `gradus data split`: parts by problem, stable under reordering and growth of the input.

use anyhow::{Context, Result};
use gradus_data::files::{Sink, Target};
use gradus_data::split;
use serde::Serialize;

use super::{Status, Usage};
use crate::args::Split;
use crate::input;
use crate::printer::{self, Printer};

#[derive(Debug, Serialize)]
struct Report {
    parts: Vec<Part>,
    /// Records that could not be read.
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

pub(super) fn run(args: &Split) -> Result<Status> {
    let shares = parse(&args.parts)?;
    let is_new = !args.output.exists();
    std::fs::create_dir_all(&args.output)
        .with_context(|| format!("cannot make the folder {}", args.output.display()))?;
    let report = write(args, &shares).inspect_err(|_| {
        // Nothing was written; a folder that holds other files by now is left alone.
        if is_new {
            let _ = std::fs::remove_dir(&args.output);
        }
    })?;
    let printer = Printer::new(None);
    if args.print.json {
        printer.json(&report)?;
    } else {
        print(printer, report)?;
    }
    Ok(Status::Done)
}

fn write(args: &Split, shares: &[(String, f64)]) -> Result<Report> {
    let mut sinks = Vec::new();
    let mut parts = Vec::new();
    for (name, share) in shares {
        let path = args.output.join(format!("{name}.jsonl"));
        let file = path.display().to_string();
        parts.push(Part { name: name.clone(), share: *share, records: 0, solutions: 0, file });
        sinks.push(Sink::create(Target::File(path))?);
    }
    let tally = input::for_each(&args.input, |item| {
        let part = split::part_of(&item.record.problem, shares, args.seed);
        parts[part].records += 1;
        parts[part].solutions += item.record.solutions.len() as u64;
        sinks[part].push(&item.record)?;
        Ok(())
    })?;
    for sink in sinks {
        sink.finish()?;
    }
    Ok(Report { parts, skipped: tally.skipped })
}

fn print(printer: Printer, report: Report) -> Result<()> {
    let total: u64 = report.parts.iter().map(|part| part.records).sum();
    let rows: Vec<_> = report
        .parts
        .into_iter()
        .map(|part| {
            let share = printer::percent(part.records, total);
            vec![part.name, printer::count(part.records), share, printer::count(part.solutions), part.file]
        })
        .collect();
    printer.table(&["part", "records", "share", "solutions", "file"], &rows)?;
    if report.skipped > 0 {
        printer.line(format!("{} skipped: could not be read", printer::counted(report.skipped, "record")))?;
    }
    Ok(())
}

fn parse(parts: &str) -> Result<Vec<(String, f64)>, Usage> {
    let wrong = |message: String| Usage(format!("--parts {parts}: {message}"));
    let mut shares: Vec<(String, f64)> = Vec::new();
    for part in parts.split(',') {
        let Some((name, share)) = part.split_once('=') else {
            return Err(wrong(format!("`{part}` is not NAME=SHARE, such as train=0.9")));
        };
        let name = name.trim();
        if name.is_empty() || name.contains(['/', '\\']) || name.starts_with('.') {
            return Err(wrong(format!("`{name}` cannot be a file name")));
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
