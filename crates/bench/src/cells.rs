//! Columns and cells of the tables on a benchmark's page.

use gradus_plot::table::{Best, Cell, Column};
use gradus_plot::{Estimate, Unit};

use crate::estimate::MetricEstimate;

/// A column whose numbers are only shown.
pub(crate) fn column(name: impl Into<String>, unit: Unit) -> Column {
    Column { name: name.into(), unit, best: None }
}

/// Columns of one unit whose numbers are only shown.
pub(crate) fn columns(unit: Unit, names: &[&str]) -> Vec<Column> {
    names.iter().map(|name| column(*name, unit)).collect()
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
pub(crate) fn estimate(estimate: &MetricEstimate) -> Cell {
    Cell::Number(estimate.for_chart(100.0))
}

/// A number with its interval, as it is.
pub(crate) fn decimal(estimate: &MetricEstimate) -> Cell {
    Cell::Number(estimate.for_chart(1.0))
}

pub(crate) fn nothing() -> Cell {
    Cell::Number(None)
}
