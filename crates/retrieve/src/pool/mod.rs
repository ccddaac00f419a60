//! A pool: questions with labeled solutions, and a vector for each question and each step text. One folder:
//!
//! | file | holds |
//! |---|---|
//! | `manifest.json` | see [`PoolManifest`]; names the other files |
//! | `questions.f32`, `steps.f32` | vectors of length 1, row after row |
//! | `pca.f32` | the mean, then the components; only where there are some |
//! | `texts.utf8`, `texts.u64` | all texts one after another, and where each begins |
//! | `layout.u32` | where each question's solutions begin, where each solution's steps begin, each step's row and mark |
//! | `questions.graph` | proposes near questions; only in large pools |
//! | `guard.u64` | keys of the leak guard, ascending, then the question of each |
//!
//! Numbers are little-endian. Texts are a blob with offsets rather than JSON lines: a text is a slice of the map, nothing
//! is parsed on opening, and the n-th step's text is the n-th row's. Files are never changed: [`add`] writes new ones
//! (`steps.2.f32`), replaces the manifest and then removes the old ones, so a pool is always whole. There is one writer
//! at a time, which holds the lock of the journal beside the pool, and any number of readers: who finds that the files of
//! a manifest are gone reads the new one. A pool may come from anywhere; see `manifest.rs` for what is refused.

mod address;
mod build;
mod draft;
pub(crate) mod files;
mod folder;
mod guard;
pub(crate) mod journal;
mod manifest;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(not(feature = "postgres"))]
#[path = "no_postgres.rs"]
mod postgres;
mod verify;
mod write;

use std::ops::Range;
use std::path::{Path, PathBuf};

use gradus_core::Mark;
use gradus_kernels::vectors::normalize;

pub use address::PoolAddress;
pub use build::{Encoder, PoolBuildSummary, Progress, Settings, add, build};
pub use draft::Dropped;
use files::Mapped;
pub use guard::Duplicate;
pub use manifest::{Counts, Entry, PoolManifest};
#[cfg(feature = "postgres")]
pub use postgres::PostgresPool;
pub use verify::{VectorCheck, VectorSample, verify_vectors};

use crate::error::{Error, Result};
use crate::pca::Pca;
use crate::search::Approximate;
use crate::source::PoolSource;

/// An open pool.
#[derive(Debug)]
pub struct Pool {
    folder: PathBuf,
    manifest: PoolManifest,
    pca: Option<Pca>,
    questions: Mapped,
    steps: Mapped,
    texts: Mapped,
    offsets: Mapped,
    layout: Mapped,
    guard: Mapped,
    graph: Option<Approximate>,
}

/// A question of a pool.
#[derive(Debug, Clone, Copy)]
pub struct Question<'a> {
    pool: &'a Pool,
    /// Question number, and the row of its vector.
    pub index: usize,
    /// The id of the problem.
    pub id: &'a str,
    /// Text of the question.
    pub text: &'a str,
}

/// A labeled solution.
#[derive(Debug, Clone, Copy)]
pub struct Solution<'a> {
    pool: &'a Pool,
    /// Solution number.
    pub index: usize,
    /// Solution id.
    pub id: &'a str,
}

/// A labeled step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step<'a> {
    /// The row of its vector; equal texts share one.
    pub row: u32,
    /// Text of the step.
    pub text: &'a str,
    /// Right or wrong.
    pub mark: Mark,
}

impl Pool {
    /// Opens a pool that was built with this encoder. Every file is compared with its size and checksum, whatever its
    /// size; the tables are checked entry by entry.
    pub fn open(folder: &Path, encoder: &Encoder<'_>) -> Result<Self> {
        let pool = Self::open_any(folder)?;
        pool.expect(encoder)?;
        Ok(pool)
    }

    /// Opens a pool to look into it, whatever its encoder.
    pub fn open_any(folder: &Path) -> Result<Self> {
        Self::open_from(folder, PoolManifest::read(folder)?)
    }

    /// Opens the pool of a manifest that has just been read. A writer may have removed its files since: then there is
    /// another manifest, which names those that are there now.
    pub(crate) fn open_from(folder: &Path, mut manifest: PoolManifest) -> Result<Self> {
        loop {
            let error = match Self::open_files(folder, manifest.clone()) {
                Ok(pool) => return Ok(pool),
                Err(error) => error,
            };
            let now = PoolManifest::read(folder)?;
            if now == manifest {
                return Err(error);
            }
            manifest = now;
        }
    }

