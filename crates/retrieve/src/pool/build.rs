//! From records to a pool.
//!
//! Texts are embedded once each, in batches of like length; every batch is on disk (see `journal.rs`) before the next is
//! counted, so a build that is killed goes on where it was. The pool appears whole: a new one by the rename of its folder
//! (`POOL.part`), a longer one by the rename of its manifest. Whoever builds or adds holds the journal's lock, and with it
//! the pool: another one is refused until it has ended.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use gradus_core::contracts::{Embed, Usage};
use gradus_core::{LabelChoice, Record};
use gradus_data::dedup;
use gradus_durable::{move_folder, remove_plain};
use serde::{Deserialize, Serialize};

use super::draft::{Draft, Dropped};
use super::files::beside;
use super::journal::Journal;
use super::manifest::{Counts, PoolManifest, generation_of};
use super::write::{self, Plan};
use super::{Pool, project};
use crate::embed::{Batches, Key, embed, key};
use crate::error::{Error, Result};
use crate::pca::{Pca, Reduce};

/// A model and its name, which a pool remembers.
#[derive(Clone, Copy)]
pub struct Encoder<'a> {
    /// Turns texts into vectors.
    pub model: &'a dyn Embed,
    /// The model's name.
    pub name: &'a str,
    /// Tells its weights from others': all that changes its vectors should be in it.
    pub fingerprint: &'a str,
}

/// Options for building a pool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Texts per request to the encoder.
    pub batch: usize,
    /// Maximum requests in flight.
    pub ahead: usize,
    /// Maximum rows that PCA is fitted to, evenly taken from all.
    pub fit_rows: usize,
    /// Whose labels count. Default: truth alone.
    pub labels: LabelChoice,
    /// Minimum number of questions for an HNSW graph and approximate search.
    pub graph_from: usize,
    /// Duplicate detection of the leak guard: it finds no similarity below this threshold.
    pub guard: dedup::DedupConfig,
    /// On a server, replaces a pool of the same name once the new one is complete.
    pub replace: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            batch: 256,
            ahead: 2,
            fit_rows: 100_000,
            labels: LabelChoice::Truth,
            graph_from: 1_000_000,
            guard: dedup::DedupConfig::default(),
            replace: false,
        }
    }
}

impl Settings {
    pub(super) fn check(&self) -> Result<()> {
        let zero = [("batch", self.batch), ("ahead", self.ahead), ("fit_rows", self.fit_rows)];
        if let Some((field, _)) = zero.into_iter().find(|(_, value)| *value == 0) {
            return Err(Error::Setting { field, message: "is 0: expected at least 1".to_owned() });
        }
        self.guard.check().map_err(|fault| Error::Setting { field: "guard", message: fault.to_string() })
    }

    pub(super) fn batches(&self) -> Batches {
        Batches { size: self.batch, ahead: self.ahead }
    }
}

/// Progress of a build.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// Texts with a vector.
    pub done: usize,
    /// Texts that need one.
    pub total: usize,
    /// Of those done, from an earlier attempt.
    pub resumed: usize,
    /// Texts that were longer than the encoder's limit, and cut there; this time's.
    pub truncated: usize,
    /// Tokens that went through the encoder this time.
    pub tokens: u64,
}

/// Summary of a build.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolBuildSummary {
    /// Contents of the pool now.
    pub counts: Counts,
    /// Contents before the build.
    pub before: Counts,
    /// Records that were left out.
    pub dropped: Dropped,
    /// Progress of the embedding at its end.
    pub embedded: Progress,
    /// Dimensions of the pool's vectors.
    pub dimension: usize,
}

