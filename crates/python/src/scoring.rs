//! Scores of steps.

use std::sync::Arc;

use clap::Args;
use gradus_backend::{Augmentation, Library, ScorerSettings, check_profile, with_profile};
use gradus_core::contracts::{CallError, ScoreRequest, ScoreSteps, StepScores};
use gradus_core::metrics::process::first_error;
use gradus_core::select::Aggregation;
use gradus_retrieve::two_stage::{self, Target};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::error::raised;
use crate::notebook;
use crate::options::{keywords, options};
use crate::splitting::steps_of;
use crate::waiting::{promise, refuse_forked, wait};

/// A process reward model: local, or behind servers.
#[pyclass(frozen, module = "gradus")]
pub(crate) struct Scorer(Arc<Opened>);

struct Opened {
    scorer: gradus_backend::Scorer,
    library: Option<Library>,
    retrieval: two_stage::Settings,
}

/// The options of `gradus score` that choose a model.
#[derive(Args)]
struct ScorerOptions {
    #[command(flatten)]
    augmentation: Augmentation,
    #[command(flatten)]
    scorer: ScorerSettings,
}

/// A solution with the scores of its steps.
#[pyclass(frozen, get_all, module = "gradus", weakref)]
pub(crate) struct ScoredSolution {
    problem: String,
    steps: Vec<String>,
    /// For each step, how probable it is that it and all before it are right.
    scores: Vec<f64>,
    /// The name of the scores: model and profile.
    name: String,
}

/// A solution as it is given: its text, or its steps.
#[derive(FromPyObject)]
pub(crate) enum Solution {
    #[pyo3(transparent, annotation = "str")]
    Text(String),
    #[pyo3(transparent, annotation = "Sequence[str]")]
    Steps(Vec<String>),
}

impl Solution {
    fn steps(self) -> Vec<String> {
        match self {
            Self::Text(text) => steps_of(&text),
            Self::Steps(steps) => steps,
        }
    }
}

/// What becomes of a solution that cannot be scored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OnError {
    Fail,
    Skip,
}

impl OnError {
    fn named(name: &str) -> PyResult<Self> {
        match name {
            "fail" => Ok(Self::Fail),
            "skip" => Ok(Self::Skip),
            _ => Err(raised(format!("on_error=`{name}` is neither \"fail\" nor \"skip\""))),
        }
    }
}

type Scored = Vec<Result<StepScores, CallError>>;

impl Opened {
    /// The scores of all requests, with references where there is a pool.
    async fn answer(&self, mut requests: Vec<ScoreRequest>) -> Result<Scored, String> {
        if let Some(library) = &self.library {
            let targets: Vec<Target> = requests.iter().map(Target::from).collect();
            let found = library.retrieve(&targets, &self.retrieval, |_, _| true).await;
            let found = found.map_err(|error| error.to_string())?;
            for (request, found) in requests.iter_mut().zip(found.targets) {
                request.references = found.references.questions;
                request.step_references = found.references.steps;
            }
        }
        self.scorer.score_steps(requests).await.map_err(|error| error.to_string())
    }

    /// Solutions with their scores; None for one that has none, with `on_error="skip"`.
    fn scored(
        &self,
        solutions: Vec<(String, Vec<String>)>,
        answers: Result<Scored, String>,
        on_error: OnError,
    ) -> PyResult<Vec<Option<ScoredSolution>>> {
        let name = self.scorer.name();
        let scored = solutions.into_iter().zip(answers.map_err(raised)?);
        let scored = scored.map(|((problem, steps), answer)| match (answer, on_error) {
            (Ok(StepScores { scores, .. }), _) => {
                Ok(Some(ScoredSolution { problem, steps, scores, name: name.clone() }))
            }
            (Err(CallError::Invalid(_)), OnError::Skip) => Ok(None),
            (Err(error @ CallError::Invalid(_)), OnError::Fail) => {
                let hint = "use on_error=\"skip\" to leave such solutions unscored";
                Err(raised(format!("{error} ({hint})")))
            }
            (Err(error), _) => Err(raised(error)),
        });
        scored.collect()
    }
}

