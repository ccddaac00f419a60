//! Errors of training.
//!
//! Every message is one sentence that says what, where and how to fix it: the file, the key or the record, what was
//! expected and what was found.

use std::path::{Path, PathBuf};

use thiserror::Error;

/// Every error of `gradus-train`.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// A file or folder could not be read or written.
    #[error(transparent)]
    Io(#[from] gradus_durable::Error),
    /// A recipe that cannot be run.
    #[error("{location}: {message}")]
    Recipe {
        /// The recipe's file, or the `--set` that has the error.
        location: String,
        /// The key, what was expected and what was found.
        message: String,
    },
    /// A training record that cannot be used.
    #[error("{}:{line}: {message}", path.display())]
    Record {
        /// The file.
        path: PathBuf,
        /// The 1-based line or row.
        line: u64,
        /// What is wrong with it.
        message: String,
    },
    /// A run folder, or a part of one, that cannot be used.
    #[error("{}: {message}", path.display())]
    Run {
        /// The folder or file.
        path: PathBuf,
        /// What is wrong with it, and what to do.
        message: String,
    },
    /// The model does not have what the recipe asks for.
    #[error("{0}")]
    Model(String),
    /// The data cannot be trained on.
    #[error("{0}")]
    Data(String),
    /// A dataset cannot be read.
    #[error(transparent)]
    Files(#[from] gradus_data::Error),
    /// An error of the engine.
    #[error(transparent)]
    Engine(gradus_engine::Error),
    /// There is not enough memory on the device.
    #[error(
        "the device is out of memory: lower `tokens` in [batch] (and `max_tokens` in [data]), or keep the base quantized \
         with `quantized = true` in [model]"
    )]
    Memory,
}

impl From<gradus_engine::Error> for Error {
    fn from(error: gradus_engine::Error) -> Self {
        match error {
            // A recipe has settings that help.
            gradus_engine::Error::Memory => Self::Memory,
            other => Self::Engine(other),
        }
    }
}

impl From<candle_core::Error> for Error {
    fn from(error: candle_core::Error) -> Self {
        gradus_engine::Error::from(error).into()
    }
}

impl Error {
    pub(crate) fn run(path: impl Into<PathBuf>, message: impl Into<String>) -> Self {
        Self::Run { path: path.into(), message: message.into() }
    }
}

/// Turns an I/O error into an [`enum@Error`] with the path: `File::open(path).map_err(io(path))`.
pub(crate) fn io(path: &Path) -> impl FnOnce(std::io::Error) -> Error + '_ {
    move |source| Error::Io(gradus_durable::Error { path: path.to_owned(), source })
}

/// Shorthand for this crate's results.
pub type Result<T, E = Error> = std::result::Result<T, E>;
