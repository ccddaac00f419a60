//! Writes a pool's files into a folder; the manifest comes last.

use std::collections::BTreeMap;
use std::path::Path;

use gradus_data::dedup;
use rayon::prelude::*;

use super::draft::Draft;
use super::files::{self, Mapped, Writer};
use super::journal::Vectors;
use super::manifest::{Counts, Entry, PoolManifest, VERSION, file_name};
use super::{Pool, guard, pack, project};
use crate::embed::key;
use crate::error::{Error, Result};
use crate::pca::Pca;
use crate::search::{Approximate, approximate};

/// Vectors that are projected at once.
const ROWS: usize = 4096;

/// What becomes a pool.
pub(crate) struct Plan<'a> {
    pub(crate) draft: &'a Draft,
    /// What is there already, at the front of the draft.
    pub(crate) old: Option<&'a Pool>,
    pub(crate) vectors: Option<Vectors<'a>>,
    /// Its name and its fingerprint.
    pub(crate) encoder: (&'a str, &'a str),
    pub(crate) dimension: usize,
    pub(crate) pca: Option<&'a Pca>,
    pub(crate) guard: &'a dedup::DedupConfig,
    /// Questions from which on a graph is built.
    pub(crate) graph_from: usize,
    /// The number in the files' names, from 1.
    pub(crate) generation: u32,
}

/// Writes everything and returns what the pool now holds.
pub(crate) fn write(folder: &Path, plan: &Plan<'_>) -> Result<PoolManifest> {
    let Plan { draft, old, .. } = plan;
    let name = |what: &str| file_name(what, plan.generation).expect("a pool has such a file");
    let mut entries: BTreeMap<String, Entry> = BTreeMap::new();

    let questions = draft.questions.iter().map(|question| question.text.as_str());
    let mut file = Writer::new(folder, &name("questions"))?;
    vectors(&mut file, plan, old.map(Pool::question_rows), questions.clone())?;
    let entry = file.finish()?;
    if draft.questions.len() >= plan.graph_from {
        entries.insert("graph".to_owned(), graph(folder, &name("graph"), &entry, plan)?);
    }
    entries.insert("questions".to_owned(), entry);

    let steps = draft.steps.iter().map(String::as_str);
    let mut file = Writer::new(folder, &name("steps"))?;
    vectors(&mut file, plan, old.map(Pool::step_rows), steps.clone())?;
    entries.insert("steps".to_owned(), file.finish()?);

    if let Some(pca) = plan.pca {
        let mut file = Writer::new(folder, &name("pca"))?;
        file.numbers(&pca.mean)?;
        file.numbers(&pca.components)?;
        entries.insert("pca".to_owned(), file.finish()?);
    }

    let solutions = || draft.questions.iter().flat_map(|question| &question.solutions);
    let ids = draft.questions.iter().map(|question| question.id.as_str());
    let texts = questions.chain(ids).chain(steps).chain(solutions().map(|solution| solution.id.as_str()));
    let (mut blob, mut offsets) = (Writer::new(folder, &name("texts"))?, vec![0_u64]);
    for text in texts {
        blob.write(text.as_bytes())?;
        offsets.push(offsets.last().expect("there is a first") + text.len() as u64);
    }
    entries.insert("texts".to_owned(), blob.finish()?);
    let mut file = Writer::new(folder, &name("offsets"))?;
    file.numbers(&offsets)?;
    entries.insert("offsets".to_owned(), file.finish()?);

    let by_question = starts(draft.questions.iter().map(|question| question.solutions.len()));
    let by_solution = starts(solutions().map(|solution| solution.steps.len()));
    let steps: Vec<u32> =
        solutions().flat_map(|solution| &solution.steps).map(|&(row, mark)| pack(row, mark)).collect();
    let mut file = Writer::new(folder, &name("layout"))?;
    [&by_question, &by_solution, &steps].iter().try_for_each(|table| file.numbers(table))?;
    entries.insert("layout".to_owned(), file.finish()?);

    let known = old.map_or(0, |pool| pool.manifest().counts.questions);
    let new = draft.questions[known..].par_iter().map(|question| question.text.as_str());
    let mut filed = guard::file(new, known, plan.guard);
    if let Some((keys, questions)) = old.map(Pool::guard_table) {
        filed.extend(keys.iter().copied().zip(questions.iter().copied()));
    }
    filed.sort_unstable();
    let (keys, questions): (Vec<u64>, Vec<u32>) = filed.into_iter().unzip();
    let mut file = Writer::new(folder, &name("guard"))?;
    file.numbers(&keys)?;
    file.numbers(&questions)?;
    entries.insert("guard".to_owned(), file.finish()?);

    Ok(PoolManifest {
        gradus_pool: VERSION,
        encoder: plan.encoder.0.to_owned(),
        fingerprint: plan.encoder.1.to_owned(),
        dimension: plan.dimension,
        kept: plan.pca.map_or(plan.dimension, |pca| pca.kept),
        pca: plan.pca.is_some(),
        guard: plan.guard.clone(),
        counts: Counts {
            questions: draft.questions.len(),
            solutions: by_solution.len() - 1,
            steps: steps.len(),
            step_texts: draft.steps.len(),
            guard_keys: keys.len(),
        },
        files: entries,
        checksum: String::new(),
    })
}

/// Builds a graph over the questions' vectors, which have been written.
fn graph(folder: &Path, name: &str, questions: &Entry, plan: &Plan<'_>) -> Result<Entry> {
    let rows = Mapped::open(folder, questions, questions.bytes)?;
    let path = folder.join(name);
    let kept = plan.pca.map_or(plan.dimension, |pca| pca.kept);
    Approximate::build(rows.numbers(), kept, &approximate::Settings::default())?.save(&path)?;
    files::entry(folder, name)
}

/// Rows that are there, then those of the texts that are new.
fn vectors<'a>(
    file: &mut Writer,
    plan: &Plan<'_>,
    old: Option<&[f32]>,
    texts: impl Iterator<Item = &'a str>,
) -> Result<()> {
    let kept = plan.pca.map_or(plan.dimension, |pca| pca.kept).max(1);
    let old = old.unwrap_or_default();
    file.numbers(old)?;
    let mut texts = texts.skip(old.len() / kept).peekable();
    while texts.peek().is_some() {
        let vectors = plan.vectors.as_ref().expect("new texts have been embedded");
        let mut rows = Vec::with_capacity(ROWS * plan.dimension);
        texts.by_ref().take(ROWS).try_for_each(|text| vectors.copy(&key(text), &mut rows))?;
        file.numbers(&project(rows, plan.dimension, plan.pca))?;
    }
    Ok(())
}

/// Where each of several lists begins when they stand one after another, and where the last ends.
fn starts(lengths: impl Iterator<Item = usize>) -> Vec<u32> {
    let mut total = 0;
    let ends = lengths.map(|length| {
        total += length as u32;
        total
    });
    std::iter::once(0).chain(ends).collect()
}

/// Refuses what the tables cannot number.
pub(crate) fn check_size(draft: &Draft) -> Result<()> {
    let solutions = draft.questions.iter().flat_map(|question| &question.solutions);
    let steps: usize = solutions.map(|solution| solution.steps.len()).sum();
    if draft.steps.len() >= 1 << 30 || u32::try_from(steps).is_err() {
        return Err(Error::Data(format!("{steps} steps are more than a pool can number: build several")));
    }
    Ok(())
}