/// Pairs problems with solutions. One problem may go with all solutions.
fn pairs(problems: Problems, solutions: Vec<Solution>) -> PyResult<Vec<(String, Vec<String>)>> {
    let problems = match problems {
        Problems::One(problem) => vec![problem; solutions.len()],
        Problems::Each(problems) => problems,
    };
    if problems.len() != solutions.len() {
        let (problems, solutions) = (problems.len(), solutions.len());
        return Err(raised(format!(
            "{problems} problems and {solutions} solutions: give one problem for each"
        )));
    }
    Ok(problems.into_iter().zip(solutions).map(|(problem, solution)| (problem, solution.steps())).collect())
}

/// One problem of all solutions, or one for each.
#[derive(FromPyObject)]
pub(crate) enum Problems {
    #[pyo3(transparent, annotation = "str")]
    One(String),
    #[pyo3(transparent, annotation = "Sequence[str]")]
    Each(Vec<String>),
}

fn requests(solutions: &[(String, Vec<String>)]) -> Vec<ScoreRequest> {
    let requests = solutions.iter().enumerate().map(|(index, (problem, steps))| ScoreRequest {
        id: index.to_string(),
        problem: problem.clone(),
        steps: steps.clone(),
        ..ScoreRequest::default()
    });
    requests.collect()
}

#[pymethods]
impl Scorer {
    /// Loads a model, or prepares connections to servers. Nothing is downloaded: `gradus models pull` does that.
    #[new]
    #[pyo3(signature = (model=None, *, adapter=None, profile=None, pool=None, device=None, **settings))]
    fn new(
        py: Python<'_>,
        model: Option<Bound<'_, PyAny>>,
        adapter: Option<Bound<'_, PyAny>>,
        profile: Option<Bound<'_, PyAny>>,
        pool: Option<Bound<'_, PyAny>>,
        device: Option<Bound<'_, PyAny>>,
        settings: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let named = [
            ("model", model),
            ("adapter", adapter),
            ("profile", profile),
            ("pool", pool),
            ("device", device),
        ];
        let options: ScorerOptions = options("Scorer", named, keywords(settings)?)?;
        refuse_forked()?;
        py.detach(|| Opened::open(&options)).map(|opened| Self(Arc::new(opened))).map_err(raised)
    }

    /// The model's name.
    #[getter]
    fn model(&self) -> &str {
        &self.0.scorer.model
    }

    /// The profile of a model that has one.
    #[getter]
    fn profile(&self) -> Option<&str> {
        self.0.scorer.profile.as_deref()
    }

    /// What its scores are called in datasets: model and profile.
    #[getter]
    fn name(&self) -> String {
        self.0.scorer.name()
    }

    /// Scores one solution of a problem: its text, which is split into steps, or its steps.
    fn score(&self, py: Python<'_>, problem: String, solution: Solution) -> PyResult<ScoredSolution> {
        let scored = self.score_batch(py, Problems::One(problem), vec![solution], "fail")?;
        scored.into_iter().next().flatten().ok_or_else(|| raised("the model gave no scores"))
    }

    /// Scores many solutions in few passes. Solutions of one problem that are next to each other share its tokens.
    #[pyo3(signature = (problems, solutions, *, on_error="fail"))]
    fn score_batch(
        &self,
        py: Python<'_>,
        problems: Problems,
        solutions: Vec<Solution>,
        on_error: &str,
    ) -> PyResult<Vec<Option<ScoredSolution>>> {
        let on_error = OnError::named(on_error)?;
        let solutions = py.detach(|| pairs(problems, solutions))?;
        if solutions.is_empty() {
            return Ok(Vec::new());
        }
        let (opened, requests) = (Arc::clone(&self.0), requests(&solutions));
        let answers = wait(py, async move { opened.answer(requests).await })?;
        self.0.scored(solutions, answers, on_error)
    }

