//! The extension module `gradus._gradus`: the library's parts, for Python.
//!
//! Functions are thin: they turn Python's values into the crates' own, let other threads run while they compute, and turn
//! every error into a `GradusError` with the same sentence. What is nicer in Python is in `python/gradus/`.

#![expect(clippy::needless_pass_by_value, reason = "a Python list becomes a vector, which no caller keeps")]

mod dataset;
mod embedding;
mod error;
mod generation;
mod grading;
mod json;
mod metrics;
mod notebook;
mod options;
mod pool;
mod scoring;
mod selection;
mod shards;
mod splitting;
mod table;
mod waiting;

use pyo3::prelude::*;

/// The program's allocator, for its reason: models allocate and free large buffers all the time.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[pymodule]
mod _gradus {
    #[pymodule_export]
    use super::dataset::Dataset;
    #[pymodule_export]
    use super::embedding::Embedder;
    #[pymodule_export]
    use super::error::GradusError;
    #[pymodule_export]
    use super::generation::Generator;
    #[pymodule_export]
    use super::grading::{Grade, compare, extract_answer, grade, grade_batch};
    #[pymodule_export]
    use super::metrics::{average_precision, brier, ece, process_scores, roc_auc};
    #[pymodule_export]
    use super::pool::Pool;
    #[pymodule_export]
    use super::scoring::{ScoredSolution, Scorer};
    #[pymodule_export]
    use super::selection::{aggregate, expected_best_of_n, pass_at_n, select};
    #[pymodule_export]
    use super::shards::{shard_entry, shard_names};
    #[pymodule_export]
    use super::splitting::{split_steps, step_spans};
    use super::{Bound, PyModule, PyModuleMethods, PyResult};

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        gradus_engine::keep_freed_memory();
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
