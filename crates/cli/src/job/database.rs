//! The job database, and the command line under which this program's work is kept there.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use anyhow::{Context, Result};
use gradus_engine::models::Store as Home;
use gradus_store::SqliteStore;

use crate::arguments::job::JobOptions;

/// What `gradus jobs resume` runs: the command line and the database that it is from.
static RESUMED: OnceLock<(Vec<String>, PathBuf)> = OnceLock::new();

/// From now on this program runs the command line of a job, and not its own.
pub(crate) fn resume(command: &[String], database: &Path) {
    let _ = RESUMED.set((command.to_vec(), database.to_owned()));
}

/// The command line that runs this work again, without the program's name.
pub(crate) fn command_line() -> Result<Vec<String>> {
    if let Some((command, _)) = RESUMED.get() {
        return Ok(command.clone());
    }
    let words = std::env::args_os().skip(1).map(std::ffi::OsString::into_string);
    words.collect::<Result<_, _>>().map_err(|word| {
        anyhow::anyhow!(
            "the argument `{}` is not valid UTF-8, and a job keeps its command as text",
            word.display()
        )
    })
}

/// The database of the job that is resumed.
pub(super) fn resumed_database() -> Option<PathBuf> {
    RESUMED.get().map(|(_, database)| database.clone())
}

/// Opens the job database.
pub(crate) fn open(options: &JobOptions) -> Result<SqliteStore> {
    let path = match resumed_database().or_else(|| options.jobs.clone()) {
        Some(path) => path,
        None => Home::from_env()?.home.join("jobs.sqlite"),
    };
    SqliteStore::open(&path).context("--jobs")
}

/// Whether a job database may hold commands that somebody else wrote: it is not the one of this user's settings, or the
/// file belongs to another user.
pub(crate) fn is_foreign(database: &Path) -> Result<bool> {
    let own = match std::env::var_os("GRADUS_JOBS").filter(|path| !path.is_empty()) {
        Some(path) => PathBuf::from(path),
        None => Home::from_env()?.home.join("jobs.sqlite"),
    };
    let is_own = matches!((own.canonicalize(), database.canonicalize()), (Ok(own), Ok(this)) if own == this);
    Ok(!is_own || !is_of_this_user(database))
}

/// Whether a file belongs to the user of this process, as far as that can be told.
#[cfg(target_os = "linux")]
fn is_of_this_user(path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let process = Path::new("/proc/self").metadata();
    !matches!((process, path.metadata()), (Ok(process), Ok(file)) if process.uid() != file.uid())
}

#[cfg(not(target_os = "linux"))]
fn is_of_this_user(_: &Path) -> bool {
    true
}
