//! What can go wrong before a model is asked, each in one sentence that a user can act on.

use std::path::PathBuf;

use thiserror::Error;

/// Every error of `gradus-backend`.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// Settings that do not go together: the caller can fix them.
    #[error("{0}")]
    Settings(String),
    /// A local model could not be loaded.
    #[error(transparent)]
    Engine(#[from] gradus_engine::Error),
    /// A pool could not be opened, or nothing retrieved from it.
    #[error(transparent)]
    Retrieve(#[from] gradus_retrieve::Error),
    /// An endpoint, its key, its cache or its prices cannot be used.
    #[error("{option}: {source}")]
    Endpoint {
        /// The option that names it.
        option: &'static str,
        /// Why.
        source: gradus_llm::Error,
    },
    /// A file of recorded answers cannot be used.
    #[error("{}{}: {message}", path.display(), line.map_or(String::new(), |line| format!(", line {line}")))]
    Recorded {
        /// The file.
        path: PathBuf,
        /// The line at fault, from 1 on.
        line: Option<usize>,
        /// What is wrong.
        message: String,
    },
    /// No runtime for requests could be started.
    #[error("cannot start the async runtime: {0}")]
    Runtime(std::io::Error),
    /// A model that was asked has no answer.
    #[error(transparent)]
    Call(#[from] gradus_core::contracts::CallError),
}

impl Error {
    pub(crate) fn settings(message: impl Into<String>) -> Self {
        Self::Settings(message.into())
    }

    pub(crate) fn endpoint(option: &'static str) -> impl FnOnce(gradus_llm::Error) -> Self {
        move |source| Self::Endpoint { option, source }
    }
}

/// Shorthand for this crate's results.
pub type Result<T, E = Error> = std::result::Result<T, E>;