    fn open_files(folder: &Path, manifest: PoolManifest) -> Result<Self> {
        let Counts { questions, solutions, steps, step_texts, guard_keys } = manifest.counts;
        let (kept, texts) = (manifest.kept, 2 * questions + step_texts + solutions);
        let open = |what: &str, bytes: Option<usize>| {
            let missing = || Error::pool(&folder.join(manifest::NAME), format!("names no file for {what}"));
            let entry = manifest.files.get(what).ok_or_else(missing)?;
            Mapped::open(folder, entry, bytes.map_or(entry.bytes, |bytes| bytes as u64))
        };
        let pca = manifest.pca.then(|| open("pca", Some((kept + 1) * manifest.dimension * 4))).transpose()?;
        if let Some(pca) = &pca {
            pca.verify(&manifest.files["pca"])?;
        }
        let mut pool = Self {
            questions: open("questions", Some(questions * kept * 4))?,
            steps: open("steps", Some(step_texts * kept * 4))?,
            texts: open("texts", None)?,
            offsets: open("offsets", Some((texts + 1) * 8))?,
            layout: open("layout", Some((questions + 1 + solutions + 1 + steps) * 4))?,
            guard: open("guard", Some(guard_keys * 12))?,
            pca: pca.map(|file| {
                let (mean, components) = file.numbers().split_at(manifest.dimension);
                Pca { mean: mean.to_vec(), components: components.to_vec(), kept }
            }),
            graph: None,
            folder: folder.to_owned(),
            manifest,
        };
        pool.check_sums()?;
        pool.check_tables()?;
        if pool.pca.as_ref().is_some_and(|pca| !pca.is_sound(pool.manifest.dimension)) {
            return Err(Error::pool(folder, "its components make no sense: build the pool again"));
        }
        if let Some(entry) = pool.manifest.files.get("graph") {
            let file = Mapped::open(folder, entry, entry.bytes)?;
            file.verify(entry)?;
            let path = file.path.clone();
            let graph = Approximate::of(file.into_map(), &path)?;
            if (graph.rows(), graph.dimension()) != (questions, kept) {
                return Err(Error::pool(folder, "its graph is over other questions: build the pool again"));
            }
            pool.graph = Some(graph);
        }
        Ok(pool)
    }

    /// Compares every mapped file with its checksum.
    fn check_sums(&self) -> Result<()> {
        use rayon::prelude::*;
        let files = [
            ("questions", &self.questions),
            ("steps", &self.steps),
            ("texts", &self.texts),
            ("offsets", &self.offsets),
            ("layout", &self.layout),
            ("guard", &self.guard),
        ];
        files.par_iter().try_for_each(|(what, file)| file.verify(&self.manifest.files[*what]))
    }

    /// What the pool says about itself.
    pub fn manifest(&self) -> &PoolManifest {
        &self.manifest
    }

    /// The components that vectors were reduced with.
    pub(crate) fn pca(&self) -> Option<&Pca> {
        self.pca.as_ref()
    }

    /// Dimensions of the pool's vectors, which are those that were kept.
    #[allow(clippy::misnamed_getters)]
    pub(crate) fn dimension(&self) -> usize {
        self.manifest.kept
    }

    /// The questions' vectors, one after another.
    pub(crate) fn question_rows(&self) -> &[f32] {
        self.questions.numbers()
    }

    /// The step texts' vectors, one after another.
    pub(crate) fn step_rows(&self) -> &[f32] {
        self.steps.numbers()
    }

