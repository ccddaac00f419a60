//! A store in one SQLite file.
//!
//! One thread owns the connection. Calls that are waiting share one transaction, so a thousand results that arrive together
//! cost one fsync, and each caller is answered only after its own result is on disk.

mod inputs;
mod workers;

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{SystemTime, UNIX_EPOCH};

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension, Row, Savepoint, Transaction, TransactionBehavior, params};
use tokio::sync::oneshot;

use crate::damage;
use crate::error::{Error, Result};
use crate::job::{Job, JobId, JobSpec, JobState, TaskCounts, TaskFailure, TaskFault, WorkerStatus};
use crate::schema;
use crate::store::{Store, StoreFuture};
use crate::worker::Worker;

/// Calls that share a transaction at most.
const TOGETHER: usize = 512;

/// Tasks that are made in one transaction: a job may have millions, and others want to write, too.
const MADE_AT_ONCE: usize = 100_000;

/// Seconds after which a job that says nothing counts as stopped: its process may be on another machine.
const SILENCE: f64 = 60.0;

/// Seconds that no lease lasts: one that seems to end later is damaged, and would be waited for.
const LONGEST_LEASE: f64 = 86_400.0;

type Committed = std::result::Result<(), Error>;
/// Tells whoever asked how the transaction ended.
type Tell = Box<dyn FnOnce(Committed)>;
/// Does one call's work, if there is a transaction to do it in, and says whether that failed.
type Call = Box<dyn FnOnce(Result<&Savepoint<'_>>) -> (bool, Tell) + Send>;

/// A store in a file.
#[derive(Debug)]
pub struct SqliteStore {
    path: PathBuf,
    /// None once it is being closed.
    calls: Option<Sender<Call>>,
    thread: Option<JoinHandle<()>>,
}

/// Closes the file, so that all of it is in one place: the log of a process that ends without that is still there, and
/// one damaged byte in it would cost all that follows.
impl Drop for SqliteStore {
    fn drop(&mut self) {
        self.calls = None;
        if let Some(thread) = self.thread.take() {
            // A panic there has been told.
            let _ = thread.join();
        }
    }
}

impl SqliteStore {
    /// Opens or makes the file, and the folders that lead to it.
    pub fn open(path: &Path) -> Result<Self> {
        let refuse = |why: String| Error::Open { path: path.to_owned(), why };
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            std::fs::create_dir_all(folder).map_err(|error| refuse(error.to_string()))?;
        }
        let mut connection = Connection::open(path).map_err(|error| refuse(error.to_string()))?;
        schema::prepare(&mut connection).map_err(refuse)?;
        let (calls, waiting) = channel();
        let owned = path.to_owned();
        let thread = std::thread::Builder::new().name("jobs".to_owned());
        let thread = thread.spawn(move || serve(&owned, connection, &waiting));
        let thread = thread.map_err(|error| refuse(error.to_string()))?;
        Ok(Self { path: path.to_owned(), calls: Some(calls), thread: Some(thread) })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Runs `call` in a transaction, perhaps with others.
    fn run<T: Send + 'static>(
        &self,
        call: impl FnOnce(&Savepoint<'_>) -> rusqlite::Result<T> + Send + 'static,
    ) -> StoreFuture<'_, T> {
        let (sender, receiver) = oneshot::channel();
        let path = self.path.clone();
        let boxed: Call = Box::new(move |transaction| {
            let write = |error: rusqlite::Error| Error::write(&path, &error);
            let done = transaction.and_then(|transaction| call(transaction).map_err(write));
            let failed = done.is_err();
            let tell = move |ended: Committed| {
                // Whoever asked may have gone: nobody needs the answer then.
                let _ = sender.send(ended.and(done));
            };
            (failed, Box::new(tell))
        });
        let closed = || Error::Closed { path: self.path.clone() };
        let is_sent = self.calls.as_ref().is_some_and(|calls| calls.send(boxed).is_ok());
        Box::pin(async move {
            if !is_sent {
                return Err(closed());
            }
            receiver.await.map_err(|_| closed())?
        })
    }
}

