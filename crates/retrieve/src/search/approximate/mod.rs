//! Nearest rows without looking at all of them: a navigable graph (HNSW, Malkov and Yashunin, 2016) proposes rows, their
//! exact vectors decide.
//!
//! The graph is USearch's. It holds each vector with a byte per dimension, which is enough to walk by; similarities and
//! the order of what is found come from the rows themselves, so a hit is what [`super::top_k`] would say about that row.
//! What is approximate is only whether a row is proposed. Building with several threads makes a slightly different graph
//! each time.

mod bytes;
mod file;
mod layout;

use std::collections::HashMap;
use std::fmt::{Debug, Display};
use std::path::Path;

use gradus_kernels::vectors::dot;
use memmap2::Mmap;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use usearch::{Index, IndexOptions, MetricKind, ScalarKind};

use super::exact::{Hit, sort, top_k};
use crate::error::{Error, Result};
use bytes::Scale;

/// From this share of rows on, looking at all of them is as fast.
const WORTHWHILE: usize = 8;
/// How much wider each further search is, and how many there are, where a filter leaves too few.
const WIDER: usize = 4;
const SEARCHES: usize = 3;
/// The largest of a graph's settings: memory is reserved for as many rows.
const MOST: usize = 1 << 20;

/// Parameters of the HNSW graph. Larger values find more and take longer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Settings {
    /// HNSW's M: neighbors of a row in the upper layers; twice as many in the lowest one.
    pub(crate) connectivity: usize,
    /// `ef_construction`: rows that are considered as neighbors of a new row.
    pub(crate) expansion_add: usize,
    /// `ef_search`: rows that a search considers. By default from the number of rows, for a recall@10 of 98 %.
    pub(crate) expansion_search: Option<usize>,
}

impl Default for Settings {
    fn default() -> Self {
        Self { connectivity: 16, expansion_add: 128, expansion_search: None }
    }
}

impl Settings {
    fn check(&self) -> Result<()> {
        let given = [
            ("connectivity", Some(self.connectivity), 2),
            ("expansion_add", Some(self.expansion_add), 1),
            ("expansion_search", self.expansion_search, 1),
        ];
        for (field, value, least) in given {
            if let Some(value) = value.filter(|value| !(least..=MOST).contains(value)) {
                let message = format!("is {value}: expected {least} to {MOST}");
                return Err(Error::Setting { field, message });
            }
        }
        Ok(())
    }

    fn expansion_search(&self, rows: usize) -> usize {
        self.expansion_search.unwrap_or(match rows {
            0..=30_000 => 64,
            30_001..=300_000 => 96,
            300_001..=3_000_000 => 128,
            _ => 768,
        })
    }
}

/// A graph over rows.
pub(crate) struct Approximate {
    // Dropped first: it may look into the map.
    index: Index,
    /// The file, where it was opened from one.
    _map: Option<Mmap>,
    rows: usize,
    dimension: usize,
    scale: Scale,
    settings: Settings,
}

impl Approximate {
    /// Builds a graph over rows of length 1, with all threads.
    ///
    /// # Panics
    /// When `rows` is no whole number of vectors.
    pub(crate) fn build(rows: &[f32], dimension: usize, settings: &Settings) -> Result<Self> {
        settings.check()?;
        let count = whole(rows, dimension);
        let Some(scale) = Scale::of(rows) else {
            return Err(Error::Data("a vector to be indexed has a value that is no number".to_owned()));
        };
        let mut index = empty(dimension, count, settings)?;
        index.change_metric::<i8>(bytes::metric(dimension));
        index.reserve_capacity_and_threads(count, threads()).map_err(|error| refused(&error))?;
        rows.par_chunks(dimension).enumerate().try_for_each_init(Vec::new, |bytes, (row, values)| {
            scale.fill(values, bytes);
            index.add(row as u64, bytes).map_err(|error| refused(&error))
        })?;
        Ok(Self { index, _map: None, rows: count, dimension, scale, settings: settings.clone() })
    }

    /// Writes the graph to a file, which is replaced if there is one.
    pub(crate) fn save(&self, path: &Path) -> Result<()> {
        let about = file::About {
            rows: self.rows,
            dimension: self.dimension,
            scale: self.scale.0,
            settings: self.settings.clone(),
        };
        file::write(path, &about, self.index.serialized_length(), |buffer| {
            self.index
                .save_to_buffer(buffer)
                .map_err(|error| Error::pool(path, format!("cannot be written: {error}")))
        })
    }

    /// Opens a file by memory map.
    #[cfg(test)]
    pub(crate) fn open(path: &Path) -> Result<Self> {
        Self::of(crate::pool::files::map(path)?, path)
    }

