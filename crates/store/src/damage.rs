//! Damage in the rows of a job: what is found costs its task, which is done again.
//!
//! Each result has a hash beside it; those of older versions have none and must be JSON. A task whose state is no state
//! is open, one that is missing is made again, one too many is removed. SQLite finds rows by their order and by an index;
//! where a row is not in its order, or the index differs from the rows, both are made anew from the rows.

use rusqlite::types::{Value, ValueRef};
use rusqlite::{Row, Savepoint, params};

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
    repair_order(t, job)?;
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

/// Makes the table and its index anew where either is not in order, or the index says something else than the rows do:
/// SQLite would not find them, and take them for missing, or find them for ever.
fn repair_order(t: &Savepoint<'_>, job: JobId) -> rusqlite::Result<()> {
    // A column that the index does not have: else SQLite reads that instead, which has everything.
    let rows_ascend = {
        let mut tasks = t.prepare("SELECT job, number, attempts FROM tasks NOT INDEXED")?;
        let place = |row: &Row<'_>| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?));
        ascends(tasks.query_map([], place)?)?
    };
    let index_ascends = {
        let mut tasks = t.prepare("SELECT job, state, number FROM tasks INDEXED BY tasks_by_state")?;
        // A state that is no text is none; the rows are put right first.
        let place = |row: &Row<'_>| {
            let state = row.get_ref(1)?.as_bytes().map(<[u8]>::to_vec).unwrap_or_default();
            Ok((row.get::<_, i64>(0)?, state, row.get::<_, i64>(2)?))
        };
        ascends(tasks.query_map([], place)?)?
    };
    let tasks = |from: &str| -> rusqlite::Result<Vec<(i64, Value)>> {
        let mut found = Vec::new();
        let mut tasks = t.prepare(&format!("SELECT number, state{from} WHERE job = ?1"))?;
        let mut rows = tasks.query([job])?;
        while let Some(row) = rows.next()? {
            found.push((row.get(0)?, Value::try_from(row.get_ref(1)?).unwrap_or(Value::Null)));
        }
        found.sort_by_key(|(number, _)| *number);
        Ok(found)
    };
    if rows_ascend
        && index_ascends
        && tasks(", attempts FROM tasks NOT INDEXED")? == tasks(" FROM tasks INDEXED BY tasks_by_state")?
    {
        return Ok(());
    }
    schema::rebuild_tasks(t)
}

/// Whether each is greater than the one before it.
fn ascends<T: PartialOrd>(mut all: impl Iterator<Item = rusqlite::Result<T>>) -> rusqlite::Result<bool> {
    let (mut ascending, mut before) = (true, None);
    while let Some(next) = all.next().transpose()? {
        ascending &= before.as_ref().is_none_or(|before| *before < next);
        before = Some(next);
    }
    Ok(ascending)
}

fn is_sound(number: i64, result: ValueRef<'_>, known: ValueRef<'_>) -> bool {
    let Ok(result) = result.as_str() else { return false };
    match known {
        ValueRef::Null => serde_json::from_str::<serde::de::IgnoredAny>(result).is_ok(),
        known => known.as_str().is_ok_and(|known| known == hash(number, result)),
    }
}

/// Makes the tasks of a job those of its description: as many, with numbers from 0 on.
pub(crate) fn restore_tasks(t: &Savepoint<'_>, job: JobId, names: &[String]) -> rusqlite::Result<()> {
    if names.is_empty() {
        return Ok(());
    }
    repair_order(t, job)?;
    let last = names.len() as i64 - 1;
    t.execute("DELETE FROM tasks WHERE job = ?1 AND number NOT BETWEEN 0 AND ?2", params![job, last])?;
    let mut insert = t.prepare("INSERT OR IGNORE INTO tasks(job, number, name) VALUES (?1, ?2, ?3)")?;
    for (number, name) in names.iter().enumerate() {
        insert.execute(params![job, number as i64, name])?;
    }
    Ok(())
}
