//! Columns and cells of the tables on a benchmark's page.

use gradus_plot::table::{Best, Cell, Column};
use gradus_plot::{Estimate, Unit};

use crate::figure::Figure;

/// A column whose numbers are only shown.
pub(crate) fn column(name: impl Into<String>, unit: Unit) -> Column {
    Column { name: name.into(), unit, best: None }
}

/// A column whose best number stands out.
pub(crate) fn ranked(name: impl Into<String>, unit: Unit, best: Best) -> Column {
    Column { name: name.into(), unit, best: Some(best) }
}

pub(crate) fn text(text: impl Into<String>) -> Cell {
    Cell::Text(text.into())
}

pub(crate) fn count(count: usize) -> Cell {
    Cell::Number(Some(Estimate::exactly(count as f64)))
}

pub(crate) fn number(value: Option<f64>) -> Cell {
    Cell::Number(value.map(Estimate::exactly))
}

/// A share of 1, in percent.
pub(crate) fn percent(value: Option<f64>) -> Cell {
    number(value.map(|value| 100.0 * value))
}

/// A share of 1 with its interval, in percent.
pub(crate) fn figure(figure: &Figure) -> Cell {
    Cell::Number(figure.estimate(100.0))
}

pub(crate) fn nothing() -> Cell {
    Cell::Number(None)
}
