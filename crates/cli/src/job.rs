//! Long work as a job: results are stored task by task, so that an interrupted run can be resumed.
//!
//! [`run`] keeps the results of its tasks in the job database; commands that keep them elsewhere are only listed there,
//! see [`registered`].

mod database;
mod registration;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use gradus_core::contracts::CallError;
use gradus_durable::journal_key;
use gradus_store::{
    JobId, JobSpec, JobState, SqliteStore, StopReason, Store as _, TaskError, TaskEvent, TaskRunnerSettings,
    run_tasks,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::arguments::job::JobOptions;
use crate::exit::Status;
use crate::terminal::progress::Progress;
use crate::terminal::{interrupt, printer};
use gradus_core::count::{counted, grouped};

pub(crate) use database::{command_line, is_foreign, open, resume};
pub(crate) use registration::{registered, registered_with_output};

/// A job to run.
pub(crate) struct JobPlan<'a, D> {
    /// Such as `annotate judge`.
    pub(crate) kind: &'a str,
    /// The output file.
    pub(crate) output: &'a Path,
    /// Everything that determines the results.
    pub(crate) determined_by: D,
    /// Names of the tasks.
    pub(crate) tasks: Vec<String>,
    /// Concurrent tasks.
    pub(crate) concurrency: usize,
    /// Omit tasks that failed permanently.
    pub(crate) skip_failed: bool,
    /// Print nothing on standard error.
    pub(crate) quiet: bool,
}

/// How a job ended.
pub(crate) enum JobEnd<T> {
    /// Every task has a result, except skipped ones.
    Complete(Complete<T>),
    /// Stopped, resumable; the reason has been printed.
    Stopped(Status),
}

/// Results of a complete job.
pub(crate) struct Complete<T> {
    /// One per task; none where it failed and is skipped.
    pub(crate) results: Vec<Option<T>>,
    /// Tasks done by an earlier run.
    pub(crate) resumed: usize,
    /// Tasks without a result.
    pub(crate) failed: usize,
    /// Why they have none.
    pub(crate) failed_by_reason: BTreeMap<String, u64>,
    job: JobId,
    store: SqliteStore,
}

impl<T> Complete<T> {
    /// Marks the job as done, after its output is written.
    pub(crate) async fn done(&self) -> Result<()> {
        Ok(self.store.set_state(self.job, JobState::Done).await?)
    }
}

