//! The tables, and what is done to a file before it is used.

use rusqlite::{Connection, OptionalExtension};

/// Version of the tables. A file of a later one is refused.
const VERSION: i64 = 1;

const JOBS: &str = "
CREATE TABLE jobs(
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    fingerprint TEXT NOT NULL UNIQUE,
    kind TEXT NOT NULL,
    command TEXT NOT NULL,
    folder TEXT NOT NULL,
    output TEXT,
    state TEXT NOT NULL,
    created REAL NOT NULL,
    updated REAL NOT NULL
);
";

/// The tasks of jobs.
const TASKS: &str = "
CREATE TABLE tasks(
    job INTEGER NOT NULL REFERENCES jobs(id) ON DELETE CASCADE,
    number INTEGER NOT NULL,
    name TEXT NOT NULL,
    state TEXT NOT NULL DEFAULT 'open',
    attempts INTEGER NOT NULL DEFAULT 0,
    worker TEXT,
    lease REAL,
    fault TEXT,
    result TEXT,
    PRIMARY KEY(job, number)
) WITHOUT ROWID;
CREATE INDEX tasks_by_state ON tasks(job, state, number);
";

/// How far registered commands are. Programs that do not know this table can still use the file.
const PROGRESS: &str = "
CREATE TABLE IF NOT EXISTS progress(
    job INTEGER PRIMARY KEY REFERENCES jobs(id) ON DELETE CASCADE,
    worker TEXT NOT NULL,
    done INTEGER NOT NULL,
    total INTEGER NOT NULL
);
";

/// Who works on a job, and what its tasks are given. Programs that do not know these tables can still use the file.
const WORKERS: &str = "
CREATE TABLE IF NOT EXISTS workers(
    job INTEGER NOT NULL REFERENCES jobs(id) ON DELETE CASCADE,
    worker TEXT NOT NULL,
    began REAL NOT NULL,
    seen REAL NOT NULL,
    done INTEGER NOT NULL,
    PRIMARY KEY(job, worker)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS inputs(
    job INTEGER NOT NULL REFERENCES jobs(id) ON DELETE CASCADE,
    number INTEGER NOT NULL,
    input TEXT NOT NULL,
    PRIMARY KEY(job, number)
);
";

/// A hash of each result, so that damage is found. Programs that do not know this column can still use the file.
const HASHES: &str = "ALTER TABLE tasks ADD COLUMN hash TEXT";
const HAS_HASHES: &str = "SELECT count(*) FROM pragma_table_info('tasks') WHERE name = 'hash'";

/// Makes the tables of a new file, and checks those of an old one. The error is a sentence.
pub(crate) fn prepare(connection: &mut Connection) -> Result<(), String> {
    let say = |error: rusqlite::Error| error.to_string();
    connection.busy_timeout(std::time::Duration::from_secs(30)).map_err(say)?;
    // Readers do not wait for the writer; a commit is on the disk when it returns.
    connection.pragma_update(None, "journal_mode", "WAL").map_err(say)?;
    connection.pragma_update(None, "synchronous", "FULL").map_err(say)?;
    // Pages that a killed process may leave in the log, where damage costs all that follows.
    connection.pragma_update(None, "wal_autocheckpoint", 100).map_err(say)?;
    connection.pragma_update(None, "foreign_keys", true).map_err(say)?;
    let transaction =
        connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate).map_err(say)?;
    let version: i64 = transaction.query_row("PRAGMA user_version", [], |row| row.get(0)).map_err(say)?;
    let others: Option<String> = transaction
        .query_row("SELECT name FROM sqlite_schema LIMIT 1", [], |row| row.get(0))
        .optional()
        .map_err(say)?;
    match version {
        VERSION => {}
        0 if others.is_none() => {
            transaction.execute_batch(JOBS).map_err(say)?;
            transaction.execute_batch(TASKS).map_err(say)?;
            transaction.pragma_update(None, "user_version", VERSION).map_err(say)?;
        }
        0 => return Err("it is not a jobs database; name another file".to_owned()),
        later => {
            return Err(format!(
                "it has version {later}, this program knows version {VERSION}; use a newer program"
            ));
        }
    }
    transaction.execute_batch(PROGRESS).map_err(say)?;
    transaction.execute_batch(WORKERS).map_err(say)?;
    if transaction.query_row(HAS_HASHES, [], |row| row.get::<_, i64>(0)).map_err(say)? == 0 {
        transaction.execute_batch(HASHES).map_err(say)?;
    }
    transaction.commit().map_err(say)
}

/// Makes the table of tasks and its index anew from the rows that are there. They are not deleted one by one: SQLite
/// would look for each of them where it should be.
pub(crate) fn rebuild_tasks(connection: &Connection) -> rusqlite::Result<()> {
    connection
        .execute_batch("CREATE TEMP TABLE kept AS SELECT * FROM tasks NOT INDEXED; DROP TABLE tasks")?;
    connection.execute_batch(TASKS)?;
    connection.execute_batch(HASHES)?;
    connection.execute_batch("INSERT OR IGNORE INTO tasks SELECT * FROM kept; DROP TABLE kept")
}
