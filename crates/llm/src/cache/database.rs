//! The file of the cache: its tables, and how an answer is found, kept and removed.
//!
//! Answers lie in the order of their use: one that is kept, or used after an hour, gets the highest id, so the lowest ids
//! are the least recently used, and removing them frees whole pages. The size of the cache is that of the pages in use.
//! `keys` is no index of SQLite but a table of its own, so that a damaged row costs itself only: where the two tables do
//! not fit, an answer is absent, and SQLite has nothing to refuse.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rusqlite::types::ValueRef;
use rusqlite::{
    Connection, ErrorCode, OpenFlags, OptionalExtension, Transaction, TransactionBehavior, params,
};

use super::Key;
use super::packed::{Packed, unpack};

/// SQLite's application id of our files, `GrAn`.
const APPLICATION: i64 = 0x4772_416e;
/// Version of the tables. A file of a later one is refused.
const VERSION: i64 = 1;

const TABLES: &str = "
CREATE TABLE answers(
    id INTEGER PRIMARY KEY,
    key BLOB NOT NULL,
    used INTEGER NOT NULL,
    length INTEGER NOT NULL,
    checksum BLOB NOT NULL,
    answer BLOB NOT NULL
);
CREATE TABLE keys(key BLOB PRIMARY KEY, id INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE size_limit(bytes INTEGER NOT NULL);
";

/// How long a connection waits for another that writes.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long it waits before it is opened again.
const PAUSE: Duration = Duration::from_millis(10);
/// Bytes that the log keeps after a large transaction.
const LOG_BYTES: i64 = 64 << 20;
/// Seconds within which a second use of an answer is not noted.
const SAME_USE: u64 = 3600;
/// Answers, and pages, that are removed in one transaction at most: others that write wait for it.
const PIECE: u64 = 1024;

/// How connections that only read open the file.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Access {
    /// Beside others that may write.
    Shared,
    /// As a file that nobody changes: SQLite can make no log and no locks in this folder.
    Frozen,
}

/// An open file.
pub(super) struct Opened {
    pub(super) access: Access,
    /// The connection that writes, or why there is none.
    pub(super) writer: Result<Connection, String>,
}

/// What was found under a key.
pub(super) enum Found {
    Nothing,
    Damaged,
    /// An answer, and whether its use is to be noted.
    Answer(Vec<u8>, bool),
}

/// Why a file cannot be used.
enum Fault {
    /// It is another's, of a later version, or damaged: a sentence.
    Refused(String),
    Sqlite(rusqlite::Error),
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        if is_damage(&error) {
            return Self::Refused(
                "it is damaged, or no response cache; move it away to start a new one".to_owned(),
            );
        }
        Self::Sqlite(error)
    }
}

/// True where SQLite says that the file is damaged.
pub(super) fn is_damage(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase))
}

/// Opens the file, or makes it. One that cannot be written is opened to be read. The error is a sentence.
pub(super) fn open(path: &Path) -> Result<Opened, String> {
    let why = match open_to_write(path) {
        Ok(connection) => return Ok(Opened { access: Access::Shared, writer: Ok(connection) }),
        Err(Fault::Refused(why)) => return Err(why),
        Err(Fault::Sqlite(error)) => error.to_string(),
    };
    // What is in a log is found by those who share the file only.
    let is_closed = std::fs::metadata(log(path)).map_or(true, |log| log.len() == 0);
    let ways = [Some(Access::Shared), is_closed.then_some(Access::Frozen)];
    for access in ways.into_iter().flatten() {
        let checked = open_to_read(path, access).map_err(Fault::Sqlite).and_then(|file| is_new(&file));
        match checked {
            Ok(false) => return Ok(Opened { access, writer: Err(why) }),
            Err(Fault::Refused(why)) => return Err(why),
            Ok(true) | Err(Fault::Sqlite(_)) => {}
        }
    }
    Err(why)
}

/// The file in which SQLite collects what was written lately.
fn log(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push("-wal");
    name.into()
}

/// Opens the file to write. While another process makes it, SQLite says at once that it is busy, whatever its patience.
fn open_to_write(path: &Path) -> Result<Connection, Fault> {
    let start = Instant::now();
    loop {
        match prepare(path) {
            Err(Fault::Sqlite(error))
                if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy)
                    && start.elapsed() < PATIENCE =>
            {
                std::thread::sleep(PAUSE);
            }
            other => return other,
        }
    }
}

fn prepare(path: &Path) -> Result<Connection, Fault> {
    let mut connection = Connection::open(path)?;
    connection.busy_timeout(PATIENCE)?;
    if is_new(&connection)? {
        // Only before anything is in the file.
        connection.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
    }
    // Readers do not wait for the writer. A commit survives the end of the process, but perhaps not a power cut.
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    connection.pragma_update(None, "journal_size_limit", LOG_BYTES)?;
    let transaction = begin(&mut connection)?;
    // Another process may have made the tables meanwhile.
    if is_new_in(&transaction)? {
        transaction.execute_batch(TABLES)?;
        transaction.pragma_update(None, "application_id", APPLICATION)?;
        transaction.pragma_update(None, "user_version", VERSION)?;
    }
    transaction.commit()?;
    Ok(connection)
}