/// Builds a pool in `folder`, which must not exist. `reduce` fits the components that vectors are reduced with; without
/// it they stay as the encoder gives them. `watch` hears of every batch and says whether to go on.
pub async fn build(
    folder: &Path,
    records: impl IntoIterator<Item = Record>,
    encoder: &Encoder<'_>,
    settings: &Settings,
    reduce: Option<&Reduce<'_>>,
    watch: impl FnMut(Progress) -> bool,
) -> Result<PoolBuildSummary> {
    settings.check()?;
    if folder.symlink_metadata().is_ok() {
        let has_journal = beside(&resolved(folder), ".embedded").symlink_metadata().is_ok();
        if let (true, Ok(journal)) = (has_journal, journal(folder, encoder)) {
            remove_if_spent(folder, encoder, journal)?;
        }
        return Err(there_already(folder));
    }
    let mut draft = Draft::new(settings.labels.clone());
    records.into_iter().for_each(|record| draft.add(&record));
    if draft.questions.is_empty() {
        let records = draft.dropped.unlabeled_records + draft.dropped.empty_questions;
        let message =
            format!("none of {records} records has a labeled or a reference solution: a pool needs some");
        return Err(Error::Data(message));
    }
    write::check_size(&draft)?;
    let mut journal = journal(folder, encoder)?;
    // Another process may have built it meanwhile.
    if folder.symlink_metadata().is_ok() {
        remove_if_spent(folder, encoder, journal)?;
        return Err(there_already(folder));
    }
    let embedded = fill(&mut journal, &draft, Counts::default(), encoder, settings, watch).await?;
    let pca = reduce.map(|reduce| fit(&journal, &draft, settings.fit_rows, reduce)).transpose()?;

    // It has a name that the next build finds: what a killed one leaves may be large.
    let part = beside(folder, ".part");
    if part.symlink_metadata().is_ok() {
        std::fs::remove_dir_all(&part).map_err(Error::io(&part))?;
    }
    std::fs::create_dir_all(&part).map_err(Error::io(&part))?;
    let plan = Plan {
        draft: &draft,
        old: None,
        vectors: Some(journal.vectors()?),
        encoder: (encoder.name, encoder.fingerprint),
        dimension: journal.dimension(),
        pca: pca.as_ref(),
        guard: &settings.guard,
        graph_from: settings.graph_from,
        generation: 1,
    };
    let manifest = write::write(&part, &plan)?;
    drop(plan);
    let report = report(&manifest, Counts::default(), &draft, embedded);
    manifest.write(&part)?;
    // The journal last: its lock is what keeps another build away until the pool is where that one looks for it.
    move_folder(&part, folder)?;
    journal.remove()?;
    Ok(report)
}

fn there_already(folder: &Path) -> Error {
    Error::pool(folder, "is there already: add to it, or remove it first")
}

/// Removes a journal all of whose vectors are in the pool: that of a build that was killed when the pool was in place.
/// One with others is that of an addition.
fn remove_if_spent(folder: &Path, encoder: &Encoder<'_>, journal: Journal) -> Result<()> {
    if journal.dimension() > 0 {
        let Ok(pool) = Pool::open(folder, encoder) else { return Ok(()) };
        let texts = pool.questions().map(|question| question.text).chain(pool.step_texts());
        let kept: HashSet<Key> = texts.map(key).collect();
        if !journal.keys().all(|key| kept.contains(key)) {
            return Ok(());
        }
    }
    journal.remove()
}

/// Adds records to a pool. What is in it is not embedded again; new vectors are reduced with the pool's components.
/// The guard stays as the pool was built, whatever `settings` say.
pub async fn add(
    folder: &Path,
    records: impl IntoIterator<Item = Record>,
    encoder: &Encoder<'_>,
    settings: &Settings,
    watch: impl FnMut(Progress) -> bool,
) -> Result<PoolBuildSummary> {
    settings.check()?;
    let folder = &folder.canonicalize().map_err(Error::io(folder))?;
    let mut pool = Pool::open(folder, encoder)?;
    let mut journal = journal(folder, encoder)?;
    // Another process may have added to it until this one had the lock.
    if PoolManifest::read(folder)? != *pool.manifest() {
        pool = Pool::open(folder, encoder)?;
    }
    let old = pool.manifest();
    let Some(generation) = old.generation().checked_add(1) else {
        return Err(Error::pool(folder, "has been added to too often: build a new pool"));
    };
    let mut draft = Draft::of(&pool, settings.labels.clone());
    records.into_iter().for_each(|record| draft.add(&record));
    write::check_size(&draft)?;
    let embedded = fill(&mut journal, &draft, old.counts, encoder, settings, watch).await?;
    let vectors = if embedded.total > 0 { Some(journal.vectors()?) } else { None };
    if vectors.is_some() && journal.dimension() != old.dimension {
        let (found, expected) = (journal.dimension(), old.dimension);
        let message =
            format!("was built with vectors of {expected} dimensions, but the encoder now gives {found}");
        return Err(Error::pool(folder, message));
    }
    let plan = Plan {
        draft: &draft,
        old: Some(&pool),
        vectors,
        encoder: (&old.encoder, &old.fingerprint),
        dimension: old.dimension,
        pca: pool.pca(),
        guard: &old.guard,
        graph_from: settings.graph_from,
        generation,
    };
    let manifest = write::write(folder, &plan)?;
    drop(plan);
    let report = report(&manifest, old.counts, &draft, embedded);
    manifest.write(folder)?;
    remove_other_generations(folder, generation)?;
    journal.remove()?;
    Ok(report)
}

