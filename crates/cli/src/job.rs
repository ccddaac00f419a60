//! Long work as a job: results are stored task by task, so that an interrupted run can be resumed.
//!
//! [`run`] keeps the results of its tasks in the job database; commands that keep them elsewhere are only listed there,
//! see [`registered`].

mod database;
mod output;
mod records;
mod registration;
mod shared;
mod speed;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use gradus_core::contracts::CallError;
use gradus_data::files::manifest::ShardNames;
use gradus_durable::journal_key;
use gradus_remote::Address;
use gradus_store::{
    Job, JobId, JobSpec, JobState, StopReason, Store, TaskError, TaskEvent, TaskRunnerSettings, Worker,
    run_tasks,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::arguments::job::RunOptions;
use crate::exit::Status;
use crate::output::{shown, working_folder};
use crate::terminal::progress::Progress;
use crate::terminal::{interrupt, printer};
use gradus_core::count::{counted, grouped};

use output::JobOutput;

pub(crate) use database::{absolute, command_line, is_foreign, open, resume};
pub(crate) use records::JobRecords;
pub(crate) use registration::{registered, registered_with_output};
pub(crate) use shared::{SharedJob, TaskSource};
pub(crate) use speed::JobSpeed;

/// Inputs that are given to a shared store at once.
const PUT_AT_ONCE: usize = 1_000;

/// Failed tasks that are read at once.
const FAULTS_AT_ONCE: usize = 10_000;

/// A job to run.
pub(crate) struct JobPlan<'a, D> {
    /// Such as `annotate judge`.
    pub(crate) kind: &'a str,
    /// The output file.
    pub(crate) output: &'a Path,
    /// Everything that determines the results, beside the records themselves.
    pub(crate) settings: D,
    /// A hash of the records, as far as they determine the results.
    pub(crate) inputs: &'a str,
    /// Concurrent tasks.
    pub(crate) concurrency: usize,
    /// Options of every job.
    pub(crate) options: &'a RunOptions,
    /// Print nothing on standard error.
    pub(crate) quiet: bool,
}

/// How a job ended.
pub(crate) enum JobEnd {
    /// Every task has a result, except skipped ones, and the output is written.
    Complete(Complete),
    /// Stopped, resumable; the reason has been printed.
    Stopped(Status),
}

/// A complete job.
pub(crate) struct Complete {
    /// The job.
    pub(crate) job: JobId,
    /// Tasks done by an earlier run.
    pub(crate) resumed: usize,
    /// Tasks without a result.
    pub(crate) failed: usize,
    /// Why they have none.
    pub(crate) failed_by_reason: BTreeMap<String, u64>,
}

/// Runs a job and writes its output. `each` runs one task; `message` is shown beside the progress bar.
pub(crate) async fn run<T, D, F>(
    planned: JobPlan<'_, D>,
    records: &impl JobRecords<T>,
    each: impl Fn(usize) -> F,
    message: impl Fn() -> String,
) -> Result<JobEnd>
where
    T: Serialize + DeserializeOwned,
    D: Serialize,
    F: Future<Output = std::result::Result<T, CallError>>,
{
    check_output(planned.output)?;
    let store = open(&planned.options.jobs)?;
    let total = records.first_task(records.len());
    let fingerprint = format!("{}-{}", journal_key(&(planned.kind, &planned.settings)), planned.inputs);
    let mut output =
        JobOutput::open(planned.output, records.len(), planned.options.shard_size, &fingerprint)?;
    let spec = JobSpec {
        kind: planned.kind.to_owned(),
        fingerprint,
        command: command_line()?,
        folder: std::env::current_dir().context("cannot determine the current folder")?,
        output: Some(shown(planned.output).into_owned()),
        tasks: total,
    };
    let mut job = store.begin(spec).await?;
    // Others see from now on that this process is at work.
    store.renew(job.id, &Worker::this(), 0.0).await?;
    if let Some(other) = same_output(&*store, &job).await? {
        store.set_state(job.id, JobState::Stopped).await?;
        bail!(
            "{} is in use by job {other}: wait until it has finished, or stop it with `gradus jobs cancel {other}`",
            shown(planned.output).display()
        );
    }
    if store.is_shared() {
        put_inputs(&*store, job.id, records, total).await?;
    }
    let damaged = store.verify(job.id).await?;
    if damaged > 0 {
        gradus_durable::report_damaged(Path::new(&store.place()), damaged, "task");
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
    let workers = runner_settings(planned.concurrency);
    let patience = workers.max_consecutive_failures;
    let mut progress = Progress::new(total as u64, false);
    let mut done = resumed as u64;
    let mut shown = Instant::now();
    let each = |task: usize| as_task(each(task));
    let (is_running, is_writable) = (Cell::new(true), Cell::new(true));
    let name = |task| records.name(task);
    let watch = |event: TaskEvent<'_>| {
        done += u64::from(matches!(event, TaskEvent::Done { .. }));
        if shown.elapsed().as_millis() > 100 {
            shown = Instant::now();
            progress.now(done, &message());
        }
        !interrupt::asked() && is_writable.get()
    };
    let running = async {
        let ended = run_tasks(&*store, job.id, &workers, each, name, watch).await;
        is_running.set(false);
        ended
    };
    let writing = async {
        let written = output.write_as_done(&*store, job.id, records, &is_running).await;
        is_writable.set(written.is_ok());
        written
    };
    let (ended, written) = futures_util::join!(running, writing);
    let ended = ended?;
    progress.now(done, &message());
    drop(progress);
    // Other processes may have done some.
    let left = total - store.job(job.id).await?.tasks.done;
    let go_on = format!("Rerun the command or `gradus jobs resume {}` to resume", job.id);
    written.with_context(|| format!("Stopped ({}/{total} done). {go_on}", total - left))?;
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
    if left > 0 && (!planned.options.skip_failed || left == total) {
        let first = store.faults(job.id, 0, 1).await?;
        let first =
            first.first().map_or_else(String::new, |fault| format!("{}: {}", fault.name, fault.fault));
        let skip = if left == total { "" } else { ", or use --skip-failed to omit them" };
        bail!("{left} of {total} tasks failed, first: {first}. {go_on}{skip}");
    }
    let failed_by_reason = failed_by_reason(&*store, job.id).await?;
    output.finish(&*store, job.id, records).await?;
    store.set_state(job.id, JobState::Done).await?;
    Ok(JobEnd::Complete(Complete { job: job.id, resumed, failed: left, failed_by_reason }))
}

