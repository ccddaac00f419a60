//! Final answers: found, and compared with the right one.

use gradus_grade::Verdict;
use pyo3::prelude::*;
use rayon::prelude::*;

use crate::error::raised;
use crate::waiting::refuse_forked;

/// Whether an answer is the right one: "equal", "different" or "undecided".
#[pyclass(frozen, get_all, eq, module = "gradus")]
#[derive(Clone, PartialEq)]
pub(crate) struct Grade {
    verdict: &'static str,
    /// Why it is undecided.
    reason: Option<String>,
    /// The answer that was compared.
    answer: Option<String>,
}

#[pymethods]
impl Grade {
    #[new]
    #[pyo3(signature = (verdict, reason=None, answer=None))]
    fn restored(verdict: &str, reason: Option<String>, answer: Option<String>) -> PyResult<Self> {
        let known = ["equal", "different", "undecided"].into_iter().find(|known| *known == verdict);
        let verdict = known.ok_or_else(|| raised(format!("`{verdict}` is no verdict")))?;
        Ok(Self { verdict, reason, answer })
    }

    /// Grades travel between processes.
    fn __getnewargs__(&self) -> (&'static str, Option<String>, Option<String>) {
        (self.verdict, self.reason.clone(), self.answer.clone())
    }

    /// True, False, or None where it is undecided.
    #[getter]
    fn correct(&self) -> Option<bool> {
        match self.verdict {
            "equal" => Some(true),
            "different" => Some(false),
            _ => None,
        }
    }

    /// True for an answer that is surely right.
    fn __bool__(&self) -> bool {
        self.verdict == "equal"
    }

    fn __repr__(&self) -> String {
        let reason = self.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
        let answer = self.answer.as_ref().map(|answer| format!(", answer={answer:?}")).unwrap_or_default();
        format!("Grade({}{reason}{answer})", self.verdict)
    }
}

impl Grade {
    fn new(verdict: Verdict, answer: Option<String>) -> Self {
        let (verdict, reason) = match verdict {
            Verdict::Equal => ("equal", None),
            Verdict::Different => ("different", None),
            Verdict::Undecided(reason) => ("undecided", Some(reason.describe().to_owned())),
        };
        Self { verdict, reason, answer }
    }

    fn of_solution(gold: &str, solution: &str) -> Self {
        let graded = gradus_grade::grade(gold, solution);
        Self::new(graded.verdict, graded.answer)
    }
}

/// Finds the final answer of a solution, or takes a bare answer, and compares it with the right one.
#[pyfunction]
pub(crate) fn grade(py: Python<'_>, gold: &str, solution: &str) -> Grade {
    py.detach(|| Grade::of_solution(gold, solution))
}

/// Grades many solutions on all cores.
#[pyfunction]
pub(crate) fn grade_batch(
    py: Python<'_>,
    golds: Vec<String>,
    solutions: Vec<String>,
) -> PyResult<Vec<Grade>> {
    if golds.len() != solutions.len() {
        let (golds, solutions) = (golds.len(), solutions.len());
        return Err(raised(format!("{golds} gold answers and {solutions} solutions: give one for each")));
    }
    refuse_forked()?;
    Ok(py.detach(|| {
        let pairs = golds.par_iter().zip(&solutions);
        pairs.map(|(gold, solution)| Grade::of_solution(gold, solution)).collect()
    }))
}

/// Compares two final answers; nothing is searched in either.
#[pyfunction]
pub(crate) fn compare(py: Python<'_>, gold: &str, answer: &str) -> Grade {
    py.detach(|| Grade::new(gradus_grade::compare(gold, answer), Some(answer.to_owned())))
}

/// The final answer that a solution states, or None.
#[pyfunction]
pub(crate) fn extract_answer(py: Python<'_>, solution: &str) -> Option<String> {
    py.detach(|| gradus_grade::extract(solution).map(|found| found.answer))
}
