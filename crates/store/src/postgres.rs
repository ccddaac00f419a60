//! A store in a PostgreSQL database, for workers on several machines.
//!
//! One thread owns the connection. Results that wait together are kept by one statement, and each caller is answered after
//! its commit. Every time is the server's. When the connection is cut or the server restarts, calls wait and are made
//! again; those that would count twice carry a token by which the server knows them.
//!
//! The address may say `sslmode`: `disable`, `prefer` (the default: TLS where the server has it, any certificate),
//! `require`, `verify-ca` or `verify-full` (TLS with a certificate that is valid for the host; `SSL_CERT_FILE` names
//! other authorities than the platform's). `schema` names the schema of the tables.

mod calls;
mod damage;
mod jobs;
mod reading;
mod schema;
mod tasks;

use std::borrow::Cow;
use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::ops::Range;
use std::sync::atomic::{AtomicI64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use gradus_postgres::{Address, Attempt, By, CallError};
use tokio::sync::{mpsc, oneshot, watch};

use self::calls::{Waiting, refused, serve};
use self::tasks::{Claim, Finished};
use crate::error::{Error, Result};
use crate::job::{Job, JobId, JobSpec, JobState, TaskCounts, TaskFailure, TaskFault, WorkerStatus};
use crate::store::{Store, StoreFuture};
use crate::worker::Worker;

/// When a job was last looked through, and its first open task then.
type Looked = HashMap<JobId, (Instant, i64)>;

type Connection = gradus_postgres::Connection<Looked>;
type Line = gradus_postgres::Line<Looked>;

/// How long calls wait for a server that is away.
const PATIENCE: Duration = Duration::from_secs(120);

/// Bytes of inputs that go to the server in one statement, more or less.
const BYTES_AT_ONCE: usize = 4 << 20;

/// A store in a database of a server.
#[derive(Debug)]
pub struct PostgresStore {
    address: String,
    /// None once it is being closed.
    calls: Option<mpsc::UnboundedSender<Waiting>>,
    closing: Option<watch::Sender<()>>,
    thread: Option<JoinHandle<()>>,
    /// The next token. It starts at random, so that no two stores use the same.
    token: AtomicI64,
}

/// Makes the calls that wait, unless the server is away, and closes the connection.
impl Drop for PostgresStore {
    fn drop(&mut self) {
        self.calls = None;
        self.closing = None;
        if let Some(thread) = self.thread.take() {
            // A panic there has been told.
            let _ = thread.join();
        }
    }
}

impl PostgresStore {
    /// Connects to `postgres://user:password@host:port/database` and makes the tables that are missing. A password that
    /// is not there is taken from the environment variable `PGPASSWORD`. Calls wait two minutes for a server that is away.
    ///
    /// ```no_run
    /// # async fn connect() -> gradus_store::Result<()> {
    /// let url = "postgres://gradus:secret@db.example.com/jobs?sslmode=require";
    /// let store = gradus_store::PostgresStore::connect(url).await?;
    /// assert_eq!(store.address(), "postgres://gradus@db.example.com:5432/jobs");
    /// # Ok(())
    /// # }
    /// ```
    pub async fn connect(url: &str) -> Result<Self> {
        Self::connect_with_patience(url, PATIENCE).await
    }

    /// Connects and waits for it on this thread, be it one of a runtime.
    pub fn open(url: &str) -> Result<Self> {
        let connect = || {
            let runtime = tokio::runtime::Builder::new_current_thread().build();
            let refuse = |error: std::io::Error| Error::Address { why: error.to_string() };
            runtime.map_err(refuse)?.block_on(Self::connect(url))
        };
        // A runtime cannot be waited for in another one.
        std::thread::scope(|scope| scope.spawn(connect).join())
            .unwrap_or_else(|_| Err(Error::Address { why: "it cannot be connected to".to_owned() }))
    }

    /// Connects; calls wait that long for a server that is away.
    pub async fn connect_with_patience(url: &str, patience: Duration) -> Result<Self> {
        let parsed = Address::parse(url, &[]);
        let (address, _) = parsed.map_err(|error| Error::Address { why: error.to_string() })?;
        let shown = address.shown.clone();
        let (calls, waiting) = mpsc::unbounded_channel();
        let (closing, is_closing) = watch::channel(());
        let (connected, outcome) = oneshot::channel();
        let refuse = {
            let address = shown.clone();
            move |error: std::io::Error| Error::Connect { address, why: error.to_string() }
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(refuse.clone())?;
        let thread = std::thread::Builder::new().name("jobs".to_owned());
        let thread = thread.spawn(move || {
            runtime.block_on(async move {
                let (line, outcome) = match calls::open(address, patience, is_closing).await {
                    Ok(line) => (Some(line), Ok(())),
                    Err(error) => (None, Err(error)),
                };
                let is_awaited = connected.send(outcome).is_ok();
                if let Some(line) = line.filter(|_| is_awaited) {
                    serve(line, waiting).await;
                }
            });
        });
        let thread = thread.map_err(refuse)?;
        outcome.await.map_err(|_| refused(&shown, CallError::Closed))??;
        // Two tokens belong to one call; half of the range is left to count on.
        let start = RandomState::new().build_hasher().finish() as i64 >> 1 & !1;
        Ok(Self {
            address: shown,
            calls: Some(calls),
            closing: Some(closing),
            thread: Some(thread),
            token: AtomicI64::new(start),
        })
    }

    /// The address without the password.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Makes a call on the thread that owns the connection, several times if need be.
    fn run<T: Send + 'static>(
        &self,
        function: impl AsyncFn(&mut Connection) -> Attempt<T> + Send + 'static,
    ) -> StoreFuture<'_, T> {
        let (caller, answer) = oneshot::channel();
        self.send(Waiting::Other(Box::new(By { function, value: None, caller })), answer)
    }

    fn send<T: Send + 'static>(
        &self,
        call: Waiting,
        answer: oneshot::Receiver<Result<T, CallError>>,
    ) -> StoreFuture<'_, T> {
        let is_sent = self.calls.as_ref().is_some_and(|calls| calls.send(call).is_ok());
        Box::pin(async move {
            let answer = if is_sent { answer.await.ok() } else { None };
            answer.unwrap_or(Err(CallError::Closed)).map_err(|error| refused(&self.address, error))
        })
    }

    fn token(&self) -> i64 {
        self.token.fetch_add(2, Ordering::Relaxed)
    }
}