    /// A graph in a mapped file. It is always checked, since a walk through one that is damaged, or made to harm, would
    /// leave the map.
    pub(crate) fn of(map: Mmap, path: &Path) -> Result<Self> {
        let about = file::read(path, &map)?;
        let refused = |error: &dyn Display| {
            Error::pool(path, format!("cannot be opened: {error}; build the index again"))
        };
        if !layout::is_sound(&map[file::HEADER..], about.rows, about.dimension) {
            return Err(refused(&"its entries make no sense"));
        }
        let mut index = empty(about.dimension, about.rows, &about.settings)?;
        index.reserve_capacity_and_threads(0, threads()).map_err(|error| refused(&error))?;
        // SAFETY: the map is never changed, and lives beside the index, which is dropped before it.
        #[allow(unsafe_code)]
        unsafe { index.view_from_buffer(&map[file::HEADER..]) }.map_err(|error| refused(&error))?;
        if (index.size(), index.dimensions()) != (about.rows, about.dimension) {
            return Err(refused(&"it holds other vectors than its header says"));
        }
        // Viewing puts back the metric that the crate has for bytes.
        index.change_metric::<i8>(bytes::metric(about.dimension));
        let file::About { rows, dimension, scale, settings } = about;
        Ok(Self { index, _map: Some(map), rows, dimension, scale: Scale(scale), settings })
    }

    /// How many rows it knows.
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// How long they are.
    pub(crate) fn dimension(&self) -> usize {
        self.dimension
    }

    /// What it was built with.
    #[cfg(test)]
    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Bytes of its file.
    #[cfg(test)]
    pub(crate) fn bytes(&self) -> usize {
        file::HEADER + self.index.serialized_length()
    }

    /// For each query the `k` most similar rows that `keep` allows, the most similar first, as [`top_k`] has them but
    /// for those that the graph does not lead to. `rows` are those it was built over.
    ///
    /// `keep(query, row, similarity)` is asked at most once about a row, and about every proposed one that is better
    /// than all that is kept. Where it refuses so much that `k` rows cannot be had from the graph, all rows are looked at.
    ///
    /// # Panics
    /// When `rows` are not as many, or as long, as those it was built over, or `queries` is no whole number of vectors.
    pub(crate) fn search(
        &self,
        rows: &[f32],
        queries: &[f32],
        k: usize,
        keep: impl Fn(usize, u32, f32) -> bool + Sync,
    ) -> Vec<Vec<Hit>> {
        assert_eq!(
            whole(rows, self.dimension),
            self.rows,
            "an index is searched with the rows that it was built over"
        );
        whole(queries, self.dimension);
        let k = k.min(self.rows);
        let each = queries.par_chunks(self.dimension).enumerate();
        each.map(|(number, query)| self.one(rows, query, k, &|row, similarity| keep(number, row, similarity)))
            .collect()
    }

    fn one(
        &self,
        rows: &[f32],
        query: &[f32],
        k: usize,
        keep: &(dyn Fn(u32, f32) -> bool + Sync),
    ) -> Vec<Hit> {
        if k == 0 {
            return Vec::new();
        }
        let mut bytes = Vec::new();
        self.scale.fill(query, &mut bytes);
        let mut asked: HashMap<u32, bool> = HashMap::new();
        // Bytes confuse neighbors of almost the same similarity: the exact order is looked for among somewhat more.
        let mut wanted = k + 16;
        for _ in 0..SEARCHES {
            // Fewer rows than this are looked at as fast as the graph is walked.
            if wanted * WORTHWHILE >= self.rows {
                break;
            }
            let Ok(proposed) = self.index.search(&bytes, wanted) else { break };
            let mut hits: Vec<Hit> = (proposed.keys.iter())
                .map(|&row| Hit { row: row as u32, similarity: dot(self.row(rows, row as usize), query) })
                .filter(|hit| !hit.similarity.is_nan())
                .collect();
            sort(&mut hits);
            let passes = |hit: &Hit| *asked.entry(hit.row).or_insert_with(|| keep(hit.row, hit.similarity));
            let found: Vec<Hit> = hits.into_iter().filter(passes).take(k).collect();
            if found.len() == k {
                return found;
            }
            wanted *= WIDER;
        }
        let keep = |_, row, similarity| asked.get(&row).copied().unwrap_or_else(|| keep(row, similarity));
        top_k(rows, self.dimension, query, k, keep).pop().unwrap_or_default()
    }

    fn row<'a>(&self, rows: &'a [f32], row: usize) -> &'a [f32] {
        &rows[row * self.dimension..][..self.dimension]
    }
}

impl Debug for Approximate {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut debug = formatter.debug_struct("Approximate");
        debug.field("rows", &self.rows).field("dimension", &self.dimension).finish_non_exhaustive()
    }
}

/// A graph without rows.
fn empty(dimension: usize, rows: usize, settings: &Settings) -> Result<Index> {
    let options = IndexOptions {
        dimensions: dimension,
        metric: MetricKind::IP,
        quantization: ScalarKind::I8,
        connectivity: settings.connectivity,
        expansion_add: settings.expansion_add,
        expansion_search: settings.expansion_search(rows),
        multi: false,
    };
    Index::new(&options).map_err(|error| refused(&error))
}

fn refused(error: &dyn Display) -> Error {
    Error::Data(format!("an index cannot be made: {error}"))
}

/// Threads that may build or search at the same time. One that finds no permit looks at all rows instead.
fn threads() -> usize {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    2 * processors.max(rayon::current_num_threads())
}

/// How many vectors these are.
fn whole(values: &[f32], dimension: usize) -> usize {
    assert!(dimension > 0 && values.len().is_multiple_of(dimension), "vectors come whole");
    let count = values.len() / dimension;
    assert!(u32::try_from(count).is_ok(), "a pool has fewer than four billion rows");
    count
}

#[cfg(test)]
mod tests;
