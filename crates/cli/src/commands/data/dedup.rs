//! `gradus data dedup`: exact and near-duplicate problems, within the input or against other files.
//!
//! A problem is removed with its solutions. Records of one problem (the same id and text, as in files with a solution per
//! row) are one problem: a record that has other solutions of a problem that is kept is no duplicate.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use gradus_core::Record;
use gradus_data::SourceLocation;
use gradus_data::dedup::{DedupConfig, Index, Kind};
use gradus_data::files::{Item, Sink, Target};
use gradus_durable::ContentHash;
use serde::Serialize;

use crate::arguments::JsonOption;
use crate::arguments::dataset::DatasetInput;
use crate::exit::{Status, Usage};
use crate::input::{self, Need};
use crate::terminal::printer::{self, Printer};
use gradus_core::count::{counted, grouped};

#[derive(Debug, Args)]
pub(crate) struct DedupArgs {
    #[command(flatten)]
    input: DatasetInput,
    /// Compare with these datasets instead of within the input; repeatable
    #[arg(long, value_name = "FILE")]
    against: Vec<PathBuf>,
    /// Minimum Jaccard similarity of near-duplicates
    #[arg(long, default_value_t = 0.8)]
    threshold: f64,
    /// Ignore near-duplicates with different numbers
    #[arg(long)]
    same_numbers: bool,
    /// Output file without duplicates (Gradus format); a duplicate is removed with its solutions
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Maximum duplicates to print; --json prints all
    #[arg(long, default_value_t = 20)]
    show: usize,
    #[command(flatten)]
    print: JsonOption,
}

#[derive(Debug, Default, Serialize)]
struct DedupSummary {
    records: u64,
    /// Records that repeat a problem exactly.
    exact: u64,
    /// Records that nearly repeat a problem.
    near: u64,
    /// Of the near ones, those in which the numbers are the same too.
    near_same_numbers: u64,
    /// Records written with `-o`.
    kept: u64,
    /// Solutions of the input that are in no kept record.
    solutions_removed: u64,
    /// Invalid records of the input.
    skipped: u64,
    /// Invalid records of `--against`.
    against_skipped: u64,
    duplicates: Vec<Duplicate>,
}

#[derive(Debug, Serialize)]
struct Duplicate {
    place: String,
    problem: String,
    /// Location and id of the problem that is repeated.
    repeats_place: String,
    repeats: String,
    kind: Kind,
    similarity: f64,
    same_numbers: bool,
}

/// Known problems; the index refers to them by position in `problems`.
struct Known {
    index: Index,
    problems: Vec<(SourceLocation, String)>,
}

impl Known {
    fn insert(&mut self, item: &Item) {
        self.index.insert(&self.problems.len().to_string(), &item.record.problem.text);
        self.problems.push((item.place.clone(), item.record.problem.id.clone()));
    }

    /// The place and id of a problem that was found.
    fn get(&self, found: &str) -> &(SourceLocation, String) {
        found
            .parse()
            .ok()
            .and_then(|at: usize| self.problems.get(at))
            .expect("the index returns what it was given")
    }
}

/// Problems of the input that are kept, each with its solutions.
#[derive(Default)]
struct Kept(HashMap<[u8; 16], HashSet<[u8; 16]>>);

impl Kept {
    fn key(record: &Record) -> [u8; 16] {
        ContentHash::of(&(&record.problem.id, &record.problem.text))
    }

    fn insert(&mut self, record: &Record) {
        self.0.insert(Self::key(record), record.solutions.iter().map(ContentHash::of).collect());
    }

    /// Whether the record has other solutions of a kept problem. Only these are left in it.
    fn adds(&mut self, record: &mut Record) -> bool {
        let Some(known) = self.0.get_mut(&Self::key(record)) else { return false };
        let new: HashSet<_> = record
            .solutions
            .iter()
            .map(ContentHash::of)
            .filter(|solution| !known.contains(solution))
            .collect();
        if new.is_empty() {
            return false;
        }
        record.solutions.retain(|solution| new.contains(&ContentHash::of(solution)));
        known.extend(new);
        true
    }
}

