//! One local model with everything that it can do, on one engine: what a server offers.

use gradus_engine::Model;

use crate::local::{self, Local, Purpose};
use crate::{Embedder, EmbedderSettings, Generator, GeneratorSettings, Result, Scorer, ScorerSettings};

/// What a model is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServedKind {
    /// A model with a reward head, which knows no texts.
    Reward,
    /// A language model.
    Language,
    /// An encoder.
    Embedding,
}

impl ServedKind {
    pub(crate) fn of(model: &Model) -> Self {
        match (model.is_encoder(), model.any_head()) {
            (true, _) => Self::Embedding,
            (false, Some(_)) => Self::Reward,
            (false, None) => Self::Language,
        }
    }
}

/// A model with everything that it can do.
pub struct Served {
    /// What it is.
    pub kind: ServedKind,
    /// Scores steps: a reward model, or a language model whose profile compares two tokens.
    pub scorer: Option<Scorer>,
    /// Continues texts: a language model.
    pub generator: Option<Generator>,
    /// Turns texts into vectors: all but reward models.
    pub embedder: Option<Embedder>,
    /// The engine that they share.
    pub local: Local,
}

impl Served {
    /// Loads the model. Endpoints in the settings have no effect: their servers can be asked themselves.
    pub fn open(settings: &ScorerSettings) -> Result<Self> {
        let profile = settings.profile.as_deref();
        let name =
            local::model_name(settings.model.as_deref(), &settings.local, local::default_scorer(profile))?;
        let local = Local::start(&name, &settings.local, Purpose::Everything { profile })?;
        let kind = local.kind;
        let scorer = local.profile.is_some().then(|| Scorer::on(local.clone(), &name, settings));
        let generator = (kind == ServedKind::Language)
            .then(|| Generator::on(local.clone(), name.clone(), &GeneratorSettings::default()));
        let embedder = (kind != ServedKind::Reward)
            .then(|| Embedder::on(local.clone(), &name, &EmbedderSettings::default()));
        Ok(Self {
            kind,
            scorer: scorer.transpose()?,
            generator: generator.transpose()?,
            embedder: embedder.transpose()?,
            local,
        })
    }
}
