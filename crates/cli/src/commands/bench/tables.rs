//! Shared by the tables of all benchmarks: cells, counts, published results.

use std::path::Path;

use anyhow::Result;
use gradus_bench::published;
use gradus_bench::report::SampleCounts;

use crate::terminal::printer::Printer;
use gradus_core::count::{counted, grouped};

/// Published rows that are printed; the page has all.
const PUBLISHED: usize = 8;

pub(super) fn cell(value: Option<f64>) -> String {
    value.map_or("–".to_owned(), |value| format!("{:.1}", 100.0 * value))
}

/// Prints the counts of a run and the path of its report.
pub(super) fn counts(counts: &SampleCounts, folder: &Path, printer: Printer) -> Result<()> {
    let mut parts = vec![counted(counts.samples, "solution")];
    if counts.resumed > 0 {
        parts.push(format!("{} resumed", grouped(counts.resumed)));
    }
    if counts.undecided > 0 {
        parts.push(format!("{} undecided (counted as wrong)", grouped(counts.undecided)));
    }
    if counts.truncated > 0 {
        parts.push(format!("{} truncated", grouped(counts.truncated)));
    }
    if counts.skipped > 0 {
        parts.push(format!("{} skipped (invalid)", counted(counts.skipped, "record")));
    }
    if counts.united > 0 {
        parts.push(format!("{} in several files, united", counted(counts.united, "solution")));
    }
    printer.line(format!("{} in {:.1} s", parts.join(", "), counts.seconds))?;
    for (reason, number) in &counts.reasons {
        printer.line(format!("  undecided: {} × {reason}", grouped(*number)))?;
    }
    for (reason, number) in &counts.dropped {
        printer.line(format!("  excluded: {} × {reason}", grouped(*number)))?;
    }
    printer.line(format!("report: {}", folder.join("report.html").display()))
}

pub(super) fn published_rows(printer: Printer, published: &published::Published, title: &str) -> Result<()> {
    let cell = |value: &Option<f64>| value.map_or("–".to_owned(), |value| format!("{value:.1}"));
    let mut heading = vec!["model"];
    heading.extend(published.columns.iter().map(String::as_str));
    let rows: Vec<Vec<String>> = published
        .rows
        .iter()
        .take(PUBLISHED)
        .map(|row| std::iter::once(row.name.clone()).chain(row.values.iter().map(cell)).collect())
        .collect();
    printer.line(format!("\n{title}"))?;
    printer.table(&heading, &rows)?;
    if published.rows.len() > PUBLISHED {
        printer.line(format!(
            "… {} more rows and their sources are in the report",
            published.rows.len() - PUBLISHED
        ))?;
    }
    Ok(())
}
