//! What the operating system refused, and for which path.

use std::io;
use std::path::{Path, PathBuf};

/// A path that could not be written or read, and why.
#[derive(Debug, thiserror::Error)]
#[error("{}: {}", path.display(), without_code(source))]
pub struct Error {
    /// The file or folder.
    pub path: PathBuf,
    /// Why.
    pub source: io::Error,
}

impl Error {
    pub(crate) fn at(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self { path, source }
    }

    /// What is wrong with a path, in words.
    pub(crate) fn said(path: &Path, message: String) -> Self {
        Self::at(path)(io::Error::new(io::ErrorKind::InvalidInput, message))
    }

    /// True where another process holds the lock.
    pub fn is_in_use(&self) -> bool {
        self.source.kind() == io::ErrorKind::ResourceBusy
    }

    /// True where there is nothing of that name.
    pub fn is_missing(&self) -> bool {
        self.source.kind() == io::ErrorKind::NotFound
    }
}

/// `No such file or directory (os error 2)` without the number, which helps nobody.
fn without_code(source: &io::Error) -> String {
    let text = source.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_owned()
}

/// Shorthand for this crate's results.
pub type Result<T> = std::result::Result<T, Error>;