fn serve(path: &Path, mut connection: Connection, waiting: &Receiver<Call>) {
    let write = |error: rusqlite::Error| Error::write(path, &error);
    while let Ok(first) = waiting.recv() {
        let mut tells = Vec::new();
        let ended = match connection.transaction_with_behavior(TransactionBehavior::Immediate) {
            Ok(transaction) => together(transaction, first, waiting, &mut tells).map_err(write),
            Err(error) => {
                tells.push(first(Err(write(error))).1);
                Ok(())
            }
        };
        for tell in tells {
            tell(ended.clone());
        }
    }
}

/// Makes the first call, and those that wait by now, in one transaction. A call that fails leaves no trace in it.
fn together(
    mut transaction: Transaction<'_>,
    first: Call,
    waiting: &Receiver<Call>,
    tells: &mut Vec<Tell>,
) -> rusqlite::Result<()> {
    let mut next = Some(first);
    while let Some(call) = next.take() {
        let mut savepoint = transaction.savepoint()?;
        let (failed, tell) = call(Ok(&savepoint));
        tells.push(tell);
        if failed {
            savepoint.rollback()?;
        }
        savepoint.commit()?;
        if tells.len() < TOGETHER {
            next = waiting.try_recv().ok();
        }
    }
    transaction.commit()
}

impl Store for SqliteStore {
    fn place(&self) -> String {
        self.path.display().to_string()
    }

    fn is_shared(&self) -> bool {
        false
    }

