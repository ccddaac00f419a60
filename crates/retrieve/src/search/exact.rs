//! Exact nearest rows: every row is looked at, the best `k` are kept.
//!
//! A few queries read all rows once, at the speed of memory. Many queries are taken in groups; a block of rows that fits
//! a core's first cache meets a whole group before the next is read, so that time goes into products. Each thread keeps
//! one short list per query; lists are merged at the end. Equal similarities go by the lower row, so the answer does not
//! depend on the number of threads.

use gradus_kernels::vectors::{self, TILE};
use rayon::prelude::*;

/// Bytes of rows in a block: half of a small first cache.
const BLOCK: usize = 16 * 1024;
/// Bytes of rows that a thread takes at once, at most and at least.
const TAKEN: [usize; 2] = [2 << 20, 64 << 10];
/// Queries in a group: enough for rows to be read rarely, few enough for their vectors to stay in the second cache.
const GROUP: usize = 256;
/// Rows in a block or a task, however long they are.
const LEAST: usize = 16;

/// A row that was found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Hit {
    /// Row number.
    pub row: u32,
    /// Its dot product with the query: cosine similarity where both have length 1.
    pub similarity: f32,
}

/// For each query the `k` most similar rows that `keep` allows, the most similar first; fewer where there are fewer.
///
/// `keep(query, row, similarity)` is asked about every row that would be among the best `k` so far, at least once
/// about every one that is better than all that is kept. A row without a similarity (NaN) is never found.
///
/// # Panics
/// When `rows` or `queries` is no whole number of vectors.
pub(crate) fn top_k(
    rows: &[f32],
    dimension: usize,
    queries: &[f32],
    k: usize,
    keep: impl Fn(usize, u32, f32) -> bool + Sync,
) -> Vec<Vec<Hit>> {
    assert!(dimension > 0, "vectors have at least one dimension");
    assert_eq!((rows.len() % dimension, queries.len() % dimension), (0, 0), "vectors come whole");
    let count = rows.len() / dimension;
    assert!(u32::try_from(count).is_ok(), "a pool has fewer than four billion rows");
    let queries: Vec<&[f32]> = queries.chunks_exact(dimension).collect();
    let groups = queries.par_chunks(GROUP).enumerate();
    let found = groups.flat_map_iter(|(group, queries)| {
        let keep = |query: usize, row: u32, similarity: f32| keep(group * GROUP + query, row, similarity);
        group_top_k(rows, dimension, queries, k.min(count), keep)
    });
    found.collect()
}

fn group_top_k(
    rows: &[f32],
    dimension: usize,
    queries: &[&[f32]],
    k: usize,
    keep: impl Fn(usize, u32, f32) -> bool + Sync,
) -> Vec<Vec<Hit>> {
    if k == 0 {
        return vec![Vec::new(); queries.len()];
    }
    let count = rows.len() / dimension;
    let in_bytes = |bytes: usize| (bytes / (4 * dimension)).max(LEAST);
    let [most, least] = TAKEN.map(in_bytes);
    let per_task = (count / (4 * rayon::current_num_threads())).clamp(least, most);
    // Rows that meet only one tile of queries are not used again.
    let per_block = if queries.len() <= TILE { per_task } else { in_bytes(BLOCK) };
    let best = || queries.iter().map(|_| Best::new(k)).collect::<Vec<_>>();
    let visit = |mut best: Vec<Best>, (task, rows): (usize, &[f32])| {
        for (block, rows) in rows.chunks(per_block * dimension).enumerate() {
            let first = task * per_task + block * per_block;
            for (tile, (queries, best)) in queries.chunks(TILE).zip(best.chunks_mut(TILE)).enumerate() {
                let mut floors = [f32::INFINITY; TILE];
                floors.iter_mut().zip(&*best).for_each(|(floor, best)| *floor = best.floor());
                vectors::scan(rows, dimension, queries, &mut floors, &mut |query, row, similarity| {
                    let hit = Hit { row: (first + row) as u32, similarity };
                    best[query].see(hit, |row, similarity| keep(tile * TILE + query, row, similarity))
                });
            }
        }
        best
    };
    let tasks = rows.par_chunks(per_task * dimension).enumerate();
    let merge = |all: Vec<Best>, more: Vec<Best>| all.into_iter().zip(more).map(merged).collect();
    tasks.fold(best, visit).reduce(best, merge).into_iter().map(Best::sorted).collect()
}

fn merged((mut all, more): (Best, Best)) -> Best {
    for hit in more.heap {
        if all.wants(hit) {
            all.push(hit);
        }
    }
    all
}

/// The best rows so far: a heap with the worst on top, so that most rows cost one comparison.
struct Best {
    size: usize,
    heap: Vec<Hit>,
}

impl Best {
    fn new(size: usize) -> Self {
        Self { size, heap: Vec::new() }
    }

    /// Looks at a row that is not below the floor, and says where the floor is now.
    fn see(&mut self, hit: Hit, keep: impl Fn(u32, f32) -> bool) -> f32 {
        // Rows come in ascending order within a thread's share, but shares may not: ties are looked at, too.
        if self.wants(hit) && keep(hit.row, hit.similarity) {
            self.push(hit);
        }
        self.floor()
    }

