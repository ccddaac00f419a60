//! `gradus data check`: reports every invalid record, issue and duplicate id.

use std::collections::{HashMap, HashSet};

use anyhow::Result;
use clap::Args;
use gradus_data::Error;
use gradus_data::files;
use serde::Serialize;

use crate::arguments::JsonOption;
use crate::arguments::dataset::DatasetFiles;
use crate::exit::Status;
use crate::terminal::printer::Printer;
use crate::terminal::progress::Progress;
use gradus_core::count::{counted, grouped};

#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    input: DatasetFiles,
    #[command(flatten)]
    print: JsonOption,
    /// Maximum findings to print; --json prints all
    #[arg(long, default_value_t = 20)]
    show: usize,
}

#[derive(Debug, Default, Serialize)]
struct CheckSummary {
    /// Records read, with the invalid ones.
    records: u64,
    /// Invalid records, and files that cannot be read to their end.
    unreadable: u64,
    /// Things that cannot be right in records that can be read.
    issues: u64,
    /// Solution ids that occur more than once, and problem ids of several texts.
    repeated_ids: u64,
    findings: Vec<Finding>,
}

#[derive(Debug, Serialize)]
struct Finding {
    kind: &'static str,
    message: String,
}

pub(super) fn run(args: &CheckArgs) -> Result<Status> {
    let mut records = files::open_with(&args.input.inputs, args.input.options())?;
    let mut progress = Progress::new(records.progress().1, true);
    let mut report = CheckSummary::default();
    let mut ids = HashSet::new();
    let mut problems: HashMap<String, String> = HashMap::new();
    while let Some(item) = records.next() {
        match item {
            Ok(item) => {
                report.records += 1;
                for issue in &item.issues {
                    report.issues += 1;
                    let message = format!("{}: {issue}", item.place);
                    report.findings.push(Finding { kind: "issue", message });
                }
                let problem = &item.record.problem;
                let known = problems.entry(problem.id.clone()).or_insert_with(|| problem.text.clone());
                if *known != problem.text {
                    report.repeated_ids += 1;
                    let message =
                        format!("{}: problem id `{}` has another text before", item.place, problem.id);
                    report.findings.push(Finding { kind: "repeated_id", message });
                }
                for solution in &item.record.solutions {
                    if !ids.insert(solution.id.clone()) {
                        report.repeated_ids += 1;
                        let message = format!("{}: duplicate solution id `{}`", item.place, solution.id);
                        report.findings.push(Finding { kind: "repeated_id", message });
                    }
                }
            }
            // A file that cannot even be opened has not been checked.
            Err(error @ Error::Io(_)) => return Err(error.into()),
            Err(error) => {
                report.records += u64::from(error.is_record());
                report.unreadable += 1;
                report.findings.push(Finding { kind: "unreadable", message: error.to_string() });
            }
        }
        progress.at(records.progress().0, report.records);
    }
    drop(progress);
    Printer::new(None)
        .summary(args.print.json, &report, |printer, report| print(printer, report, args.show))?;
    Ok(if report.findings.is_empty() { Status::Done } else { Status::Found })
}

fn print(printer: Printer, report: &CheckSummary, show: usize) -> Result<()> {
    for finding in report.findings.iter().take(show) {
        printer.line(&finding.message)?;
    }
    printer.more(report.findings.len(), show)?;
    printer.line(format!(
        "{}: {} invalid, {}, {}",
        counted(report.records, "record"),
        grouped(report.unreadable),
        counted(report.issues, "issue"),
        counted(report.repeated_ids, "duplicate id")
    ))
}
