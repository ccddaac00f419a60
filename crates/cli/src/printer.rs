//! The only place that prints: tables for people, JSON for machines on standard output, notes on standard error.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "this is where printing happens")]

use std::io::{self, Write};

use anyhow::Result;
use comfy_table::presets::NOTHING;
use comfy_table::{Cell, CellAlignment, Table};
use serde::Serialize;

/// Prints one JSON document.
pub(crate) fn json(value: &impl Serialize) -> Result<()> {
    let mut output = io::stdout().lock();
    serde_json::to_writer_pretty(&mut output, value)?;
    writeln!(output)?;
    Ok(())
}

/// Prints a line on standard output.
pub(crate) fn line(text: impl AsRef<str>) -> Result<()> {
    writeln!(io::stdout(), "{}", text.as_ref())?;
    Ok(())
}

/// Prints a note for people on standard error.
pub(crate) fn note(text: impl AsRef<str>) {
    eprintln!("{}", text.as_ref());
}

/// Prints an error in one sentence.
pub(crate) fn error(error: &anyhow::Error) {
    let causes: Vec<String> = error.chain().map(ToString::to_string).collect();
    eprintln!("gradus: {}", causes.join(": "));
}

/// True when standard output was closed by its reader.
pub(crate) fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        let io =
            cause.downcast_ref::<io::Error>().or_else(|| match cause.downcast_ref::<gradus_core::Error>() {
                Some(gradus_core::Error::Io { source, .. }) => Some(source),
                _ => None,
            });
        io.is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
    })
}

/// A table with a heading row; every column after the first is numbers, aligned to the right.
pub(crate) fn table(heading: &[&str], rows: &[Vec<String>]) -> Result<()> {
    let mut table = Table::new();
    table.load_style(NOTHING).set_header(heading.iter().map(|name| Cell::new(name.to_uppercase())));
    for row in rows {
        table.add_row(row);
    }
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((u16::from(index > 0), 1));
        if index > 0 && is_numeric(rows, index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    line(table.trim_fmt())
}

fn is_numeric(rows: &[Vec<String>], column: usize) -> bool {
    rows.iter()
        .filter_map(|row| row.get(column))
        .all(|cell| cell.is_empty() || cell.chars().all(|c| c.is_ascii_digit() || " .,%-+/eE×".contains(c)))
}

/// A horizontal bar for a histogram, at most `width` cells.
pub(crate) fn bar(count: u64, most: u64, width: usize) -> String {
    let eighths =
        if most == 0 { 0 } else { (count as f64 / most as f64 * (width * 8) as f64).round() as usize };
    let mut text = "█".repeat(eighths / 8);
    if !eighths.is_multiple_of(8) {
        text.push(['▏', '▎', '▍', '▌', '▋', '▊', '▉'][eighths % 8 - 1]);
    }
    text
}

/// `12,345`.
pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// `12.3 %`, or nothing for a share of nothing.
pub(crate) fn percent(part: u64, whole: u64) -> String {
    if whole == 0 { String::new() } else { format!("{:.1} %", 100.0 * part as f64 / whole as f64) }
}

/// The beginning of a text on one line.
pub(crate) fn excerpt(text: &str, width: usize) -> String {
    let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if flat.chars().count() <= width {
        return flat;
    }
    flat.chars().take(width.saturating_sub(1)).chain(['…']).collect()
}
