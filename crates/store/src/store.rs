//! The contract of a job store: what a database of jobs, tasks and leases must do.

use std::future::Future;
use std::ops::Range;
use std::pin::Pin;

use crate::error::Result;
use crate::job::{Job, JobId, JobSpec, JobState, TaskCounts, TaskFailure, TaskFault, WorkerStatus};
use crate::worker::Worker;

/// What a store's call returns: a future that can be held behind `dyn`.
pub type StoreFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;

/// A database of jobs. A call happens whole or not at all, but for those that make or check a whole job (`begin`,
/// `put_inputs`, `verify`): they happen in parts, and the same call again does what is missing.
pub trait Store: Send + Sync {
    /// What messages call it: a path, or an address without a password.
    fn place(&self) -> String;
    /// Whether workers on other machines can join.
    fn is_shared(&self) -> bool;
    /// The job with the spec's fingerprint: the one that is there, or a new one. It is running from now on.
    fn begin(&self, spec: JobSpec) -> StoreFuture<'_, Job>;
    /// The job of a command that keeps its results itself: the one that is there, with its state until now, or a new one.
    /// It is running from now on, until its worker is gone.
    fn register(&self, spec: JobSpec, worker: &Worker) -> StoreFuture<'_, (JobId, Option<Job>)>;
    /// Says that the worker of a registered job is alive, and how many tasks are done of how many, where that is known; a
    /// total of 0 is unknown. A job whose worker says nothing for a minute counts as stopped. False where the job is not
    /// running any more.
    fn advance(&self, id: JobId, tasks: Option<(usize, usize)>) -> StoreFuture<'_, bool>;
    /// All jobs, the newest first.
    fn jobs(&self) -> StoreFuture<'_, Vec<Job>>;
    /// One job.
    fn job(&self, id: JobId) -> StoreFuture<'_, Job>;
    /// Says where a job stands.
    fn set_state(&self, id: JobId, state: JobState) -> StoreFuture<'_, ()>;
    /// Forgets a job with all its results.
    fn remove(&self, id: JobId) -> StoreFuture<'_, ()>;
    /// Takes up to `limit` open tasks, in their order, for `seconds`; tasks of workers that are gone or late count as open.
    /// None where the job is not running.
    fn claim(
        &self,
        id: JobId,
        worker: &Worker,
        limit: usize,
        seconds: f64,
    ) -> StoreFuture<'_, Option<Vec<usize>>>;
    /// Extends the leases of a worker; false where the job is not running any more.
    fn renew(&self, id: JobId, worker: &Worker, seconds: f64) -> StoreFuture<'_, bool>;
    /// Keeps a task's result and counts it for the worker. The first result stays: a task that was done twice has one.
    fn finish(&self, id: JobId, worker: &Worker, task: usize, result: String) -> StoreFuture<'_, ()>;
    /// Puts a task back after a failure; one that has had `attempts` of them has failed. True if it will be tried again.
    fn give_back(&self, id: JobId, task: usize, failure: TaskFailure, attempts: u32)
    -> StoreFuture<'_, bool>;
    /// Opens the tasks whose result or state is damaged, so that they are done again, and says how many.
    fn verify(&self, id: JobId) -> StoreFuture<'_, usize>;
    /// Opens the tasks that failed, so that they are tried again.
    fn reopen(&self, id: JobId) -> StoreFuture<'_, usize>;
    /// How far some tasks are.
    fn counts(&self, id: JobId, tasks: Range<usize>) -> StoreFuture<'_, TaskCounts>;
    /// The results so far of some tasks, in their order.
    fn results(&self, id: JobId, tasks: Range<usize>) -> StoreFuture<'_, Vec<(usize, String)>>;
    /// The tasks from `from` on that have had a fault and have no result, with the last fault; `limit` of them.
    fn faults(&self, id: JobId, from: usize, limit: usize) -> StoreFuture<'_, Vec<TaskFault>>;
    /// Keeps what the tasks from `first` on are given, for workers that do not have the input.
    fn put_inputs(&self, id: JobId, first: usize, inputs: Vec<String>) -> StoreFuture<'_, ()>;
    /// What some tasks are given, in their order; tasks without a kept input are left out.
    fn inputs(&self, id: JobId, tasks: Vec<usize>) -> StoreFuture<'_, Vec<(usize, String)>>;
    /// The workers that have claimed tasks of a job, by name.
    fn workers(&self, id: JobId) -> StoreFuture<'_, Vec<WorkerStatus>>;
}
