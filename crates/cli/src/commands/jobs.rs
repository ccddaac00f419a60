//! `gradus jobs`: what long work there is, and how to go on with it.

use anyhow::{Context, Result, bail};
use clap::Parser;
use gradus_annotate::Annotated;
use gradus_store::{Job, JobState, Store as _, TaskFault};
use serde::Serialize;

use super::Status;
use crate::args::Arguments;
use crate::args::jobs::{JobsCommand, JobsList, JobsNamed, JobsShow};
use crate::printer::{self, Printer};
use crate::{job, local, paint};

pub(super) fn run(command: &JobsCommand) -> Result<Status> {
    match command {
        JobsCommand::List(args) => list(args),
        JobsCommand::Show(args) => show(args),
        JobsCommand::Resume(args) => resume(args),
        JobsCommand::Cancel(args) => cancel(args),
        JobsCommand::Remove(args) => remove(args),
    }
}

fn list(args: &JobsList) -> Result<Status> {
    let store = job::open(&args.jobs)?;
    let jobs = local::wait(store.jobs())??;
    let printer = Printer::new(None);
    if args.print.json {
        printer.json(&jobs)?;
        return Ok(Status::Done);
    }
    if jobs.is_empty() {
        printer.line(format!("no jobs in {}", store.path().display()))?;
        return Ok(Status::Done);
    }
    let rows: Vec<Vec<String>> = jobs
        .iter()
        .map(|job| {
            let tasks = job.tasks;
            vec![
                job.id.to_string(),
                state(job).to_owned(),
                job.kind.clone(),
                format!("{}/{}", printer::count(tasks.done as u64), printer::count(tasks.total() as u64)),
                printer::count(tasks.failed as u64),
                ago(job.updated),
                job.output.as_ref().map_or_else(String::new, |path| path.display().to_string()),
            ]
        })
        .collect();
    printer.table(&["job", "state", "what", "done", "failed", "last", "output"], &rows)?;
    Ok(Status::Done)
}

#[derive(Serialize)]
struct Shown {
    #[serde(flatten)]
    job: Job,
    undecided: usize,
    faults: Vec<TaskFault>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    said: Vec<Said>,
}

#[derive(Serialize)]
struct Said {
    task: usize,
    reason: String,
    said: Vec<String>,
}

fn show(args: &JobsShow) -> Result<Status> {
    let store = job::open(&args.jobs)?;
    let (job, results, faults) = local::wait(async {
        let job = store.job(args.id).await?;
        Ok::<_, gradus_store::Error>((job, store.results(args.id).await?, store.faults(args.id).await?))
    })??;
    let mut said: Vec<Said> = Vec::new();
    for (task, result) in &results {
        // Results of other kinds of jobs know no 'undecided'.
        let Ok(Annotated { undecided: Some(found), .. }) = serde_json::from_str(result) else { continue };
        said.push(Said { task: *task, reason: found.reason, said: found.said });
    }
    let undecided = said.len();
    let printer = Printer::new(None);
    if args.print.json {
        printer.json(&Shown {
            job,
            undecided,
            faults,
            said: if args.undecided { said } else { Vec::new() },
        })?;
        return Ok(Status::Done);
    }
    let tasks = job.tasks;
    printer.line(format!("{} {}, {}", paint::bold(&format!("job {}", job.id)), job.kind, state(&job)))?;
    printer.line(format!("command   gradus {}", job.command.join(" ")))?;
    printer.line(format!("folder    {}", job.folder.display()))?;
    if let Some(output) = &job.output {
        printer.line(format!("output    {}", output.display()))?;
    }
    printer.line(format!("began     {}, last change {}", ago(job.created), ago(job.updated)))?;
    printer.line(format!(
        "tasks     {} done, {} open, {} in work, {} failed; {} of the done ones undecided",
        printer::count(tasks.done as u64),
        printer::count(tasks.open as u64),
        printer::count(tasks.leased as u64),
        printer::count(tasks.failed as u64),
        printer::count(undecided as u64),
    ))?;
    for fault in faults.iter().take(args.show) {
        printer.line(format!("  {} ({} attempts): {}", fault.name, fault.attempts, fault.fault))?;
    }
    if args.undecided {
        for found in said.iter().take(args.show) {
            printer.line(format!("\ntask {}: {}", found.task, found.reason))?;
            for text in &found.said {
                printer.line(paint::dim(text))?;
            }
        }
    }
    let shown = faults.len().max(if args.undecided { undecided } else { 0 });
    if shown > args.show {
        printer.line(format!("… and {} more (--show or --json)", shown - args.show))?;
    }
    Ok(Status::Done)
}

fn resume(args: &JobsNamed) -> Result<Status> {
    let store = job::open(&args.jobs)?;
    let job = local::wait(store.job(args.id))??;
    std::env::set_current_dir(&job.folder)
        .with_context(|| format!("the job's folder {} cannot be entered", job.folder.display()))?;
    drop(store);
    let words = std::iter::once("gradus").chain(job.command.iter().map(String::as_str));
    let arguments = Arguments::try_parse_from(words)
        .with_context(|| format!("job {}: this version does not understand its command", job.id))?;
    printer::note(format!("gradus {}", job.command.join(" ")));
    super::run(arguments)
}

fn cancel(args: &JobsNamed) -> Result<Status> {
    let store = job::open(&args.jobs)?;
    let job = local::wait(store.job(args.id))??;
    if job.state == JobState::Done {
        bail!("job {} is done: there is nothing to cancel", job.id);
    }
    local::wait(store.set_state(args.id, JobState::Cancelled))??;
    let printer = Printer::new(None);
    printer.line(format!(
        "job {} is cancelled with {} of {} done; `gradus jobs resume {}` goes on",
        job.id,
        job.tasks.done,
        job.tasks.total(),
        job.id
    ))?;
    Ok(Status::Done)
}

fn remove(args: &JobsNamed) -> Result<Status> {
    let store = job::open(&args.jobs)?;
    local::wait(store.remove(args.id))??;
    Printer::new(None).line(format!("job {} is forgotten", args.id))?;
    Ok(Status::Done)
}

/// A job that runs has somebody at work on it; one that nobody works on was cut short.
fn state(job: &Job) -> &'static str {
    match job.state {
        JobState::Running if job.tasks.leased == 0 => "stopped",
        other => other.name(),
    }
}

/// `5 min ago`.
fn ago(time: f64) -> String {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let seconds = now.map_or(0.0, |now| now.as_secs_f64() - time).max(0.0);
    match seconds {
        0.0..90.0 => format!("{seconds:.0} s ago"),
        90.0..5400.0 => format!("{:.0} min ago", seconds / 60.0),
        5400.0..172_800.0 => format!("{:.0} h ago", seconds / 3600.0),
        _ => format!("{:.0} days ago", seconds / 86_400.0),
    }
}
