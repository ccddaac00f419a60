//! The only place that prints: tables for people, JSON for machines on standard output, notes on standard error.

use std::io::{self, Write};
use std::path::Path;

use anyhow::Result;
use comfy_table::presets::NOTHING;
use comfy_table::{Cell, CellAlignment, Table};
use serde::Serialize;

/// Prints a command's report: on standard output, or on standard error when the dataset itself goes to standard
/// output.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Printer {
    beside: bool,
}

impl Printer {
    /// The printer of a command that writes its dataset to `output`, if it writes one.
    pub(crate) fn new(output: Option<&Path>) -> Self {
        Self { beside: output == Some(Path::new("-")) }
    }

    fn write(self, text: &str) -> Result<()> {
        if self.beside {
            note(text);
        } else {
            writeln!(io::stdout(), "{text}")?;
        }
        Ok(())
    }

    /// Prints one JSON document.
    pub(crate) fn json(self, value: &impl Serialize) -> Result<()> {
        self.write(&serde_json::to_string_pretty(value)?)
    }

    /// Prints a line.
    pub(crate) fn line(self, text: impl AsRef<str>) -> Result<()> {
        self.write(text.as_ref())
    }

    /// Prints counts with what they count, one a line; what there is none of is left out.
    pub(crate) fn counts(self, rows: &[(usize, &str)]) -> Result<()> {
        for (number, words) in rows.iter().filter(|(number, _)| *number > 0) {
            self.write(&format!("{:>8}  {words}", count(*number as u64)))?;
        }
        Ok(())
    }

    /// Prints a table with a heading row. Columns after the first that hold numbers are aligned to the right.
    pub(crate) fn table(self, heading: &[&str], rows: &[Vec<String>]) -> Result<()> {
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
        self.write(&table.trim_fmt())
    }
}

/// Prints a note for people on standard error. A closed standard error is no reason to stop.
pub(crate) fn note(text: impl AsRef<str>) {
    let _ = writeln!(io::stderr(), "{}", text.as_ref());
}

/// Prints an error in one sentence: each cause after what it caused, unless that has said it already.
pub(crate) fn error(error: &anyhow::Error) {
    let mut sentence = String::from("gradus: ");
    for (index, cause) in error.chain().map(ToString::to_string).enumerate() {
        if index == 0 {
            sentence += &cause;
        } else if !sentence.contains(without_os_code(&cause)) {
            sentence += &format!(": {}", without_os_code(&cause));
        }
    }
    // A file name may hold a line break; the sentence stays on one line.
    note(sentence.replace(['\n', '\r'], " "));
}

/// `Permission denied (os error 13)` without the number.
fn without_os_code(text: &str) -> &str {
    text.split(" (os error").next().unwrap_or(text)
}

/// True when standard output was closed by its reader.
pub(crate) fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        let io =
            cause.downcast_ref::<io::Error>().or_else(|| match cause.downcast_ref::<gradus_data::Error>() {
                Some(gradus_data::Error::Io { source, .. }) => Some(source),
                _ => None,
            });
        io.is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
    })
}

fn is_numeric(rows: &[Vec<String>], column: usize) -> bool {
    rows.iter().filter_map(|row| row.get(column)).all(|cell| {
        cell.is_empty() || cell.chars().all(|c| c.is_ascii_digit() || " .,%-+/eE×()–".contains(c))
    })
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

/// `1 record`, `12,345 records`.
pub(crate) fn counted(number: u64, noun: &str) -> String {
    let ending = if number == 1 { "" } else { "s" };
    format!("{} {noun}{ending}", count(number))
}

/// `12.3 %`, or nothing for a share of nothing.
pub(crate) fn percent(part: u64, whole: u64) -> String {
    if whole == 0 { String::new() } else { format!("{:.1} %", 100.0 * part as f64 / whole as f64) }
}

/// `in FILE`, or `on standard output`.
pub(crate) fn written_to(output: &Path) -> String {
    if output == Path::new("-") {
        "on standard output".to_owned()
    } else {
        format!("in {}", output.display())
    }
}

/// The beginning of a text on one line.
pub(crate) fn excerpt(text: &str, width: usize) -> String {
    let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if flat.chars().count() <= width {
        return flat;
    }
    flat.chars().take(width.saturating_sub(1)).chain(['…']).collect()
}
