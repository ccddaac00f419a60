//! Who works on a job.

use rusqlite::{Savepoint, params};

use super::{now, text};
use crate::job::{JobId, WorkerStatus};

/// Says that a worker is there and has kept so many more results. A job that was removed has no workers.
pub(super) fn beat(t: &Savepoint<'_>, job: JobId, worker: &str, done: usize) -> rusqlite::Result<()> {
    let mut beat = t.prepare_cached(
        "INSERT INTO workers(job, worker, began, seen, done) SELECT id, ?2, ?3, ?3, ?4 FROM jobs WHERE id = ?1 \
         ON CONFLICT(job, worker) DO UPDATE SET seen = excluded.seen, done = done + excluded.done",
    )?;
    beat.execute(params![job, worker, now(), done as i64])?;
    Ok(())
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
