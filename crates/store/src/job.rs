//! A job, its state and its tasks, as a store reports them.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// A number that names a job in its store.
pub type JobId = i64;

/// The description of a job.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JobSpec {
    /// What kind of work it is, such as `annotate judge`.
    pub kind: String,
    /// A hash of everything that determines the results.
    pub fingerprint: String,
    /// The command line that resumes it, the program's name left out.
    pub command: Vec<String>,
    /// The folder in which that command is run.
    pub folder: PathBuf,
    /// Where the output goes.
    pub output: Option<PathBuf>,
    /// How many tasks it has; they are numbered from 0 on.
    pub tasks: usize,
}

/// The state of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobState {
    /// Its tasks may be claimed; leases tell whether a worker is active.
    Running,
    /// Its process ended early or was killed; it can be resumed.
    Stopped,
    /// Every task is done and the output is written.
    Done,
    /// Cancelled; workers stop, and it can be resumed.
    Cancelled,
}

impl JobState {
    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Stopped => "stopped",
            Self::Done => "done",
            Self::Cancelled => "cancelled",
        }
    }

    pub(crate) fn of(name: &str) -> Self {
        match name {
            "stopped" => Self::Stopped,
            "done" => Self::Done,
            "cancelled" => Self::Cancelled,
            _ => Self::Running,
        }
    }
}

/// Numbers of tasks by state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskCounts {
    /// Not claimed.
    pub open: usize,
    /// Claimed by a worker.
    pub leased: usize,
    /// With a result.
    pub done: usize,
    /// Failed permanently.
    pub failed: usize,
}

impl TaskCounts {
    /// All of them.
    pub fn total(self) -> usize {
        self.open + self.leased + self.done + self.failed
    }
}

/// A job in a store.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// Its number.
    pub id: JobId,
    /// What kind of work it is.
    pub kind: String,
    /// The command line that resumes it.
    pub command: Vec<String>,
    /// The folder in which that command is run.
    pub folder: PathBuf,
    /// Where the output goes.
    pub output: Option<PathBuf>,
    /// Its state.
    pub state: JobState,
    /// When it began, in seconds since 1970.
    pub created: f64,
    /// When something last happened, in seconds since 1970.
    pub updated: f64,
    /// Numbers of tasks by state.
    pub tasks: TaskCounts,
    /// True for a command that keeps its results itself and only says how far it is.
    #[serde(skip)]
    pub registered: bool,
    /// The hash of everything that determines the results.
    #[serde(skip)]
    pub fingerprint: String,
}

/// A worker of a job, as the store knows it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WorkerStatus {
    /// Its name: machine, process, and when that process began.
    pub worker: String,
    /// Tasks that it has claimed and not brought back.
    pub leased: usize,
    /// Results of it that were kept.
    pub done: usize,
    /// When it first called the store for this job, in seconds since 1970.
    pub began: f64,
    /// When it last called the store for this job, in seconds since 1970.
    pub seen: f64,
}

/// Why a task has no result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskFailure {
    /// What to call the task when this is shown, such as a solution's id.
    pub name: String,
    /// The reason.
    pub why: String,
}

/// A task that has had a fault and has no result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskFault {
    /// Its number.
    pub task: usize,
    /// Its name.
    pub name: String,
    /// Attempts so far.
    pub attempts: u32,
    /// The last fault.
    pub fault: String,
}
