//! `gradus data convert`: any format and container to any other.

use std::collections::BTreeMap;

use anyhow::Result;
use gradus_data::files::{Sink, Target};
use gradus_data::readers::Format;
use serde::Serialize;

use super::Status;
use crate::args::Convert;
use crate::input;
use crate::printer::{self, Printer, counted};

#[derive(Debug, Default, Serialize)]
struct Report {
    read: u64,
    written: u64,
    /// Records that could not be read.
    skipped: u64,
    /// Solutions or problems that the format cannot express, by reason.
    dropped: BTreeMap<&'static str, u64>,
    /// Solutions written up to their first error only.
    cut: u64,
    issues: u64,
    formats: BTreeMap<&'static str, u64>,
}

pub(super) fn run(args: &Convert) -> Result<Status> {
    let mut sink = Sink::create(Target::new(&args.output))?;
    let mut report = Report::default();
    let tally = input::for_each(&args.input, |item| {
        if args.to == Format::Gradus {
            // Our own format is the record itself: no detour over rows.
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
        for reason in written.dropped {
            *report.dropped.entry(reason).or_default() += 1;
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

fn summary(report: &Report, args: &Convert) -> String {
    let formats = report.formats.keys().copied().collect::<Vec<_>>().join(", ");
    let mut text = format!(
        "{} ({formats}) → {} ({}) {}",
        counted(report.read, "record"),
        counted(report.written, "row"),
        args.to.name(),
        printer::written_to(&args.output)
    );
    for (reason, count) in &report.dropped {
        text += &format!("\n{} left out: {reason}", printer::count(*count));
    }
    if report.cut > 0 {
        let verb = if report.cut == 1 { "is" } else { "are" };
        text += &format!(
            "\n{} {verb} cut after the first error: {} wants a label for every step",
            counted(report.cut, "solution"),
            args.to.name()
        );
    }
    if report.skipped > 0 {
        text += &format!("\n{} skipped: could not be read", counted(report.skipped, "record"));
    }
    if report.issues > 0 {
        text +=
            &format!("\n{} in the source, which `gradus data check` names", counted(report.issues, "issue"));
    }
    text
}
