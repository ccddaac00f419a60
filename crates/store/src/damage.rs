//! Damage in the rows of a job: what is found costs its task, which is done again.
//!
//! Each result has a hash beside it; those of older versions have none and must be JSON. A task whose state is no state
//! is open, one that is missing is made again, one too many is removed. Where SQLite finds fault with the table or its
//! index, both are made anew from the rows.

use std::ops::Range;

use rusqlite::types::ValueRef;
use rusqlite::{Savepoint, params};

use crate::job::JobId;
use crate::schema;

/// States that a task may have.
const STATES: [&str; 4] = ["open", "leased", "done", "failed"];

/// The hash of a task's result.
pub(crate) fn hash(task: i64, result: &str) -> String {
    let hash = blake3::Hasher::new().update(&task.to_le_bytes()).update(result.as_bytes()).finalize();
    hash.to_hex()[..16].to_owned()
}

/// Opens the damaged tasks of a job and says how many there were.
pub(crate) fn open_damaged(t: &Savepoint<'_>, job: JobId) -> rusqlite::Result<usize> {
    let mut damaged = Vec::new();
    {
        let mut tasks =
            t.prepare("SELECT number, state, result, hash FROM tasks NOT INDEXED WHERE job = ?1")?;
        let mut rows = tasks.query([job])?;
        while let Some(row) = rows.next()? {
            let (number, state): (i64, ValueRef<'_>) = (row.get(0)?, row.get_ref(1)?);
            // Bytes that spell a state are none: SQLite does not find them by the text.
            let is_state = state.as_str().is_ok_and(|state| STATES.contains(&state));
            let is_done = state.as_str().is_ok_and(|state| state == "done");
            if !is_state || is_done && !is_sound(number, row.get_ref(2)?, row.get_ref(3)?) {
                damaged.push(number);
            }
        }
    }
    let mut open = t.prepare(
        "UPDATE tasks SET state = 'open', worker = NULL, lease = NULL, result = NULL, hash = NULL, attempts = 0 \
         WHERE job = ?1 AND number = ?2",
    )?;
    for number in &damaged {
        open.execute(params![job, number])?;
    }
    Ok(damaged.len())
}

/// Makes the table of tasks and its index anew where SQLite finds fault with them: a row out of order, an entry of the
/// index that is no row's, a cell that reaches into the next. Writing to such a page would do more harm.
fn repair_table(t: &Savepoint<'_>) -> rusqlite::Result<()> {
    let said: String = t.query_row("PRAGMA integrity_check('tasks')", [], |row| row.get(0))?;
    if said == "ok" { Ok(()) } else { schema::rebuild_tasks(t) }
}

fn is_sound(number: i64, result: ValueRef<'_>, known: ValueRef<'_>) -> bool {
    let Ok(result) = result.as_str() else { return false };
    match known {
        ValueRef::Null => serde_json::from_str::<serde::de::IgnoredAny>(result).is_ok(),
        known => known.as_str().is_ok_and(|known| known == hash(number, result)),
    }
}

/// Removes the tasks of a job that it should not have, and says whether all are there that it should have.
pub(crate) fn has_all_tasks(t: &Savepoint<'_>, job: JobId, tasks: usize) -> rusqlite::Result<bool> {
    if tasks == 0 {
        return Ok(true);
    }
    repair_table(t)?;
    let last = tasks as i64 - 1;
    t.execute("DELETE FROM tasks WHERE job = ?1 AND number NOT BETWEEN 0 AND ?2", params![job, last])?;
    let there: i64 = t.query_row("SELECT count(*) FROM tasks WHERE job = ?1", [job], |row| row.get(0))?;
    Ok(there == tasks as i64)
}

/// Makes those of these tasks that are not there.
pub(crate) fn make_tasks(t: &Savepoint<'_>, job: JobId, numbers: Range<usize>) -> rusqlite::Result<()> {
    t.execute(
        "WITH RECURSIVE numbers(number) AS (SELECT ?2 UNION ALL SELECT number + 1 FROM numbers WHERE number + 1 < ?3) \
         INSERT OR IGNORE INTO tasks(job, number, name) SELECT ?1, number, '' FROM numbers",
        params![job, numbers.start as i64, numbers.end as i64],
    )?;
    Ok(())
}