/// The journal beside a pool, and with it the pool's lock.
fn journal(folder: &Path, encoder: &Encoder<'_>) -> Result<Journal> {
    Journal::open(&beside(&resolved(folder), ".embedded"), encoder.fingerprint).map_err(|error| match error {
        Error::Io(error) if error.is_in_use() => Error::pool(folder, error.source.to_string()),
        other => other,
    })
}

/// The folder by the one name that all its writers agree upon, whether it exists or not.
fn resolved(folder: &Path) -> PathBuf {
    let inside = |name| Some(folder.parent()?.canonicalize().ok()?.join(name));
    folder.canonicalize().ok().or_else(|| inside(folder.file_name()?)).unwrap_or_else(|| folder.to_owned())
}

/// Removes files of a pool that its manifest does not name any more, or never came to name. What a pool has no such file
/// for stays, and so do folders.
fn remove_other_generations(folder: &Path, generation: u32) -> Result<()> {
    for entry in std::fs::read_dir(folder).map_err(Error::io(folder))? {
        let entry = entry.map_err(Error::io(folder))?;
        let other =
            entry.file_name().to_str().and_then(generation_of).is_some_and(|other| other != generation);
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if other && !is_folder {
            remove_plain(&entry.path())?;
        }
    }
    Ok(())
}

fn report(manifest: &PoolManifest, before: Counts, draft: &Draft, embedded: Progress) -> PoolBuildSummary {
    PoolBuildSummary {
        counts: manifest.counts,
        before,
        dropped: draft.dropped,
        embedded,
        dimension: manifest.kept,
    }
}

/// Embeds what the journal does not know yet of the texts that are not among the first `old` ones.
async fn fill(
    journal: &mut Journal,
    draft: &Draft,
    old: Counts,
    encoder: &Encoder<'_>,
    settings: &Settings,
    mut watch: impl FnMut(Progress) -> bool,
) -> Result<Progress> {
    let questions = draft.questions[old.questions..].iter().map(|question| question.text.as_str());
    let steps = draft.steps[old.step_texts..].iter().map(String::as_str);
    let mut seen: HashSet<Key> = HashSet::new();
    let mut progress = Progress::default();
    let mut open: Vec<(&str, Key)> = Vec::new();
    for text in questions.chain(steps) {
        let key = key(text);
        if seen.insert(key) {
            progress.total += 1;
            if journal.knows(&key) { progress.resumed += 1 } else { open.push((text, key)) }
        }
    }
    progress.done = progress.resumed;
    if !watch(progress) {
        return Err(Error::Stopped);
    }
    let texts: Vec<&str> = open.iter().map(|(text, _)| *text).collect();
    embed(encoder.model, &texts, settings.batches(), |batch, answer| {
        let keys: Vec<Key> = batch.iter().map(|&index| open[index].1).collect();
        journal.add(&keys, &answer.values, answer.dimension)?;
        let Usage { prompt_tokens, .. } = answer.usage;
        progress.done += batch.len();
        progress.truncated += answer.truncated;
        progress.tokens += prompt_tokens;
        Ok(watch(progress))
    })
    .await?;
    Ok(progress)
}

/// Fits components to an even share of the questions' and steps' vectors.
fn fit(journal: &Journal, draft: &Draft, most: usize, reduce: &Reduce<'_>) -> Result<Pca> {
    let questions = draft.questions.iter().map(|question| question.text.as_str());
    let texts: Vec<&str> = questions.chain(draft.steps.iter().map(String::as_str)).collect();
    let (vectors, mut rows) = (journal.vectors()?, Vec::new());
    let taken = texts.len().min(most);
    for index in 0..taken {
        vectors.copy(&key(texts[index * texts.len() / taken]), &mut rows)?;
    }
    fitted(rows, journal.dimension(), reduce)
}

/// Fits components to an encoder's vectors.
pub(super) fn fitted(rows: Vec<f32>, dimension: usize, reduce: &Reduce<'_>) -> Result<Pca> {
    let pca = reduce(&project(rows, dimension, None), dimension)?;
    if !pca.is_sound(dimension) {
        let (kept, mean) = (pca.kept, pca.mean.len());
        let message = format!("{kept} components of {mean} dimensions do not reduce vectors of {dimension}");
        return Err(Error::Data(message));
    }
    Ok(pca)
}
