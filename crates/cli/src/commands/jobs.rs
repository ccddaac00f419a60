//! `gradus jobs`: lists, shows, resumes, cancels and removes jobs.

use std::io::IsTerminal as _;

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use gradus_annotate::Annotated;
use gradus_backend::block_on;
use gradus_core::Cost;
use gradus_store::{Job, JobState, Store, TaskFault, WorkerStatus};
use serde::Serialize;

use crate::arguments::JsonOption;
use crate::arguments::job::JobOptions;
use crate::cost;
use crate::exit::Status;
use crate::job::{self, JobSpeed, now};
use crate::terminal::paint;
use crate::terminal::printer::{self, Printer};
use gradus_core::count::{counted, grouped};

/// Results that are read at once.
const RESULTS_AT_ONCE: usize = 10_000;

#[derive(Debug, Subcommand)]
pub(super) enum JobsCommand {
    /// List jobs, newest first
    List(ListArgs),
    /// Show the progress, failures and undecided tasks of a job
    Show(ShowArgs),
    /// Resume a job
    Resume(ResumeArgs),
    /// Cancel a job; it can be resumed later
    Cancel(JobArgs),
    /// Remove a job and its stored results; output files and run folders stay
    Remove(JobArgs),
}

#[derive(Debug, Args)]
pub(super) struct ListArgs {
    #[command(flatten)]
    jobs: JobOptions,
    #[command(flatten)]
    print: JsonOption,
}

#[derive(Debug, Args)]
pub(super) struct ShowArgs {
    /// Job id
    id: i64,
    /// Print the model responses of undecided tasks
    #[arg(long)]
    undecided: bool,
    /// Maximum failed or undecided tasks to print
    #[arg(long, default_value_t = 10)]
    show: usize,
    #[command(flatten)]
    jobs: JobOptions,
    #[command(flatten)]
    print: JsonOption,
}

#[derive(Debug, Args)]
pub(super) struct JobArgs {
    /// Job id
    id: i64,
    #[command(flatten)]
    jobs: JobOptions,
}

#[derive(Debug, Args)]
pub(super) struct ResumeArgs {
    /// Job id
    id: i64,
    /// Run the command of a job database from elsewhere without asking
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    jobs: JobOptions,
}

/// What follows a command about jobs.
pub(super) enum Next {
    /// The program ends.
    Exit(Status),
    /// The job's command runs again.
    Run(Job),
}

pub(super) fn run(command: &JobsCommand) -> Result<Next> {
    Ok(Next::Exit(match command {
        JobsCommand::List(args) => list(args)?,
        JobsCommand::Show(args) => show(args)?,
        JobsCommand::Resume(args) => return resume(args).map(Next::Run),
        JobsCommand::Cancel(args) => cancel(args)?,
        JobsCommand::Remove(args) => remove(args)?,
    }))
}

fn list(args: &ListArgs) -> Result<Status> {
    let store = job::open(&args.jobs)?;
    let jobs = block_on(async {
        let mut listed = Vec::new();
        for job in store.jobs().await?.into_iter().map(as_shown) {
            let is_worked_on = job.state == JobState::Running && !job.registered;
            let workers = if is_worked_on { store.workers(job.id).await? } else { Vec::new() };
            listed.push(ListedJob { speed: JobSpeed::of(&job, &workers, now()), job });
        }
        Ok::<_, gradus_store::Error>(listed)
    })??;
    let printer = Printer::new(None);
    if args.print.json {
        printer.json(&jobs)?;
        return Ok(Status::Done);
    }
    if jobs.is_empty() {
        printer.line(format!("no jobs in {}", store.place()))?;
        return Ok(Status::Done);
    }
    let rows: Vec<Vec<String>> = jobs
        .iter()
        .map(|ListedJob { job, speed }| {
            let tasks = job.tasks;
            vec![
                job.id.to_string(),
                job.state.name().to_owned(),
                job.kind.clone(),
                done(job),
                grouped(tasks.failed),
                speed.as_ref().map_or_else(String::new, JobSpeed::shown),
                ago(job.updated),
                job.output.as_ref().map_or_else(String::new, |path| path.display().to_string()),
            ]
        })
        .collect();
    printer.table(&["job", "state", "kind", "done", "failed", "speed", "updated", "output"], &rows)?;
    Ok(Status::Done)
}

#[derive(Serialize)]
struct ListedJob {
    #[serde(flatten)]
    job: Job,
    #[serde(flatten)]
    speed: Option<JobSpeed>,
}

#[derive(Serialize)]
struct JobDetails {
    #[serde(flatten)]
    job: Job,
    #[serde(flatten)]
    speed: Option<JobSpeed>,
    cost: Cost,
    undecided: usize,
    faults: Vec<TaskFault>,
    workers: Vec<WorkerStatus>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    said: Vec<UndecidedTask>,
}

#[derive(Serialize)]
struct UndecidedTask {
    task: usize,
    reason: String,
    said: Vec<String>,
}

