//! Scores of steps.

use std::sync::Arc;

use clap::Args;
use gradus_backend::{Augmentation, Library, ScorerSettings, check_profile, with_profile};
use gradus_core::Record;
use gradus_core::contracts::{CallError, ScoreRequest, ScoreSteps, StepScores};
use gradus_core::select::{Aggregation, Decision, DecisionChoice, DecisionRule, RuleKind};
use gradus_grade::checks::examine;
use gradus_retrieve::two_stage::{self, Seen, Target};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::dataset::Dataset;
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
#[pyclass(frozen, module = "gradus", weakref)]
pub(crate) struct ScoredSolution {
    #[pyo3(get)]
    problem: String,
    #[pyo3(get)]
    steps: Vec<String>,
    /// For each step, how probable it is that it and all before it are right.
    #[pyo3(get)]
    scores: Vec<f64>,
    /// The name of the scores: model and profile.
    #[pyo3(get)]
    name: String,
    /// How the scores become a first error.
    decision: DecisionRule,
    /// Whether arithmetic that is proved wrong is an error, whatever the scores say: by the profile.
    #[pyo3(get)]
    exact_checks: bool,
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

/// Solutions of a dataset that are scored in one call.
const AT_ONCE: usize = 4096;
/// Metadata key of a solution's references, by the name of the scores.
const RETRIEVAL: &str = "retrieval";

impl Opened {
    /// Gives requests their references where there is a pool; which ones each has, for its metadata.
    async fn retrieve(&self, requests: &mut [ScoreRequest]) -> Result<Vec<Seen>, String> {
        let Some(library) = &self.library else { return Ok(Vec::new()) };
        let targets: Vec<Target> = requests.iter().map(Target::from).collect();
        let found = library.retrieve(&targets, &self.retrieval, |_, _| true).await;
        let found = found.map_err(|error| error.to_string())?;
        let found = requests.iter_mut().zip(found.targets).map(|(request, found)| {
            request.references = found.references.questions;
            request.step_references = found.references.steps;
            found.seen
        });
        Ok(found.collect())
    }

    /// The scores of all requests, with references where there is a pool.
    async fn answer(&self, mut requests: Vec<ScoreRequest>) -> Result<Scored, String> {
        self.retrieve(&mut requests).await?;
        self.scorer.score_steps(requests).await.map_err(|error| error.to_string())
    }

    /// Scores the solutions of records, each text of a problem once; the number of solutions that have no scores.
    async fn score_records(
        &self,
        records: &mut [Record],
        name: &str,
        on_error: OnError,
    ) -> Result<u64, String> {
        let places: Vec<(usize, usize)> = records
            .iter()
            .enumerate()
            .flat_map(|(record, of)| (0..of.solutions.len()).map(move |solution| (record, solution)))
            .collect();
        let requests = places.iter().map(|&(record, solution)| {
            let record = &records[record];
            ScoreRequest::of(&record.problem, &record.solutions[solution])
        });
        let mut requests: Vec<ScoreRequest> = requests.collect();
        let seen = self.retrieve(&mut requests).await?;
        // For each request the number of the one that is sent for it.
        let mut sent: Vec<usize> = Vec::new();
        let mut numbers: Vec<usize> = Vec::with_capacity(requests.len());
        for (at, request) in requests.iter().enumerate() {
            let of_record =
                sent.iter().rposition(|&other| places[other].0 != places[at].0).map_or(0, |last| last + 1);
            let known = sent[of_record..].iter().position(|&other| is_same(&requests[other], request));
            numbers.push(known.map_or(sent.len(), |known| of_record + known));
            if known.is_none() {
                sent.push(at);
            }
        }
        let distinct = sent.iter().map(|&at| requests[at].clone()).collect();
        let answers = self.scorer.score_steps(distinct).await.map_err(|error| error.to_string())?;
        let mut skipped = 0;
        for (at, &(record, solution)) in places.iter().enumerate() {
            let solution = &mut records[record].solutions[solution];
            match (&answers[numbers[at]], on_error) {
                (Ok(found), _) => {
                    solution.scores.insert(name.to_owned(), found.scores.clone());
                }
                (Err(CallError::Invalid(_)), OnError::Skip) => skipped += 1,
                (Err(error), _) => return Err(unscored(error)),
            }
            let Some(seen) = seen.get(at) else { continue };
            // Their names are kept, their texts are in the pool.
            solution.references = None;
            let noted = solution.metadata.entry(RETRIEVAL).or_insert_with(|| serde_json::json!({}));
            if let serde_json::Value::Object(noted) = noted {
                let seen = serde_json::to_value(seen).map_err(|error| error.to_string())?;
                noted.insert(name.to_owned(), seen);
            }
        }
        Ok(skipped)
    }

