//! `gradus work`: does the tasks of jobs that other machines began, for as long as it is wanted.

use std::collections::HashSet;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, bail};
use clap::Args;
use gradus_backend::{EndpointSettings, GeneratorSettings, block_on};
use gradus_store::{Job, JobId, JobState, Store};

use super::jobs::{check_command, escaped};
use super::{Command, annotate, parse, sample};
use crate::arguments::job::JobOptions;
use crate::arguments::values::{at_least_one, cache_size};
use crate::exit::{Status, Usage};
use crate::job::{self, SharedJob, TaskSource};
use crate::terminal::{interrupt, printer};

/// How often jobs are looked for.
const EVERY: Duration = Duration::from_secs(1);

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  gradus work --store postgres://gradus@db/jobs --endpoint http://localhost:8000\n  \
gradus work --store postgres://gradus@db/jobs --until-done\n\n\
Start a job with `gradus annotate … --store postgres://…` or `gradus sample … --store postgres://…`; that command writes\n\
the output. SIGTERM and Ctrl-C finish the tasks in flight. The store's password is read from PGPASSWORD."
)]
pub(super) struct WorkArgs {
    #[command(flatten)]
    jobs: JobOptions,
    /// Work on this job only; repeatable
    #[arg(long, value_name = "ID")]
    job: Vec<JobId>,
    /// Exit when no job has tasks left, instead of waiting for new ones
    #[arg(long)]
    until_done: bool,
    #[command(flatten)]
    servers: ServerOptions,
}

/// This machine's way to servers.
#[derive(Debug, Args)]
#[command(next_help_heading = "Endpoints")]
struct ServerOptions {
    /// Base URL of a server to use instead of those in a job's command, or a file with one on each line, which is read again
    /// while requests are sent; repeatable
    #[arg(long, visible_alias = "endpoints", value_name = "URL|FILE")]
    endpoint: Vec<String>,
    /// Environment variable that holds the API key of these servers
    #[arg(long, value_name = "VARIABLE", requires = "endpoint")]
    key_env: Option<String>,
    /// File that holds the API key of these servers
    #[arg(long, value_name = "FILE", requires = "endpoint", conflicts_with = "key_env")]
    key_file: Option<PathBuf>,
    /// Maximum concurrent requests per server, or concurrent tasks of a local model (default: as in the job's command)
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    concurrency: Option<usize>,
    /// Maximum requests per minute per server (default: unlimited)
    #[arg(long, value_name = "N")]
    requests_per_minute: Option<f64>,
    /// Maximum tokens per minute per server (default: unlimited)
    #[arg(long, value_name = "N")]
    tokens_per_minute: Option<f64>,
    /// Request timeout in seconds (default: 600)
    #[arg(long, value_name = "SECONDS")]
    timeout: Option<f64>,
    /// Maximum retries per request (default: 5)
    #[arg(long, value_name = "N")]
    retries: Option<u32>,
    /// Response cache folder (default: answers/ in the Gradus home folder)
    #[arg(long, value_name = "FOLDER")]
    cache: Option<PathBuf>,
    /// Maximum size of the response cache; the least recently used responses are removed (default: 10GB)
    #[arg(long, value_name = "SIZE", value_parser = cache_size, conflicts_with = "no_cache")]
    cache_size: Option<u64>,
    /// Disable the response cache
    #[arg(long, conflicts_with = "cache")]
    no_cache: bool,
    /// Prices per million tokens, for cost estimates (TOML)
    #[arg(long, value_name = "FILE")]
    prices: Option<PathBuf>,
}

pub(super) fn run(args: &WorkArgs) -> Result<Status> {
    let store = job::open(&args.jobs)?;
    if !store.is_shared() {
        bail!(Usage(format!(
            "{} is not shared by machines: use --store postgres://USER@HOST/DATABASE",
            store.place()
        )));
    }
    interrupt::be_patient();
    // Jobs that this machine cannot do; others may.
    let mut refused: HashSet<JobId> = HashSet::new();
    while !interrupt::asked() {
        let jobs = block_on(store.jobs())??;
        let mut wanted = jobs.into_iter().rev().filter(|job| {
            let is_named = args.job.is_empty() || args.job.contains(&job.id);
            is_named && job.state == JobState::Running && !job.registered && !refused.contains(&job.id)
        });
        let mut others = false;
        let next = wanted.find(|job| {
            others |= job.tasks.leased > 0;
            job.tasks.open > 0
        });
        match next {
            Some(job) => {
                if let Err(error) = work_on(&*store, &job, &args.servers) {
                    printer::note(format!("{error:#}"));
                    refused.insert(job.id);
                }
            }
            None if args.until_done && !others => break,
            None => std::thread::sleep(EVERY),
        }
    }
    if args.until_done && !refused.is_empty() && !interrupt::asked() {
        bail!("{} could not be done here: see above", gradus_core::count::counted(refused.len(), "job"));
    }
    Ok(Status::Done)
}

fn work_on(store: &dyn Store, job: &Job, own: &ServerOptions) -> Result<()> {
    check_command(job)?;
    printer::note(format!("job {}: gradus {}", job.id, escaped(&job.command)));
    let source = TaskSource::Job(SharedJob { store, job });
    match parse(job)?.command {
        Command::Sample(mut args) => {
            use_own(&mut args.generator, own);
            sample::run(&args, source)?;
        }
        Command::Annotate(mut command) => {
            let Some(generator) = command.generator() else {
                bail!("job {}: its command has no tasks", job.id);
            };
            use_own(generator, own);
            annotate::run(&command, source)?;
        }
        _ => bail!("job {}: its command has no tasks that can be shared", job.id),
    }
    Ok(())
}

/// Servers, keys and caches are this machine's. A job's command may name servers where this machine has none of its own,
/// but never a key or a folder: whoever can write to the store could send it anywhere.
fn use_own(generator: &mut GeneratorSettings, own: &ServerOptions) {
    let of_job = std::mem::take(&mut generator.endpoints);
    let has_own = !own.endpoint.is_empty();
    // Nor may it have a file of this machine read as a list of servers.
    let named = of_job.endpoint.into_iter().filter(|endpoint| endpoint.contains("://")).collect();
    generator.endpoints = EndpointSettings {
        endpoint: if has_own { own.endpoint.clone() } else { named },
        key_env: own.key_env.clone(),
        key_file: own.key_file.clone(),
        concurrency: own.concurrency.or(of_job.concurrency),
        requests_per_minute: own.requests_per_minute,
        tokens_per_minute: own.tokens_per_minute,
        timeout: own.timeout,
        retries: own.retries,
        cache: own.cache.clone(),
        cache_size: own.cache_size,
        no_cache: own.no_cache,
        prices: own.prices.clone(),
        // What is sent must be what the machine that began the job sends.
        no_request_seed: of_job.no_request_seed,
        dialect: of_job.dialect,
    };
}
