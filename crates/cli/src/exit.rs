//! Exit statuses, and the error of an invalid command line.
//!
//! 0 success; 1 success, but the data has problems; 2 invalid command line; 3 invalid input or output; 130 interrupted.

use std::fmt;
use std::process::ExitCode;

/// Exit status of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Status {
    /// Done.
    Done,
    /// Done, and the data has problems.
    Found,
    /// The command line is invalid; see [`Usage`].
    Misused,
    /// The input or output is invalid.
    Unusable,
    /// Interrupted; can be resumed.
    Interrupted,
}

impl Status {
    /// The status of a command that failed.
    pub(crate) fn of(error: &anyhow::Error) -> Self {
        let settings = matches!(error.downcast_ref(), Some(gradus_backend::Error::Settings(_)));
        if settings || error.is::<Usage>() { Self::Misused } else { Self::Unusable }
    }
}

/// An invalid option, in one sentence.
#[derive(Debug)]
pub(crate) struct Usage(pub(crate) String);

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

impl From<Status> for ExitCode {
    fn from(status: Status) -> Self {
        match status {
            Status::Done => Self::SUCCESS,
            Status::Found => Self::from(1),
            Status::Misused => Self::from(2),
            Status::Unusable => Self::from(3),
            Status::Interrupted => Self::from(130),
        }
    }
}
