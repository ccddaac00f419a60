//! The one exception of the package.

use pyo3::exceptions::PyException;
use pyo3::{PyErr, create_exception};

create_exception!(
    gradus,
    GradusError,
    PyException,
    "What went wrong, in one sentence: what, where, and how to mend it."
);

/// Any error as the exception, with its sentence.
pub(crate) fn raised(error: impl std::fmt::Display) -> PyErr {
    GradusError::new_err(error.to_string())
}
