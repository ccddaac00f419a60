//! The models that are served, by name.

use std::time::{SystemTime, UNIX_EPOCH};

use axum::http::StatusCode;
use gradus_backend::{Embedder, Generator, Scorer, ScorerSettings, Served, ServedKind};
use gradus_engine::{Engine, EngineMetrics};
use gradus_retrieve::pool::PoolAddress;
use gradus_retrieve::two_stage;

use crate::error::ApiError;
use crate::library::Library;
use crate::{Error, Result};

/// A model to serve.
#[derive(Debug, Clone, Default)]
pub struct ModelSettings {
    /// What requests call it.
    pub name: String,
    /// Which one it is, and how it runs.
    pub scorer: ScorerSettings,
    /// A pool whose references its prompts have.
    pub pool: Option<PoolAddress>,
    /// The pool's encoder, where it is not the recorded one.
    pub encoder: Option<String>,
    /// What is retrieved.
    pub retrieval: two_stage::Settings,
}

/// A model that is ready.
pub(crate) struct ServedModel {
    pub(crate) name: String,
    pub(crate) created: u64,
    pub(crate) library: Option<Library>,
    served: Served,
}

/// What a model is asked to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ability {
    Score,
    Generate,
    Embed,
    Retrieve,
}

impl Ability {
    fn words(self) -> &'static str {
        match self {
            Self::Score => "score steps",
            Self::Generate => "generate text",
            Self::Embed => "embed texts",
            Self::Retrieve => "retrieve references: it is served without a pool (--pool)",
        }
    }
}

impl ServedModel {
    pub(crate) fn open(settings: &ModelSettings) -> Result<Self> {
        let library = settings.pool.as_ref().map(|address| {
            Library::open(address, settings.encoder.as_deref(), &settings.scorer.local, &settings.retrieval)
        });
        let library = library.transpose()?;
        let served = Served::open(&settings.scorer)?;
        if settings.pool.is_some() && served.scorer.is_none() {
            let name = &settings.name;
            return Err(Error::Model(format!(
                "model `{name}` scores nothing, and --pool has no effect on it"
            )));
        }
        let created = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
        Ok(Self { name: settings.name.clone(), created, library, served })
    }

    pub(crate) fn kind(&self) -> ServedKind {
        self.served.kind
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.served.local.engine
    }

    pub(crate) fn profile(&self) -> Option<&str> {
        self.served.local.profile.as_deref()
    }

    pub(crate) fn scorer(&self) -> Result<&Scorer, ApiError> {
        self.served.scorer.as_ref().ok_or_else(|| self.cannot(Ability::Score))
    }

    pub(crate) fn generator(&self) -> Result<&Generator, ApiError> {
        self.served.generator.as_ref().ok_or_else(|| self.cannot(Ability::Generate))
    }

    pub(crate) fn embedder(&self) -> Result<&Embedder, ApiError> {
        self.served.embedder.as_ref().ok_or_else(|| self.cannot(Ability::Embed))
    }

    fn can(&self, ability: Ability) -> bool {
        match ability {
            Ability::Score => self.served.scorer.is_some(),
            Ability::Generate => self.served.generator.is_some(),
            Ability::Embed => self.served.embedder.is_some(),
            Ability::Retrieve => self.library.is_some(),
        }
    }

    fn cannot(&self, ability: Ability) -> ApiError {
        ApiError::invalid(format!("model `{}` cannot {}", self.name, ability.words()))
    }
}

/// The models, the one that is meant without a name first.
pub(crate) struct Models(Vec<ServedModel>);

impl Models {
    /// Loads all of them.
    pub(crate) fn open(settings: &[ModelSettings]) -> Result<Self> {
        let mut models: Vec<ServedModel> = Vec::new();
        for model in settings {
            if models.iter().any(|other| other.name == model.name) {
                return Err(Error::Model(format!("two models are called `{}`", model.name)));
            }
            tracing::info!(model = model.name, "loading");
            models.push(ServedModel::open(model)?);
        }
        if models.is_empty() {
            return Err(Error::Model("there is no model to serve".to_owned()));
        }
        Ok(Self(models))
    }

    /// The named model, or without a name the first that can do what is asked.
    pub(crate) fn find(&self, name: Option<&str>, ability: Ability) -> Result<&ServedModel, ApiError> {
        let Some(name) = name.filter(|name| !name.is_empty()) else {
            let first = self.0.iter().find(|model| model.can(ability));
            return first.ok_or_else(|| {
                ApiError::invalid(format!("no model that is served here can {}", ability.words()))
            });
        };
        let Some(model) = self.0.iter().find(|model| model.name == name) else {
            let known: Vec<&str> = self.0.iter().map(|model| model.name.as_str()).collect();
            return Err(ApiError::new(
                StatusCode::NOT_FOUND,
                format!("the model `{name}` does not exist here: there is {}", known.join(", ")),
            ));
        };
        if model.can(ability) { Ok(model) } else { Err(model.cannot(ability)) }
    }

    pub(crate) fn all(&self) -> &[ServedModel] {
        &self.0
    }

    pub(crate) fn engines(&self) -> impl Iterator<Item = (&str, EngineMetrics)> {
        self.0.iter().map(|model| (model.name.as_str(), model.engine().metrics()))
    }
}
