//! Numbers of benchmarks.

use gradus_core::metrics::process::{self, Located};
use gradus_core::metrics::{calibration, ranking};
use pyo3::prelude::*;

use crate::error::raised;
use crate::json::to_python;

/// ProcessBench's numbers: accuracy on erroneous and on error-free samples, and F1. A prediction and a truth are the first
/// wrong step, from 0, and -1 where there is none; a prediction of None could not be read.
#[pyfunction]
pub(crate) fn process_scores<'py>(
    py: Python<'py>,
    predicted: Vec<Option<i64>>,
    truth: Vec<i64>,
) -> PyResult<Bound<'py, PyAny>> {
    same_length("predictions", predicted.len(), "truths", truth.len())?;
    let samples: Vec<Located> = predicted
        .into_iter()
        .zip(truth)
        .map(|(predicted, truth)| {
            Ok(Located { predicted: predicted.map(step).transpose()?, truth: step(truth)? })
        })
        .collect::<PyResult<_>>()?;
    to_python(py, &process::scores(&samples))
}

/// Area under the ROC curve; None without both kinds.
#[pyfunction]
pub(crate) fn roc_auc(scores: Vec<f64>, correct: Vec<bool>) -> PyResult<Option<f64>> {
    Ok(ranking::roc_auc(&scored(scores, correct)?))
}

/// Average precision; None without a right one.
#[pyfunction]
pub(crate) fn average_precision(scores: Vec<f64>, correct: Vec<bool>) -> PyResult<Option<f64>> {
    Ok(ranking::average_precision(&scored(scores, correct)?))
}

/// Expected calibration error over ten bins; None for scores outside 0 to 1.
#[pyfunction]
pub(crate) fn ece(scores: Vec<f64>, correct: Vec<bool>) -> PyResult<Option<f64>> {
    Ok(calibration::ece(&scored(scores, correct)?))
}

/// Brier score; None for scores outside 0 to 1.
#[pyfunction]
pub(crate) fn brier(scores: Vec<f64>, correct: Vec<bool>) -> PyResult<Option<f64>> {
    Ok(calibration::brier(&scored(scores, correct)?))
}

fn scored(scores: Vec<f64>, correct: Vec<bool>) -> PyResult<Vec<(f64, bool)>> {
    same_length("scores", scores.len(), "outcomes", correct.len())?;
    if scores.iter().any(|score| score.is_nan()) {
        return Err(raised("a score is not a number"));
    }
    Ok(scores.into_iter().zip(correct).collect())
}

fn same_length(what: &str, count: usize, other: &str, others: usize) -> PyResult<()> {
    if count == others {
        return Ok(());
    }
    Err(raised(format!("{count} {what} and {others} {other}: give one for each")))
}

/// The first wrong step, or none for -1.
fn step(index: i64) -> PyResult<Option<usize>> {
    match index {
        -1 => Ok(None),
        index => {
            let wrong = |_| raised(format!("{index} is neither a step from 0 nor -1 (no error)"));
            usize::try_from(index).map(Some).map_err(wrong)
        }
    }
}
