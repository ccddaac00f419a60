//! Our values as Python's, by way of JSON: the same fields as in files and in `--json`.

use pyo3::prelude::*;
use serde::Serialize;

use crate::error::raised;

/// A value as Python's dicts, lists, texts and numbers.
pub(crate) fn to_python<'py>(py: Python<'py>, value: &impl Serialize) -> PyResult<Bound<'py, PyAny>> {
    let text = serde_json::to_string(value).map_err(raised)?;
    py.import("json")?.call_method1("loads", (text,))
}

/// A Python value as a line of JSON. What JSON does not know but has `tolist`, such as an array of numpy, is a list.
pub(crate) fn to_json(value: &Bound<'_, PyAny>) -> PyResult<String> {
    let py = value.py();
    let options = pyo3::types::PyDict::new(py);
    options.set_item("default", pyo3::wrap_pyfunction!(listed, py)?)?;
    options.set_item("ensure_ascii", false)?;
    py.import("json")?.call_method("dumps", (value,), Some(&options))?.extract()
}

#[pyfunction]
fn listed<'py>(value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    value.call_method0("tolist").map_err(|_| {
        let kind = value.get_type();
        raised(format!("a value of {kind} cannot be written as JSON: give texts, numbers, lists and dicts"))
    })
}
