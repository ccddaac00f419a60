//! `gradus data check`: reads everything and reports every fault, odd value and repeated id.

use std::collections::HashSet;

use anyhow::Result;
use gradus_data::Error;
use gradus_data::files;
use serde::Serialize;

use super::Status;
use crate::args::Check;
use crate::printer::{self, Printer, counted};
use crate::progress::Progress;

#[derive(Debug, Default, Serialize)]
struct Report {
    records: u64,
    /// Records that cannot be read.
    unreadable: u64,
    /// Things that cannot be right in records that can be read.
    issues: u64,
    /// Solution ids that occur more than once.
    repeated_ids: u64,
    findings: Vec<Finding>,
}

#[derive(Debug, Serialize)]
struct Finding {
    kind: &'static str,
    message: String,
}

pub(super) fn run(args: &Check) -> Result<Status> {
    let mut records = files::open(&args.input.inputs, args.input.from)?;
    let mut progress = Progress::new(records.progress().1, true);
    let mut report = Report::default();
    let mut ids = HashSet::new();
    while let Some(item) = records.next() {
        match item {
            Ok(item) => {
                report.records += 1;
                for issue in &item.issues {
                    report.issues += 1;
                    let message = format!("{}: {issue}", item.place);
                    report.findings.push(Finding { kind: "issue", message });
                }
                for solution in &item.record.solutions {
                    if !ids.insert(solution.id.clone()) {
                        report.repeated_ids += 1;
                        let message = format!("{}: solution id `{}` occurs again", item.place, solution.id);
                        report.findings.push(Finding { kind: "repeated_id", message });
                    }
                }
            }
            // A file that cannot even be opened has not been checked.
            Err(error @ Error::Io { .. }) => return Err(error.into()),
            Err(error) => {
                report.unreadable += 1;
                report.findings.push(Finding { kind: "unreadable", message: error.to_string() });
            }
        }
        progress.at(records.progress().0, report.records);
    }
    drop(progress);
    let printer = Printer::new(None);
    if args.print.json {
        printer.json(&report)?;
    } else {
        print(printer, &report, args.show)?;
    }
    Ok(if report.findings.is_empty() { Status::Done } else { Status::Found })
}

fn print(printer: Printer, report: &Report, show: usize) -> Result<()> {
    for finding in report.findings.iter().take(show) {
        printer.line(&finding.message)?;
    }
    if report.findings.len() > show {
        let more = printer::count((report.findings.len() - show) as u64);
        printer.line(format!("… and {more} more (--show or --json)"))?;
    }
    printer.line(format!(
        "{}: {} unreadable, {}, {}",
        counted(report.records, "record"),
        printer::count(report.unreadable),
        counted(report.issues, "issue"),
        counted(report.repeated_ids, "repeated id")
    ))
}