    fn begin(&self, spec: JobSpec) -> StoreFuture<'_, Job> {
        let tasks = spec.tasks;
        let begun = self.run(move |t| {
            let id = begin(t, &spec)?;
            Ok((id, damage::has_all_tasks(t, id, spec.tasks)?))
        });
        Box::pin(async move {
            let (id, has_all) = begun.await?;
            if !has_all {
                for first in (0..tasks).step_by(MADE_AT_ONCE) {
                    let numbers = first..tasks.min(first + MADE_AT_ONCE);
                    self.run(move |t| damage::make_tasks(t, id, numbers)).await?;
                }
            }
            self.job(id).await
        })
    }

    fn register(&self, spec: JobSpec, worker: &Worker) -> StoreFuture<'_, (JobId, Option<Job>)> {
        let worker = worker.to_string();
        self.run(move |t| {
            let before = match find(t, &spec.fingerprint)? {
                Some(id) => read_job(t, id)?,
                None => None,
            };
            let id = begin(t, &spec)?;
            t.execute(
                "INSERT INTO progress(job, worker, done, total) VALUES (?1, ?2, 0, 0) \
                 ON CONFLICT(job) DO UPDATE SET worker = excluded.worker, done = 0, total = 0",
                params![id, worker],
            )?;
            Ok((id, before))
        })
    }

    fn advance(&self, id: JobId, tasks: Option<(usize, usize)>) -> StoreFuture<'_, bool> {
        self.run(move |t| {
            if let Some((done, total)) = tasks {
                t.execute(
                    "UPDATE progress SET done = ?2, total = ?3 WHERE job = ?1 AND (done <> ?2 OR total <> ?3)",
                    params![id, done as i64, total as i64],
                )?;
            }
            t.execute("UPDATE jobs SET updated = ?2 WHERE id = ?1", params![id, now()])?;
            is_running(t, id)
        })
    }

    fn jobs(&self) -> StoreFuture<'_, Vec<Job>> {
        self.run(|t| {
            let mut ids = t.prepare("SELECT id FROM jobs ORDER BY id DESC")?;
            let ids: Vec<JobId> = ids.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
            ids.into_iter().filter_map(|id| read_job(t, id).transpose()).collect()
        })
    }

    fn job(&self, id: JobId) -> StoreFuture<'_, Job> {
        let found = self.run(move |t| read_job(t, id));
        Box::pin(async move { found.await?.ok_or(Error::NoJob { id }) })
    }

    fn set_state(&self, id: JobId, state: JobState) -> StoreFuture<'_, ()> {
        let changed = self.run(move |t| {
            t.execute(
                "UPDATE jobs SET state = ?2, updated = ?3 WHERE id = ?1",
                params![id, state.name(), now()],
            )
        });
        Box::pin(async move { if changed.await? == 0 { Err(Error::NoJob { id }) } else { Ok(()) } })
    }

    fn remove(&self, id: JobId) -> StoreFuture<'_, ()> {
        let removed = self.run(move |t| t.execute("DELETE FROM jobs WHERE id = ?1", [id]));
        Box::pin(async move { if removed.await? == 0 { Err(Error::NoJob { id }) } else { Ok(()) } })
    }

    fn claim(
        &self,
        id: JobId,
        worker: &Worker,
        limit: usize,
        seconds: f64,
    ) -> StoreFuture<'_, Option<Vec<usize>>> {
        let worker = worker.to_string();
        self.run(move |t| {
            if !is_running(t, id)? {
                return Ok(None);
            }
            workers::beat(t, id, &worker, 0)?;
            free(t, id, &worker)?;
            let mut open = t.prepare_cached(
                "SELECT number FROM tasks WHERE job = ?1 AND state = 'open' ORDER BY number LIMIT ?2",
            )?;
            let numbers: Vec<i64> = open
                .query_map(params![id, limit as i64], |row| row.get(0))?
                .collect::<rusqlite::Result<_>>()?;
            let mut take = t.prepare_cached(
                "UPDATE tasks SET state = 'leased', worker = ?3, lease = ?4 WHERE job = ?1 AND number = ?2",
            )?;
            for number in &numbers {
                take.execute(params![id, number, worker, now() + seconds])?;
            }
            Ok(Some(numbers.into_iter().map(|number| number as usize).collect()))
        })
    }

    fn renew(&self, id: JobId, worker: &Worker, seconds: f64) -> StoreFuture<'_, bool> {
        let worker = worker.to_string();
        self.run(move |t| {
            t.execute(
                "UPDATE tasks INDEXED BY tasks_by_state SET lease = ?3 \
                 WHERE job = ?1 AND state = 'leased' AND worker = ?2",
                params![id, worker, now() + seconds],
            )?;
            workers::beat(t, id, &worker, 0)?;
            is_running(t, id)
        })
    }

    fn finish(&self, id: JobId, worker: &Worker, task: usize, result: String) -> StoreFuture<'_, ()> {
        let worker = worker.to_string();
        self.run(move |t| {
            let mut finish = t.prepare_cached(
                "UPDATE tasks SET state = 'done', worker = NULL, lease = NULL, fault = NULL, result = ?3, \
                 hash = ?4 WHERE job = ?1 AND number = ?2 AND state <> 'done'",
            )?;
            let kept =
                finish.execute(params![id, task as i64, result, damage::hash(task as i64, &result)])?;
            workers::beat(t, id, &worker, kept)?;
            t.prepare_cached("UPDATE jobs SET updated = ?2 WHERE id = ?1")?.execute(params![id, now()])?;
            Ok(())
        })
    }

    fn give_back(
        &self,
        id: JobId,
        task: usize,
        failure: TaskFailure,
        attempts: u32,
    ) -> StoreFuture<'_, bool> {
        self.run(move |t| {
            t.execute(
                "UPDATE tasks SET attempts = attempts + 1, worker = NULL, lease = NULL, name = ?3, fault = ?4, \
                 state = CASE WHEN attempts + 1 >= ?5 THEN 'failed' ELSE 'open' END \
                 WHERE job = ?1 AND number = ?2 AND state <> 'done'",
                params![id, task as i64, failure.name, failure.why, attempts],
            )?;
            let state: String = t.query_row(
                "SELECT state FROM tasks WHERE job = ?1 AND number = ?2",
                params![id, task as i64],
                |row| row.get(0),
            )?;
            Ok(state == "open")
        })
    }

    fn verify(&self, id: JobId) -> StoreFuture<'_, usize> {
        self.run(move |t| damage::open_damaged(t, id))
    }

    fn reopen(&self, id: JobId) -> StoreFuture<'_, usize> {
        self.run(move |t| {
            t.execute(
                "UPDATE tasks SET state = 'open', attempts = 0 WHERE job = ?1 AND state = 'failed'",
                [id],
            )
        })
    }

    fn counts(&self, id: JobId, tasks: Range<usize>) -> StoreFuture<'_, TaskCounts> {
        self.run(move |t| count(t, id, tasks))
    }

    fn results(&self, id: JobId, tasks: Range<usize>) -> StoreFuture<'_, Vec<(usize, String)>> {
        self.run(move |t| {
            let mut done = t.prepare_cached(
                "SELECT number, result FROM tasks \
                 WHERE job = ?1 AND number >= ?2 AND number < ?3 AND +state = 'done' ORDER BY number",
            )?;
            let rows = done.query_map(params![id, number(tasks.start), number(tasks.end)], |row| {
                Ok((row.get::<_, i64>(0)? as usize, row.get(1)?))
            })?;
            rows.collect()
        })
    }

    fn faults(&self, id: JobId, from: usize, limit: usize) -> StoreFuture<'_, Vec<TaskFault>> {
        self.run(move |t| {
            let mut faults = t.prepare(
                "SELECT number, name, attempts, fault FROM tasks WHERE job = ?1 AND number >= ?2 \
                 AND +state <> 'done' AND fault IS NOT NULL ORDER BY number LIMIT ?3",
            )?;
            let read = |row: &Row<'_>| {
                Ok(TaskFault {
                    task: row.get::<_, i64>(0)? as usize,
                    name: text(row, 1)?,
                    attempts: row.get(2).unwrap_or_default(),
                    fault: text(row, 3)?,
                })
            };
            faults.query_map(params![id, number(from), number(limit)], read)?.collect()
        })
    }

    fn put_inputs(&self, id: JobId, first: usize, inputs: Vec<String>) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            let (mut first, mut inputs) = (first, inputs);
            while !inputs.is_empty() {
                let rest = inputs.split_off(inputs.len().min(inputs::KEPT_AT_ONCE));
                let part = std::mem::replace(&mut inputs, rest);
                let after = first + part.len();
                self.run(move |t| inputs::put(t, id, first, &part)).await?;
                first = after;
            }
            Ok(())
        })
    }

    fn inputs(&self, id: JobId, mut tasks: Vec<usize>) -> StoreFuture<'_, Vec<(usize, String)>> {
        tasks.sort_unstable();
        tasks.dedup();
        self.run(move |t| inputs::get(t, id, &tasks))
    }

    fn workers(&self, id: JobId) -> StoreFuture<'_, Vec<WorkerStatus>> {
        self.run(move |t| workers::workers(t, id))
    }
}