/// A connection that only reads.
pub(super) fn open_to_read(path: &Path, access: Access) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = match access {
        Access::Shared => Connection::open_with_flags(path, flags)?,
        Access::Frozen => {
            let path = path.to_string_lossy().replace('%', "%25").replace('?', "%3f").replace('#', "%23");
            let address = format!("file:{path}?immutable=1");
            Connection::open_with_flags(address, flags | OpenFlags::SQLITE_OPEN_URI)?
        }
    };
    connection.busy_timeout(PATIENCE)?;
    Ok(connection)
}

/// Whether the file is empty. One that is not ours is refused.
fn is_new(connection: &Connection) -> Result<bool, Fault> {
    // In a transaction, as another process may be making the tables.
    is_new_in(&connection.unchecked_transaction()?)
}

fn is_new_in(transaction: &Transaction<'_>) -> Result<bool, Fault> {
    let number = |pragma: &str| transaction.pragma_query_value(None, pragma, |row| row.get::<_, i64>(0));
    let (application, version) = (number("application_id")?, number("user_version")?);
    let other: Option<String> =
        transaction.query_row("SELECT name FROM sqlite_schema LIMIT 1", [], |row| row.get(0)).optional()?;
    match (application, version) {
        (APPLICATION, VERSION) => Ok(false),
        (APPLICATION, later) => Err(Fault::Refused(format!(
            "it has version {later}, this program knows version {VERSION}; use a newer program or another folder"
        ))),
        (0, 0) if other.is_none() => Ok(true),
        _ => Err(Fault::Refused("it is no response cache; move it away or name another folder".to_owned())),
    }
}

pub(super) fn begin(connection: &mut Connection) -> rusqlite::Result<Transaction<'_>> {
    connection.transaction_with_behavior(TransactionBehavior::Immediate)
}

/// The answer under a key.
pub(super) fn read(connection: &Connection, key: &Key) -> rusqlite::Result<Found> {
    let mut select = connection.prepare_cached(
        "SELECT used, length, checksum, answer FROM keys JOIN answers USING (id) WHERE keys.key = ?1",
    )?;
    let mut rows = select.query([&key[..]])?;
    let Some(row) = rows.next()? else { return Ok(Found::Nothing) };
    let values = (row.get_ref(0)?, row.get_ref(1)?, row.get_ref(2)?, row.get_ref(3)?);
    // Bytes that are damaged may have become a value of another type.
    let (
        ValueRef::Integer(used),
        ValueRef::Integer(length),
        ValueRef::Blob(checksum),
        ValueRef::Blob(answer),
    ) = values
    else {
        return Ok(Found::Damaged);
    };
    Ok(match unpack(key, length, checksum, answer) {
        Some(answer) => Found::Answer(answer, now().abs_diff(used) >= SAME_USE),
        None => Found::Damaged,
    })
}

/// Whether there is an answer under a key, damaged or not.
pub(super) fn has(connection: &Connection, key: &Key) -> rusqlite::Result<bool> {
    connection.prepare_cached("SELECT 1 FROM keys JOIN answers USING (id) WHERE keys.key = ?1")?.exists([key])
}

/// Keeps an answer, as the last one used.
pub(super) fn write(transaction: &Transaction<'_>, key: &Key, packed: &Packed) -> rusqlite::Result<()> {
    if let Some(old) = id_of(transaction, key)? {
        let mut remove = transaction.prepare_cached("DELETE FROM answers WHERE id = ?1 AND key = ?2")?;
        remove.execute(params![old, key])?;
    }
    transaction
        .prepare_cached(
            "INSERT INTO answers(key, used, length, checksum, answer) VALUES (?1, ?2, ?3, ?4, ?5)",
        )?
        .execute(params![key, now(), packed.length, packed.checksum, packed.bytes])?;
    point(transaction, key)
}

/// Makes an answer the last one used.
pub(super) fn note_use(transaction: &Transaction<'_>, key: &Key) -> rusqlite::Result<()> {
    let Some(old) = id_of(transaction, key)? else { return Ok(()) };
    let moved = transaction
        .prepare_cached(
            "INSERT INTO answers(key, used, length, checksum, answer) \
             SELECT key, ?2, length, checksum, answer FROM answers WHERE id = ?1",
        )?
        .execute(params![old, now()])?;
    if moved == 0 {
        return Ok(());
    }
    point(transaction, key)?;
    transaction.prepare_cached("DELETE FROM answers WHERE id = ?1")?.execute([old])?;
    Ok(())
}

fn id_of(transaction: &Transaction<'_>, key: &Key) -> rusqlite::Result<Option<i64>> {
    let mut select = transaction.prepare_cached("SELECT id FROM keys WHERE key = ?1")?;
    let id = select.query_row([key], |row| Ok(row.get_ref(0)?.as_i64().ok())).optional()?;
    Ok(id.flatten())
}

