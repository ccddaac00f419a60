//! Solutions that a language model samples, and labels of steps by its rollouts: `gradus sample` and
//! `gradus annotate monte-carlo` on datasets in memory, with a model that stays loaded.
//!
//! Seeds belong to problems, solutions and steps, so what a record gets does not depend on the others in its dataset.

use std::collections::HashSet;
use std::future::Future;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use clap::Args;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use gradus_annotate::monte_carlo::{self, Completer, Labels, MonteCarloConfig, Search};
use gradus_annotate::prompt::{Conversation, Template};
use gradus_annotate::sample::{SampleConfig, sample};
use gradus_backend::{Continuation, GeneratorSettings};
use gradus_core::contracts::CallError;
use gradus_core::select::search::Ask;
use gradus_core::{Annotation, Problem, Record, RecordJoin};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::dataset::{Dataset, skips};
use crate::error::raised;
use crate::options::{keywords, options};
use crate::splitting;
use crate::waiting::{refuse_forked, wait};

/// A language model: local, or behind servers.
#[pyclass(frozen, module = "gradus")]
pub(crate) struct Generator(Arc<Opened>);

struct Opened {
    model: gradus_backend::Generator,
    system: Option<String>,
    /// How solutions that have begun are continued, once that was asked.
    continuation: OnceLock<Continuation>,
}

/// Options of `gradus sample` that say how solutions are drawn.
#[derive(Args)]
struct SampleOptions {
    #[arg(long)]
    solutions: Option<usize>,
    #[arg(long, value_parser = max_tokens)]
    max_tokens: Option<usize>,
    #[arg(long, value_parser = temperature)]
    temperature: Option<f32>,
    #[arg(long, value_parser = top_p)]
    top_p: Option<f32>,
    #[arg(long)]
    stop: Vec<String>,
    #[arg(long)]
    steps: Option<String>,
    #[arg(long)]
    prompt: Option<PathBuf>,
    #[arg(long, default_value_t = 0)]
    seed: u64,
}

/// Options of `gradus annotate monte-carlo` that say how steps are labeled.
#[derive(Args)]
struct MonteCarloOptions {
    #[arg(long)]
    samples: Option<u32>,
    #[arg(long)]
    threshold: Option<u32>,
    #[arg(long, value_parser = ["hard", "soft"])]
    labels: Option<String>,
    #[arg(long, value_parser = ["linear", "binary"])]
    search: Option<String>,
    #[arg(long)]
    no_early_stop: bool,
    #[arg(long, value_parser = max_tokens)]
    max_tokens: Option<usize>,
    #[arg(long, value_parser = temperature)]
    temperature: Option<f32>,
    #[arg(long)]
    prompt: Option<PathBuf>,
    #[arg(long)]
    continue_prompt: Option<PathBuf>,
    #[arg(long, default_value_t = 0)]
    seed: u64,
}

#[pymethods]
impl Generator {
    /// Loads a model, or prepares connections to servers. Nothing is downloaded: `gradus models pull` does that.
    #[new]
    #[pyo3(signature = (model=None, *, device=None, **settings))]
    fn new(
        py: Python<'_>,
        model: Option<Bound<'_, PyAny>>,
        device: Option<Bound<'_, PyAny>>,
        settings: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let named = [("model", model), ("device", device)];
        let settings: GeneratorSettings = options("Generator", named, keywords(settings)?)?;
        refuse_forked()?;
        let model = py.detach(|| gradus_backend::Generator::open(&settings)).map_err(raised)?;
        Ok(Self(Arc::new(Opened { model, system: settings.system, continuation: OnceLock::new() })))
    }

    /// The model's name.
    #[getter]
    fn model(&self) -> &str {
        &self.0.model.name
    }