/// The job of this fingerprint, by the index or else, where that is damaged, by the rows (`+` keeps the index out).
fn find(t: &Savepoint<'_>, fingerprint: &str) -> rusqlite::Result<Option<JobId>> {
    for by in ["fingerprint", "+fingerprint"] {
        let query = format!("SELECT id FROM jobs WHERE {by} = ?1");
        if let Some(id) = t.query_row(&query, [fingerprint], |row| row.get(0)).optional()? {
            return Ok(Some(id));
        }
    }
    Ok(None)
}

/// The job with the spec's fingerprint, or a new one, running.
fn begin(t: &Savepoint<'_>, spec: &JobSpec) -> rusqlite::Result<JobId> {
    let command = serde_json::to_string(&spec.command).unwrap_or_default();
    let folder = spec.folder.to_string_lossy().into_owned();
    let output = spec.output.as_ref().map(|path| path.to_string_lossy().into_owned());
    if let Some(id) = find(t, &spec.fingerprint)? {
        t.execute(
            "UPDATE jobs SET state = 'running', command = ?2, folder = ?3, output = ?4, updated = ?5 WHERE id = ?1",
            params![id, command, folder, output, now()],
        )?;
        return Ok(id);
    }
    t.execute(
        "INSERT INTO jobs(fingerprint, kind, command, folder, output, state, created, updated) \
         VALUES (?1, ?2, ?3, ?4, ?5, 'running', ?6, ?6)",
        params![spec.fingerprint, spec.kind, command, folder, output, now()],
    )?;
    Ok(t.last_insert_rowid())
}

/// Opens the leases of workers that are gone, and those that have run out or are damaged. Without being told so, SQLite
/// would read all tasks of the job for that.
fn free(t: &Savepoint<'_>, id: JobId, this: &str) -> rusqlite::Result<()> {
    let mut workers = t.prepare_cached(
        "SELECT DISTINCT worker FROM tasks INDEXED BY tasks_by_state WHERE job = ?1 AND state = 'leased'",
    )?;
    let workers: Vec<String> =
        workers.query_map([id], |row| text(row, 0))?.collect::<rusqlite::Result<_>>()?;
    for gone in workers.iter().filter(|worker| *worker != this && Worker::is_gone(worker)) {
        t.execute(
            "UPDATE tasks INDEXED BY tasks_by_state SET state = 'open', worker = NULL \
             WHERE job = ?1 AND state = 'leased' AND worker = ?2",
            params![id, gone],
        )?;
    }
    t.execute(
        "UPDATE tasks INDEXED BY tasks_by_state SET state = 'open', worker = NULL WHERE job = ?1 AND state = 'leased' \
         AND (lease IS NULL OR lease NOT BETWEEN ?2 AND ?3)",
        params![id, now(), now() + LONGEST_LEASE],
    )?;
    Ok(())
}

