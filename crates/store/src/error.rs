//! What goes wrong with a store.

use std::path::PathBuf;

use thiserror::Error;

/// A result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a store does not do what it was asked for.
#[derive(Debug, Clone, Error)]
#[non_exhaustive]
pub enum Error {
    /// The file cannot be opened as a store.
    #[error("the jobs' file {} cannot be used: {why}", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// Why, and what to do.
        why: String,
    },
    /// A transaction failed; nothing of it was kept.
    #[error("the jobs' file {} cannot be written: {why}; what was done before is kept, and the same command goes on", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// No such job.
    #[error("there is no job {id}; `gradus jobs list` shows those there are")]
    NoJob {
        /// Its number.
        id: i64,
    },
    /// The store's thread is gone.
    #[error("the jobs' file {} was closed", path.display())]
    Closed {
        /// The file.
        path: PathBuf,
    },
}
