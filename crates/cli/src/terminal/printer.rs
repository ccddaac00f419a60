//! All output of the program: tables or JSON on standard output, notes and errors on standard error. Control characters
//! of data are shown escaped.

use std::io::{self, Write};
use std::path::Path;

use anyhow::Result;
use comfy_table::presets::NOTHING;
use comfy_table::{Cell, CellAlignment, Table};
use serde::Serialize;

use gradus_core::count::{counted, grouped, plural};

use super::paint;
use super::visible::{visible, visible_json};
use crate::output;

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
            writeln!(io::stdout(), "{}", visible(text, paint::on()))?;
        }
        Ok(())
    }

    /// Prints one JSON document; an object says which version of the outputs it is.
    pub(crate) fn json(self, value: &impl Serialize) -> Result<()> {
        self.write(&visible_json(&with_schema(serde_json::to_string_pretty(value)?)))
    }

    /// Prints a summary: as JSON, or as `text` prints it.
    pub(crate) fn summary<S: Serialize>(
        self,
        json: bool,
        summary: &S,
        text: impl FnOnce(Self, &S) -> Result<()>,
    ) -> Result<()> {
        if json { self.json(summary) } else { text(self, summary) }
    }

    /// Prints how many of `total` items were not shown, if any.
    pub(crate) fn more(self, total: usize, shown: usize) -> Result<()> {
        if total <= shown {
            return Ok(());
        }
        self.write(&format!("… and {} more (--show or --json)", grouped(total - shown)))
    }

    /// Prints how many records were skipped, if any.
    pub(crate) fn skipped(self, records: u64) -> Result<()> {
        if records == 0 {
            return Ok(());
        }
        self.write(&format!("{} skipped (invalid)", counted(records, "record")))
    }

    /// Prints a line.
    pub(crate) fn line(self, text: impl AsRef<str>) -> Result<()> {
        self.write(text.as_ref())
    }

    /// Prints counts, one per line: the number, its noun, and the rest of the phrase. Zeros are omitted.
    pub(crate) fn counts(self, rows: &[(u64, &str, &str)]) -> Result<()> {
        for (number, noun, rest) in rows.iter().filter(|(number, ..)| *number > 0) {
            self.write(&format!("{:>8} {} {rest}", grouped(number), plural(number, noun)))?;
        }
        Ok(())
    }

    /// Prints a table with a heading row. Columns after the first that hold numbers are aligned to the right.
    pub(crate) fn table(self, heading: &[&str], rows: &[Vec<String>]) -> Result<()> {
        let mut table = Table::new();
        table.load_style(NOTHING).set_header(heading.iter().map(|name| Cell::new(name.to_uppercase())));
        for row in rows {
            // Before the table is laid out, so that columns stay aligned.
            table.add_row(row.iter().map(|cell| visible(cell, paint::on())));
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

/// Version of the JSON outputs, `schema` in each; it grows when a field changes its meaning or goes.
const JSON_SCHEMA: u32 = 1;

/// Puts `schema` first in an object that has none. Numbers stay as they were written.
fn with_schema(json: String) -> String {
    match json.strip_prefix("{\n") {
        Some(fields) if !fields.lines().any(|line| line.starts_with("  \"schema\":")) => {
            format!("{{\n  \"schema\": {JSON_SCHEMA},\n{fields}")
        }
        _ => json,
    }
}

/// Prints a note on standard error; a closed standard error is ignored.
pub(crate) fn note(text: impl AsRef<str>) {
    let _ = writeln!(io::stderr(), "{}", visible(text.as_ref(), paint::on()));
}

/// Prints an error and its causes as one sentence; a cause that the sentence already contains is omitted.
pub(crate) fn error(error: &anyhow::Error) {
    let mut sentence = String::from("gradus: ");
    for (index, cause) in error.chain().map(ToString::to_string).enumerate() {
        if index == 0 {
            sentence += &cause;
        } else if !sentence.contains(&without_os_code(&cause)) {
            sentence += &format!(": {}", without_os_code(&cause));
        }
    }
    // A file name may hold a line break; the sentence stays on one line.
    note(sentence.replace(['\n', '\r'], " "));
}

/// `Permission denied (os error 13)` without the number.
fn without_os_code(text: &str) -> String {
    let Some((before, code)) = text.split_once(" (os error") else { return text.to_owned() };
    let after = code.split_once(')').map_or("", |(_, after)| after);
    format!("{before}{after}")
}

/// True when standard output was closed by its reader.
pub(crate) fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        let io =
            cause.downcast_ref::<io::Error>().or_else(|| match cause.downcast_ref::<gradus_data::Error>() {
                Some(gradus_data::Error::Io(error)) => Some(&error.source),
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

/// `written to FILE`, or `written to standard output`.
pub(crate) fn written_to(output: &Path) -> String {
    if output == Path::new("-") {
        "written to standard output".to_owned()
    } else {
        format!("written to {}", output::shown(output).display())
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