/// Another job that is at work on the output of `job`.
async fn same_output(store: &dyn Store, job: &Job) -> Result<Option<JobId>> {
    let place = |job: &Job| {
        let output = job.output.clone().unwrap_or_default();
        if Address::of(&output).is_some() { output } else { job.folder.join(output) }
    };
    let running =
        store.jobs().await?.into_iter().filter(|other| {
            other.id != job.id && other.state == JobState::Running && place(other) == place(job)
        });
    for other in running {
        let workers = store.workers(other.id).await?;
        let is_worked_on = match store.is_shared() {
            // A store of several machines does not know which of their processes are gone.
            true => JobSpeed::of(&other, &workers, now()).is_some(),
            false => !workers.is_empty(),
        };
        if other.registered || is_worked_on {
            return Ok(Some(other.id));
        }
    }
    Ok(None)
}

/// Seconds since 1970.
pub(crate) fn now() -> f64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(0.0, |now| now.as_secs_f64())
}

/// How tasks are run, so many at once.
fn runner_settings(concurrency: usize) -> TaskRunnerSettings {
    let usual = TaskRunnerSettings::default();
    let patience = usual.max_consecutive_failures.max(concurrency.min(32));
    TaskRunnerSettings { concurrency, max_consecutive_failures: patience, ..usual }
}

/// A call as a task: its result as JSON, and what its error means for the others.
async fn as_task<T: Serialize>(
    call: impl Future<Output = std::result::Result<T, CallError>>,
) -> std::result::Result<String, TaskError> {
    match call.await {
        Ok(result) => Ok(serde_json::to_string(&result).expect("task results serialize to JSON")),
        Err(CallError::Invalid(why)) => Err(TaskError::Permanent(why)),
        Err(CallError::Refused(why)) => Err(TaskError::Fatal(why)),
        Err(error) => Err(TaskError::Retryable(error.to_string())),
    }
}

/// Gives the store what each task is given, for workers on other machines. What an earlier run gave is there already.
async fn put_inputs<T>(
    store: &dyn Store,
    job: JobId,
    records: &impl JobRecords<T>,
    total: usize,
) -> Result<()> {
    let mut progress = Progress::new(total as u64, false);
    for first in (0..total).step_by(PUT_AT_ONCE) {
        let tasks = first..total.min(first + PUT_AT_ONCE);
        let end = tasks.end;
        // They are put in order, so the last is there if all are.
        if store.inputs(job, vec![end - 1]).await?.is_empty() {
            let inputs = tasks.map(|task| records.input(task)).collect::<Result<_>>()?;
            store.put_inputs(job, first, inputs).await?;
        }
        progress.at(end as u64, end as u64);
    }
    Ok(())
}

/// Tasks that failed, by the kind of reason.
async fn failed_by_reason(store: &dyn Store, job: JobId) -> Result<BTreeMap<String, u64>> {
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    let mut from = 0;
    loop {
        let faults = store.faults(job, from, FAULTS_AT_ONCE).await?;
        let Some(last) = faults.last() else { return Ok(counts) };
        from = last.task + 1;
        for fault in faults {
            *counts.entry(CallError::Invalid(fault.fault).reason()).or_default() += 1;
        }
    }
}

/// Checks that the output can be written before any request is sent.
pub(crate) fn check_output(output: &Path) -> Result<()> {
    if output == Path::new("-") {
        bail!("a job cannot write to standard output: set a file with -o");
    }
    if let Some(address) = Address::of(output) {
        // Asking what is there needs the same credentials.
        return gradus_remote::look(&address).map(drop).map_err(Into::into);
    }
    if output.is_dir() {
        bail!("{} is a folder, not a file", output.display());
    }
    let folder = &working_folder(output);
    std::fs::create_dir_all(folder)
        .with_context(|| format!("cannot make the folder {}", folder.display()))?;
    gradus_durable::PendingFile::create(&folder.join("probe"))
        .map(drop)
        .with_context(|| format!("cannot write to {}", folder.display()))
}

/// The file to name when an output is written: its manifest, where it is in shards.
pub(crate) fn written(output: &Path, options: &RunOptions) -> PathBuf {
    match options.shard_size {
        Some(_) => ShardNames::new(output, 1).manifest(),
        None => output.to_owned(),
    }
}