    /// A question by its number.
    ///
    /// # Panics
    /// When there is none.
    pub(crate) fn question(&self, index: usize) -> Question<'_> {
        let questions = self.manifest.counts.questions;
        assert!(index < questions, "question {index} of {questions}");
        Question { pool: self, index, text: self.text(index), id: self.text(questions + index) }
    }

    /// All questions.
    pub fn questions(&self) -> impl Iterator<Item = Question<'_>> {
        (0..self.manifest.counts.questions).map(|index| self.question(index))
    }

    /// The text of each row of [`Self::step_rows`].
    pub(crate) fn step_texts(&self) -> impl Iterator<Item = &str> {
        (0..self.manifest.counts.step_texts).map(|row| self.step_text(row))
    }

    fn step_text(&self, row: usize) -> &str {
        self.text(2 * self.manifest.counts.questions + row)
    }

    fn solution(&self, index: usize) -> Solution<'_> {
        let Counts { questions, step_texts, .. } = self.manifest.counts;
        Solution { pool: self, index, id: self.text(2 * questions + step_texts + index) }
    }

    fn text(&self, index: usize) -> &str {
        let offsets: &[u64] = self.offsets.numbers();
        let bytes = &self.texts.bytes()[offsets[index] as usize..offsets[index + 1] as usize];
        std::str::from_utf8(bytes).expect("texts were checked when the pool was opened")
    }

    /// Where each question's solutions begin, where each solution's steps begin, and the steps.
    fn tables(&self) -> (&[u32], &[u32], &[u32]) {
        let (solutions, rest) = self.layout.numbers().split_at(self.manifest.counts.questions + 1);
        let (steps, rows) = rest.split_at(self.manifest.counts.solutions + 1);
        (solutions, steps, rows)
    }

    /// Everything that is used as an index is one, so that a pool that was not verified cannot lead astray.
    fn check_tables(&self) -> Result<()> {
        let Counts { questions, solutions, steps, step_texts, .. } = self.manifest.counts;
        let damaged = |file: &Mapped| Err(Error::pool(&file.path, "is damaged: its entries make no sense"));
        let (by_question, by_solution, rows) = self.tables();
        let ascending = |table: &[u32], end: usize| {
            table.is_sorted() && table.first() == Some(&0) && table.last() == Some(&(end as u32))
        };
        let sound = |entry: &u32| (entry >> 2) < step_texts as u32 && unpack(*entry).is_some();
        let each_has_one = by_question.is_sorted_by(|before, after| before < after);
        let in_order = ascending(by_question, solutions) && ascending(by_solution, steps);
        if !(in_order && each_has_one && rows.iter().all(sound)) {
            return damaged(&self.layout);
        }
        let (_, filed) = self.guard_table();
        if !filed.iter().all(|&question| (question as usize) < questions) {
            return damaged(&self.guard);
        }
        let Ok(texts) = std::str::from_utf8(self.texts.bytes()) else { return damaged(&self.texts) };
        let offsets: &[u64] = self.offsets.numbers();
        let fits = |offset: &u64| usize::try_from(*offset).is_ok_and(|offset| texts.is_char_boundary(offset));
        if !offsets.is_sorted() || !offsets.iter().all(fits) {
            return damaged(&self.offsets);
        }
        Ok(())
    }

    fn guard_table(&self) -> (&[u64], &[u32]) {
        let (keys, questions) = self.guard.bytes().split_at(self.manifest.counts.guard_keys * 8);
        (bytemuck::cast_slice(keys), bytemuck::cast_slice(questions))
    }
}

impl<'a> Question<'a> {
    /// Its solutions, at least one.
    pub fn solutions(&self) -> impl Iterator<Item = Solution<'a>> + use<'a> {
        let pool = self.pool;
        range(pool.tables().0, self.index).map(move |index| pool.solution(index))
    }

    /// Its vector.
    pub(crate) fn vector(&self) -> &'a [f32] {
        let kept = self.pool.manifest.kept;
        &self.pool.question_rows()[self.index * kept..][..kept]
    }
}

impl<'a> Solution<'a> {
    /// Its steps.
    pub fn steps(&self) -> impl Iterator<Item = Step<'a>> + use<'a> {
        let pool = self.pool;
        let (_, starts, rows) = pool.tables();
        rows[range(starts, self.index)].iter().map(move |&entry| {
            let row = entry >> 2;
            let mark = unpack(entry).expect("marks were checked when the pool was opened");
            Step { row, text: pool.step_text(row as usize), mark }
        })
    }
}

fn range(starts: &[u32], index: usize) -> Range<usize> {
    starts[index] as usize..starts[index + 1] as usize
}

/// A step's row and mark in one number.
fn pack(row: u32, mark: Mark) -> u32 {
    row << 2
        | match mark {
            Mark::Correct => 0,
            Mark::Incorrect => 1,
            Mark::Neutral => 2,
        }
}

fn unpack(entry: u32) -> Option<Mark> {
    [Some(Mark::Correct), Some(Mark::Incorrect), Some(Mark::Neutral), None][entry as usize & 3]
}

/// Length 1, reduced, length 1.
pub(crate) fn project(mut vectors: Vec<f32>, dimension: usize, pca: Option<&Pca>) -> Vec<f32> {
    vectors.chunks_mut(dimension.max(1)).for_each(normalize);
    let Some(pca) = pca else { return vectors };
    let mut reduced = pca.apply(&vectors);
    reduced.chunks_mut(pca.kept).for_each(normalize);
    reduced
}
