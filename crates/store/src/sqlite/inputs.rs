//! What the tasks of a job are given.

use rusqlite::{OptionalExtension, Savepoint, params};

use super::text;
use crate::job::JobId;

/// Inputs that are kept in one transaction.
pub(super) const KEPT_AT_ONCE: usize = 10_000;

pub(super) fn put(t: &Savepoint<'_>, job: JobId, first: usize, inputs: &[String]) -> rusqlite::Result<()> {
    let mut put = t.prepare_cached(
        "INSERT INTO inputs(job, number, input) SELECT id, ?2, ?3 FROM jobs WHERE id = ?1 \
         ON CONFLICT(job, number) DO UPDATE SET input = excluded.input",
    )?;
    for (number, input) in (first..).zip(inputs) {
        put.execute(params![job, number as i64, input])?;
    }
    Ok(())
}

pub(super) fn get(t: &Savepoint<'_>, job: JobId, tasks: &[usize]) -> rusqlite::Result<Vec<(usize, String)>> {
    let mut get = t.prepare_cached("SELECT input FROM inputs WHERE job = ?1 AND number = ?2")?;
    let mut found = Vec::new();
    for task in tasks {
        let input = get.query_row(params![job, *task as i64], |row| text(row, 0)).optional()?;
        found.extend(input.map(|input| (*task, input)));
    }
    Ok(found)
}