/// Points a key to the row that was written last.
fn point(transaction: &Transaction<'_>, key: &Key) -> rusqlite::Result<()> {
    let id = transaction.last_insert_rowid();
    transaction
        .prepare_cached("INSERT INTO keys(key, id) VALUES (?1, ?2) ON CONFLICT(key) DO UPDATE SET id = ?2")?
        .execute(params![key, id])?;
    Ok(())
}

/// Bytes that the file may have.
pub(super) fn limit(connection: &Connection) -> u64 {
    let set = connection.query_row("SELECT bytes FROM size_limit", [], |row| row.get::<_, i64>(0));
    set.ok().and_then(|limit| u64::try_from(limit).ok()).unwrap_or(super::Cache::DEFAULT_SIZE)
}

/// Sets it, for whoever uses the file from now on.
pub(super) fn set_limit(connection: &mut Connection, bytes: u64) -> rusqlite::Result<()> {
    if limit(connection) == bytes {
        return Ok(());
    }
    let transaction = begin(connection)?;
    transaction.execute("DELETE FROM size_limit", [])?;
    let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
    transaction.execute("INSERT INTO size_limit(bytes) VALUES (?1)", [bytes])?;
    transaction.commit()
}

/// How much room the cache takes, in bytes.
#[derive(Clone, Copy)]
pub(super) struct Sizes {
    page: u64,
    /// The pages in use.
    used: u64,
    /// The file, when its log is empty: pages in use and free ones.
    pub(super) file: u64,
}

pub(super) fn sizes(connection: &Connection) -> rusqlite::Result<Sizes> {
    let number = |pragma: &str| {
        let mut statement = connection.prepare_cached(&format!("PRAGMA {pragma}"))?;
        statement.query_row([], |row| row.get::<_, i64>(0)).map(|number| number.max(0) as u64)
    };
    let (page, pages, free) = (number("page_size")?, number("page_count")?, number("freelist_count")?);
    Ok(Sizes { page, used: pages.saturating_sub(free) * page, file: pages * page })
}

/// Removes some of the least recently used answers, until `target` bytes are in use, then some of the free pages at the
/// end of a file of more than `limit` bytes. Says whether there is more to remove.
pub(super) fn shrink(connection: &mut Connection, target: u64, limit: u64) -> rusqlite::Result<bool> {
    let transaction = begin(connection)?;
    let start = sizes(&transaction)?;
    let least = start.used.saturating_sub(PIECE * start.page).max(target);
    let (mut now, mut removed, mut is_empty) = (start, 0, false);
    while now.used > least && removed < PIECE && !is_empty {
        is_empty = !remove_oldest(&transaction)?;
        removed += 1;
        now = sizes(&transaction)?;
    }
    let before = now.file;
    let pages = before.saturating_sub(limit.max(now.used)).div_ceil(now.page).min(PIECE);
    if pages > 0 {
        // Each row that is asked for frees a page.
        let mut vacuum = transaction.prepare(&format!("PRAGMA incremental_vacuum({pages})"))?;
        let mut rows = vacuum.query([])?;
        while rows.next()?.is_some() {}
        now = sizes(&transaction)?;
    }
    transaction.commit()?;
    // A file that does not get smaller keeps its free pages, which are used again.
    let can_shrink = pages == PIECE && now.file < before;
    Ok(now.used > target && !is_empty || can_shrink)
}

fn remove_oldest(transaction: &Transaction<'_>) -> rusqlite::Result<bool> {
    let mut first = transaction.prepare_cached("SELECT id, key FROM answers ORDER BY id LIMIT 1")?;
    let mut rows = first.query([])?;
    let Some(row) = rows.next()? else { return Ok(false) };
    let id: i64 = row.get(0)?;
    if let ValueRef::Blob(key) = row.get_ref(1)? {
        let mut forget = transaction.prepare_cached("DELETE FROM keys WHERE key = ?1 AND id = ?2")?;
        forget.execute(params![key, id])?;
    }
    drop(rows);
    transaction.prepare_cached("DELETE FROM answers WHERE id = ?1")?.execute([id])?;
    Ok(true)
}

/// Seconds since 1970.
fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() as i64)
}

#[cfg(test)]
mod tests {
    use super::super::packed::Packer;
    use super::*;

    #[test]
    fn a_file_that_nobody_changes_is_read_without_a_log() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("50% of a #1 cache?");
        let mut connection = open_to_write(&path).unwrap_or_else(|_| panic!("it can be made"));
        let transaction = begin(&mut connection).unwrap();
        write(&transaction, &[1; 32], &Packer::default().pack(&[1; 32], b"yes".to_vec())).unwrap();
        transaction.commit().unwrap();
        drop(connection);
        let frozen = open_to_read(&path, Access::Frozen).unwrap();
        assert!(matches!(read(&frozen, &[1; 32]), Ok(Found::Answer(answer, false)) if answer == b"yes"));
        assert!(matches!(read(&frozen, &[2; 32]), Ok(Found::Nothing)));
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
