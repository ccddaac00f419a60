//! Texts as steps.

use gradus_core::steps::{Split, SplitConfig, Strategy, split};
use pyo3::prelude::*;

use crate::error::raised;

/// The steps of a solution, split as its text suggests.
pub(crate) fn steps_of(text: &str) -> Vec<String> {
    split(text, &SplitConfig::default()).steps().map(str::to_owned).collect()
}

/// Splits a solution into steps, by default as its text suggests.
#[pyfunction]
#[pyo3(signature = (text, strategy="auto", *, min_chars=0))]
pub(crate) fn split_steps(
    py: Python<'_>,
    text: &str,
    strategy: &str,
    min_chars: usize,
) -> PyResult<Vec<String>> {
    let config = config(strategy, min_chars)?;
    Ok(py.detach(|| split(text, &config).steps().map(str::to_owned).collect()))
}

/// Where each step begins and ends in the text, in characters: `text[start:end]` is the step.
#[pyfunction]
#[pyo3(signature = (text, strategy="auto", *, min_chars=0))]
pub(crate) fn step_spans(
    py: Python<'_>,
    text: &str,
    strategy: &str,
    min_chars: usize,
) -> PyResult<Vec<(usize, usize)>> {
    let config = config(strategy, min_chars)?;
    Ok(py.detach(|| in_characters(text, &split(text, &config))))
}

pub(crate) fn config(strategy: &str, min_chars: usize) -> PyResult<SplitConfig> {
    let unknown = || {
        let names = Strategy::ALL.map(Strategy::name).join(", ");
        raised(format!("strategy `{strategy}` is not one of {names}"))
    };
    Ok(SplitConfig { strategy: Strategy::from_name(strategy).ok_or_else(unknown)?, min_chars })
}

/// Python counts characters where Rust counts bytes.
fn in_characters(text: &str, split: &Split<'_>) -> Vec<(usize, usize)> {
    let (mut bytes, mut characters) = (0, 0);
    let mut upto = |end: usize| {
        characters += text[bytes..end].chars().count();
        bytes = end;
        characters
    };
    split.spans().iter().map(|span| (upto(span.start), upto(span.end))).collect()
}
