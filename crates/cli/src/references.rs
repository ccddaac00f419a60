//! References from a pool: retrieved with a progress bar, and counted.

use anyhow::Result;
use gradus_backend::{Embedder, Library, block_on};
use gradus_retrieve::pool::{self, VectorCheck, VectorSample};
use gradus_retrieve::source::PoolSource;
use gradus_retrieve::two_stage::{self, Found, Neighbor, Settings, Target};

use crate::arguments::retrieval::{EncoderOptions, PoolOption};
use crate::terminal::interrupt;
use crate::terminal::progress::Progress;
use gradus_core::count::{counted, grouped};

/// Retrieves the references of all targets in one pass, and shows how far it is.
pub(crate) fn retrieve(library: &Library, targets: &[Target], settings: &Settings) -> Result<Found> {
    let mut bar: Option<Progress> = None;
    let watch = |done: usize, total: usize| {
        let bar = bar.get_or_insert_with(|| Progress::new(total as u64, false));
        bar.now(done as u64, "texts embedded for retrieval");
        !interrupt::asked()
    };
    Ok(block_on(library.retrieve(targets, settings, watch))??)
}

/// Opens a pool and its encoder as the options say.
pub(crate) fn open(option: &PoolOption, options: &EncoderOptions, settings: &Settings) -> Result<Library> {
    Ok(Library::open(&option.pool, option.encoder.as_deref(), options.settings(), settings)?)
}

/// Embeds texts of the pool again and compares their vectors.
pub(crate) fn verify_vectors(
    pool: &dyn PoolSource,
    embedder: &Embedder,
    sample: VectorSample,
) -> Result<VectorCheck> {
    let mut bar: Option<Progress> = None;
    let watch = |done: usize, total: usize| {
        let bar = bar.get_or_insert_with(|| Progress::new(total as u64, false));
        bar.now(done as u64, "texts embedded again");
        !interrupt::asked()
    };
    Ok(block_on(pool::verify_vectors(pool, &embedder.as_encoder(), sample, watch))??)
}

/// How near a reference is, for tables.
pub(crate) fn similarity(from: &Neighbor) -> String {
    from.similarity.map_or_else(|| "random".to_owned(), |similarity| format!("{similarity:.3}"))
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
