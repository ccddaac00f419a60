//! What is wrong with a prompt or an exemplar file, or with labels that are to be combined.

use std::path::PathBuf;

use thiserror::Error;

/// A result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Why work cannot begin. What goes wrong in a call is a `CallError`.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// A file cannot be read.
    #[error("{} cannot be read: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A template, or a file of exemplars, is wrong.
    #[error("{file}: {message}")]
    Prompt {
        /// The file, or the built-in one's name.
        file: String,
        /// What is wrong, and where.
        message: String,
    },
    /// A setting makes no sense.
    #[error("`{field}` {message}")]
    Setting {
        /// Its name.
        field: &'static str,
        /// What it is and what it may be.
        message: String,
    },
    /// Labels cannot be combined.
    #[error("{0}")]
    Data(String),
}