    /// Samples solutions to the problems of a dataset, as `gradus sample` does. A problem that the model cannot take
    /// is left out with `on_error="skip"`, and counted in `skipped`.
    #[pyo3(signature = (problems, *, on_error="fail", **settings))]
    fn sample(
        &self,
        py: Python<'_>,
        problems: &Bound<'_, Dataset>,
        on_error: &str,
        settings: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Dataset> {
        let skips = skips(on_error)?;
        let given: SampleOptions = options("sample", [], keywords(settings)?)?;
        let config = given.config()?;
        config.check().map_err(raised)?;
        let asked = Arc::new(Asked::new(&self.0, given.prompt, None)?);
        let config = Arc::new(config);
        let work = distinct(&problems.get().records).into_iter().map(move |problem| {
            let (asked, config) = (Arc::clone(&asked), Arc::clone(&config));
            async move {
                let ask = asked.ask(&problem)?;
                let model = &asked.opened.model;
                let sampled = sample(model, &model.name, ask.as_ref(), &problem, &config).await?;
                Ok::<_, CallError>(Record::new(problem, sampled.solutions))
            }
        });
        let done = self.answers(py, work, skips)?;
        let skipped = done.iter().filter(|record| record.is_none()).count() as u64;
        Ok(Dataset { records: done.into_iter().flatten().collect(), skipped })
    }

    /// Labels the steps of a dataset's solutions by rollouts, as `gradus annotate monte-carlo` does: records of one
    /// problem are joined, and solutions with the same text are labeled once. A solution that the model cannot take
    /// stays without labels with `on_error="skip"`, and is counted in `skipped`.
    #[pyo3(signature = (solutions, *, on_error="fail", **settings))]
    fn monte_carlo(
        &self,
        py: Python<'_>,
        solutions: &Bound<'_, Dataset>,
        on_error: &str,
        settings: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Dataset> {
        let skips = skips(on_error)?;
        let given: MonteCarloOptions = options("monte_carlo", [], keywords(settings)?)?;
        let config = Arc::new(given.config());
        config.check().map_err(raised)?;
        // A prompt of one's own is there to be used.
        if given.continue_prompt.is_none() && self.0.continuation.get().is_none() {
            let found = py.detach(|| self.0.model.continuation()).map_err(raised)?;
            let _ = self.0.continuation.set(found);
        }
        let asked = Arc::new(Asked::new(&self.0, given.prompt, given.continue_prompt)?);
        let mut join = RecordJoin::default();
        for record in &solutions.get().records {
            join.add(record.clone()).map_err(raised)?;
        }
        let mut records = join.records;
        let tasks: Vec<(Problem, gradus_core::Solution)> = records
            .iter()
            .flat_map(|record| {
                firsts(record).map(|at| (record.problem.clone(), record.solutions[at].clone()))
            })
            .collect();
        let work = tasks.into_iter().map(move |(problem, solution)| {
            let (asked, config) = (Arc::clone(&asked), Arc::clone(&config));
            async move {
                let ask = asked.ask(&problem)?;
                let model = &asked.opened.model;
                let completer = Completer { model, name: &model.name, ask: ask.as_ref() };
                monte_carlo::annotate(completer, &problem, &solution, &config).await
            }
        });
        let mut done = self.answers(py, work, skips)?.into_iter();
        let mut skipped = 0;
        for record in &mut records {
            let found: Vec<_> = firsts(record).map(|_| done.next().flatten()).collect();
            skipped += found.iter().filter(|found| found.is_none()).count() as u64;
            let labels = found.into_iter().map(|found| {
                let mut annotation = found?.annotation?;
                annotation.unseeded = self.0.model.is_unseeded();
                Some(annotation)
            });
            attach(record, labels.collect());
        }
        Ok(Dataset { records, skipped })
    }

    fn __repr__(&self) -> String {
        format!("Generator({:?})", self.0.model.name)
    }
}

impl Generator {
    /// The answers of all tasks in their order, several asked for at once; None for what the model cannot take, where
    /// that is left out.
    fn answers<T, F>(
        &self,
        py: Python<'_>,
        work: impl Iterator<Item = F> + Send + 'static,
        skips: bool,
    ) -> PyResult<Vec<Option<T>>>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, CallError>> + Send + 'static,
    {
        let each = move |task: F| async move {
            match task.await {
                Ok(answer) => Ok(Some(answer)),
                Err(CallError::Invalid(_)) if skips => Ok(None),
                Err(error @ CallError::Invalid(_)) => {
                    Err(format!("{error} (use on_error=\"skip\" to leave it out)"))
                }
                Err(error) => Err(error.to_string()),
            }
        };
        let answers = stream::iter(work.map(each)).buffered(self.0.model.concurrency);
        wait(py, answers.try_collect())?.map_err(raised)
    }
}

/// A model with the prompts that it is asked with.
struct Asked {
    opened: Arc<Opened>,
    solve: Template,
    go_on: Template,
}

impl Asked {
    fn new(opened: &Arc<Opened>, solve: Option<PathBuf>, go_on: Option<PathBuf>) -> PyResult<Self> {
        let read = |path: Option<PathBuf>, usual: fn() -> Template| {
            path.map_or_else(|| Ok(usual()), |path| Template::read(&path)).map_err(raised)
        };
        let asked = Self {
            opened: Arc::clone(opened),
            solve: read(solve, Template::solve)?,
            go_on: read(go_on, Template::go_on)?,
        };
        // Templates that do not work are found before anything is paid for.
        Conversation::new(None, asked.solve.clone(), asked.go_on.clone()).map_err(raised)?;
        Ok(asked)
    }

    /// How the model is asked about a problem.
    fn ask(&self, problem: &Problem) -> Result<Box<dyn Ask>, CallError> {
        let invalid = |error: &dyn std::fmt::Display| CallError::Invalid(error.to_string());
        let Opened { model, system, continuation } = &*self.opened;
        let user = gradus_template::context! { problem => problem.question() };
        let user = self.solve.render(user).map_err(|error| invalid(&error))?;
        let mut conversation = Conversation::new(system.clone(), self.solve.clone(), self.go_on.clone())
            .map_err(|error| invalid(&error))?;
        conversation.continues_turns = continuation.get() == Some(&Continuation::Turn);
        model.prompt(&model.messages(user), || Box::new(conversation)).map_err(|error| invalid(&error))
    }
}

impl SampleOptions {
    fn config(&self) -> PyResult<SampleConfig> {
        let mut config = SampleConfig { stop: self.stop.clone(), seed: self.seed, ..SampleConfig::default() };
        config.solutions = self.solutions.unwrap_or(config.solutions);
        config.max_tokens = self.max_tokens.unwrap_or(config.max_tokens);
        config.sampling.temperature = self.temperature.unwrap_or(config.sampling.temperature);
        config.sampling.top_p = self.top_p.unwrap_or(config.sampling.top_p);
        if let Some(strategy) = &self.steps {
            config.steps = splitting::config(strategy, 0)?;
        }
        Ok(config)
    }
}

impl MonteCarloOptions {
    fn config(&self) -> MonteCarloConfig {
        let mut config = MonteCarloConfig {
            early_stop: !self.no_early_stop,
            seed: self.seed,
            ..MonteCarloConfig::default()
        };
        config.samples = self.samples.unwrap_or(config.samples);
        config.threshold = self.threshold.unwrap_or(config.threshold);
        config.max_tokens = self.max_tokens.unwrap_or(config.max_tokens);
        config.sampling.temperature = self.temperature.unwrap_or(config.sampling.temperature);
        if self.labels.as_deref() == Some("soft") {
            config.labels = Labels::Soft;
        }
        if self.search.as_deref() == Some("binary") {
            config.search = Search::Binary;
        }
        config
    }
}

fn max_tokens(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|number| *number > 0);
    number.ok_or_else(|| format!("`{text}` is not a whole number of at least 1"))
}

fn temperature(text: &str) -> Result<f32, String> {
    let number = text.parse().ok().filter(|number: &f32| number.is_finite() && *number >= 0.0);
    number.ok_or_else(|| format!("`{text}` is not a number of at least 0"))
}

fn top_p(text: &str) -> Result<f32, String> {
    let number = text.parse().ok().filter(|number: &f32| *number > 0.0 && *number <= 1.0);
    number.ok_or_else(|| format!("`{text}` is not a number above 0 and at most 1"))
}

/// The problems of records; one that occurs again with the same id and text is left out.
fn distinct(records: &[Record]) -> Vec<Problem> {
    let mut seen = HashSet::new();
    let mut problems: Vec<Problem> = records.iter().map(|record| record.problem.clone()).collect();
    problems.retain(|problem| seen.insert((problem.id.clone(), problem.text.clone())));
    problems
}

/// The solutions of a record whose text none before them has.
fn firsts(record: &Record) -> impl Iterator<Item = usize> + use<> {
    let earliest = record.earliest_equal();
    earliest.into_iter().enumerate().filter(|(at, first)| at == first).map(|(at, _)| at)
}

/// Gives the solutions of a record the labels of their texts. Earlier labels of the same annotator are replaced, and
/// what a text cost is with its first solution alone.
fn attach(record: &mut Record, mut labels: Vec<Option<Annotation>>) {
    let earliest = record.earliest_equal();
    let firsts: Vec<usize> = firsts(record).collect();
    for (solution, first) in record.solutions.iter_mut().zip(earliest) {
        let text = firsts.binary_search(&first).expect("the earliest of its text is among the first ones");
        let Some(annotation) = &mut labels[text] else { continue };
        let name = annotation.annotator();
        solution.annotations.retain(|other| other.annotator().is_none() || other.annotator() != name);
        solution.annotations.push(annotation.clone());
        annotation.cost = None;
    }
}
