//! Works off a job's tasks: several at once, each result kept when it is there.
//!
//! A task whose trouble passes is put back and tried again later, up to a number of attempts. When one task after another
//! fails and none succeeds, the other side is taken to be down: the work stops with its last words, and can go on later.

use std::future::Future;
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::time::{MissedTickBehavior, interval, sleep};

use crate::{JobId, Result, State, Store, Worker};

/// How tasks are worked off.
#[derive(Debug, Clone, PartialEq)]
pub struct Workers {
    /// Tasks at once.
    pub concurrency: usize,
    /// How often a task is tried before it has failed.
    pub attempts: u32,
    /// So many tasks that fail in a row, without one that succeeds, mean that nothing works.
    pub patience: usize,
    /// How long a task belongs to a worker that says nothing; it says something three times in between.
    pub lease: Duration,
}

impl Default for Workers {
    fn default() -> Self {
        Self { concurrency: 8, attempts: 3, patience: 8, lease: Duration::from_secs(60) }
    }
}

/// Why a task has no result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trouble {
    /// Trying again may help.
    Passing(String),
    /// It will not.
    Final(String),
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event<'a> {
    /// A task has its result.
    Done {
        /// Its number.
        task: usize,
        /// What was kept.
        result: &'a str,
    },
    /// A task had trouble.
    Trouble {
        /// Its number.
        task: usize,
        /// What it was.
        why: &'a str,
        /// Whether it will be tried again.
        again: bool,
    },
    /// Nothing did, for a moment.
    Tick,
}

/// Why the work stopped before its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stop {
    /// Whoever watches wanted it.
    Asked,
    /// Somebody cancelled the job, or removed it.
    Cancelled,
    /// Nothing works; the last trouble.
    Down(String),
}

/// How the work ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ended {
    /// Tasks done now.
    pub done: usize,
    /// Tasks that have failed for good now.
    pub failed: usize,
    /// Times a task was put back.
    pub put_back: usize,
    /// Why it stopped early.
    pub stop: Option<Stop>,
}

impl Ended {
    /// Whether every task has a result.
    pub fn is_complete(&self) -> bool {
        self.stop.is_none() && self.failed == 0
    }
}

/// Works until nothing is open. `each` does a task; `watch` hears of everything and says whether to go on: if not, what is
/// in flight is finished first.
pub async fn work<F>(
    store: &dyn Store,
    job: JobId,
    workers: &Workers,
    each: impl Fn(usize) -> F,
    mut watch: impl FnMut(Event<'_>) -> bool,
) -> Result<Ended>
where
    F: Future<Output = std::result::Result<String, Trouble>>,
{
    let this = Worker::this();
    let lease = workers.lease.as_secs_f64();
    let mut ended = Ended::default();
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
                        let doing = each(task);
                        running.push(async move {
                            let kept = match doing.await {
                                Ok(result) => {
                                    store.finish(job, task, result.clone()).await.map(|()| Ok(result))
                                }
                                Err(Trouble::Passing(why)) => {
                                    let again =
                                        store.give_back(job, task, why.clone(), workers.attempts).await;
                                    again.map(|again| Err((why, again)))
                                }
                                Err(Trouble::Final(why)) => {
                                    let failed = store.give_back(job, task, why.clone(), 0).await;
                                    failed.map(|again| Err((why, again)))
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
            if !watch(Event::Tick) {
                ended.stop = Some(Stop::Asked);
            }
            sleep(Duration::from_millis(500)).await;
            continue;
        }
        let go_on = tokio::select! {
            Some((task, kept)) = running.next() => match kept? {
                Ok(result) => {
                    failing = 0;
                    ended.done += 1;
                    watch(Event::Done { task, result: &result })
                }
                Err((why, again)) => {
                    failing += 1;
                    if again { ended.put_back += 1 } else { ended.failed += 1 }
                    let go_on = watch(Event::Trouble { task, why: &why, again });
                    if failing >= workers.patience && ended.stop.is_none() {
                        ended.stop = Some(Stop::Down(why));
                    }
                    go_on
                }
            },
            _ = beat.tick() => {
                if !store.renew(job, &this, lease).await? && ended.stop.is_none() {
                    ended.stop = stopped(store, job).await;
                }
                watch(Event::Tick)
            }
            () = sleep(Duration::from_millis(200)) => watch(Event::Tick),
        };
        if !go_on && ended.stop.is_none() {
            ended.stop = Some(Stop::Asked);
        }
    }
}

/// Why a job is not running any more: another worker may have brought it to its end.
async fn stopped(store: &dyn Store, job: JobId) -> Option<Stop> {
    let is_done = store.job(job).await.is_ok_and(|job| job.state == State::Done);
    (!is_done).then_some(Stop::Cancelled)
}
