//! A job in a store that other machines share, as a worker sees it: tasks come with what they are given.

use std::cell::Cell;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use gradus_core::contracts::CallError;
use gradus_durable::journal_key;
use gradus_store::{Job, StopReason, Store, TaskEvent, run_tasks};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::sleep;

use super::{as_task, runner_settings};
use crate::exit::Status;
use crate::terminal::progress::Progress;
use crate::terminal::{interrupt, printer};
use gradus_core::count::counted;

/// How long an input is waited for, and how often it is looked for.
const PATIENCE: Duration = Duration::from_secs(60);
const EVERY: Duration = Duration::from_millis(500);

/// Where a command's tasks come from.
#[derive(Clone, Copy)]
pub(crate) enum TaskSource<'a> {
    /// The input that its arguments name.
    Input,
    /// A job that another machine began.
    Job(SharedJob<'a>),
}

/// A job that another machine began.
#[derive(Clone, Copy)]
pub(crate) struct SharedJob<'a> {
    pub(crate) store: &'a dyn Store,
    pub(crate) job: &'a Job,
}

impl SharedJob<'_> {
    /// Says how many tasks this worker did.
    pub(crate) fn worked(&self, done: usize) -> Status {
        printer::note(format!("job {}: {} done here", self.job.id, counted(done, "task")));
        Status::Done
    }

    /// What a task is given.
    pub(crate) async fn input<T: DeserializeOwned>(&self, task: usize) -> std::result::Result<T, CallError> {
        let failed = |error: gradus_store::Error| CallError::Failed(error.to_string());
        let began = Instant::now();
        let input = loop {
            let found = self.store.inputs(self.job.id, vec![task]).await.map_err(failed)?.pop();
            match found {
                Some((_, input)) => break input,
                // The machine that began the job is still giving them to the store.
                None if began.elapsed() < PATIENCE => sleep(EVERY).await,
                None => return Err(CallError::Failed(format!("task {task} has no input in the store"))),
            }
        };
        serde_json::from_str(&input)
            .map_err(|error| CallError::Invalid(format!("the input of task {task} is invalid: {error}")))
    }

    /// Does tasks until none is open or a stop is asked for, and says how many it did. `settings` must be those of the
    /// job: another prompt file or model of the same name would give other results.
    pub(crate) async fn work<T, F>(
        &self,
        kind: &str,
        settings: &impl Serialize,
        concurrency: usize,
        each: impl Fn(usize) -> F,
        message: impl Fn() -> String,
    ) -> Result<usize>
    where
        T: Serialize,
        F: Future<Output = std::result::Result<T, CallError>>,
    {
        let job = self.job;
        if job.fingerprint.split('-').next() != Some(journal_key(&(kind, settings)).as_str()) {
            bail!(
                "job {}: prompts or models here are not those of the machine that began it, and labels would differ",
                job.id
            );
        }
        let mut progress = Progress::new(job.tasks.total() as u64, false);
        let mut shown = Instant::now();
        let done = Cell::new(0);
        let name = |task: usize| format!("task {task}");
        let watch = |event: TaskEvent<'_>| {
            done.set(done.get() + usize::from(matches!(event, TaskEvent::Done { .. })));
            if shown.elapsed().as_millis() > 100 {
                shown = Instant::now();
                progress.now((job.tasks.done + done.get()) as u64, &message());
            }
            !interrupt::asked()
        };
        let each = |task: usize| as_task(each(task));
        let ended = run_tasks(self.store, job.id, &runner_settings(concurrency), each, name, watch).await?;
        match ended.stop {
            Some(StopReason::Fatal(why) | StopReason::ConsecutiveFailures(why)) => {
                bail!("job {}: stopped after {} tasks: {why}", job.id, done.get())
            }
            Some(StopReason::Requested | StopReason::Cancelled) | None => Ok(done.get()),
        }
    }
}
