//! A model that turns texts into vectors: local, behind endpoints, or recorded vectors.

use std::sync::Arc;

use gradus_core::contracts::{Answer, Embed, Embeddings};
use gradus_llm::EmbeddingServer;

use crate::background::Background;
use crate::endpoints::Endpoints;
use crate::local::{self, Local, Purpose};
use crate::recorded::RecordedVectors;
use crate::{EmbedderSettings, Result, Spending};

/// The encoder that runs when none is named.
const DEFAULT_ENCODER: &str = "all-minilm-l6-v2";

/// An embedder that is ready to be asked.
pub struct Embedder {
    /// What it is called, and what a pool remembers.
    pub name: String,
    /// What it spends.
    pub spending: Spending,
    backend: Backend,
    fingerprint: String,
}

enum Backend {
    Local(Local),
    Endpoints(Background<EmbeddingServer>),
    Recorded(RecordedVectors),
}

impl Embedder {
    /// Loads the model, prepares connections or reads the file; nothing is asked yet.
    pub fn open(settings: &EmbedderSettings) -> Result<Self> {
        let (name, fingerprint, backend, http) = if let Some(path) = &settings.recorded {
            let vectors = RecordedVectors::read(path)?;
            let name = path.file_stem().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
            (name, vectors.hash.clone(), Backend::Recorded(vectors), None)
        } else if settings.endpoints.endpoint.is_empty() {
            settings.endpoints.refuse_local_concurrency()?;
            let name = local::model_name(settings.model.as_deref(), &settings.local, DEFAULT_ENCODER)?;
            let local = Local::start(&name, &settings.local, Purpose::Text)?;
            (name, local.files.clone(), Backend::Local(local), None)
        } else {
            settings.local.refuse_with_endpoint()?;
            let endpoints = Endpoints::open(&settings.endpoints, settings.model.as_deref())?;
            let http = endpoints.http;
            let server = Background::start(Arc::new(EmbeddingServer::new(http.clone())))?;
            let fingerprint = format!("endpoint {}", endpoints.identity);
            (endpoints.name, fingerprint, Backend::Endpoints(server), Some(http))
        };
        let spending = Spending::open(&settings.endpoints, &name, http)?;
        Ok(Self { name, spending, backend, fingerprint })
    }

    /// An embedder on an engine that is running already.
    pub(crate) fn on(local: Local, name: &str, settings: &EmbedderSettings) -> Result<Self> {
        let spending = Spending::open(&settings.endpoints, name, None)?;
        let fingerprint = local.files.clone();
        Ok(Self { name: name.to_owned(), spending, backend: Backend::Local(local), fingerprint })
    }

    /// Tells its vectors from another's: a hash of its files, or the model's name at its servers.
    pub fn fingerprint(&self) -> &str {
        &self.fingerprint
    }
}

impl Embed for Embedder {
    fn embed(&self, texts: Vec<String>) -> Answer<'_, Embeddings> {
        match &self.backend {
            Backend::Local(local) => local.engine.embed(texts),
            Backend::Endpoints(server) => server.embed(texts),
            Backend::Recorded(vectors) => vectors.embed(texts),
        }
    }
}
