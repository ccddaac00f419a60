//! `POST /v1/steps/annotate`: labels for steps by Monte Carlo or a judge, as a job.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use futures_util::{StreamExt, stream};
use gradus_annotate::Annotated;
use gradus_annotate::judge::{self, Judge, JudgeConfig, Protocol};
use gradus_annotate::monte_carlo::{self, Completer, MonteCarloConfig};
use gradus_annotate::prompt::{Conversation, Template};
use gradus_backend::{Generator, block_on};
use gradus_core::contracts::CallError;
use gradus_core::{Problem, Record, Solution};
use serde::Deserialize;
use serde_json::{Value, json};
use utoipa::ToSchema;

use super::input::{SolutionInput, Steps};
use crate::app::App;
use crate::error::ApiError;
use crate::extract::{JsonBody, Place, parse};
use crate::jobs::{Job, JobState, JobStatus};
use crate::models::Ability;

/// What to label, and how.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct AnnotateBody {
    /// The name of a model that generates (default: the first).
    model: Option<String>,
    /// The problem's text.
    problem: String,
    /// The right answer, which Monte Carlo needs.
    answer: Option<String>,
    /// The solutions.
    solutions: Vec<SolutionInput>,
    /// How to label.
    method: MethodName,
    /// The method's settings, as in the configuration of `gradus annotate` (default: its own).
    #[serde(default)]
    #[schema(value_type = Object)]
    config: serde_json::Map<String, Value>,
}

/// How steps are labeled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum MethodName {
    /// Completions from each step are graded.
    MonteCarlo,
    /// A model is asked for the first error.
    Judge,
}

/// A method with its settings.
pub(crate) enum Method {
    MonteCarlo(MonteCarloConfig),
    Judge(JudgeConfig),
}

impl Method {
    pub(crate) fn new(name: MethodName, config: &serde_json::Map<String, Value>) -> Result<Self, ApiError> {
        let bytes = serde_json::to_vec(config).expect("a JSON object is written");
        let refused = |error: gradus_annotate::Error| ApiError::invalid(format!("`config`: {error}"));
        Ok(match name {
            MethodName::MonteCarlo => {
                let config: MonteCarloConfig = parse(&bytes)?;
                config.check().map_err(refused)?;
                Self::MonteCarlo(config)
            }
            MethodName::Judge => {
                let config: JudgeConfig = parse(&bytes)?;
                config.check().map_err(refused)?;
                Self::Judge(config)
            }
        })
    }

    fn name(&self) -> &'static str {
        match self {
            Self::MonteCarlo(_) => "monte_carlo",
            Self::Judge(_) => "judge",
        }
    }
}

/// Labels the steps of solutions, as a job.
#[utoipa::path(post, path = "/v1/steps/annotate", tag = "steps", request_body = AnnotateBody,
    responses((status = 202, body = JobState), (status = "4XX", body = crate::error::ErrorBody)))]
pub(crate) async fn annotate(
    State(app): State<Arc<App>>,
    place: Place,
    JsonBody(body): JsonBody<AnnotateBody>,
) -> Result<(StatusCode, Json<JobState>), ApiError> {
    let method = Method::new(body.method, &body.config)?;
    let model = app.models.find(body.model.as_deref(), Ability::Generate)?.name.clone();
    if matches!(method, Method::MonteCarlo(_)) && body.answer.is_none() {
        return Err(ApiError::invalid("Monte Carlo grades completions: give the right `answer`"));
    }
    let solutions = Steps::of(body.solutions, &app.limits).await?;
    app.limits.copies(body.problem.len(), solutions.len())?;
    let problem =
        Problem { id: "problem".to_owned(), text: body.problem, answer: body.answer, ..Problem::default() };
    let solutions = solutions.into_iter().map(|Steps { id, steps, answer }| Solution {
        id,
        problem_id: problem.id.clone(),
        steps,
        answer,
        ..Solution::default()
    });
    let record = Record::new(problem.clone(), solutions.collect());
    Ok((StatusCode::ACCEPTED, Json(start(app, model, method, vec![record], place)?)))
}

