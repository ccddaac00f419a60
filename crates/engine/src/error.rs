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
    /// There is not enough memory on the device.
    #[error(
        "the device is out of memory: end other programs on it, or take a smaller or quantized model, shorter texts or fewer at a time"
    )]
    Memory,
    /// A tensor operation failed: a bug here.
    #[error("tensor operation failed: {0}")]
    Tensor(candle_core::Error),
    /// The thread that owns the model is gone.
    #[error("the model's thread has stopped")]
    Stopped,
}

impl From<candle_core::Error> for Error {
    fn from(error: candle_core::Error) -> Self {
        // Its message would go on with a page of addresses.
        if let candle_core::Error::WithBacktrace { inner, .. } = error {
            return (*inner).into();
        }
        let text = error.to_string().to_lowercase();
        if text.contains("out of memory") || text.contains("out_of_memory") {
            Self::Memory
        } else {
            Self::Tensor(error)
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_without_memory_is_told_apart_from_a_bug() {
        let of = |text: &str| {
            let inner = Box::new(candle_core::Error::Msg(text.to_owned()));
            let backtrace = Box::new(std::backtrace::Backtrace::force_capture());
            Error::from(candle_core::Error::WithBacktrace { inner, backtrace }).to_string()
        };
        let memory = of("DriverError(CUDA_ERROR_OUT_OF_MEMORY, \"out of memory\")");
        assert!(memory.starts_with("the device is out of memory: end other programs"), "{memory}");
        assert_eq!(of("shapes differ"), "tensor operation failed: shapes differ");
    }
}
