//! The pool that a command retrieves from, and the pool's encoder.

use std::path::Path;

use anyhow::{Result, bail};
use gradus_backend::{
    Embedder, EndpointSettings, LocalSettings, ScoreApi, ScorerSettings, block_on, trained_profile,
};
use gradus_core::contracts::Embed;
use gradus_engine::profile::{Profile, Templates};
use gradus_retrieve::pool::{Encoder, Pool, VectorCheck, VectorSample};
use gradus_retrieve::two_stage::{self, Found, Neighbor, Settings, Target};

use crate::arguments::retrieval::{Augmentation, EncoderOptions, PoolOption};
use crate::exit::Usage;
use crate::terminal::interrupt;
use crate::terminal::progress::Progress;
use gradus_core::count::{counted, grouped};

/// The default profile of a model that uses references.
pub(crate) const PROFILE: &str = "retrieval-prm";

/// An open pool with its encoder.
pub(crate) struct Library {
    pool: Pool,
    /// None where references are random.
    embedder: Option<Embedder>,
}

impl Library {
    /// Opens a pool, and starts its encoder if the retrieval needs one.
    pub(crate) fn open(option: &PoolOption, options: &EncoderOptions, settings: &Settings) -> Result<Self> {
        Self::open_in(&option.pool, option.encoder.as_deref(), options, settings)
    }

    fn open_in(
        folder: &Path,
        encoder: Option<&str>,
        options: &EncoderOptions,
        settings: &Settings,
    ) -> Result<Self> {
        if !settings.embeds() {
            return Ok(Self { pool: Pool::open_any(folder)?, embedder: None });
        }
        let (pool, embedder) = with_encoder(folder, encoder, options)?;
        Ok(Self { pool, embedder: Some(embedder) })
    }

    /// The pool that a scoring command names, if it names one. The encoder is local, on the scorer's device.
    pub(crate) fn of(augmentation: &Augmentation, local: &LocalSettings) -> Result<Option<Self>> {
        let Some(folder) = &augmentation.pool else { return Ok(None) };
        let local = LocalSettings { adapter: None, precision: None, ..local.clone() };
        let options = EncoderOptions { endpoints: EndpointSettings::default(), local };
        let settings = augmentation.retrieval.settings();
        Self::open_in(folder, augmentation.encoder.as_deref(), &options, &settings).map(Some)
    }

    /// Retrieves the references of all targets in one pass.
    pub(crate) fn retrieve(&self, targets: &[Target], settings: &Settings) -> Result<Found> {
        let mut bar: Option<Progress> = None;
        let watch = |done: usize, total: usize| {
            let bar = bar.get_or_insert_with(|| Progress::new(total as u64, false));
            bar.now(done as u64, "texts embedded for retrieval");
            !interrupt::asked()
        };
        let encoder = self.embedder.as_ref().map(|embedder| embedder as &dyn Embed);
        Ok(block_on(two_stage::retrieve(&self.pool, encoder, targets, settings, watch))??)
    }
}

/// Opens a pool and starts its encoder: the given one, or the one recorded in the pool.
pub(crate) fn with_encoder(
    folder: &Path,
    encoder: Option<&str>,
    options: &EncoderOptions,
) -> Result<(Pool, Embedder)> {
    let pool = Pool::open_any(folder)?;
    let embedder = encoder_for(&pool, encoder, options)?;
    Ok((pool, embedder))
}

/// Starts the encoder of an open pool: the given one, or the one recorded in the pool.
pub(crate) fn encoder_for(pool: &Pool, encoder: Option<&str>, options: &EncoderOptions) -> Result<Embedder> {
    let embedder = Embedder::open(&options.settings(encoder.unwrap_or(&pool.manifest().encoder)))?;
    pool.expect(&encoder_of(&embedder))?;
    Ok(embedder)
}

/// Embeds texts of the pool again and compares their vectors.
pub(crate) fn verify_vectors(pool: &Pool, embedder: &Embedder, sample: VectorSample) -> Result<VectorCheck> {
    let mut bar: Option<Progress> = None;
    let watch = |done: usize, total: usize| {
        let bar = bar.get_or_insert_with(|| Progress::new(total as u64, false));
        bar.now(done as u64, "texts embedded again");
        !interrupt::asked()
    };
    Ok(block_on(pool.verify_vectors(&encoder_of(embedder), sample, watch))??)
}