impl Store for PostgresStore {
    fn place(&self) -> String {
        self.address.clone()
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn begin(&self, spec: JobSpec) -> StoreFuture<'_, Job> {
        let tasks = spec.tasks;
        let begun = self.run(async move |c| jobs::begin(c, &spec).await);
        Box::pin(async move {
            let id = begun.await?;
            for first in (0..tasks).step_by(jobs::MADE_AT_ONCE) {
                let end = tasks.min(first + jobs::MADE_AT_ONCE);
                self.run(async move |c| jobs::make_tasks(c, id, first, end).await).await?;
            }
            self.job(id).await
        })
    }

    fn register(&self, spec: JobSpec, worker: &Worker) -> StoreFuture<'_, (JobId, Option<Job>)> {
        let worker = worker.to_string();
        Box::pin(async move {
            let fingerprint = spec.fingerprint.clone();
            // A call of its own: made again with what follows, it would find what that has made.
            let before = self.run(async move |c| jobs::find(c, &fingerprint).await).await?;
            let id = self.run(async move |c| {
                let id = jobs::begin(c, &spec).await?;
                jobs::start_progress(c, id, &worker).await?;
                Ok(id)
            });
            Ok((id.await?, before))
        })
    }

    fn advance(&self, id: JobId, tasks: Option<(usize, usize)>) -> StoreFuture<'_, bool> {
        self.run(async move |c| jobs::advance(c, id, tasks).await)
    }

    fn jobs(&self) -> StoreFuture<'_, Vec<Job>> {
        self.run(async move |c| jobs::read(c, None).await)
    }

    fn job(&self, id: JobId) -> StoreFuture<'_, Job> {
        let found = self.run(async move |c| jobs::read(c, Some(id)).await);
        Box::pin(async move { found.await?.pop().ok_or(Error::NoJob { id }) })
    }

    fn set_state(&self, id: JobId, state: JobState) -> StoreFuture<'_, ()> {
        let changed = self.run(async move |c| jobs::set_state(c, id, state).await);
        Box::pin(async move { if changed.await? { Ok(()) } else { Err(Error::NoJob { id }) } })
    }

    fn remove(&self, id: JobId) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            // Made again, the removal would not find what it has removed.
            self.job(id).await?;
            self.run(async move |c| jobs::remove(c, id).await).await
        })
    }

    fn claim(
        &self,
        id: JobId,
        worker: &Worker,
        limit: usize,
        seconds: f64,
    ) -> StoreFuture<'_, Option<Vec<usize>>> {
        let claim = Claim { job: id, worker: worker.to_string(), limit, seconds, token: self.token() };
        self.run(async move |c| tasks::claim(c, &claim).await)
    }

    fn renew(&self, id: JobId, worker: &Worker, seconds: f64) -> StoreFuture<'_, bool> {
        let worker = worker.to_string();
        self.run(async move |c| tasks::renew(c, id, &worker, seconds).await)
    }

    fn finish(&self, id: JobId, worker: &Worker, task: usize, result: String) -> StoreFuture<'_, ()> {
        let (caller, answer) = oneshot::channel();
        let finished = Finished { job: id, task, worker: worker.to_string(), result };
        self.send(Waiting::Finish(finished, caller), answer)
    }

    fn give_back(
        &self,
        id: JobId,
        task: usize,
        failure: TaskFailure,
        attempts: u32,
    ) -> StoreFuture<'_, bool> {
        let token = self.token();
        self.run(async move |c| tasks::give_back(c, (id, task), &failure, attempts, token).await)
    }

    fn verify(&self, id: JobId) -> StoreFuture<'_, usize> {
        Box::pin(async move {
            let tasks = match self.job(id).await {
                Ok(job) => job.tasks.total(),
                Err(Error::NoJob { .. }) => 0,
                Err(error) => return Err(error),
            };
            let mut opened = 0;
            for first in (0..tasks).step_by(damage::CHECKED_AT_ONCE) {
                let end = first + damage::CHECKED_AT_ONCE;
                let damaged = self.run(async move |c| damage::find(c, id, first, end).await).await?;
                opened += damaged.len();
                if !damaged.is_empty() {
                    self.run(async move |c| damage::open(c, id, &damaged).await).await?;
                }
            }
            self.run(async move |c| damage::recount(c, id).await).await?;
            Ok(opened)
        })
    }

    fn reopen(&self, id: JobId) -> StoreFuture<'_, usize> {
        Box::pin(async move {
            // A call of its own: made again with what follows, it would count none.
            let failed = self.run(async move |c| tasks::count_failed(c, id).await).await?;
            self.run(async move |c| tasks::reopen(c, id).await).await?;
            Ok(failed)
        })
    }

    fn counts(&self, id: JobId, tasks: Range<usize>) -> StoreFuture<'_, TaskCounts> {
        if tasks == (0..usize::MAX) {
            let job = self.run(async move |c| jobs::read(c, Some(id)).await);
            return Box::pin(async move { Ok(job.await?.pop().map(|job| job.tasks).unwrap_or_default()) });
        }
        self.run(async move |c| reading::counts(c, id, &tasks).await)
    }

    fn results(&self, id: JobId, tasks: Range<usize>) -> StoreFuture<'_, Vec<(usize, String)>> {
        self.run(async move |c| reading::results(c, id, &tasks).await)
    }

    fn faults(&self, id: JobId, from: usize, limit: usize) -> StoreFuture<'_, Vec<TaskFault>> {
        self.run(async move |c| reading::faults(c, id, from, limit).await)
    }

    fn put_inputs(&self, id: JobId, first: usize, inputs: Vec<String>) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            let (mut first, mut part, mut bytes) = (first, Vec::new(), 0);
            let mut inputs = inputs.into_iter().peekable();
            while let Some(input) = inputs.next() {
                bytes += input.len() + 16;
                part.push(input);
                if bytes >= BYTES_AT_ONCE || inputs.peek().is_none() {
                    let (now, from) = (std::mem::take(&mut part), first);
                    (first, bytes) = (first + now.len(), 0);
                    self.run(async move |c| reading::put_inputs(c, id, from, &now).await).await?;
                }
            }
            Ok(())
        })
    }

    fn inputs(&self, id: JobId, tasks: Vec<usize>) -> StoreFuture<'_, Vec<(usize, String)>> {
        self.run(async move |c| reading::inputs(c, id, &tasks).await)
    }

    fn workers(&self, id: JobId) -> StoreFuture<'_, Vec<WorkerStatus>> {
        self.run(async move |c| reading::workers(c, id).await)
    }
}

/// A task's number as PostgreSQL has it.
fn number(task: usize) -> i64 {
    i64::try_from(task).unwrap_or(i64::MAX)
}

/// A text as PostgreSQL can hold it: without the character 0.
fn text(text: &str) -> Cow<'_, str> {
    if text.contains('\0') { Cow::Owned(text.replace('\0', "\u{fffd}")) } else { Cow::Borrowed(text) }
}

#[cfg(test)]
mod tests;
