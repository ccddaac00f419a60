//! What can go wrong, with a sentence for people, a code for programs, and a kind from which HTTP's status follows.

use std::path::PathBuf;

use gradus_durable::Error as FileError;
use serde::Serialize;

/// An error of a labeling project.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The folder is no project, or cannot become one.
    #[error("{}: {message}", path.display())]
    Project {
        /// The folder or a file in it.
        path: PathBuf,
        /// What is wrong, and how to fix it.
        message: String,
    },
    /// A request that says something impossible.
    #[error("{0}")]
    Invalid(String),
    /// No item of that number.
    #[error("there is no item {item}: the project has {items}, counted from 0")]
    NoSuchItem {
        /// The number.
        item: usize,
        /// How many there are.
        items: usize,
    },
    /// Another person holds the item.
    #[error(
        "item {item} was given to somebody else after {minutes} minutes without a sign of this page: go on with the next one"
    )]
    LeaseLost {
        /// The item.
        item: usize,
        /// How long a lease lasts.
        minutes: u64,
    },
    /// Enough other people have labeled the item.
    #[error("item {item} has been labeled by enough people meanwhile: go on with the next one")]
    LabeledEnough {
        /// The item.
        item: usize,
    },
    /// The label was changed elsewhere, such as in another window.
    #[error("item {item} was changed in another window (revision {found}, not {expected}): reload it")]
    StaleRevision {
        /// The item.
        item: usize,
        /// What the request was based on.
        expected: u64,
        /// What is there.
        found: u64,
    },
    /// This person has nothing that could be taken back.
    #[error("there is nothing to undo")]
    NothingToUndo,
    /// The project was opened for reading only.
    #[error("the project is open for reading only")]
    ReadOnly,
    /// A file could not be read or written.
    #[error(transparent)]
    File(#[from] FileError),
    /// The records could not be read.
    #[error(transparent)]
    Data(#[from] gradus_data::Error),
}

/// Whose fault it is: HTTP's status follows from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// The request says something impossible: 422.
    Invalid,
    /// There is no such thing: 404.
    NotFound,
    /// Somebody else, or another window, was first: 409.
    Conflict,
    /// The server's own: 500.
    Internal,
}

impl Error {
    /// Whose fault it is.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Invalid(_) => ErrorKind::Invalid,
            Self::NoSuchItem { .. } => ErrorKind::NotFound,
            Self::LeaseLost { .. }
            | Self::LabeledEnough { .. }
            | Self::StaleRevision { .. }
            | Self::NothingToUndo => ErrorKind::Conflict,
            Self::Project { .. } | Self::ReadOnly | Self::File(_) | Self::Data(_) => ErrorKind::Internal,
        }
    }

    /// What it is, for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Project { .. } => "project",
            Self::Invalid(_) => "invalid",
            Self::NoSuchItem { .. } => "no_such_item",
            Self::LeaseLost { .. } => "lease_lost",
            Self::LabeledEnough { .. } => "labeled_enough",
            Self::StaleRevision { .. } => "stale_revision",
            Self::NothingToUndo => "nothing_to_undo",
            Self::ReadOnly => "read_only",
            Self::File(_) => "file",
            Self::Data(_) => "data",
        }
    }

    /// The answer that a server gives: `{"error": {"message": …, "code": …}}`.
    pub fn body(&self) -> ErrorBody {
        ErrorBody { error: ErrorMessage { message: self.to_string(), code: self.code() } }
    }
}

/// An error as JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ErrorBody {
    error: ErrorMessage,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct ErrorMessage {
    message: String,
    code: &'static str,
}

/// Shorthand for this crate's results.
pub type Result<T> = std::result::Result<T, Error>;
