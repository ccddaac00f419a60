//! Retrieval from a pool of solved problems.

use clap::Args;
use gradus_backend::{EmbedderSettings, EndpointSettings, LocalSettings, RetrievalOptions};
use gradus_retrieve::pool::PoolAddress;

/// The pool to use.
#[derive(Debug, Args)]
pub(crate) struct PoolOption {
    /// Pool: a folder, or postgres://USER@HOST/DATABASE?pool=NAME (see gradus pool build)
    #[arg(long, value_name = "POOL")]
    pub(crate) pool: PoolAddress,
    /// Embedding model (default: the one recorded in the pool)
    #[arg(long, value_name = "MODEL")]
    pub(crate) encoder: Option<String>,
}

/// Retrieval from a pool that must be given.
#[derive(Debug, Args)]
pub(crate) struct PoolQuery {
    #[command(flatten)]
    pub(crate) pool: PoolOption,
    #[command(flatten)]
    pub(crate) retrieval: RetrievalOptions,
    #[command(flatten)]
    pub(crate) options: EncoderOptions,
}

/// Where a pool's embedding model runs.
#[derive(Debug, Clone, Args)]
pub(crate) struct EncoderOptions {
    #[command(flatten)]
    pub(crate) endpoints: EndpointSettings,
    #[command(flatten)]
    pub(crate) local: LocalSettings,
}

impl EncoderOptions {
    /// An embedding model of this name.
    pub(crate) fn named(&self, model: &str) -> EmbedderSettings {
        EmbedderSettings { model: Some(model.to_owned()), ..self.settings() }
    }

    /// An embedding model that is still to be named.
    pub(crate) fn settings(&self) -> EmbedderSettings {
        let Self { endpoints, local } = self.clone();
        EmbedderSettings { endpoints, local, ..EmbedderSettings::default() }
    }
}
