//! Shards of an output: their names, and what the manifest beside them says of each.

use std::path::PathBuf;

use gradus_data::files::manifest::{ShardEntry, ShardNames};
use pyo3::prelude::*;

use crate::error::raised;
use crate::json::to_python;

/// The files of an output in `count` shards, and its manifest.
#[pyfunction]
pub(crate) fn shard_names(output: PathBuf, count: usize) -> (Vec<PathBuf>, PathBuf) {
    let names = ShardNames::new(&output, count);
    ((0..count).map(|number| names.path(number)).collect(), names.manifest())
}

/// What a manifest says of a shard that is written: its name, records, size and BLAKE3 hash.
#[pyfunction]
#[pyo3(signature = (path, records, failed=0))]
pub(crate) fn shard_entry(
    py: Python<'_>,
    path: PathBuf,
    records: u64,
    failed: usize,
) -> PyResult<Bound<'_, PyAny>> {
    let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let entry = py.detach(|| ShardEntry::of(&path, file, records, failed)).map_err(raised)?;
    to_python(py, &entry)
}
