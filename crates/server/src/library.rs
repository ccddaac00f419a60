//! A pool with its encoder, from which references of solutions come.

use std::sync::Arc;

use gradus_backend::{EmbedderSettings, LocalSettings, block_on};
use gradus_core::contracts::ScoreRequest;
use gradus_retrieve::map;
use gradus_retrieve::pool::{Counts, PoolAddress};
use gradus_retrieve::two_stage::{Found, Settings, Target};

use crate::Result;
use crate::error::ApiError;

/// An open pool.
#[derive(Clone)]
pub(crate) struct Library(Arc<Opened>);

struct Opened {
    library: gradus_backend::Library,
    settings: Settings,
}

impl Library {
    /// Opens a pool and starts its encoder: the given one, or the one recorded in the pool.
    pub(crate) fn open(
        address: &PoolAddress,
        encoder: Option<&str>,
        local: &LocalSettings,
        settings: &Settings,
    ) -> Result<Self> {
        let options = EmbedderSettings::beside(local);
        let library = gradus_backend::Library::open(address, encoder, options, settings)?;
        Ok(Self(Arc::new(Opened { library, settings: settings.clone() })))
    }

    /// What it holds.
    pub(crate) fn counts(&self) -> (&Counts, &str) {
        let manifest = self.0.library.pool.manifest();
        (&manifest.counts, &manifest.encoder)
    }

    /// Questions with their places in the plane of the first two principal components, `most` of them at most.
    pub(crate) async fn map(&self, most: usize) -> Result<Vec<(String, [f32; 2])>, ApiError> {
        let opened = Arc::clone(&self.0);
        let work = move || block_on(map::questions(&*opened.library.pool, most));
        let failed = |message: String| {
            ApiError::new(axum::http::StatusCode::INTERNAL_SERVER_ERROR, format!("no map: {message}"))
        };
        let placed = tokio::task::spawn_blocking(work).await.map_err(|error| failed(error.to_string()))?;
        let placed = placed.map_err(|error| failed(error.to_string()))?;
        placed.map_err(|error| failed(error.to_string()))
    }

    /// What is retrieved unless a request says otherwise.
    pub(crate) fn settings(&self) -> &Settings {
        &self.0.settings
    }

    /// The references of all targets. The search takes all cores for a moment, so it runs beside the server's threads.
    pub(crate) async fn retrieve(&self, targets: Vec<Target>, settings: Settings) -> Result<Found, ApiError> {
        let opened = Arc::clone(&self.0);
        let search = move || block_on(opened.library.retrieve(&targets, &settings, |_, _| true));
        let failed = |message: String| {
            ApiError::new(
                axum::http::StatusCode::INTERNAL_SERVER_ERROR,
                format!("retrieval failed: {message}"),
            )
        };
        let found = tokio::task::spawn_blocking(search).await.map_err(|error| failed(error.to_string()))?;
        let found = found.map_err(|error| failed(error.to_string()))?;
        found.map_err(|error| match error {
            gradus_retrieve::Error::Setting { .. } => ApiError::invalid(error.to_string()),
            other => failed(other.to_string()),
        })
    }

    /// Adds references to requests that have none.
    pub(crate) async fn augment(&self, requests: &mut [ScoreRequest]) -> Result<(), ApiError> {
        let targets: Vec<Target> = requests.iter().map(Target::from).collect();
        let found = self.retrieve(targets, self.0.settings.clone()).await?;
        for (request, found) in requests.iter_mut().zip(found.targets) {
            request.references = found.references.questions;
            request.step_references = found.references.steps;
        }
        Ok(())
    }
}
