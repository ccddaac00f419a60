//! A pool of solved problems with its encoder, from which the references of solutions come.

use gradus_core::contracts::Embed;
use gradus_engine::profile::{Profile, Templates};
use gradus_retrieve::pool::{Encoder, PoolAddress};
use gradus_retrieve::source::PoolSource;
use gradus_retrieve::two_stage::{self, Found, Settings, Target};

use crate::retrieval::Augmentation;
use crate::{
    Embedder, EmbedderSettings, Error, LocalSettings, Result, ScoreApi, ScorerSettings, trained_profile,
};

/// The default profile of a model that uses references.
pub const REFERENCES_PROFILE: &str = "retrieval-prm";

/// An open pool with its encoder.
pub struct Library {
    /// The pool, wherever it is.
    pub pool: Box<dyn PoolSource>,
    /// None where references are random.
    embedder: Option<Embedder>,
}

impl Library {
    /// Opens a pool, and starts its encoder if the retrieval needs one: the given one, or the one recorded in the pool.
    pub fn open(
        address: &PoolAddress,
        encoder: Option<&str>,
        options: EmbedderSettings,
        settings: &Settings,
    ) -> Result<Self> {
        let pool = address.open()?;
        let embedder = settings.embeds().then(|| encoder_for(&*pool, encoder, options)).transpose()?;
        Ok(Self { pool, embedder })
    }

    /// The pool that scores are asked for with, if there is one. The encoder is local, on the scorer's device.
    pub fn of(augmentation: &Augmentation, local: &LocalSettings) -> Result<Option<Self>> {
        let Some(address) = &augmentation.pool else { return Ok(None) };
        let options = EmbedderSettings::beside(local);
        let settings = augmentation.retrieval.settings();
        Self::open(address, augmentation.encoder.as_deref(), options, &settings).map(Some)
    }

    /// The references of all targets in one pass. `watch` hears how many of how many texts are embedded and says whether
    /// to go on.
    pub async fn retrieve(
        &self,
        targets: &[Target],
        settings: &Settings,
        watch: impl FnMut(usize, usize) -> bool,
    ) -> gradus_retrieve::Result<Found> {
        let encoder = self.embedder.as_ref().map(|embedder| embedder as &dyn Embed);
        two_stage::retrieve(&*self.pool, encoder, targets, settings, watch).await
    }
}

/// Starts the encoder of an open pool: the given one, or the one recorded in the pool.
pub fn encoder_for(
    pool: &dyn PoolSource,
    encoder: Option<&str>,
    options: EmbedderSettings,
) -> Result<Embedder> {
    let model = encoder.unwrap_or(&pool.manifest().encoder).to_owned();
    let embedder = Embedder::open(&EmbedderSettings { model: Some(model), ..options })?;
    pool.expect(&embedder.as_encoder())?;
    Ok(embedder)
}

impl EmbedderSettings {
    /// An encoder that runs here beside a scorer, on its device.
    pub fn beside(scorer: &LocalSettings) -> Self {
        let local = LocalSettings { adapter: None, precision: None, ..scorer.clone() };
        Self { local, ..Self::default() }
    }
}

impl Embedder {
    /// The model with its name, as pools know it.
    pub fn as_encoder(&self) -> Encoder<'_> {
        Encoder { model: self, name: &self.name, fingerprint: self.fingerprint() }
    }
}

/// A scorer's settings with the profile that uses references, where there is a pool and no other profile is named: the
/// one that the model was trained with, else `retrieval-prm`. A score server formats its own prompts.
pub fn with_profile(scorer: &ScorerSettings, augmentation: &Augmentation) -> Result<ScorerSettings> {
    let formats = !scorer.endpoints.endpoint.is_empty() && scorer.api == ScoreApi::Score;
    let mut settings = scorer.clone();
    if augmentation.pool.is_some() && !formats && scorer.profile.is_none() {
        settings.profile = Some(trained_profile(scorer)?.unwrap_or_else(|| REFERENCES_PROFILE.to_owned()));
    }
    // Beside a served model, they are the settings of the pool's encoder.
    if augmentation.pool.is_some() && !scorer.endpoints.endpoint.is_empty() {
        settings.local = LocalSettings::default();
    }
    Ok(settings)
}

/// Refuses references that the profile does not use.
pub fn check_profile(name: &str, settings: &Settings) -> Result<()> {
    if settings.questions == 0 && settings.steps == 0 {
        return Err(Error::settings("-k 0 -r 0 retrieves nothing: omit --pool"));
    }
    let (questions, steps) = Templates::new(Profile::find(name)?)?.sees();
    for (wanted, seen, what, option) in
        [(settings.questions, questions, "questions", "-k 0"), (settings.steps, steps, "steps", "-r 0")]
    {
        if wanted > 0 && !seen {
            return Err(Error::settings(format!(
                "profile `{name}` does not use reference {what}: use --profile {REFERENCES_PROFILE} or {option}"
            )));
        }
    }
    Ok(())
}