    /// Solutions with their scores; None for one that has none, with `on_error="skip"`.
    fn scored(
        &self,
        solutions: Vec<(String, Vec<String>)>,
        answers: Result<Scored, String>,
        on_error: OnError,
    ) -> PyResult<Vec<Option<ScoredSolution>>> {
        let (name, decision, exact_checks) =
            (self.scorer.name(), self.scorer.decision, self.scorer.exact_checks);
        let scored = solutions.into_iter().zip(answers.map_err(raised)?);
        let scored = scored.map(|((problem, steps), answer)| match (answer, on_error) {
            (Ok(StepScores { scores, .. }), _) => Ok(Some(ScoredSolution {
                problem,
                steps,
                scores,
                name: name.clone(),
                decision,
                exact_checks,
            })),
            (Err(CallError::Invalid(_)), OnError::Skip) => Ok(None),
            (Err(error), _) => Err(raised(unscored(&error))),
        });
        scored.collect()
    }
}

/// Why a solution has no scores, and what can be done.
fn unscored(error: &CallError) -> String {
    match error {
        CallError::Invalid(_) => {
            format!("{error} (use on_error=\"skip\" to leave such solutions unscored)")
        }
        _ => error.to_string(),
    }
}

/// Whether two requests of one problem ask the same.
fn is_same(one: &ScoreRequest, other: &ScoreRequest) -> bool {
    one.steps == other.steps
        && one.references == other.references
        && one.step_references == other.step_references
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

    /// Scores the solutions of a dataset, as `gradus score` does; `skipped` counts those that have no scores, which is
    /// an error without `on_error="skip"`.
    #[pyo3(signature = (dataset, *, name=None, on_error="fail"))]
    fn score_dataset(
        &self,
        py: Python<'_>,
        dataset: &Bound<'_, Dataset>,
        name: Option<String>,
        on_error: &str,
    ) -> PyResult<Dataset> {
        let on_error = OnError::named(on_error)?;
        let mut records = dataset.get().records.clone();
        let name = name.unwrap_or_else(|| self.0.scorer.name());
        let opened = Arc::clone(&self.0);
        let scored = wait(py, async move {
            let (mut skipped, mut begin) = (0, 0);
            while begin < records.len() {
                let (mut end, mut solutions) = (begin, 0);
                while end < records.len() && solutions < AT_ONCE {
                    solutions += records[end].solutions.len();
                    end += 1;
                }
                skipped += opened.score_records(&mut records[begin..end], &name, on_error).await?;
                begin = end;
            }
            Ok::<_, String>(Dataset { records, skipped })
        });
        scored?.map_err(raised)
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

/// The name of a decision rule, and its threshold or prior.
type NamedRule = (&'static str, f64);

#[pymethods]
impl ScoredSolution {
    #[new]
    #[pyo3(signature = (problem, steps, scores, name=String::new(), decision=None, exact_checks=false))]
    fn new(
        problem: String,
        steps: Vec<String>,
        scores: Vec<f64>,
        name: String,
        decision: Option<(String, f64)>,
        exact_checks: bool,
    ) -> PyResult<Self> {
        if steps.len() != scores.len() {
            let (steps, scores) = (steps.len(), scores.len());
            return Err(raised(format!("{steps} steps and {scores} scores: every step needs exactly one")));
        }
        let decision = match decision {
            None => DecisionRule::default(),
            Some((rule, number)) => match rule.parse().map_err(raised)? {
                RuleKind::Threshold => DecisionRule::Threshold { threshold: number },
                RuleKind::Posterior => DecisionRule::Posterior { prior: number },
            },
        };
        decision.check().map_err(raised)?;
        Ok(Self { problem, steps, scores, name, decision, exact_checks })
    }

    /// Scored solutions travel between processes.
    fn __getnewargs__(&self) -> (&str, Vec<String>, Vec<f64>, &str, NamedRule, bool) {
        let (steps, scores) = (self.steps.clone(), self.scores.clone());
        (&self.problem, steps, scores, &self.name, self.decision(), self.exact_checks)
    }

    /// The rule by which the scores become a first error, that of the model's profile, and its threshold or prior.
    #[getter]
    fn decision(&self) -> NamedRule {
        let (DecisionRule::Threshold { threshold: number } | DecisionRule::Posterior { prior: number }) =
            self.decision;
        (self.decision.kind().name(), number)
    }

    /// The first error by the profile's rule, or by the one that is named, and by exact checks where the profile has them,
    /// from 0; None where there is none.
    #[pyo3(signature = (threshold=None, *, rule=None, prior=None))]
    fn first_error(
        &self,
        threshold: Option<f64>,
        rule: Option<&str>,
        prior: Option<f64>,
    ) -> PyResult<Option<usize>> {
        let rule = rule.map(str::parse).transpose().map_err(raised)?;
        let choice = DecisionChoice { rule, threshold, prior };
        Ok(self.decided(choice)?.first_error)
    }

    /// How probable it is by the scores, and what is proved, that the first error is in each step, and at the end that there is none.
    #[pyo3(signature = (prior=None))]
    fn posterior(&self, prior: Option<f64>) -> PyResult<Vec<f64>> {
        let choice = DecisionChoice { rule: Some(RuleKind::Posterior), prior, threshold: None };
        let posterior = self.decided(choice)?.posterior;
        Ok(posterior.steps.into_iter().chain([posterior.none]).collect())
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
        let scores = (self.name.as_str(), self.scores.as_slice());
        notebook::scored(&self.problem, &self.steps, scores, self.decision, self.exact_checks)
    }
}

impl ScoredSolution {
    /// Decides as `gradus score` does.
    fn decided(&self, choice: DecisionChoice) -> PyResult<Decision> {
        let rule = choice.over(self.decision).map_err(raised)?;
        let proofs = self.exact_checks.then(|| examine(&self.problem, &self.steps).wrong);
        let proven = proofs.and_then(|proofs| proofs.first().map(|proof| proof.step));
        Ok(rule.decide(&self.scores, proven))
    }
}
