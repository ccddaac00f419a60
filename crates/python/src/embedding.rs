//! Texts as vectors.

use std::path::PathBuf;
use std::sync::Arc;

use gradus_backend::EmbedderSettings;
use gradus_core::contracts::{CallError, Embed, Embeddings};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde::Serialize;

use crate::dataset::Dataset;
use crate::error::raised;
use crate::options::{keywords, options};
use crate::waiting::{promise, refuse_forked, wait};

/// Texts of a dataset that are embedded in one call.
const AT_ONCE: usize = 256;

#[derive(Serialize)]
struct EmbeddingRow<'a> {
    text: &'a str,
    embedding: &'a [f32],
}

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

    /// Embeds the problems of a dataset and writes them as `gradus embed` does: NumPy's format for a name that ends in
    /// `.npy`, JSONL otherwise. Returns the number of texts.
    fn embed_dataset(&self, py: Python<'_>, dataset: &Bound<'_, Dataset>, path: PathBuf) -> PyResult<usize> {
        let texts: Vec<String> =
            dataset.get().records.iter().map(|record| record.problem.text.clone()).collect();
        let (embedder, asked) = (Arc::clone(&self.0), texts.clone());
        let all = wait(py, async move {
            let mut all =
                Embeddings { dimension: 0, values: Vec::new(), truncated: 0, usage: Default::default() };
            for chunk in asked.chunks(AT_ONCE) {
                let part = embedder.embed(chunk.to_vec()).await?;
                all.dimension = part.dimension;
                all.values.extend(part.values);
            }
            Ok::<_, CallError>(all)
        });
        let all = all?.map_err(raised)?;
        py.detach(|| gradus_durable::replace_file(&path, &file(&path, &texts, &all)?).map_err(raised))?;
        Ok(texts.len())
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

/// The bytes of a file of vectors, as `gradus embed` writes them.
fn file(path: &std::path::Path, texts: &[String], all: &Embeddings) -> PyResult<Vec<u8>> {
    let mut bytes = Vec::new();
    if path.extension().is_some_and(|extension| extension == "npy") {
        // NumPy's format, version 1: a magic number, a padded header, little-endian f32.
        let shape = format!("({}, {})", texts.len(), all.dimension);
        let mut header = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}");
        while (10 + header.len() + 1) % 64 != 0 {
            header.push(' ');
        }
        header.push('\n');
        bytes.extend(b"\x93NUMPY\x01\x00");
        bytes.extend((header.len() as u16).to_le_bytes());
        bytes.extend(header.as_bytes());
        bytes.extend(all.values.iter().flat_map(|value| value.to_le_bytes()));
        return Ok(bytes);
    }
    for (text, embedding) in texts.iter().zip(all.rows()) {
        serde_json::to_writer(&mut bytes, &EmbeddingRow { text, embedding }).map_err(raised)?;
        bytes.push(b'\n');
    }
    Ok(bytes)
}