/// Starts a job that labels the solutions of records with a model.
pub(crate) fn start(
    app: Arc<App>,
    model: String,
    method: Method,
    records: Vec<Record>,
    place: Place,
) -> Result<JobState, ApiError> {
    let job = app.jobs.start(method.name(), records.iter().map(|record| record.solutions.len()).sum())?;
    let state = job.state();
    let failed = |_| ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "no thread could be started");
    let thread = std::thread::Builder::new().name("gradus-job".to_owned());
    thread.spawn(move || run(&app, &model, records, &method, &job, place)).map_err(failed)?;
    Ok(state)
}

/// Does the work, on a thread of its own.
fn run(app: &App, model: &str, mut records: Vec<Record>, method: &Method, job: &Job, _place: Place) {
    let found = (app.models.find(Some(model), Ability::Generate))
        .and_then(super::super::models::ServedModel::generator);
    let Ok(generator) = found else { return };
    let ended = block_on(label_all(generator, &records, method, job));
    let status = match ended {
        Ok(Ok(labels)) => {
            let solutions = records.iter_mut().flat_map(|record| &mut record.solutions);
            for (solution, annotated) in solutions.zip(labels) {
                solution.annotations.extend(annotated.and_then(|annotated| annotated.annotation));
            }
            Ok(if job.is_cancelled() { JobStatus::Cancelled } else { JobStatus::Done })
        }
        Ok(Err(error)) => Err(error.to_string()),
        Err(error) => Err(error.to_string()),
    };
    job.update(|state| {
        match status {
            Ok(status) => state.status = status,
            Err(message) => (state.status, state.error) = (JobStatus::Failed, Some(message)),
        }
        state.result = Some(json!({ "records": records }));
    });
}

/// The labels of all solutions, in order; none where it was not come to before the job was cancelled.
async fn label_all(
    generator: &Generator,
    records: &[Record],
    method: &Method,
    job: &Job,
) -> Result<Vec<Option<Annotated>>, CallError> {
    let solutions: Vec<(&Problem, &Solution)> = records
        .iter()
        .flat_map(|record| record.solutions.iter().map(|solution| (&record.problem, solution)))
        .collect();
    let each = async |index: usize| -> Result<(usize, Option<Annotated>), CallError> {
        if job.is_cancelled() {
            return Ok((index, None));
        }
        let (problem, solution) = solutions[index];
        let annotated = label(generator, problem, solution, method).await?;
        job.update(|state| {
            state.done += 1;
            state.undecided += usize::from(annotated.annotation.is_none());
        });
        Ok((index, Some(annotated)))
    };
    let all = stream::iter(0..solutions.len()).map(each);
    let mut each = std::pin::pin!(all.buffer_unordered(generator.concurrency));
    let mut labels: Vec<Option<Annotated>> = vec![None; solutions.len()];
    while let Some(labeled) = each.next().await {
        let (index, annotated) = labeled?;
        labels[index] = annotated;
    }
    Ok(labels)
}

async fn label(
    generator: &Generator,
    problem: &Problem,
    solution: &Solution,
    method: &Method,
) -> Result<Annotated, CallError> {
    let invalid = |error: &dyn std::fmt::Display| CallError::Invalid(error.to_string());
    match method {
        Method::MonteCarlo(config) => {
            let (solve, go_on) = (Template::solve(), Template::go_on());
            let values = gradus_template::context! { problem => problem.question() };
            let user = solve.render(values).map_err(|error| invalid(&error))?;
            let conversation = Conversation::new(None, solve, go_on).map_err(|error| invalid(&error))?;
            let ask = generator
                .prompt(&generator.messages(user), || Box::new(conversation))
                .map_err(|error| invalid(&error))?;
            let completer = Completer { model: generator, name: &generator.name, ask: ask.as_ref() };
            monte_carlo::annotate(completer, problem, solution, config).await
        }
        Method::Judge(config) => {
            let protocol = Protocol::gradus();
            let judge = Judge { model: generator, name: &generator.name, protocol: &protocol, system: None };
            judge::annotate(judge, problem, solution, config).await
        }
    }
}