fn show(args: &ShowArgs) -> Result<Status> {
    let store = job::open(&args.jobs)?;
    let (job, found, faults, workers) = block_on(async {
        let job = store.job(args.id).await?;
        let show = if args.print.json { usize::MAX } else { args.show };
        let found = read_results(&*store, &job, show).await?;
        let faults = store.faults(args.id, 0, show).await?;
        let workers = store.workers(args.id).await?;
        Ok::<_, gradus_store::Error>((job, found, faults, workers))
    })??;
    let job = as_shown(job);
    let FoundResults { undecided, said, cost } = found;
    let speed = JobSpeed::of(&job, &workers, now());
    let printer = Printer::new(None);
    if args.print.json {
        printer.json(&JobDetails {
            job,
            speed,
            cost,
            undecided,
            faults,
            workers,
            said: if args.undecided { said } else { Vec::new() },
        })?;
        return Ok(Status::Done);
    }
    let tasks = job.tasks;
    printer.line(format!(
        "{} {}, {}",
        paint::bold(&format!("job {}", job.id)),
        job.kind,
        job.state.name()
    ))?;
    printer.line(format!("command   gradus {}", escaped(&job.command)))?;
    printer.line(format!("folder    {}", job.folder.display()))?;
    if let Some(output) = &job.output {
        printer.line(format!("output    {}", output.display()))?;
    }
    printer.line(format!("created   {}, updated {}", ago(job.created), ago(job.updated)))?;
    if job.registered {
        printer.line(format!("tasks     {} done", done(&job)))?;
        return Ok(Status::Done);
    }
    printer.line(format!(
        "tasks     {} done ({} undecided), {} pending, {} running, {} failed",
        grouped(tasks.done),
        grouped(undecided),
        grouped(tasks.open),
        grouped(tasks.leased),
        grouped(tasks.failed),
    ))?;
    if let Some(speed) = speed {
        printer.line(format!("speed     {}", speed.shown()))?;
    }
    if cost.requests > 0 {
        printer.line(format!(
            "cost      {}, {} prompt tokens, {} completion tokens",
            counted(cost.requests, "request"),
            grouped(cost.prompt_tokens),
            grouped(cost.completion_tokens),
        ))?;
    }
    show_workers(printer, &workers)?;
    for fault in &faults {
        printer.line(format!(
            "  {} ({}): {}",
            fault.name,
            counted(fault.attempts, "attempt"),
            fault.fault
        ))?;
    }
    if args.undecided {
        for found in &said {
            printer.line(format!("\ntask {}: {}", found.task, found.reason))?;
            for text in &found.said {
                printer.line(paint::dim(text))?;
            }
        }
    }
    let all = tasks.failed.max(if args.undecided { undecided } else { 0 });
    printer.more(all, args.show)?;
    Ok(Status::Done)
}

/// Who works on a job, where several do or did.
fn show_workers(printer: Printer, workers: &[WorkerStatus]) -> Result<()> {
    let rows: Vec<Vec<String>> = workers
        .iter()
        .map(|worker| {
            // Machine and boot, process, when that began.
            let mut parts = worker.worker.rsplitn(3, ':');
            let (_, process, machine) = (parts.next(), parts.next(), parts.next());
            let machine = machine.and_then(|machine| machine.split('/').next()).unwrap_or(&worker.worker);
            let name = process.map_or_else(|| machine.to_owned(), |process| format!("{machine}:{process}"));
            vec![name, grouped(worker.done), grouped(worker.leased), ago(worker.seen)]
        })
        .collect();
    if rows.len() > 1 {
        printer.table(&["worker", "done", "running", "seen"], &rows)?;
    }
    Ok(())
}

/// What the results of a job say.
#[derive(Default)]
struct FoundResults {
    /// Tasks that are undecided.
    undecided: usize,
    /// What models said in the first of them.
    said: Vec<UndecidedTask>,
    /// What all tasks cost.
    cost: Cost,
}

/// Reads the results of a job, and what models said in the first `show` tasks that are undecided.
async fn read_results(store: &dyn Store, job: &Job, show: usize) -> gradus_store::Result<FoundResults> {
    let mut all = FoundResults::default();
    for first in (0..job.tasks.total()).step_by(RESULTS_AT_ONCE) {
        for (task, result) in store.results(job.id, first..first + RESULTS_AT_ONCE).await? {
            // Only annotation jobs have such results.
            let Ok(Annotated { undecided, cost, .. }) = serde_json::from_str(&result) else {
                continue;
            };
            cost::add(&mut all.cost, &cost);
            let Some(found) = undecided else { continue };
            all.undecided += 1;
            if all.said.len() < show {
                all.said.push(UndecidedTask { task, reason: found.reason, said: found.said });
            }
        }
    }
    Ok(all)
}