fn is_running(t: &Savepoint<'_>, id: JobId) -> rusqlite::Result<bool> {
    let state: Option<String> = t
        .prepare_cached("SELECT state FROM jobs WHERE id = ?1")?
        .query_row([id], |row| row.get(0))
        .optional()?;
    Ok(state.as_deref() == Some("running"))
}

/// Tasks by state. Only the index is read: rows are long.
fn count(t: &Savepoint<'_>, id: JobId, tasks: Range<usize>) -> rusqlite::Result<TaskCounts> {
    let mut count = t.prepare_cached(
        "SELECT count(*) FROM tasks INDEXED BY tasks_by_state \
         WHERE job = ?1 AND state = ?2 AND number >= ?3 AND number < ?4",
    )?;
    let mut of = |state: &str| {
        let found: i64 =
            count.query_row(params![id, state, number(tasks.start), number(tasks.end)], |row| row.get(0))?;
        Ok::<_, rusqlite::Error>(found as usize)
    };
    Ok(TaskCounts { open: of("open")?, leased: of("leased")?, done: of("done")?, failed: of("failed")? })
}

/// A task's number as SQLite has it.
fn number(task: usize) -> i64 {
    i64::try_from(task).unwrap_or(i64::MAX)
}

fn read_job(t: &Savepoint<'_>, id: JobId) -> rusqlite::Result<Option<Job>> {
    let mut tasks = count(t, id, 0..usize::MAX)?;
    let progress: Option<(String, i64, i64)> = t
        .prepare_cached("SELECT worker, done, total FROM progress WHERE job = ?1")?
        .query_row([id], |row| Ok((text(row, 0)?, row.get(1).unwrap_or(0), row.get(2).unwrap_or(0))))
        .optional()?;
    let registered = progress.is_some();
    let mut worker = None;
    let mut is_abandoned = false;
    if let Some((name, done, total)) = progress {
        worker = Some(name);
        let done = done.max(0);
        tasks.done = done as usize;
        tasks.open = total.saturating_sub(done).max(0) as usize;
    } else {
        is_abandoned = workers::all_gone(t, id)?;
    }
    let read = |row: &Row<'_>| {
        let updated: f64 = row.get(6).unwrap_or_default();
        let gone = is_abandoned
            || worker.as_deref().is_some_and(|worker| Worker::is_gone(worker) || updated + SILENCE < now());
        Ok(Job {
            id,
            kind: text(row, 0)?,
            command: serde_json::from_str(&text(row, 1)?).unwrap_or_default(),
            folder: PathBuf::from(text(row, 2)?),
            output: Some(text(row, 3)?).filter(|output| !output.is_empty()).map(PathBuf::from),
            state: match JobState::of(&text(row, 4)?) {
                // A killed command cannot say so itself.
                JobState::Running if gone => JobState::Stopped,
                state => state,
            },
            created: row.get(5).unwrap_or_default(),
            updated,
            tasks,
            registered,
            fingerprint: text(row, 7)?,
        })
    };
    let fields =
        "SELECT kind, command, folder, output, state, created, updated, fingerprint FROM jobs WHERE id = ?1";
    t.prepare_cached(fields)?.query_row([id], read).optional()
}

/// A column as text, whatever is in it: a database may be damaged or come from elsewhere.
fn text(row: &Row<'_>, column: usize) -> rusqlite::Result<String> {
    Ok(match row.get_ref(column)? {
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        ValueRef::Integer(number) => number.to_string(),
        ValueRef::Real(number) => number.to_string(),
        ValueRef::Null => String::new(),
    })
}

/// Seconds since 1970.
fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

#[cfg(test)]
mod tests;
