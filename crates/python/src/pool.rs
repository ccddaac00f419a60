//! Pools of solved problems.

use std::sync::Arc;

use clap::Args;
use gradus_backend::{EmbedderSettings, EndpointSettings, Library, LocalSettings, RetrievalOptions};
use gradus_retrieve::pool::PoolAddress;
use gradus_retrieve::two_stage::{Found, Settings, Target};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::error::raised;
use crate::json::to_python;
use crate::options::{keywords, options};
use crate::waiting::{refuse_forked, wait};

/// A pool of solved problems, from which references of new ones are retrieved.
#[pyclass(frozen, module = "gradus")]
pub(crate) struct Pool {
    library: Arc<Library>,
    address: PoolAddress,
    settings: Settings,
}

/// The options of `gradus pool search`.
#[derive(Args)]
struct PoolOptions {
    /// The pool's folder, or its address on a server
    #[arg(long)]
    pool: PoolAddress,
    /// The embedding model
    #[arg(long)]
    encoder: Option<String>,
    #[command(flatten)]
    retrieval: RetrievalOptions,
    #[command(flatten)]
    endpoints: EndpointSettings,
    #[command(flatten)]
    local: LocalSettings,
}

#[pymethods]
impl Pool {
    /// Opens a pool that `gradus pool build` made, and starts its embedding model.
    #[new]
    #[pyo3(signature = (folder, *, encoder=None, device=None, **settings))]
    fn new(
        py: Python<'_>,
        folder: Bound<'_, PyAny>,
        encoder: Option<Bound<'_, PyAny>>,
        device: Option<Bound<'_, PyAny>>,
        settings: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let named = [("pool", Some(folder)), ("encoder", encoder), ("device", device)];
        let options: PoolOptions = options("Pool", named, keywords(settings)?)?;
        let PoolOptions { pool, encoder, retrieval, endpoints, local } = options;
        refuse_forked()?;
        let settings = retrieval.settings();
        let model = EmbedderSettings { endpoints, local, ..EmbedderSettings::default() };
        let opened = py.detach(|| Library::open(&pool, encoder.as_deref(), model, &settings));
        Ok(Self { library: Arc::new(opened.map_err(raised)?), address: pool, settings })
    }

    /// Solved problems like this one, and for each step solved steps like it; never the problem itself.
    #[pyo3(signature = (question, steps=Vec::new()))]
    fn search<'py>(
        &self,
        py: Python<'py>,
        question: String,
        steps: Vec<String>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let target = Target { id: "target".to_owned(), question, steps, own: Vec::new() };
        let (library, settings) = (Arc::clone(&self.library), self.settings.clone());
        let found: Found =
            wait(py, async move { library.retrieve(&[target], &settings, |_, _| true).await })?
                .map_err(raised)?;
        to_python(py, &found.targets.first())
    }

    /// Questions in the pool.
    fn __len__(&self) -> usize {
        self.library.pool.manifest().counts.questions
    }

    fn __repr__(&self) -> String {
        let counts = &self.library.pool.manifest().counts;
        let encoder = &self.library.pool.manifest().encoder;
        format!("Pool({:?}, {} questions, {} steps, {encoder})", self.address, counts.questions, counts.steps)
    }
}
