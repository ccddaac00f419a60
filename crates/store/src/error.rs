//! The errors of a store.

use std::path::PathBuf;

use thiserror::Error;

/// A result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of a store.
#[derive(Debug, Clone, Error)]
#[non_exhaustive]
pub enum Error {
    /// The file cannot be opened as a store.
    #[error("the jobs database {} cannot be used: {why}", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// Why, and what to do.
        why: String,
    },
    /// A transaction failed; nothing of it was kept.
    #[error("the jobs database {} cannot be written: {why}; finished tasks are kept, rerun to resume", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// The file is damaged beyond single results.
    #[error(
        "the jobs database {} is damaged: move it away and rerun; answers in the response cache are not asked for again",
        path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
    },
    /// The address of a server cannot be understood. No part of it is told: it may be one of the password.
    #[error(
        "the address of the jobs database is wrong: {why}; it looks like postgres://user:password@host:5432/database"
    )]
    Address {
        /// Why.
        why: String,
    },
    /// A server's database cannot be used.
    #[error("the jobs database {address} cannot be used: {why}")]
    Connect {
        /// The address without the password.
        address: String,
        /// Why, and what to do.
        why: String,
    },
    /// A server refused a call; nothing of it was kept.
    #[error("the jobs database {address} refused a call: {why}; finished tasks are kept, rerun to resume")]
    Server {
        /// The address without the password.
        address: String,
        /// Why.
        why: String,
    },
    /// A server was away for too long.
    #[error(
        "the jobs database {address} could not be reached for {seconds} s: {why}; finished tasks are kept, rerun to \
         resume once it is back"
    )]
    Away {
        /// The address without the password.
        address: String,
        /// How long it was waited for.
        seconds: u64,
        /// Why.
        why: String,
    },
    /// No such job.
    #[error("there is no job {id}; `gradus jobs list` lists all jobs")]
    NoJob {
        /// Its number.
        id: i64,
    },
    /// The store's thread is gone.
    #[error("the jobs database {} was closed", path.display())]
    Closed {
        /// The file.
        path: PathBuf,
    },
}

impl Error {
    /// What SQLite refused in a transaction.
    pub(crate) fn write(path: &std::path::Path, error: &rusqlite::Error) -> Self {
        use rusqlite::ErrorCode::{DatabaseCorrupt, NotADatabase};
        let path = path.to_owned();
        match error.sqlite_error_code() {
            Some(DatabaseCorrupt | NotADatabase) => Self::Damaged { path },
            _ => Self::Write { path, why: error.to_string() },
        }
    }
}
