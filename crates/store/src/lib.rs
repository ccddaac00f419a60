//! Jobs that survive being killed: a list of tasks, who works on them, and what came out.
//!
//! - [`Store`]: what a database must do; [`Sqlite`] does it in one file, a server's database for many machines would too
//! - [`work()`]: works off a job's tasks, several at once, each result kept the moment it is there
//! - [`Spec`]: what a job is; the same one is found again by its fingerprint, so a command that is run again goes on
//!
//! A task is taken with a lease. Who dies with it loses it: at once if that can be told (a process of this machine), else
//! when the lease runs out. A result is one transaction; a process killed at any instant leaves it whole or not there.
//!
//! ```
//! use gradus_store::{Sqlite, Spec, Store, Trouble, Workers, work};
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! let store = Sqlite::open(&folder.path().join("jobs.sqlite"))?;
//! let spec = Spec { kind: "squares".into(), fingerprint: "1".into(), tasks: vec!["a".into(), "b".into()], ..Spec::default() };
//! let job = store.begin(spec).await?;
//! let square = |number: usize| async move { Ok::<_, Trouble>((number * number).to_string()) };
//! let ended = work(&store, job.id, &Workers::default(), square, |_| true).await?;
//! assert!(ended.is_complete());
//! assert_eq!(store.results(job.id).await?, [(0, "0".to_owned()), (1, "1".to_owned())]);
//! # Ok(())
//! # }
//! ```

mod error;
mod job;
mod schema;
mod sqlite;
mod work;
mod worker;

use std::future::Future;
use std::pin::Pin;

pub use error::{Error, Result};
pub use job::{Job, Spec, State, TaskFault, Tasks};
pub use sqlite::Sqlite;
pub use work::{Ended, Event, Stop, Trouble, Workers, work};
pub use worker::Worker;

/// What a store's call returns: a future that can be held behind `dyn`.
pub type Reply<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;

/// A number that names a job in its store.
pub type JobId = i64;

/// A database of jobs. Every call is one transaction.
pub trait Store: Send + Sync {
    /// The job with the spec's fingerprint: the one that is there, or a new one. It is running from now on.
    fn begin(&self, spec: Spec) -> Reply<'_, Job>;
    /// All jobs, the newest first.
    fn jobs(&self) -> Reply<'_, Vec<Job>>;
    /// One job.
    fn job(&self, id: JobId) -> Reply<'_, Job>;
    /// Says where a job stands.
    fn set_state(&self, id: JobId, state: State) -> Reply<'_, ()>;
    /// Forgets a job with all its results.
    fn remove(&self, id: JobId) -> Reply<'_, ()>;
    /// Takes up to `limit` open tasks, in their order, for `seconds`; tasks of workers that are gone or late count as open.
    /// None where the job is not running.
    fn claim(&self, id: JobId, worker: &Worker, limit: usize, seconds: f64) -> Reply<'_, Option<Vec<usize>>>;
    /// Extends the leases of a worker; false where the job is not running any more.
    fn renew(&self, id: JobId, worker: &Worker, seconds: f64) -> Reply<'_, bool>;
    /// Keeps a task's result. The first result stays: a task that was done twice has one.
    fn finish(&self, id: JobId, task: usize, result: String) -> Reply<'_, ()>;
    /// Puts a task back after a fault; one that has had `attempts` of them has failed. True if it will be tried again.
    fn give_back(&self, id: JobId, task: usize, fault: String, attempts: u32) -> Reply<'_, bool>;
    /// Opens the tasks that failed, so that they are tried again.
    fn reopen(&self, id: JobId) -> Reply<'_, usize>;
    /// The results so far, in the order of the tasks.
    fn results(&self, id: JobId) -> Reply<'_, Vec<(usize, String)>>;
    /// The tasks that have had a fault and have no result, with the last fault.
    fn faults(&self, id: JobId) -> Reply<'_, Vec<TaskFault>>;
}
