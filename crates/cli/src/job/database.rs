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
