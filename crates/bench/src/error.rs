//! The errors of this crate, one sentence each.

use std::path::{Path, PathBuf};

use thiserror::Error;

/// Every error of `gradus-bench`.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// A file or folder could not be read or written.
    #[error(transparent)]
    Io(#[from] gradus_durable::Error),
    /// A file cannot be used.
    #[error(transparent)]
    Core(#[from] gradus_data::Error),
    /// A file of a run is not what it should be.
    #[error("{}: {message}", path.display())]
    Run {
        /// The file or folder.
        path: PathBuf,
        /// What is wrong, and what to do.
        message: String,
    },
    /// The data does not have what this benchmark needs.
    #[error("{0}")]
    Data(String),
    /// Every request to the judge failed.
    #[error("no sample was judged: {failures} requests failed, the last with: {message}")]
    Judge {
        /// Requests that failed.
        failures: usize,
        /// What the last one said.
        message: String,
    },
    /// The judge refuses every request.
    #[error("no sample was judged: {0}")]
    Refused(String),
    /// Stopped on request; the run can be resumed.
    #[error("stopped; rerun the same command to resume")]
    Stopped,
}

/// The result of this crate's functions.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub(crate) fn io(path: &Path) -> impl FnOnce(std::io::Error) -> Self + '_ {
        |source| Self::Io(gradus_durable::Error { path: path.to_owned(), source })
    }

    pub(crate) fn run(path: &Path, message: impl Into<String>) -> Self {
        Self::Run { path: path.to_owned(), message: message.into() }
    }
}