    fn floor(&self) -> f32 {
        if self.heap.len() < self.size {
            f32::NEG_INFINITY
        } else {
            self.heap.first().map_or(f32::INFINITY, |hit| hit.similarity)
        }
    }

    fn wants(&self, hit: Hit) -> bool {
        self.heap.len() < self.size || self.heap.first().is_some_and(|&worst| better(hit, worst))
    }

    fn push(&mut self, hit: Hit) {
        if self.heap.len() < self.size {
            self.heap.push(hit);
            let mut at = self.heap.len() - 1;
            while at > 0 && better(self.heap[(at - 1) / 2], self.heap[at]) {
                self.heap.swap(at, (at - 1) / 2);
                at = (at - 1) / 2;
            }
            return;
        }
        self.heap[0] = hit;
        let mut at = 0;
        loop {
            let children = [2 * at + 1, 2 * at + 2].into_iter().filter(|&child| child < self.heap.len());
            let worst = children.reduce(|a, b| if better(self.heap[a], self.heap[b]) { b } else { a });
            match worst {
                Some(child) if better(self.heap[at], self.heap[child]) => {
                    self.heap.swap(at, child);
                    at = child;
                }
                _ => break,
            }
        }
    }

    fn sorted(self) -> Vec<Hit> {
        let mut hits = self.heap;
        sort(&mut hits);
        hits
    }
}

/// The most similar first; as similar ones by their row.
pub(crate) fn sort(hits: &mut [Hit]) {
    hits.sort_unstable_by(|a, b| b.similarity.total_cmp(&a.similarity).then(a.row.cmp(&b.row)));
}

/// More similar, or as similar and earlier.
fn better(a: Hit, b: Hit) -> bool {
    a.similarity > b.similarity || (a.similarity == b.similarity && a.row < b.row)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rows_of(hits: &[Hit]) -> Vec<u32> {
        hits.iter().map(|hit| hit.row).collect()
    }

    fn all(_: usize, _: u32, _: f32) -> bool {
        true
    }

    #[test]
    fn nothing_gives_nothing() {
        assert_eq!(top_k(&[], 3, &[1.0, 0.0, 0.0], 5, all), [vec![]]);
        assert_eq!(top_k(&[1.0, 0.0], 2, &[], 5, all), Vec::<Vec<Hit>>::new());
        assert_eq!(top_k(&[1.0, 0.0], 2, &[1.0, 0.0], 0, all), [vec![]]);
    }

    #[test]
    fn more_than_there_is_gives_what_there_is() {
        let found = top_k(&[0.0, 1.0, 1.0, 0.0], 2, &[1.0, 0.0], 9, all);
        assert_eq!(rows_of(&found[0]), [1, 0]);
    }

    #[test]
    fn copies_go_by_their_row_for_any_number_of_threads() {
        let dimension = 8;
        let rows: Vec<f32> = (0..60_000).flat_map(|row| [(row % 3) as f32; 8]).collect();
        let expected: Vec<u32> = (0..10).map(|index| index * 3 + 2).collect();
        for threads in [1, 2, 3, 8] {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            let found = pool.install(|| top_k(&rows, dimension, &[1.0; 8], 10, all));
            assert_eq!(rows_of(&found[0]), expected);
        }
    }

    #[test]
    fn what_is_not_kept_makes_room() {
        let rows = [1.0, 0.9, 0.8, f32::NAN, 0.7];
        let found =
            top_k(&rows, 1, &[1.0, 1.0], 2, |query, row, score| query == 0 || (row != 1 && score < 0.95));
        assert_eq!((rows_of(&found[0]), rows_of(&found[1])), (vec![0, 1], vec![2, 4]));
    }

    proptest! {
        #[test]
        fn equals_a_full_sort_in_f64(
            dimension in 1_usize..40, count in 0_usize..700, asked in 1_usize..9, k in 0_usize..20, seed: u64,
        ) {
            let mut state = seed | 1;
            let mut next = || {
                state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
                (state >> 40) as f32 / (1_u64 << 24) as f32 - 0.5
            };
            let mut vectors = |count: usize| {
                let mut values: Vec<f32> = (0..count * dimension).map(|_| next()).collect();
                values.chunks_mut(dimension).for_each(vectors::normalize);
                values
            };
            let (rows, queries) = (vectors(count), vectors(asked));
            let found = top_k(&rows, dimension, &queries, k, |_, row, _| row % 5 != 0);
            for (query, hits) in queries.chunks(dimension).zip(&found) {
                let exact = |row: &[f32]| -> f64 {
                    row.iter().zip(query).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
                };
                let mut sorted: Vec<f64> =
                    rows.chunks(dimension).enumerate().filter(|(row, _)| row % 5 != 0).map(|(_, row)| exact(row)).collect();
                sorted.sort_by(|a, b| b.total_cmp(a));
                prop_assert_eq!(hits.len(), k.min(sorted.len()));
                for (hit, best) in hits.iter().zip(sorted) {
                    // The row that was found is the best up to rounding, and its similarity is its own.
                    let own = exact(&rows[hit.row as usize * dimension..][..dimension]);
                    prop_assert!((own - best).abs() < 1e-6 && (own - f64::from(hit.similarity)).abs() < 1e-6);
                }
            }
        }
    }
}
