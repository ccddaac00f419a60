//! Chooses among solutions.

use gradus_core::select::vote::{self, Power};
use gradus_core::select::{Aggregation, best_of_n};
use pyo3::prelude::*;

use crate::error::raised;

/// The index of the chosen solution: with the best score ("best"), of the answer with the highest sum of scores ("vote"), or
/// of the most frequent answer ("majority"). Answers are compared by the grader.
#[pyfunction]
#[pyo3(signature = (*, scores=None, answers=None, by="best", vote_power=1.0))]
pub(crate) fn select(
    py: Python<'_>,
    scores: Option<Vec<Option<f64>>>,
    answers: Option<Vec<Option<String>>>,
    by: &str,
    vote_power: f64,
) -> PyResult<usize> {
    let power = Power::try_from(vote_power).map_err(raised)?;
    let needed = |what: &str| raised(format!("by=\"{by}\" needs {what}"));
    let count = scores.as_ref().map(Vec::len).or(answers.as_ref().map(Vec::len)).unwrap_or_default();
    if answers.as_ref().is_some_and(|answers| answers.len() != count) {
        return Err(raised("there must be as many answers as scores"));
    }
    let none = || vec![None; count];
    let chosen: PyResult<Option<usize>> = match by {
        "best" => Ok(vote::best(&scores.ok_or_else(|| needed("scores"))?)),
        "vote" | "majority" => {
            if by == "vote" && scores.is_none() {
                return Err(needed("scores"));
            }
            let answers = answers.ok_or_else(|| needed("answers"))?;
            let scores = scores.unwrap_or_else(none);
            Ok(py.detach(|| {
                let answers: Vec<Option<&str>> = answers.iter().map(Option::as_deref).collect();
                let groups = vote::groups(&answers);
                let winner = match by {
                    "vote" => vote::weighted(&groups, &scores, power),
                    _ => vote::majority(&groups),
                };
                vote::representative(&groups, &scores, winner)
            }))
        }
        _ => Err(raised(format!("by=`{by}` is not one of best, vote, majority"))),
    };
    chosen?.ok_or_else(|| raised("there is nothing to choose from"))
}

/// One number from the scores of a solution's steps: "last", "min", "product", "mean" or "norm_product" of them.
#[pyfunction]
#[pyo3(signature = (scores, aggregation="last"))]
pub(crate) fn aggregate(scores: Vec<f64>, aggregation: &str) -> PyResult<Option<f64>> {
    let aggregation: Aggregation = aggregation.parse().map_err(raised)?;
    Ok(aggregation.of(&scores))
}

/// The exact expectation, over all subsets of `n` candidates, that the best by score is right.
#[pyfunction]
pub(crate) fn expected_best_of_n(
    scores: Vec<Option<f64>>,
    correct: Vec<bool>,
    n: usize,
) -> PyResult<Option<f64>> {
    if scores.len() != correct.len() {
        return Err(raised(format!("{} scores and {} outcomes", scores.len(), correct.len())));
    }
    Ok(best_of_n::expected_best(&scores, &correct, n))
}

/// The exact expectation, over all subsets of `n` candidates, that one is right: pass@n.
#[pyfunction]
pub(crate) fn pass_at_n(correct: Vec<bool>, n: usize) -> Option<f64> {
    best_of_n::expected_pass(&correct, n)
}