/// How near a reference is, for tables.
pub(crate) fn similarity(from: &Neighbor) -> String {
    from.similarity.map_or_else(|| "random".to_owned(), |similarity| format!("{similarity:.3}"))
}

/// An embedding model with its name, as pools know it.
pub(crate) fn encoder_of(embedder: &Embedder) -> Encoder<'_> {
    Encoder { model: embedder, name: &embedder.name, fingerprint: embedder.fingerprint() }
}

/// Counts of retrieval over all passes of a command.
#[derive(Debug, Default, serde::Serialize)]
pub(crate) struct RetrievalTally {
    /// Solutions for which references were retrieved.
    pub(crate) targets: usize,
    /// Solutions for which the leak guard excluded something.
    pub(crate) guarded: usize,
    /// What it excluded.
    pub(crate) excluded: two_stage::Excluded,
    /// Texts truncated to the encoder's limit.
    pub(crate) truncated: usize,
    /// Similarities of each solution's nearest question.
    #[serde(skip)]
    nearest: Vec<f32>,
    /// Their median.
    pub(crate) median_nearest: Option<f32>,
}

impl RetrievalTally {
    pub(crate) fn add(&mut self, found: &Found) {
        let (excluded, guarded) = found.excluded();
        self.targets += found.targets.len();
        self.guarded += guarded;
        self.excluded.exact += excluded.exact;
        self.excluded.near += excluded.near;
        self.excluded.cosine += excluded.cosine;
        self.excluded.own += excluded.own;
        self.truncated += found.truncated;
        self.nearest.extend(found.targets.iter().filter_map(|target| target.seen.nearest));
        let mut sorted = self.nearest.clone();
        sorted.sort_by(f32::total_cmp);
        self.median_nearest = sorted.get(sorted.len() / 2).copied();
    }

    /// The summary as lines of text.
    pub(crate) fn lines(&self) -> Vec<String> {
        let two_stage::Excluded { exact, near, cosine, own } = self.excluded;
        let mut lines = vec![format!(
            "leak guard: references excluded for {} of {}: {} exact, {} near by Jaccard, {} near by cosine, {} own",
            grouped(self.guarded),
            counted(self.targets, "solution"),
            grouped(exact),
            grouped(near),
            grouped(cosine),
            grouped(own),
        )];
        if let Some(median) = self.median_nearest {
            lines.push(format!("nearest question: median similarity {median:.3}"));
        }
        if self.truncated > 0 {
            let texts = counted(self.truncated, "text");
            lines.push(format!("{texts} truncated to the encoder's limit"));
        }
        lines
    }
}

/// A scorer's settings with the profile that uses references, where there is a pool and no other profile is named: the
/// one that the model was trained with, else `retrieval-prm`. A score server formats its own prompts.
pub(crate) fn with_profile(scorer: &ScorerSettings, augmentation: &Augmentation) -> Result<ScorerSettings> {
    let formats = !scorer.endpoints.endpoint.is_empty() && scorer.api == ScoreApi::Score;
    let mut settings = scorer.clone();
    if augmentation.pool.is_some() && !formats && scorer.profile.is_none() {
        settings.profile = Some(trained_profile(scorer)?.unwrap_or_else(|| PROFILE.to_owned()));
    }
    // Beside a served model, they are the settings of the pool's encoder.
    if augmentation.pool.is_some() && !scorer.endpoints.endpoint.is_empty() {
        settings.local = LocalSettings::default();
    }
    Ok(settings)
}

/// Refuses references that the profile does not use.
pub(crate) fn check_profile(name: &str, settings: &Settings) -> Result<()> {
    if settings.questions == 0 && settings.steps == 0 {
        bail!(Usage("-k 0 -r 0 retrieves nothing: omit --pool".to_owned()));
    }
    let (questions, steps) = Templates::new(Profile::find(name)?)?.sees();
    for (wanted, seen, what, option) in
        [(settings.questions, questions, "questions", "-k 0"), (settings.steps, steps, "steps", "-r 0")]
    {
        if wanted > 0 && !seen {
            bail!(Usage(format!(
                "profile `{name}` does not use reference {what}: use --profile {PROFILE} or {option}"
            )));
        }
    }
    Ok(())
}
