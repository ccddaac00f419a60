//! What can go wrong with a file that is elsewhere: one sentence that says what, where and how to fix it.

use std::fmt::Display;

use thiserror::Error;

/// Why a file could not be read or written.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// A file or folder of this machine.
    #[error(transparent)]
    Local(#[from] gradus_durable::Error),
    /// A server, or what it holds.
    #[error("{0}")]
    Remote(String),
    /// There is nothing at an address.
    #[error("{0}")]
    Missing(String),
    /// A file that is not the one that was announced.
    #[error("{0}")]
    Damaged(String),
    /// Somebody else has written the file in the meantime.
    #[error("{0}")]
    Changed(String),
}

impl Error {
    /// What is wrong at an address.
    pub fn new(address: &impl Display, message: impl Display) -> Self {
        Self::Remote(format!("{address}: {message}"))
    }

    pub(crate) fn missing(address: &impl Display, message: impl Display) -> Self {
        Self::Missing(format!("{address}: {message}"))
    }

    pub(crate) fn changed(address: &impl Display) -> Self {
        Self::Changed(format!(
            "{address}: another writer has changed it since this command began, so it is left as it is"
        ))
    }

    pub(crate) fn local(path: impl Into<std::path::PathBuf>, source: std::io::Error) -> Self {
        Self::Local(gradus_durable::Error { path: path.into(), source })
    }
}

/// Shorthand for this crate's results.
pub type Result<T> = std::result::Result<T, Error>;
