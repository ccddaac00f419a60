//! Long work as a job: remembered task by task, so that a run that is killed goes on where it was.

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use gradus_core::contracts::CallError;
use gradus_durable::journal_key;
use gradus_engine::models::Store as Home;
use gradus_store::{
    JobId, JobSpec, JobState, SqliteStore, StopReason, Store as _, TaskError, TaskEvent, TaskRunnerSettings,
    run_tasks,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::args::generator::JobOptions;
use crate::commands::Status;
use crate::progress::Progress;
use crate::{interrupt, printer};

/// Opens the jobs' file.
pub(crate) fn open(options: &JobOptions) -> Result<SqliteStore> {
    let path = match &options.jobs {
        Some(path) => path.clone(),
        None => Home::from_env()?.home.join("jobs.sqlite"),
    };
    SqliteStore::open(&path).context("--jobs")
}

/// What is to be done.
pub(crate) struct Work<'a, D> {
    /// Such as `annotate judge`.
    pub(crate) kind: &'a str,
    /// Where the output goes.
    pub(crate) output: &'a Path,
    /// Everything that determines the results.
    pub(crate) determined_by: D,
    /// What people call each task.
    pub(crate) tasks: Vec<String>,
    /// Tasks at once.
    pub(crate) concurrency: usize,
    /// Go on without tasks that have failed for good.
    pub(crate) skip_failed: bool,
    /// Say on standard error what happens.
    pub(crate) quiet: bool,
}

/// How it ended.
pub(crate) enum Ended<T> {
    /// Every task has a result, but for those that were to be skipped.
    Complete(Complete<T>),
    /// It stopped where it can go on; a person has been told.
    Stopped(Status),
}

/// What is there at the end.
pub(crate) struct Complete<T> {
    /// One for each task; none where it failed and was to be skipped.
    pub(crate) results: Vec<Option<T>>,
    /// Tasks that an earlier run had done.
    pub(crate) resumed: usize,
    /// Tasks without a result.
    pub(crate) failed: usize,
    job: JobId,
    store: SqliteStore,
}

impl<T> Complete<T> {
    /// The output is written: the job is done.
    pub(crate) async fn done(&self) -> Result<()> {
        Ok(self.store.set_state(self.job, JobState::Done).await?)
    }
}

/// Does the work. `each` gives a task's result, or says what is wrong; `message` is shown beside the progress.
pub(crate) async fn run<T, D, F>(
    options: &JobOptions,
    work_: Work<'_, D>,
    each: impl Fn(usize) -> F,
    message: impl Fn() -> String,
) -> Result<Ended<T>>
where
    T: Serialize + DeserializeOwned,
    D: Serialize,
    F: Future<Output = std::result::Result<T, CallError>>,
{
    check_output(work_.output)?;
    let store = open(options)?;
    let total = work_.tasks.len();
    let spec = JobSpec {
        kind: work_.kind.to_owned(),
        fingerprint: journal_key(&(work_.kind, &work_.determined_by, &work_.tasks)),
        command: std::env::args().skip(1).collect(),
        folder: std::env::current_dir().context("the current folder is not known")?,
        output: Some(work_.output.to_owned()),
        tasks: work_.tasks,
    };
    let job = store.begin(spec).await?;
    let again = store.reopen(job.id).await?;
    let resumed = job.tasks.done;
    if !work_.quiet && resumed > 0 {
        printer::note(format!(
            "job {}: {} of {} done before{}",
            job.id,
            printer::count(resumed as u64),
            printer::count(total as u64),
            if again > 0 { format!(", {again} that failed are tried again") } else { String::new() }
        ));
    }
    interrupt::be_patient();
    let workers = TaskRunnerSettings { concurrency: work_.concurrency, ..TaskRunnerSettings::default() };
    let patience = workers.max_consecutive_failures.max(work_.concurrency.min(32));
    let workers = TaskRunnerSettings { max_consecutive_failures: patience, ..workers };
    let mut progress = Progress::new(total as u64, false);
    let mut done = resumed as u64;
    let mut shown = Instant::now();
    let each = |task: usize| {
        let doing = each(task);
        async move {
            match doing.await {
                Ok(result) => Ok(serde_json::to_string(&result).expect("a result is plain data")),
                Err(CallError::Invalid(why)) => Err(TaskError::Permanent(why)),
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
    drop(progress);
    // Other processes may have done some.
    let left = total - store.job(job.id).await?.tasks.done;
    let go_on = format!("the same command, or `gradus jobs resume {}`, goes on", job.id);
    match ended.stop {
        Some(StopReason::Requested) => {
            printer::note(format!("stopped with {} of {total} done; {go_on}", total - left));
            return Ok(Ended::Stopped(Status::Interrupted));
        }
        Some(StopReason::Cancelled) => {
            printer::note(format!(
                "job {} was cancelled with {} of {total} done; {go_on}",
                job.id,
                total - left
            ));
            return Ok(Ended::Stopped(Status::Interrupted));
        }
        Some(StopReason::ConsecutiveFailures(why)) => {
            bail!("nothing works any more, {} of {total} are done: {why}; {go_on}", total - left)
        }
        None => {}
    }
    if left > 0 && !work_.skip_failed {
        let faults = store.faults(job.id).await?;
        let first =
            faults.first().map_or_else(String::new, |fault| format!("{}: {}", fault.name, fault.fault));
        bail!("{left} of {total} failed, the first is {first}; {go_on}, and --skip-failed writes the others");
    }
    let mut results: Vec<Option<T>> = (0..total).map(|_| None).collect();
    for (task, result) in store.results(job.id).await? {
        let result = serde_json::from_str(&result)
            .with_context(|| format!("job {}: the result of task {task} cannot be read", job.id))?;
        results[task] = Some(result);
    }
    Ok(Ended::Complete(Complete { results, resumed, failed: left, job: job.id, store }))
}

/// Whether the output can be written, before anything is paid for.
fn check_output(output: &Path) -> Result<()> {
    if output == Path::new("-") {
        bail!("a job's output is a file: name one with -o");
    }
    if output.is_dir() {
        bail!("{} is a folder: name a file to write", output.display());
    }
    let folder = output.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let probe: PathBuf = folder.join(format!(".gradus-probe-{}", std::process::id()));
    std::fs::write(&probe, b"")
        .and_then(|()| std::fs::remove_file(&probe))
        .with_context(|| format!("nothing can be written into {}", folder.display()))
}