pub(super) fn run(args: &DedupArgs) -> Result<Status> {
    let config = DedupConfig { threshold: args.threshold, ..DedupConfig::default() };
    config.check().map_err(|fault| Usage(format!("--{} {}", fault.field, fault.message)))?;
    let mut report = DedupSummary::default();
    let mut known = Known { index: Index::new(config), problems: Vec::new() };
    if !args.against.is_empty() {
        let tally = input::read(&args.against, Default::default(), args.input.on_error, &mut |item| {
            known.insert(&item);
            Ok(())
        })?;
        report.against_skipped = tally.skipped;
    }
    let within = args.against.is_empty();
    let mut kept = Kept::default();
    let mut sink = args.output.as_ref().map(|path| Sink::create(Target::new(path))).transpose()?;
    let tally = input::for_each(&args.input, Need::Records, |mut item| {
        let solutions = item.record.solutions.len() as u64;
        if within && kept.adds(&mut item.record) {
            report.kept += 1;
            report.solutions_removed += solutions - item.record.solutions.len() as u64;
            return sink.as_mut().map_or(Ok(()), |sink| Ok(sink.push(&item.record)?));
        }
        let problem = &item.record.problem;
        let found = known.index.find(&problem.text);
        let counts = |found: &&gradus_data::dedup::Match<'_>| !args.same_numbers || found.same_numbers;
        // Among equals, the first.
        let best = found.iter().filter(counts).rev().max_by(|a, b| {
            (a.kind == Kind::Exact).cmp(&(b.kind == Kind::Exact)).then(a.similarity.total_cmp(&b.similarity))
        });
        match best {
            Some(best) => {
                report.solutions_removed += solutions;
                match best.kind {
                    Kind::Exact => report.exact += 1,
                    Kind::Near => {
                        report.near += 1;
                        report.near_same_numbers += u64::from(best.same_numbers);
                    }
                }
                let repeated = known.get(best.id);
                report.duplicates.push(Duplicate {
                    place: item.place.to_string(),
                    problem: problem.id.clone(),
                    repeats_place: repeated.0.to_string(),
                    repeats: repeated.1.clone(),
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
            known.insert(&item);
            kept.insert(&item.record);
        }
        Ok(())
    })?;
    report.records = tally.records;
    report.skipped = tally.skipped;
    let written = sink.is_some();
    if let Some(sink) = sink {
        sink.finish()?;
    }
    Printer::new(args.output.as_deref())
        .summary(args.print.json, &report, |printer, report| print(printer, report, args))?;
    Ok(if report.duplicates.is_empty() || written { Status::Done } else { Status::Found })
}

fn print(printer: Printer, report: &DedupSummary, args: &DedupArgs) -> Result<()> {
    let rows: Vec<_> = report
        .duplicates
        .iter()
        .take(args.show)
        .map(|found| {
            let kind = match (found.kind, found.same_numbers) {
                (Kind::Exact, _) => "exact",
                (Kind::Near, true) => "near",
                (Kind::Near, false) => "near, different numbers",
            };
            vec![
                found.place.clone(),
                found.repeats_place.clone(),
                kind.to_owned(),
                format!("{:.2}", found.similarity),
            ]
        })
        .collect();
    if !rows.is_empty() {
        printer.table(&["record", "duplicate of", "kind", "similarity"], &rows)?;
    }
    printer.more(report.duplicates.len(), args.show)?;
    let same_numbers = match report.near {
        0 => String::new(),
        _ => format!(" ({} with the same numbers)", grouped(report.near_same_numbers)),
    };
    printer.line(format!(
        "{}: {}, {}{same_numbers}",
        counted(report.records, "record"),
        counted(report.exact, "exact duplicate"),
        counted(report.near, "near duplicate"),
    ))?;
    if report.solutions_removed > 0 {
        let removes = if args.output.is_some() { "removed" } else { "to remove" };
        printer.line(format!("{} {removes} with them", counted(report.solutions_removed, "solution")))?;
    }
    if let Some(output) = &args.output {
        printer.line(format!("{} {}", counted(report.kept, "record"), printer::written_to(output)))?;
    }
    Ok(())
}
