//! What can go wrong in this crate, each in one sentence that says what, where and how to fix it.

use std::path::PathBuf;

use thiserror::Error;

/// Every error of `gradus-engine`.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// A file or folder could not be read or written.
    #[error(transparent)]
    Io(#[from] gradus_durable::Error),
    /// A model's file is missing, broken, or of a kind we do not run.
    #[error("{}: {message}", path.display())]
    Model {
        /// The file or folder.
        path: PathBuf,
        /// What is wrong and what to do about it.
        message: String,
    },
    /// The request cannot be served as it is; the model is fine.
    #[error("{0}")]
    Request(String),
    /// A model could not be fetched.
    #[error("{0}")]
    Fetch(String),
    /// A tensor operation failed: a bug here, or a device out of memory.
    #[error("tensor operation failed: {0}")]
    Tensor(#[from] candle_core::Error),
    /// The thread that owns the model is gone.
    #[error("the model's thread has stopped")]
    Stopped,
}

impl Error {
    pub(crate) fn io(path: impl Into<PathBuf>, source: std::io::Error) -> Self {
        Self::Io(gradus_durable::Error { path: path.into(), source })
    }

    pub(crate) fn model(path: impl Into<PathBuf>, message: impl Into<String>) -> Self {
        Self::Model { path: path.into(), message: message.into() }
    }

    pub(crate) fn request(message: impl Into<String>) -> Self {
        Self::Request(message.into())
    }
}

/// Shorthand for this crate's results.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl From<gradus_remote::Error> for Error {
    fn from(error: gradus_remote::Error) -> Self {
        match error {
            gradus_remote::Error::Local(error) => error.into(),
            other => Self::Fetch(other.to_string()),
        }
    }
}