/// Runs a job. `each` runs one task; `message` is shown beside the progress bar.
pub(crate) async fn run<T, D, F>(
    options: &JobOptions,
    planned: JobPlan<'_, D>,
    each: impl Fn(usize) -> F,
    message: impl Fn() -> String,
) -> Result<JobEnd<T>>
where
    T: Serialize + DeserializeOwned,
    D: Serialize,
    F: Future<Output = std::result::Result<T, CallError>>,
{
    check_output(planned.output)?;
    let store = open(options)?;
    let total = planned.tasks.len();
    let spec = JobSpec {
        kind: planned.kind.to_owned(),
        fingerprint: journal_key(&(planned.kind, &planned.determined_by, &planned.tasks)),
        command: command_line()?,
        folder: std::env::current_dir().context("cannot determine the current folder")?,
        output: Some(planned.output.to_owned()),
        tasks: planned.tasks,
    };
    let mut job = store.begin(spec).await?;
    let damaged = store.verify(job.id).await?;
    if damaged > 0 {
        gradus_durable::report_damaged(store.path(), damaged, "task");
        job = store.job(job.id).await?;
    }
    let again = store.reopen(job.id).await?;
    let resumed = job.tasks.done;
    if !planned.quiet && resumed > 0 {
        printer::note(format!(
            "job {}: resuming, {}/{} done{}",
            job.id,
            grouped(resumed),
            grouped(total),
            if again > 0 { format!(", retrying {}", counted(again, "failed task")) } else { String::new() }
        ));
    }
    interrupt::be_patient();
    let workers = TaskRunnerSettings { concurrency: planned.concurrency, ..TaskRunnerSettings::default() };
    let patience = workers.max_consecutive_failures.max(planned.concurrency.min(32));
    let workers = TaskRunnerSettings { max_consecutive_failures: patience, ..workers };
    let mut progress = Progress::new(total as u64, false);
    let mut done = resumed as u64;
    let mut shown = Instant::now();
    let each = |task: usize| {
        let doing = each(task);
        async move {
            match doing.await {
                Ok(result) => Ok(serde_json::to_string(&result).expect("task results serialize to JSON")),
                Err(CallError::Invalid(why)) => Err(TaskError::Permanent(why)),
                Err(CallError::Refused(why)) => Err(TaskError::Fatal(why)),
                Err(error) => Err(TaskError::Retryable(error.to_string())),
            }
        }
    };
    let ended = run_tasks(&store, job.id, &workers, each, |event| {
        done += u64::from(matches!(event, TaskEvent::Done { .. }));
        if shown.elapsed().as_millis() > 100 {
            shown = Instant::now();
            progress.now(done, &message());
        }
        !interrupt::asked()
    });
    let ended = ended.await?;
    progress.now(done, &message());
    drop(progress);
    // Other processes may have done some.
    let left = total - store.job(job.id).await?.tasks.done;
    let go_on = format!("Rerun the command or `gradus jobs resume {}` to resume", job.id);
    match ended.stop {
        Some(StopReason::Requested) => {
            printer::note(format!("Stopped ({}/{total} done). {go_on}", total - left));
            return Ok(JobEnd::Stopped(Status::Interrupted));
        }
        Some(StopReason::Cancelled) => {
            printer::note(format!("Job {} canceled ({}/{total} done). {go_on}", job.id, total - left));
            return Ok(JobEnd::Stopped(Status::Interrupted));
        }
        Some(StopReason::ConsecutiveFailures(why)) => {
            bail!(
                "Stopped after {} ({}/{total} done): {why}. {go_on}",
                counted(patience, "consecutive failure"),
                total - left
            )
        }
        Some(StopReason::Fatal(why)) => {
            bail!("Refused ({}/{total} done): {why}. {go_on} once it is corrected", total - left)
        }
        None => {}
    }
    let faults = store.faults(job.id).await?;
    let mut failed_by_reason: BTreeMap<String, u64> = BTreeMap::new();
    for fault in &faults {
        *failed_by_reason.entry(CallError::Invalid(fault.fault.clone()).reason()).or_default() += 1;
    }
    if left > 0 && (!planned.skip_failed || left == total) {
        let first =
            faults.first().map_or_else(String::new, |fault| format!("{}: {}", fault.name, fault.fault));
        let skip = if left == total { "" } else { ", or use --skip-failed to omit them" };
        bail!("{left} of {total} tasks failed, first: {first}. {go_on}{skip}");
    }
    let mut results: Vec<Option<T>> = (0..total).map(|_| None).collect();
    for (task, result) in store.results(job.id).await? {
        let result = serde_json::from_str(&result)
            .with_context(|| format!("job {}: the result of task {task} is invalid", job.id))?;
        *results.get_mut(task).with_context(|| format!("job {}: there is no task {task}", job.id))? =
            Some(result);
    }
    Ok(JobEnd::Complete(Complete { results, resumed, failed: left, failed_by_reason, job: job.id, store }))
}

/// Checks that the output can be written before any request is sent.
fn check_output(output: &Path) -> Result<()> {
    if output == Path::new("-") {
        bail!("a job cannot write to standard output: set a file with -o");
    }
    if output.is_dir() {
        bail!("{} is a folder, not a file", output.display());
    }
    let folder = output.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder)
        .with_context(|| format!("cannot make the folder {}", folder.display()))?;
    gradus_durable::PendingFile::create(&folder.join("probe"))
        .map(drop)
        .with_context(|| format!("cannot write to {}", folder.display()))
}