    /// As `score`, to be awaited. Cancelling stops the work.
    fn score_async<'py>(
        &self,
        py: Python<'py>,
        problem: String,
        solution: Solution,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.promised(py, pairs(Problems::One(problem), vec![solution])?, OnError::Fail, |py, mut scored| {
            let first = scored.pop().flatten().ok_or_else(|| raised("the model gave no scores"))?;
            Ok(first.into_pyobject(py)?.into_any().unbind())
        })
    }

    /// As `score_batch`, to be awaited. Cancelling stops the work.
    #[pyo3(signature = (problems, solutions, *, on_error="fail"))]
    fn score_batch_async<'py>(
        &self,
        py: Python<'py>,
        problems: Problems,
        solutions: Vec<Solution>,
        on_error: &str,
    ) -> PyResult<Bound<'py, PyAny>> {
        let on_error = OnError::named(on_error)?;
        self.promised(py, pairs(problems, solutions)?, on_error, |py, scored| {
            Ok(scored.into_pyobject(py)?.into_any().unbind())
        })
    }

    fn __repr__(&self) -> String {
        let profile =
            self.0.scorer.profile.as_deref().map_or(String::new(), |name| format!(", profile={name:?}"));
        format!("Scorer({:?}{profile})", self.0.scorer.model)
    }
}

impl Scorer {
    fn promised<'py>(
        &self,
        py: Python<'py>,
        solutions: Vec<(String, Vec<String>)>,
        on_error: OnError,
        finish: impl FnOnce(Python<'_>, Vec<Option<ScoredSolution>>) -> PyResult<Py<PyAny>> + Send + 'static,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (opened, requests) = (Arc::clone(&self.0), requests(&solutions));
        let asked = Arc::clone(&self.0);
        let answer =
            async move { if requests.is_empty() { Ok(Vec::new()) } else { asked.answer(requests).await } };
        promise(py, answer, move |py, answers| finish(py, opened.scored(solutions, answers, on_error)?))
    }
}

impl Opened {
    fn open(options: &ScorerOptions) -> gradus_backend::Result<Self> {
        let ScorerOptions { augmentation, scorer } = options;
        let retrieval = augmentation.retrieval.settings();
        let named = with_profile(scorer, augmentation)?;
        if let (Some(_), Some(profile)) = (&augmentation.pool, &named.profile) {
            check_profile(profile, &retrieval)?;
        }
        let library = Library::of(augmentation, &scorer.local)?;
        Ok(Self { scorer: gradus_backend::Scorer::open(&named)?, library, retrieval })
    }
}

#[pymethods]
impl ScoredSolution {
    #[new]
    #[pyo3(signature = (problem, steps, scores, name=String::new()))]
    fn new(problem: String, steps: Vec<String>, scores: Vec<f64>, name: String) -> PyResult<Self> {
        if steps.len() != scores.len() {
            let (steps, scores) = (steps.len(), scores.len());
            return Err(raised(format!("{steps} steps and {scores} scores: every step needs exactly one")));
        }
        Ok(Self { problem, steps, scores, name })
    }

    /// Scored solutions travel between processes.
    fn __getnewargs__(&self) -> (&str, Vec<String>, Vec<f64>, &str) {
        (&self.problem, self.steps.clone(), self.scores.clone(), &self.name)
    }

    /// The first step with a score below the threshold, from 0; None where there is none.
    #[pyo3(signature = (threshold=0.5))]
    fn first_error(&self, threshold: f64) -> Option<usize> {
        first_error(&self.scores, threshold)
    }

    /// One number for the solution: "last", "min", "product", "mean" or "norm_product" of its scores.
    #[pyo3(signature = (aggregation="last"))]
    fn aggregate(&self, aggregation: &str) -> PyResult<Option<f64>> {
        let aggregation: Aggregation = aggregation.parse().map_err(raised)?;
        Ok(aggregation.of(&self.scores))
    }

    fn __len__(&self) -> usize {
        self.steps.len()
    }

    fn __repr__(&self) -> String {
        format!("ScoredSolution(scores={:?})", self.scores)
    }

    /// How Jupyter shows it.
    fn _repr_html_(&self) -> String {
        notebook::scored(&self.problem, &self.steps, &self.name, &self.scores)
    }
}
