//! Work that outlives its request: its progress is asked for, or sent as server-sent events.
//!
//! Jobs live with the server. What must survive it is a job of `gradus annotate`, which keeps its results as they come.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use axum::Json;
use axum::extract::{Extension, Path, State};
use axum::http::StatusCode;
use axum::response::sse::{Event, KeepAlive, Sse};
use futures_util::Stream;
use serde::Serialize;
use serde_json::Value;
use tokio::sync::watch;
use utoipa::ToSchema;

use crate::app::App;
use crate::error::ApiError;
use crate::guard::new_id;
use crate::keys::Caller;

/// Jobs that are remembered; of those that have ended, the oldest is forgotten first.
const REMEMBERED: usize = 256;

/// Where a job stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum JobStatus {
    Running,
    Done,
    Failed,
    Cancelled,
}

impl JobStatus {
    /// The word for it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

/// A job and how far it is.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(crate) struct JobState {
    pub(crate) id: String,
    /// What it does.
    pub(crate) kind: &'static str,
    pub(crate) status: JobStatus,
    pub(crate) done: usize,
    pub(crate) total: usize,
    /// Of the done ones, those without a result.
    pub(crate) undecided: usize,
    /// Why it failed.
    pub(crate) error: Option<String>,
    /// What it found, once it has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub(crate) result: Option<Value>,
}

/// A handle for who does the work.
#[derive(Clone)]
pub(crate) struct Job {
    id: String,
    state: watch::Sender<JobState>,
    cancelled: Arc<AtomicBool>,
}

impl Job {
    /// Changes what is known of it, and tells who listens.
    pub(crate) fn update(&self, change: impl FnOnce(&mut JobState)) {
        self.state.send_modify(change);
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Acquire)
    }

    pub(crate) fn state(&self) -> JobState {
        self.state.borrow().clone()
    }
}

/// All jobs, the oldest first.
#[derive(Default)]
pub(crate) struct Jobs(Mutex<VecDeque<Job>>);

impl Jobs {
    /// A new job, or a response that there are too many.
    pub(crate) fn start(&self, kind: &'static str, total: usize) -> Result<Job, ApiError> {
        let mut jobs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if jobs.len() >= REMEMBERED {
            let ended = jobs.iter().position(|job| job.state.borrow().status != JobStatus::Running);
            let Some(ended) = ended else {
                return Err(ApiError::busy(format!("{REMEMBERED} jobs are running: try again later"), 60));
            };
            jobs.remove(ended);
        }
        let id = new_id("job");
        let state = JobState {
            id: id.clone(),
            kind,
            status: JobStatus::Running,
            done: 0,
            total,
            undecided: 0,
            error: None,
            result: None,
        };
        let job = Job { id, state: watch::Sender::new(state), cancelled: Arc::default() };
        jobs.push_back(job.clone());
        Ok(job)
    }

    fn find(&self, id: &str) -> Result<Job, ApiError> {
        let jobs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = jobs.iter().find(|job| job.id == id).cloned();
        found.ok_or_else(|| ApiError::new(StatusCode::NOT_FOUND, format!("there is no job `{id}`")))
    }

    pub(crate) fn all(&self) -> Vec<JobState> {
        let jobs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        jobs.iter().map(|job| JobState { result: None, ..job.state() }).collect()
    }
}

/// Jobs of this server.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct JobList {
    jobs: Vec<JobState>,
}

/// Lists jobs, without their results.
#[utoipa::path(get, path = "/v1/jobs", tag = "jobs", responses((status = 200, body = JobList)))]
pub(crate) async fn list(State(app): State<Arc<App>>) -> Json<JobList> {
    Json(JobList { jobs: app.jobs.all() })
}

/// Shows a job, with its result once it has ended.
#[utoipa::path(get, path = "/v1/jobs/{id}", tag = "jobs", params(("id" = String, Path)),
    responses((status = 200, body = JobState), (status = 404, body = crate::error::ErrorBody)))]
pub(crate) async fn show(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
) -> Result<Json<JobState>, ApiError> {
    app.jobs.find(&id).map(|job| Json(job.state()))
}

/// Cancels a job; what it has found so far stays.
#[utoipa::path(delete, path = "/v1/jobs/{id}", tag = "jobs", params(("id" = String, Path)),
    responses((status = 200, body = JobState), (status = 404, body = crate::error::ErrorBody)))]
pub(crate) async fn cancel(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
) -> Result<Json<JobState>, ApiError> {
    if !caller.manage {
        return Err(ApiError::new(
            StatusCode::FORBIDDEN,
            "this key may not stop jobs (manage in --key-file)",
        ));
    }
    let job = app.jobs.find(&id)?;
    job.cancelled.store(true, Ordering::Release);
    Ok(Json(job.state()))
}

/// Follows a job: an event for each change, the last one with the result.
#[utoipa::path(get, path = "/v1/jobs/{id}/events", tag = "jobs", params(("id" = String, Path)),
    responses((status = 200, description = "server-sent events, each with a JobState", content_type = "text/event-stream"),
        (status = 404, body = crate::error::ErrorBody)))]
pub(crate) async fn events(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, ApiError> {
    let receiver = app.jobs.find(&id)?.state.subscribe();
    let states = futures_util::stream::unfold(Some((receiver, true)), |next| async {
        let (mut receiver, first) = next?;
        if !first && receiver.changed().await.is_err() {
            return None;
        }
        let state = receiver.borrow_and_update().clone();
        let event = Event::default().json_data(&state).unwrap_or_default();
        let next = (state.status == JobStatus::Running).then_some((receiver, false));
        Some((Ok(event), next))
    });
    Ok(Sse::new(states).keep_alive(KeepAlive::default()))
}
