//! A job and its tasks, as a store tells of them.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::JobId;

/// What a job is to do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Spec {
    /// What kind of work it is, such as `annotate judge`.
    pub kind: String,
    /// A hash of everything that determines the results.
    pub fingerprint: String,
    /// The command line that goes on with it, the program's name left out.
    pub command: Vec<String>,
    /// The folder in which that command is run.
    pub folder: PathBuf,
    /// Where the output goes.
    pub output: Option<PathBuf>,
    /// What people call each task, such as a solution's id.
    pub tasks: Vec<String>,
}

/// Where a job stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// It may be worked on; whether somebody does, the leases tell.
    Running,
    /// Every task is done and the output is written.
    Done,
    /// Somebody cancelled it; workers stop, and it can be resumed.
    Cancelled,
}

impl State {
    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Done => "done",
            Self::Cancelled => "cancelled",
        }
    }

    pub(crate) fn of(name: &str) -> Self {
        match name {
            "done" => Self::Done,
            "cancelled" => Self::Cancelled,
            _ => Self::Running,
        }
    }
}

/// How many tasks are where.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tasks {
    /// Nobody works on them.
    pub open: usize,
    /// Somebody does, or did a moment ago.
    pub leased: usize,
    /// They have a result.
    pub done: usize,
    /// They have had too many faults.
    pub failed: usize,
}

impl Tasks {
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
    /// The command line that goes on with it.
    pub command: Vec<String>,
    /// The folder in which that command is run.
    pub folder: PathBuf,
    /// Where the output goes.
    pub output: Option<PathBuf>,
    /// Where it stands.
    pub state: State,
    /// When it began, in seconds since 1970.
    pub created: f64,
    /// When something last happened, in seconds since 1970.
    pub updated: f64,
    /// How many tasks are where.
    pub tasks: Tasks,
}

/// A task that has had a fault and has no result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskFault {
    /// Its number.
    pub task: usize,
    /// What people call it.
    pub name: String,
    /// How often it was tried.
    pub attempts: u32,
    /// The last fault.
    pub fault: String,
}
