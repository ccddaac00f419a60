//! Commands that keep their results themselves (journals, run folders) and are listed as jobs all the same.
//!
//! [`registered`] wraps such a command: a row in the job database says what runs where and how far it is, once a second.
//! A killed process leaves a row that is shown as stopped; `gradus jobs cancel` is noticed within a second and acts like
//! Ctrl-C. Without a usable database the command runs all the same, with a note.

use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use gradus_backend::block_on;
use gradus_durable::journal_key;
use gradus_store::{Job, JobId, JobSpec, JobState, Store, Worker};

use super::database::{command_line, open, resumed_store};
use crate::arguments::job::JobOptions;
use crate::exit::Status;
use crate::terminal::{interrupt, printer, progress};

/// How often the row is brought up to date.
const EVERY: Duration = Duration::from_secs(1);
/// A command that fails sooner and without a result was mistyped rather than interrupted: it is not listed.
const AT_ONCE: Duration = Duration::from_secs(5);

/// Runs `work` as a job of this kind with this output. `gradus jobs resume` runs the command line again.
pub(crate) fn registered(
    kind: &str,
    output: Option<&Path>,
    work: impl FnOnce() -> Result<Status>,
) -> Result<Status> {
    let began = Instant::now();
    let registration = match Registration::begin(kind, output) {
        Ok(registration) => registration,
        Err(error) => {
            printer::note(format!("not listed in `gradus jobs`: {}", error.root_cause()));
            return work();
        }
    };
    let ended = work();
    let failed_at_once = ended.is_err() && began.elapsed() < AT_ONCE && progress::latest().0 == 0;
    registration.end(ended.as_ref().ok().copied(), failed_at_once);
    ended
}

/// As [`registered`] where there is an output file; a command that only prints is no job.
pub(crate) fn registered_with_output(
    kind: &str,
    output: Option<&Path>,
    work: impl FnOnce() -> Result<Status>,
) -> Result<Status> {
    match output.filter(|output| *output != Path::new("-")) {
        Some(output) => registered(kind, Some(output), work),
        None => work(),
    }
}

struct Registration {
    job: JobId,
    /// The row before; none where it is new.
    before: Option<Job>,
    /// Ends the thread when it is dropped.
    stop: Sender<()>,
    thread: JoinHandle<Box<dyn Store>>,
}

impl Registration {
    fn begin(kind: &str, output: Option<&Path>) -> Result<Self> {
        let named = || std::env::var("GRADUS_JOBS").ok().filter(|store| !store.is_empty());
        let store = open(&JobOptions { jobs: resumed_store().or_else(named) })?;
        let folder = std::env::current_dir().context("cannot determine the current folder")?;
        let command = command_line()?;
        let spec = JobSpec {
            kind: kind.to_owned(),
            fingerprint: journal_key(&("registered", kind, folder.to_string_lossy(), &command)),
            command,
            folder,
            output: output.map(|output| crate::output::shown(output).into_owned()),
            tasks: 0,
        };
        let (job, before) = block_on(store.register(spec, &Worker::this()))??;
        let (stop, stopped) = channel();
        let watch = move || {
            while stopped.recv_timeout(EVERY) == Err(RecvTimeoutError::Timeout) {
                advance(&*store, job);
                if matches!(block_on(store.job(job)), Ok(Ok(job)) if job.state == JobState::Cancelled) {
                    interrupt::request("canceled: stopping after this step");
                    break;
                }
            }
            store
        };
        let thread = std::thread::Builder::new().name("job".to_owned()).spawn(watch)?;
        Ok(Self { job, before, stop, thread })
    }

    /// Says how the command ended. What cannot be written is only missing in a list.
    fn end(self, status: Option<Status>, failed_at_once: bool) {
        let Self { job, before, stop, thread } = self;
        drop(stop);
        let Ok(store) = thread.join() else { return };
        let state = match (status, before) {
            (Some(Status::Interrupted), _) => JobState::Stopped,
            (Some(_), _) => JobState::Done,
            (None, None) if failed_at_once => {
                let _ = block_on(store.remove(job));
                return;
            }
            (None, Some(before)) if failed_at_once && before.state == JobState::Done => {
                // What it did is still there.
                let _ = block_on(store.advance(job, Some((before.tasks.done, before.tasks.total()))));
                JobState::Done
            }
            (None, _) => JobState::Stopped,
        };
        advance(&*store, job);
        let canceled = matches!(block_on(store.job(job)), Ok(Ok(job)) if job.state == JobState::Cancelled);
        if !canceled || state == JobState::Done {
            let _ = block_on(store.set_state(job, state));
        }
    }
}

/// Writes that the command is alive, and how far it is once it has said so.
fn advance(store: &dyn Store, job: JobId) {
    let tasks = Some(progress::latest()).filter(|(done, total)| *done > 0 || *total > 0);
    let _ = block_on(store.advance(job, tasks));
}
