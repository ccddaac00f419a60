//! What can go wrong in this crate.
//!
//! Every message is one sentence that says what, where and how to fix it: the path and line of the record, the
//! field, what was expected and what was found. Nothing here is recoverable by retrying.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gradus_core::Fault;
use thiserror::Error;

/// Where a record is in an input file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceLocation {
    /// The file, or `-` for standard input.
    pub path: Arc<Path>,
    /// 1-based line on which the record starts; for Parquet, the 1-based row.
    pub line: u64,
}

impl fmt::Display for SourceLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if &*self.path == Path::new("-") {
            write!(f, "standard input:{}", self.line)
        } else {
            write!(f, "{}:{}", self.path.display(), self.line)
        }
    }
}

/// Every error of `gradus-data`.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// A file or folder could not be read or written.
    #[error(transparent)]
    Io(#[from] gradus_durable::Error),
    /// A file that is elsewhere could not be read or written.
    #[error(transparent)]
    Remote(#[from] gradus_remote::Error),
    /// One record is unusable; the records after it may be fine.
    #[error("{place}: {fault}")]
    Record {
        /// Where the record starts.
        place: SourceLocation,
        /// What is wrong with it.
        fault: Fault,
    },
    /// The file cannot be read past this point.
    #[error("{place}: {message}")]
    Broken {
        /// The last line that was reached.
        place: SourceLocation,
        /// What happened.
        message: String,
    },
    /// A file contradicts an earlier one.
    #[error("{}: {fault}", path.display())]
    Contradiction {
        /// The later file.
        path: PathBuf,
        /// What contradicts what.
        fault: Fault,
    },
    /// The file holds no record.
    #[error("{}: the file is empty: expected at least one record", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// A folder without a data file.
    #[error(
        "{}: no data file in this folder: expected .json, .jsonl or .parquet files, optionally .gz or .zst",
        path.display()
    )]
    NoFiles {
        /// The folder.
        path: PathBuf,
    },
    /// A folder of shards that are not all there.
    #[error(
        "{}: {there} of the shards of this output are there: run the command that writes them to its end, or name single \
         shards to read",
        manifest.display()
    )]
    Unfinished {
        /// The list of the shards.
        manifest: PathBuf,
        /// How many are there.
        there: usize,
    },
    /// An output could not be sent to where it was to be.
    #[error("{error}; the output is kept in {}: send it with gradus push", kept.display())]
    NotSent {
        /// Why not.
        error: gradus_remote::Error,
        /// The output on this machine.
        kept: PathBuf,
    },
    /// The first record matches no known format.
    #[error(
        "{place}: no known dataset format has the fields {found}: say what they are ({map}), or name the \
         format with --from (see gradus data formats)"
    )]
    UnknownFormat {
        /// Where the first record starts.
        place: SourceLocation,
        /// The fields of the first record.
        found: String,
        /// The `--map` that would read it, as far as its fields' names tell.
        map: String,
    },
    /// The output cannot be written in the requested form.
    #[error("{}: {message}", path.display())]
    Output {
        /// The file that was to be written.
        path: PathBuf,
        /// Why not.
        message: String,
    },
}

impl Error {
    /// True when only one record is lost and reading can go on after it.
    pub fn is_record(&self) -> bool {
        matches!(self, Self::Record { .. })
    }

    pub(crate) fn io(path: impl Into<PathBuf>, source: std::io::Error) -> Self {
        Self::Io(gradus_durable::Error { path: path.into(), source })
    }
}

/// Shorthand for this crate's results.
pub type Result<T> = std::result::Result<T, Error>;
