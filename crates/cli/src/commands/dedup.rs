//! `gradus data dedup`: the same problem again, within the input or in other files.

use anyhow::Result;
use gradus_core::data::dedup::{Config, Index, Kind};
use gradus_core::data::files::{Sink, Target};
use serde::Serialize;

use super::{Status, Usage};
use crate::args::Dedup;
use crate::input;
use crate::printer::{self, Printer, counted};

#[derive(Debug, Default, Serialize)]
struct Report {
    records: u64,
    /// Records that repeat a problem exactly.
    exact: u64,
    /// Records that nearly repeat a problem.
    near: u64,
    /// Of the near ones, those in which the numbers are the same too.
    near_same_numbers: u64,
    /// Records written with `-o`.
    kept: u64,
    /// Records of the input that could not be read.
    skipped: u64,
    /// Records of `--against` that could not be read.
    against_skipped: u64,
    duplicates: Vec<Duplicate>,
}

#[derive(Debug, Serialize)]
struct Duplicate {
    place: String,
    problem: String,
    repeats: String,
    kind: Kind,
    similarity: f64,
    same_numbers: bool,
}

pub(super) fn run(args: &Dedup) -> Result<Status> {
    let config = Config { threshold: args.threshold, ..Config::default() };
    config.check().map_err(|fault| Usage(format!("--{} {}", fault.field, fault.message)))?;
    let mut report = Report::default();
    let mut index = Index::new(config);
    if !args.against.is_empty() {
        let tally = input::read(&args.against, None, args.input.on_error, &mut |item| {
            index.insert(&item.record.problem.id, &item.record.problem.text);
            Ok(())
        })?;
        report.against_skipped = tally.skipped;
    }
    let within = args.against.is_empty();
    let mut sink = args.output.as_ref().map(|path| Sink::create(Target::new(path))).transpose()?;
    let tally = input::for_each(&args.input, |item| {
        let problem = &item.record.problem;
        let found = index.find(&problem.text);
        let counts = |found: &&gradus_core::data::dedup::Match<'_>| !args.same_numbers || found.same_numbers;
        let best = found.iter().filter(counts).max_by(|a, b| {
            (a.kind == Kind::Exact).cmp(&(b.kind == Kind::Exact)).then(a.similarity.total_cmp(&b.similarity))
        });
        match best {
            Some(best) => {
                match best.kind {
                    Kind::Exact => report.exact += 1,
                    Kind::Near => {
                        report.near += 1;
                        report.near_same_numbers += u64::from(best.same_numbers);
                    }
                }
                report.duplicates.push(Duplicate {
                    place: item.place.to_string(),
                    problem: problem.id.clone(),
                    repeats: best.id.to_owned(),
                    kind: best.kind,
                    similarity: best.similarity,
                    same_numbers: best.same_numbers,
                });
            }
            None => {
                report.kept += 1;
                sink.as_mut().map_or(Ok(()), |sink| sink.push(&item.record))?;
            }
        }
        if within && best.is_none() {
            index.insert(&problem.id, &problem.text);
        }
        Ok(())
    })?;
    report.records = tally.records;
    report.skipped = tally.skipped;
    let written = sink.is_some();
    if let Some(sink) = sink {
        sink.finish()?;
    }
    let printer = Printer::new(args.output.as_deref());
    if args.print.json {
        printer.json(&report)?;
    } else {
        print(printer, &report, args)?;
    }
    Ok(if report.duplicates.is_empty() || written { Status::Done } else { Status::Found })
}

fn print(printer: Printer, report: &Report, args: &Dedup) -> Result<()> {
    let rows: Vec<_> = report
        .duplicates
        .iter()
        .take(args.show)
        .map(|found| {
            let kind = match (found.kind, found.same_numbers) {
                (Kind::Exact, _) => "exact",
                (Kind::Near, true) => "near",
                (Kind::Near, false) => "near, other numbers",
            };
            vec![
                found.place.clone(),
                found.repeats.clone(),
                kind.to_owned(),
                format!("{:.2}", found.similarity),
            ]
        })
        .collect();
    if !rows.is_empty() {
        printer.table(&["record", "repeats", "how", "similarity"], &rows)?;
    }
    if report.duplicates.len() > args.show {
        let more = printer::count((report.duplicates.len() - args.show) as u64);
        printer.line(format!("… and {more} more (--show or --json)"))?;
    }
    printer.line(format!(
        "{}: {}, {} ({} with the same numbers)",
        counted(report.records, "record"),
        counted(report.exact, "exact duplicate"),
        counted(report.near, "near duplicate"),
        printer::count(report.near_same_numbers)
    ))?;
    if let Some(output) = &args.output {
        printer.line(format!("{} kept {}", counted(report.kept, "record"), printer::written_to(output)))?;
    }
    Ok(())
}
