//! What can go wrong in this crate, in one sentence each.

use std::path::{Path, PathBuf};

use thiserror::Error;

/// Every error of `gradus-retrieve`.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// A file or folder could not be read or written.
    #[error(transparent)]
    Io(#[from] gradus_durable::Error),
    /// A pool, or a file of it, is not what it should be.
    #[error("{}: {message}", path.display())]
    Pool {
        /// The file or folder.
        path: PathBuf,
        /// What is wrong, and what to do.
        message: String,
    },
    /// A setting is out of its range.
    #[error("{field} {message}")]
    Setting {
        /// Its name.
        field: &'static str,
        /// What was found and what was expected.
        message: String,
    },
    /// The data does not have what a pool needs.
    #[error("{0}")]
    Data(String),
    /// The encoder gave no vectors, or vectors that are none.
    #[error("the encoder failed after {done} of {total} texts: {message}")]
    Encoder {
        /// Texts with a vector.
        done: usize,
        /// Texts in all.
        total: usize,
        /// What it said.
        message: String,
    },
    /// No principal components.
    #[error(transparent)]
    Pca(#[from] crate::pca::PcaError),
    /// Stopped on request, where it can go on.
    #[error("stopped; the same command goes on from here")]
    Stopped,
}

/// The result of this crate's functions.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub(crate) fn io(path: &Path) -> impl FnOnce(std::io::Error) -> Self + '_ {
        |source| Self::Io(gradus_durable::Error { path: path.to_owned(), source })
    }

    pub(crate) fn pool(path: &Path, message: impl Into<String>) -> Self {
        Self::Pool { path: path.to_owned(), message: message.into() }
    }
}
