//! Jobs that survive a crash: a list of tasks, the workers that lease them, and their results.
//!
//! - [`Store`]: the contract of a job database; [`SqliteStore`] implements it in one file, and `PostgresStore`, with the
//!   feature `postgres`, for workers on several machines
//! - [`run_tasks()`]: runs a job's tasks concurrently and stores each result at once
//! - [`JobSpec`]: describes a job; the same spec is found again by its fingerprint, so a command that is rerun resumes
//!
//! A task is claimed with a lease. A worker that dies loses it: at once if its process ran on this machine, otherwise when
//! the lease expires. A result is one transaction: after a crash it is stored whole or not at all.
//!
//! ```
//! use gradus_store::{JobSpec, SqliteStore, Store, TaskError, TaskRunnerSettings, run_tasks};
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! let store = SqliteStore::open(&folder.path().join("jobs.sqlite"))?;
//! let spec = JobSpec { kind: "squares".into(), fingerprint: "1".into(), tasks: 2, ..JobSpec::default() };
//! let job = store.begin(spec).await?;
//! let square = |number: usize| async move { Ok::<_, TaskError>((number * number).to_string()) };
//! let summary = run_tasks(&store, job.id, &TaskRunnerSettings::default(), square, |task| task.to_string(), |_| true).await?;
//! assert_eq!((summary.done, summary.failed), (2, 0));
//! assert_eq!(store.results(job.id, 0..2).await?, [(0, "0".to_owned()), (1, "1".to_owned())]);
//! # Ok(())
//! # }
//! ```

#[cfg(test)]
mod contract_tests;
mod damage;
mod error;
mod job;
#[cfg(feature = "postgres")]
mod postgres;
mod schema;
mod sqlite;
mod store;
mod task_runner;
mod worker;

pub use error::{Error, Result};
pub use job::{Job, JobId, JobSpec, JobState, TaskCounts, TaskFailure, TaskFault, WorkerStatus};
#[cfg(feature = "postgres")]
pub use postgres::PostgresStore;
pub use sqlite::SqliteStore;
pub use store::{Store, StoreFuture};
pub use task_runner::{RunSummary, StopReason, TaskError, TaskEvent, TaskRunnerSettings, run_tasks};
pub use worker::Worker;
