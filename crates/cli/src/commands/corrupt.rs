//! `gradus data corrupt`: wrong solutions out of reference solutions.

use std::collections::BTreeMap;

use anyhow::{Result, bail};
use gradus_core::data::Record;
use gradus_core::data::corrupt::{Kind, right, wrong};
use gradus_core::data::files::{Sink, Target};
use serde::Serialize;

use super::Status;
use crate::args::Corrupt;
use crate::input;
use crate::printer::{self, Printer};

#[derive(Debug, Default, Serialize)]
struct Report {
    problems: u64,
    without_reference: u64,
    /// Problems for which fewer wrong solutions could be made than were asked for.
    short: u64,
    right: u64,
    wrong: u64,
    by_kind: BTreeMap<String, u64>,
    skipped: u64,
}

pub(super) fn run(args: &Corrupt) -> Result<Status> {
    let kinds = if args.kinds.is_empty() { &Kind::ALL[..] } else { &args.kinds };
    let mut report = Report::default();
    let mut sink = Sink::create(Target::new(&args.output))?;
    let tally = input::for_each(&args.input, |item| {
        let problem = item.record.problem;
        report.problems += 1;
        let Some(fine) = right(&problem) else {
            report.without_reference += 1;
            return Ok(());
        };
        let mut solutions = wrong(&problem, &fine, args.copies, kinds, args.seed);
        report.short += u64::from(solutions.len() < args.copies);
        report.wrong += solutions.len() as u64;
        for solution in &solutions {
            let kind = solution.metadata.get("error").and_then(|kind| kind.as_str()).unwrap_or_default();
            *report.by_kind.entry(kind.to_owned()).or_default() += 1;
        }
        if !args.only_wrong {
            report.right += 1;
            solutions.insert(0, fine);
        }
        if !solutions.is_empty() {
            sink.push(&Record::new(problem, solutions))?;
        }
        Ok(())
    })?;
    report.skipped = tally.skipped;
    if report.right + report.wrong == 0 {
        bail!("no problem of the input has a reference solution that can be corrupted");
    }
    sink.finish()?;
    let printer = Printer::new(Some(&args.output));
    if args.print.json {
        printer.json(&report)?;
        return Ok(Status::Done);
    }
    printer.line(format!(
        "{} right and {} wrong solutions to {} {}",
        printer::count(report.right),
        printer::count(report.wrong),
        printer::counted(report.problems, "problem"),
        printer::written_to(&args.output)
    ))?;
    for (kind, count) in &report.by_kind {
        printer.line(format!("{:>8}  {kind}", printer::count(*count)))?;
    }
    printer.counts(&[
        (report.without_reference as usize, "problems have no reference solution and are left out"),
        (
            report.short as usize,
            "problems got fewer wrong solutions than asked for: nothing else could be changed",
        ),
        (report.skipped as usize, "records were skipped: they could not be read"),
    ])?;
    Ok(Status::Done)
}