/// Enters the job's folder; its command is parsed and run by the caller.
fn resume(args: &ResumeArgs) -> Result<Job> {
    let store = job::open(&args.jobs)?;
    let job = block_on(store.job(args.id))??;
    check_command(&job)?;
    if job.registered && job.state == JobState::Running {
        bail!("job {} is running; `gradus jobs cancel {}` stops it", job.id, job.id);
    }
    let name = job::absolute(&args.jobs)?;
    if !args.yes && job::is_foreign(&name)? {
        confirm(&job, &store.place())?;
    }
    job::resume(&job.command, &name);
    std::env::set_current_dir(&job.folder)
        .with_context(|| format!("cannot enter the job's folder {}", job.folder.display()))?;
    Ok(job)
}

/// Commands that are kept as jobs. A row that names another one was not written by this program.
const RESUMABLE: [&str; 8] = ["annotate", "bench", "embed", "pool", "sample", "score", "solve", "train"];

/// Refuses a command that no job has: a row may be damaged or made by somebody else. `jobs` is none of them, so that no
/// job resumes itself or another.
pub(super) fn check_command(job: &Job) -> Result<()> {
    let id = job.id;
    let Some(first) = job.command.first() else {
        bail!("job {id}: its command cannot be read; `gradus jobs remove {id}` removes it");
    };
    if !RESUMABLE.contains(&first.as_str()) {
        let command = escaped(&job.command);
        bail!("job {id}: `gradus {command}` is no command of a job; `gradus jobs remove {id}` removes it");
    }
    if job.command.iter().any(|word| word.contains(['\0', '\u{fffd}'])) {
        bail!("job {id}: its command is not plain text; `gradus jobs remove {id}` removes it");
    }
    if !job.folder.is_absolute() {
        bail!("job {id}: its folder {:?} is not an absolute path", job.folder);
    }
    Ok(())
}

/// Shows what a job from elsewhere would run, and asks where somebody can answer.
fn confirm(job: &Job, store: &str) -> Result<()> {
    let (id, command, folder) = (job.id, escaped(&job.command), &job.folder);
    let what = format!("{store} is not your list of jobs; job {id} runs `gradus {command}` in {folder:?}");
    if !std::io::stdin().is_terminal() {
        bail!("{what}; add --yes to run it");
    }
    printer::note(format!("{what}\nRun it? [y/N] "));
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer)?;
    if !matches!(answer.trim(), "y" | "Y" | "yes") {
        bail!("job {id} was not run");
    }
    Ok(())
}

/// A command line as it would be typed; words with blanks or control characters are quoted.
pub(super) fn escaped(command: &[String]) -> String {
    let plain =
        |word: &str| !word.is_empty() && word.chars().all(|c| c.is_ascii_graphic() && c != '"' && c != '\'');
    let words = command.iter().map(|word| if plain(word) { word.clone() } else { format!("{word:?}") });
    words.collect::<Vec<_>>().join(" ")
}

fn cancel(args: &JobArgs) -> Result<Status> {
    let store = job::open(&args.jobs)?;
    let job = block_on(store.job(args.id))??;
    if job.state == JobState::Done {
        bail!("job {} is done and cannot be canceled", job.id);
    }
    block_on(store.set_state(args.id, JobState::Cancelled))??;
    let running = job.registered && job.state == JobState::Running;
    Printer::new(None).line(format!(
        "job {} canceled ({} done){}; `gradus jobs resume {}` resumes it",
        job.id,
        if job.registered { done(&job) } else { format!("{}/{}", job.tasks.done, job.tasks.total()) },
        if running { ": its process is told within a second and stops after its current step" } else { "" },
        job.id
    ))?;
    Ok(Status::Done)
}

fn remove(args: &JobArgs) -> Result<Status> {
    let store = job::open(&args.jobs)?;
    block_on(store.remove(args.id))??;
    Printer::new(None).line(format!("job {} removed", args.id))?;
    Ok(Status::Done)
}

/// Tasks that are done, of how many; a registered command may not know that.
fn done(job: &Job) -> String {
    let (done, total) = (grouped(job.tasks.done), grouped(job.tasks.total()));
    match job.tasks.open {
        0 if job.registered && job.state != JobState::Done => done,
        _ => format!("{done}/{total}"),
    }
}

/// The job with the state to show: a running one without running tasks was interrupted.
fn as_shown(mut job: Job) -> Job {
    if job.state == JobState::Running && job.tasks.leased == 0 && !job.registered {
        job.state = JobState::Stopped;
    }
    job
}

/// `5 min ago`.
fn ago(time: f64) -> String {
    let seconds = (now() - time).max(0.0);
    match seconds {
        0.0..90.0 => format!("{seconds:.0} s ago"),
        90.0..5400.0 => format!("{:.0} min ago", seconds / 60.0),
        5400.0..172_800.0 => format!("{:.0} h ago", seconds / 3600.0),
        _ => format!("{:.0} days ago", seconds / 86_400.0),
    }
}
