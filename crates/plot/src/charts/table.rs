//! A table: text, and numbers with intervals; the best of a column is bold, and a click on a header sorts.

use std::fmt::Write as _;

use crate::chart_shell::{ChartShell, enclosed};
use crate::escape::escaped;
use crate::number::{Estimate, Unit, gaps};

/// A table.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Table {
    /// The heading.
    pub title: String,
    /// What is shown and how to read it.
    pub caption: String,
    /// The columns. The first stays in view when the others are scrolled.
    pub columns: Vec<Column>,
    /// Rows of cells; a row that is too short ends in missing cells.
    pub rows: Vec<Vec<Cell>>,
}

/// A column.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Column {
    /// Its header.
    pub name: String,
    /// How its numbers are written.
    pub unit: Unit,
    /// Which of its numbers is the best, if any.
    pub best: Option<Best>,
}

/// Which number is the best.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Best {
    /// The highest.
    Highest,
    /// The lowest.
    Lowest,
}

/// A cell.
#[derive(Debug, Clone, PartialEq)]
pub enum Cell {
    /// Any text.
    Text(String),
    /// A number; `None` where it is missing.
    Number(Option<Estimate>),
}

impl Cell {
    /// The number in it that can be written.
    fn number(&self) -> Option<Estimate> {
        match self {
            Cell::Text(_) => None,
            Cell::Number(value) => value.and_then(Estimate::drawable),
        }
    }
}

/// The chart as HTML.
pub(super) fn draw(table: &Table) -> String {
    let width = table.columns.len();
    let cells = table.rows.iter().flat_map(|row| {
        let given = row.iter().take(width).filter_map(|cell| match cell {
            Cell::Text(_) => None,
            Cell::Number(value) => Some(*value),
        });
        given.chain(std::iter::repeat_n(None, width.abs_diff(row.len())))
    });
    let notes = gaps(cells)
        .into_iter()
        .map(|note| note.replace(": a gap.", ": a dash.").replace(": gaps.", ": dashes."));
    let shell = ChartShell {
        kind: "table",
        title: &table.title,
        caption: &table.caption,
        notes: notes.collect(),
        ..ChartShell::default()
    };
    if table.rows.is_empty() || width == 0 {
        return enclosed(&shell, "<p class=\"empty\">There are no rows.</p>\n");
    }
    let mut out = format!(
        "<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"{}\">\n<table>\n<thead><tr>",
        escaped(&table.title)
    );
    for (index, column) in table.columns.iter().enumerate() {
        let number = if numeric(table, index) { " class=\"number\"" } else { "" };
        let arrow = match column.best {
            Some(Best::Highest) => " <abbr title=\"higher is better\">↑</abbr>",
            Some(Best::Lowest) => " <abbr title=\"lower is better\">↓</abbr>",
            None => "",
        };
        let _ = write!(out, "<th scope=\"col\"{number}>{}{arrow}</th>", escaped(&column.name));
    }
    out += "</tr></thead>\n<tbody>\n";
    let best: Vec<Option<String>> = (0..width).map(|index| best_of(table, index)).collect();
    for row in &table.rows {
        out += "<tr>";
        for (index, column) in table.columns.iter().enumerate() {
            out += &cell(row.get(index), column, numeric(table, index), best[index].as_deref(), index == 0);
        }
        out += "</tr>\n";
    }
    enclosed(&shell, &(out + "</tbody>\n</table>\n</div>\n"))
}

/// Whether a column has numbers.
fn numeric(table: &Table, index: usize) -> bool {
    table.rows.iter().any(|row| matches!(row.get(index), Some(Cell::Number(_))))
}

/// The best number of a column as it is written: what reads the same is as good.
fn best_of(table: &Table, index: usize) -> Option<String> {
    let column = &table.columns[index];
    let numbers = table.rows.iter().filter_map(|row| Some(row.get(index)?.number()?.value));
    let best = match column.best? {
        Best::Highest => numbers.max_by(f64::total_cmp),
        Best::Lowest => numbers.min_by(f64::total_cmp),
    };
    best.map(|best| column.unit.short(best))
}

fn cell(cell: Option<&Cell>, column: &Column, numeric: bool, best: Option<&str>, heads: bool) -> String {
    let (open, close) = if heads { ("th scope=\"row\"", "th") } else { ("td", "td") };
    let class = if numeric { " class=\"number\"" } else { "" };
    match (cell, cell.and_then(Cell::number)) {
        (Some(Cell::Text(text)), _) => format!("<{open}>{}</{close}>", escaped(text)),
        (_, Some(estimate)) => {
            let shown = column.unit.short(estimate.value);
            let interval = estimate.interval.map_or(String::new(), |ends| {
                format!(" <small>{}</small>", escaped(&column.unit.interval(ends, Unit::short)))
            });
            let exact = escaped(&estimate.exact(column.unit));
            let shown = if best == Some(&shown) { format!("<b>{shown}</b>") } else { shown };
            let value = estimate.value;
            format!("<{open}{class} data-value=\"{value}\" title=\"{exact}\">{shown}{interval}</{close}>")
        }
        _ => format!("<{open}{class}>–</{close}>"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_reads_the_same_is_as_good() {
        let number = |value| vec![Cell::Text("x".to_owned()), Cell::Number(Some(Estimate::exactly(value)))];
        let best = Some(Best::Highest);
        let table = Table {
            columns: vec![Column::default(), Column { name: "F1".to_owned(), unit: Unit::Score, best }],
            rows: vec![number(71.34), number(71.31), number(60.0)],
            ..Table::default()
        };
        assert_eq!(draw(&table).matches("<b>71.3</b>").count(), 2);
        assert!(!draw(&table).contains("<b>60.0</b>"));
    }
}
