//! Who works on a job.

use rusqlite::{Row, Savepoint, params};

use super::{SILENCE, now, text};
use crate::job::{JobId, WorkerStatus};
use crate::worker::Worker;

/// Says that a worker is there and has kept so many more results. A job that was removed has no workers.
pub(super) fn beat(t: &Savepoint<'_>, job: JobId, worker: &str, done: usize) -> rusqlite::Result<()> {
    let mut beat = t.prepare_cached(
        "INSERT INTO workers(job, worker, began, seen, done) SELECT id, ?2, ?3, ?3, ?4 FROM jobs WHERE id = ?1 \
         ON CONFLICT(job, worker) DO UPDATE SET seen = excluded.seen, done = done + excluded.done",
    )?;
    beat.execute(params![job, worker, now(), done as i64])?;
    Ok(())
}

/// Whether a job had workers and none of them is left. One on another machine is taken to be gone after a minute.
pub(super) fn all_gone(t: &Savepoint<'_>, job: JobId) -> rusqlite::Result<bool> {
    let mut workers = t.prepare_cached("SELECT worker, seen FROM workers WHERE job = ?1")?;
    let is_gone = |row: &Row<'_>| {
        let is_silent = row.get::<_, f64>(1).unwrap_or_default() + SILENCE < now();
        Ok(Worker::is_alive(&text(row, 0)?).map_or(is_silent, |is_alive| !is_alive))
    };
    let gone: Vec<bool> = workers.query_map([job], is_gone)?.collect::<rusqlite::Result<_>>()?;
    Ok(!gone.is_empty() && gone.into_iter().all(|is_gone| is_gone))
}

pub(super) fn workers(t: &Savepoint<'_>, job: JobId) -> rusqlite::Result<Vec<WorkerStatus>> {
    let mut workers = t.prepare(
        "SELECT worker, seen, done, began, (SELECT count(*) FROM tasks WHERE tasks.job = workers.job \
         AND tasks.state = 'leased' AND tasks.worker = workers.worker) FROM workers WHERE job = ?1 ORDER BY worker",
    )?;
    let rows = workers.query_map([job], |row| {
        Ok(WorkerStatus {
            worker: text(row, 0)?,
            seen: row.get(1).unwrap_or_default(),
            done: row.get::<_, i64>(2).unwrap_or_default().max(0) as usize,
            began: row.get(3).unwrap_or_default(),
            leased: row.get::<_, i64>(4)? as usize,
        })
    })?;
    rows.collect()
}
