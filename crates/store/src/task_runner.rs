//! Runs a job's tasks concurrently and stores each result as soon as it is there.
//!
//! A task with a retryable error is queued again, up to a number of attempts. After too many consecutive failures the run
//! stops with the last error; it can be resumed later.

use std::future::Future;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::time::{MissedTickBehavior, interval, sleep};

use crate::error::Result;
use crate::job::{JobId, JobState, TaskFailure};
use crate::store::Store;
use crate::worker::Worker;

/// How tasks are run.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskRunnerSettings {
    /// Tasks in flight.
    pub concurrency: usize,
    /// Maximum attempts per task.
    pub attempts: u32,
    /// Consecutive failures after which the run stops.
    pub max_consecutive_failures: usize,
    /// How long a lease lasts; a live worker renews it three times in between.
    pub lease: Duration,
}

impl Default for TaskRunnerSettings {
    fn default() -> Self {
        Self { concurrency: 8, attempts: 3, max_consecutive_failures: 8, lease: Duration::from_secs(60) }
    }
}

/// Why a task has no result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TaskError {
    /// A retry may succeed.
    Retryable(String),
    /// A retry will not succeed.
    Permanent(String),
    /// No other task will succeed either: the run stops, and the task stays open.
    Fatal(String),
}

/// What happened during a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TaskEvent<'a> {
    /// A task has its result.
    Done {
        /// Its number.
        task: usize,
        /// What was kept.
        result: &'a str,
    },
    /// A task failed.
    Failed {
        /// Its number.
        task: usize,
        /// The error.
        why: &'a str,
        /// Whether it will be retried.
        again: bool,
    },
    /// Nothing happened for a moment.
    Tick,
}

/// Why a run stopped early.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StopReason {
    /// The watcher asked for it.
    Requested,
    /// The job was cancelled or removed.
    Cancelled,
    /// Too many consecutive failures; the last error.
    ConsecutiveFailures(String),
    /// An error that every task would have.
    Fatal(String),
}

/// The outcome of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunSummary {
    /// Tasks done in this run.
    pub done: usize,
    /// Tasks that failed permanently in this run.
    pub failed: usize,
    /// Retries: times a task was queued again.
    pub retries: usize,
    /// Why it stopped early.
    pub stop: Option<StopReason>,
}

/// Runs until no task is open. `each` runs a task; `name` says what to call one that failed; `watch` receives every event
/// and returns whether to continue: if not, tasks in flight are finished first.
pub async fn run_tasks<F>(
    store: &dyn Store,
    job: JobId,
    workers: &TaskRunnerSettings,
    each: impl Fn(usize) -> F,
    name: impl Fn(usize) -> String,
    mut watch: impl FnMut(TaskEvent<'_>) -> bool,
) -> Result<RunSummary>
where
    F: Future<Output = std::result::Result<String, TaskError>>,
{
    let this = Worker::this();
    let lease = workers.lease.as_secs_f64();
    let mut ended = RunSummary::default();
    let mut failing = 0;
    let mut running = FuturesUnordered::new();
    let mut beat = interval(workers.lease / 3);
    beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let room = workers.concurrency.max(1) - running.len();
        if room > 0 && ended.stop.is_none() {
            match store.claim(job, &this, room, lease).await? {
                None => ended.stop = stopped(store, job).await,
                Some(tasks) => {
                    for task in tasks {
                        let (doing, name, this) = (each(task), &name, &this);
                        running.push(async move {
                            let kept = match doing.await {
                                Ok(result) => {
                                    store.finish(job, this, task, result.clone()).await.map(|()| Ok(result))
                                }
                                Err(error) => {
                                    let (why, attempts, fatal) = match error {
                                        TaskError::Retryable(why) => (why, workers.attempts, false),
                                        TaskError::Permanent(why) => (why, 0, false),
                                        TaskError::Fatal(why) => (why, u32::MAX, true),
                                    };
                                    let failure = TaskFailure { name: name(task), why: why.clone() };
                                    let again = store.give_back(job, task, failure, attempts).await;
                                    again.map(|again| Err((why, again, fatal)))
                                }
                            };
                            (task, kept)
                        });
                    }
                }
            }
        }
        if running.is_empty() {
            let others = ended.stop.is_none() && store.job(job).await?.tasks.leased > 0;
            if !others {
                return Ok(ended);
            }
            // Another worker has the rest; if it dies, its tasks come back.
            if !watch(TaskEvent::Tick) {
                ended.stop = Some(StopReason::Requested);
            }
            sleep(Duration::from_millis(500)).await;
            continue;
        }
        let mut go_on = true;
        let mut next = tokio::select! {
            first = running.next() => first,
            _ = beat.tick() => {
                if !store.renew(job, &this, lease).await? && ended.stop.is_none() {
                    ended.stop = stopped(store, job).await;
                }
                go_on = watch(TaskEvent::Tick);
                None
            }
            () = sleep(Duration::from_millis(200)) => {
                go_on = watch(TaskEvent::Tick);
                None
            }
        };
        while let Some((task, kept)) = next {
            go_on &= match kept? {
                Ok(result) => {
                    failing = 0;
                    ended.done += 1;
                    watch(TaskEvent::Done { task, result: &result })
                }
                Err((why, _, true)) => {
                    ended.stop.get_or_insert(StopReason::Fatal(why));
                    true
                }
                Err((why, again, false)) => {
                    failing += 1;
                    if again {
                        ended.retries += 1;
                    } else {
                        ended.failed += 1;
                    }
                    let go_on = watch(TaskEvent::Failed { task, why: &why, again });
                    if failing >= workers.max_consecutive_failures && ended.stop.is_none() {
                        ended.stop = Some(StopReason::ConsecutiveFailures(why));
                    }
                    go_on
                }
            };
            // Results that were stored together are answered together: one claim replaces all of them.
            next = running.next().now_or_never().flatten();
        }
        if !go_on && ended.stop.is_none() {
            ended.stop = Some(StopReason::Requested);
        }
    }
}

/// Why a job is not running any more: another worker may have brought it to its end.
async fn stopped(store: &dyn Store, job: JobId) -> Option<StopReason> {
    let is_done = store.job(job).await.is_ok_and(|job| job.state == JobState::Done);
    (!is_done).then_some(StopReason::Cancelled)
}
