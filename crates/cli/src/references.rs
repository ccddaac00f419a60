//! The pool that a command retrieves from, and the pool's encoder.

use std::path::Path;

use anyhow::{Result, bail};
use gradus_engine::profile::{Profile, Templates};
use gradus_retrieve::pool::{Encoder, Pool};
use gradus_retrieve::two_stage::{self, Found, Settings, Target};

use crate::args::engine::ModelOptions;
use crate::args::pool::Augmentation;
use crate::commands::Usage;
use crate::interrupt;
use crate::local::{self, Local, Purpose};
use crate::printer::{self, counted};
use crate::progress::Progress;

/// The profile of a model that sees references, where none is named.
pub(crate) const PROFILE: &str = "retrieval-prm";

/// A model that turns texts into vectors, and what tells it from others.
pub(crate) struct TextEncoder {
    local: Local,
    name: String,
}

impl TextEncoder {
    pub(crate) fn start(name: &str, options: &ModelOptions) -> Result<Self> {
        let local = local::start(name, options, &Purpose::default())?;
        Ok(Self { local, name: name.to_owned() })
    }

    pub(crate) fn named(&self) -> Encoder<'_> {
        Encoder { model: &self.local.engine, name: &self.name, fingerprint: &self.local.files }
    }
}

/// An open pool with its encoder.
pub(crate) struct Library {
    pub(crate) pool: Pool,
    pub(crate) encoder: TextEncoder,
}

impl Library {
    /// Opens a pool and starts its encoder: the named one, or the one that the pool remembers.
    pub(crate) fn open(folder: &Path, encoder: Option<&str>, options: &ModelOptions) -> Result<Self> {
        let pool = Pool::open_any(folder)?;
        let name = encoder.unwrap_or(&pool.manifest().encoder);
        let encoder = TextEncoder::start(name, options)?;
        pool.expect(&encoder.named())?;
        Ok(Self { pool, encoder })
    }

    /// The pool that a scoring command names, if it names one. The encoder runs where the scorer does.
    pub(crate) fn of(augmentation: &Augmentation, options: &ModelOptions) -> Result<Option<Self>> {
        let Some(folder) = &augmentation.pool else { return Ok(None) };
        let options = ModelOptions { adapter: None, precision: None, ..options.clone() };
        Self::open(folder, augmentation.encoder.as_deref(), &options).map(Some)
    }

    /// Finds the references of all targets in one pass, and says what was unusual.
    pub(crate) fn retrieve(&self, targets: &[Target], settings: &Settings) -> Result<Found> {
        let mut bar: Option<Progress> = None;
        let watch = |done: usize, total: usize| {
            let bar = bar.get_or_insert_with(|| Progress::new(total as u64, false));
            bar.now(done as u64, "texts embedded for retrieval");
            !interrupt::asked()
        };
        let encoder: &dyn gradus_core::contracts::Embed = &self.encoder.local.engine;
        Ok(local::wait(two_stage::retrieve(&self.pool, encoder, targets, settings, watch))??)
    }
}

/// What a retrieval did, over all of a command's passes.
#[derive(Debug, Default, serde::Serialize)]
pub(crate) struct Tally {
    /// Solutions that references were looked for.
    pub(crate) targets: usize,
    /// Solutions for which the guard kept something out.
    pub(crate) guarded: usize,
    /// What it kept out.
    pub(crate) excluded: two_stage::Excluded,
    /// Texts that were longer than the encoder's limit.
    pub(crate) truncated: usize,
    /// Similarities of each solution's nearest question.
    #[serde(skip)]
    nearest: Vec<f32>,
    /// Their median: how much the pool knows about such questions.
    pub(crate) median_nearest: Option<f32>,
}

impl Tally {
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

    /// Two lines for people.
    pub(crate) fn lines(&self) -> Vec<String> {
        let two_stage::Excluded { exact, near, cosine, own } = self.excluded;
        let count = |number: usize| printer::count(number as u64);
        let mut lines = vec![format!(
            "leak guard: something kept from {} of {}: {} exact, {} near by words, {} near by vector, {} own solutions",
            count(self.guarded),
            counted(self.targets as u64, "solution"),
            count(exact),
            count(near),
            count(cosine),
            count(own),
        )];
        if let Some(median) = self.median_nearest {
            lines.push(format!("nearest question: similarity {median:.3} in the median"));
        }
        if self.truncated > 0 {
            let texts = counted(self.truncated as u64, "text");
            lines.push(format!("{texts} longer than the encoder's limit: cut there"));
        }
        lines
    }
}

/// The profile to score with: the named one, or the one that sees references where there are some.
pub(crate) fn profile<'a>(named: Option<&'a str>, augmentation: &Augmentation) -> Option<&'a str> {
    named.or_else(|| augmentation.pool.as_ref().map(|_| PROFILE))
}

/// Refuses references that the model would never see.
pub(crate) fn check_profile(name: &str, settings: &Settings) -> Result<()> {
    if settings.questions == 0 && settings.steps == 0 {
        bail!(Usage("-k 0 -r 0 retrieves nothing: leave out --pool".to_owned()));
    }
    let (questions, steps) = Templates::new(Profile::find(name)?)?.sees();
    for (wanted, seen, what, option) in
        [(settings.questions, questions, "questions", "-k 0"), (settings.steps, steps, "steps", "-r 0")]
    {
        if wanted > 0 && !seen {
            bail!(Usage(format!(
                "profile `{name}` has no place for reference {what}: use --profile {PROFILE}, or {option}"
            )));
        }
    }
    Ok(())
}
