//! Texts as vectors.

use std::sync::Arc;

use gradus_backend::EmbedderSettings;
use gradus_core::contracts::{CallError, Embed, Embeddings};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::error::raised;
use crate::options::{keywords, options};
use crate::waiting::{promise, refuse_forked, wait};

/// An embedding model: local, or behind servers.
#[pyclass(frozen, module = "gradus")]
pub(crate) struct Embedder(Arc<gradus_backend::Embedder>);

#[pymethods]
impl Embedder {
    /// Loads a model, or prepares connections to servers. Nothing is downloaded: `gradus models pull` does that.
    #[new]
    #[pyo3(signature = (model=None, *, device=None, **settings))]
    fn new(
        py: Python<'_>,
        model: Option<Bound<'_, PyAny>>,
        device: Option<Bound<'_, PyAny>>,
        settings: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let named = [("model", model), ("device", device)];
        let settings: EmbedderSettings = options("Embedder", named, keywords(settings)?)?;
        refuse_forked()?;
        let embedder = py.detach(|| gradus_backend::Embedder::open(&settings)).map_err(raised)?;
        Ok(Self(Arc::new(embedder)))
    }

    /// The model's name.
    #[getter]
    fn model(&self) -> &str {
        &self.0.name
    }

    /// One vector of length 1 for each text.
    fn embed(&self, py: Python<'_>, texts: Vec<String>) -> PyResult<Vec<Vec<f32>>> {
        rows(wait(py, embedded(&self.0, texts))?)
    }

    /// As `embed`, to be awaited. Cancelling stops the work.
    fn embed_async<'py>(&self, py: Python<'py>, texts: Vec<String>) -> PyResult<Bound<'py, PyAny>> {
        promise(py, embedded(&self.0, texts), |py, found| {
            Ok(rows(found)?.into_pyobject(py)?.into_any().unbind())
        })
    }

    fn __repr__(&self) -> String {
        format!("Embedder({:?})", self.0.name)
    }
}

fn embedded(
    embedder: &Arc<gradus_backend::Embedder>,
    texts: Vec<String>,
) -> impl Future<Output = Result<Option<Embeddings>, CallError>> + Send + use<> {
    let embedder = Arc::clone(embedder);
    async move { if texts.is_empty() { Ok(None) } else { embedder.embed(texts).await.map(Some) } }
}

fn rows(found: Result<Option<Embeddings>, CallError>) -> PyResult<Vec<Vec<f32>>> {
    let found = found.map_err(raised)?;
    Ok(found.map_or_else(Vec::new, |found| found.rows().map(<[f32]>::to_vec).collect()))
}
