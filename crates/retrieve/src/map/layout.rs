//! Vectors as points in the plane: principal components, or t-SNE (van der Maaten and Hinton, 2008).
//!
//! t-SNE is Barnes–Hut's (crate bhtsne: 1,000 epochs, the first 250 exaggerated twelvefold, θ = 0.5) on exact nearest
//! neighbors, from the principal components scaled to a spread of 1e-4 (Kobak and Berens, 2019), each moved by a seeded
//! hundredth of that so that copies come apart. Which points are near each other means something; axes, distances between
//! groups and their sizes do not.
//!
//! The same rows and seed give the same points on one machine. bhtsne adds up in an order that depends on its threads,
//! so it gets one thread of its own; neighbors and components take all there are.

use bhtsne::{Neighbor, tSNE};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::pca::{self, Keep, PcaError};
use crate::search::top_k;

/// How points are placed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Layout {
    /// The two directions of most variance: distances are true as far as the plane shows them.
    Pca,
    /// Neighbors stay together.
    Tsne {
        /// Random seed.
        seed: u64,
        /// About how many neighbors each point listens to: usually 5 to 50. It is lowered to a third of the points
        /// where there are few; fewer than ten are placed by their principal components.
        perplexity: f32,
    },
}

/// Points from which on t-SNE has something to say.
const FEWEST: usize = 10;

/// The accuracy of Barnes–Hut: 0 would be exact, 0.5 is usual.
const THETA: f32 = 0.5;
/// The standard deviation of the first coordinate at the start.
const START: f32 = 1e-4;

/// A point for each vector of length 1.
///
/// Vectors that are all equal lie at the origin. Fails where `rows` do not make whole vectors, a value is not finite, or
/// the perplexity is no number from 1 on.
pub fn layout(rows: &[f32], dimension: usize, how: Layout) -> Result<Vec<[f32; 2]>> {
    let plane = components(rows, dimension)?;
    match how {
        Layout::Pca => Ok(plane),
        Layout::Tsne { perplexity, .. } if !(perplexity >= 1.0 && perplexity.is_finite()) => {
            let message = format!("is {perplexity}, expected a number from 1 on");
            Err(Error::Setting { field: "perplexity", message })
        }
        Layout::Tsne { .. } if plane.len() < FEWEST || plane.iter().all(|point| *point == plane[0]) => {
            Ok(plane)
        }
        Layout::Tsne { seed, perplexity } => Ok(tsne(rows, dimension, &plane, seed, perplexity)),
    }
}

/// The first two principal components; 0 where there are fewer.
fn components(rows: &[f32], dimension: usize) -> Result<Vec<[f32; 2]>> {
    if dimension == 0 || !rows.len().is_multiple_of(dimension) {
        return Err(PcaError::Shape { values: rows.len(), dimension }.into());
    }
    let count = rows.len() / dimension;
    let kept = count.min(dimension).min(2);
    match pca::fit(rows, dimension, Keep::Fixed(kept.max(1))) {
        Ok(fitted) => {
            let point = |row: &[f32]| [row[0], row.get(1).copied().unwrap_or(0.0)];
            Ok(fitted.pca.apply(rows).chunks_exact(kept).map(point).collect())
        }
        Err(PcaError::TooFew { .. } | PcaError::NoVariance { .. }) => Ok(vec![[0.0; 2]; count]),
        Err(other) => Err(other.into()),
    }
}

fn tsne(rows: &[f32], dimension: usize, plane: &[[f32; 2]], seed: u64, perplexity: f32) -> Vec<[f32; 2]> {
    let count = plane.len();
    // The affinities of a point reach as far as three times the perplexity.
    let perplexity = perplexity.min((count - 1) as f32 / 3.0);
    let reach = (3.0 * perplexity) as usize;
    let found = top_k(rows, dimension, rows, reach, |query, row, _| query != row as usize);
    let neighbors: Vec<Vec<Neighbor<f32>>> = found
        .into_iter()
        .map(|hits| {
            let distance = |similarity: f32| (2.0 - 2.0 * similarity).max(0.0).sqrt();
            hits.iter()
                .map(|hit| Neighbor { index: hit.row as usize, distance: distance(hit.similarity) })
                .collect()
        })
        .collect();
    let start = start(plane, seed);
    let alone =
        rayon::ThreadPoolBuilder::new().num_threads(1).build().expect("one more thread can be started");
    let placed = alone.install(|| {
        let mut tsne: tSNE<f32, [f32; 2]> = tSNE::new(plane);
        tsne.perplexity(perplexity)
            .initial_embedding(start)
            .barnes_hut_with_neighbors(THETA, &neighbors)
            .embedding()
    });
    let (points, _) = placed.as_chunks::<2>();
    points.to_vec()
}

/// Components at the usual scale, with a little noise.
fn start(plane: &[[f32; 2]], seed: u64) -> Vec<f32> {
    // Components have mean 0.
    let variance = plane.iter().map(|[x, _]| f64::from(*x).powi(2)).sum::<f64>() / plane.len() as f64;
    let scale = START / variance.sqrt() as f32;
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    plane
        .as_flattened()
        .iter()
        .map(|value| value * scale + random.random_range(-0.01..0.01) * START)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use gradus_kernels::vectors::normalize;

    const TSNE: Layout = Layout::Tsne { seed: 7, perplexity: 20.0 };

    /// Vectors of length 1 around `groups` directions, in turns.
    fn clusters(groups: usize, count: usize, dimension: usize) -> Vec<f32> {
        let mut random = ChaCha8Rng::seed_from_u64(3);
        let mut vector = |spread: f32| (0..dimension).map(|_| random.random_range(-spread..spread)).collect();
        let centers: Vec<Vec<f32>> = (0..groups).map(|_| vector(1.0)).collect();
        let mut rows = Vec::new();
        for index in 0..count {
            let mut row: Vec<f32> = vector(0.5);
            row.iter_mut().zip(&centers[index % groups]).for_each(|(value, center)| *value += center);
            normalize(&mut row);
            rows.extend(row);
        }
        rows
    }

    /// The share of points whose nearest other point is of the same of `groups`, which come in turns.
    fn kept_together(points: &[[f32; 2]], groups: usize) -> f64 {
        let distance =
            |a: usize, b: usize| (0..2).map(|at| (points[a][at] - points[b][at]).powi(2)).sum::<f32>();
        let nearest = |own: usize| {
            let others = (0..points.len()).filter(|other| *other != own);
            others.min_by(|a, b| distance(own, *a).total_cmp(&distance(own, *b))).expect("there are others")
        };
        let alike = (0..points.len()).filter(|own| nearest(*own) % groups == own % groups).count();
        alike as f64 / points.len() as f64
    }

    #[test]
    fn groups_stay_together() {
        let rows = clusters(6, 360, 48);
        let found = kept_together(&layout(&rows, 48, TSNE).unwrap(), 6);
        assert!(found > 0.95, "{found}");
        let rows = clusters(3, 90, 48);
        let found = kept_together(&layout(&rows, 48, Layout::Pca).unwrap(), 3);
        assert!(found > 0.95, "{found}");
    }

    #[test]
    fn threads_change_no_bit_and_the_seed_does() {
        let rows = clusters(4, 300, 24);
        let with = |threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| layout(&rows, 24, TSNE).unwrap())
        };
        let once = with(1);
        assert!(once == with(1) && once == with(2) && once == with(5));
        let other = layout(&rows, 24, Layout::Tsne { seed: 8, perplexity: 20.0 }).unwrap();
        assert!(once != other);
    }

    #[test]
    fn few_vectors_have_a_place_too() {
        for count in [0, 1, 2, 3, 4, 5, FEWEST - 1, FEWEST, FEWEST + 1, 30] {
            for dimension in [1, 2, 5] {
                let rows = clusters(2, count, dimension);
                for how in [Layout::Pca, TSNE, Layout::Tsne { seed: 0, perplexity: 1.0 }] {
                    let points = layout(&rows, dimension, how).unwrap();
                    assert_eq!(points.len(), count);
                    assert!(
                        points.iter().flatten().all(|value| value.is_finite()),
                        "{count} {dimension} {how:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn copies_have_a_place_too() {
        let equal = [0.6, 0.8].repeat(40);
        assert_eq!(layout(&equal, 2, Layout::Pca).unwrap(), [[0.0; 2]; 40]);
        assert_eq!(layout(&equal, 2, TSNE).unwrap(), [[0.0; 2]; 40]);
        let two = [0.6, 0.8, 0.8, 0.6].repeat(60);
        let points = layout(&two, 2, TSNE).unwrap();
        assert!(points.iter().flatten().all(|value| value.is_finite()));
        assert!(kept_together(&points, 2) > 0.95, "{points:?}");
    }

    #[test]
    fn what_cannot_be_placed_is_refused_with_the_reason() {
        let refused = |rows: &[f32], dimension, how| layout(rows, dimension, how).unwrap_err().to_string();
        assert_eq!(refused(&[1.0; 3], 2, Layout::Pca), "3 values are not rows of 2");
        assert_eq!(refused(&[], 0, TSNE), "0 values are not rows of 0");
        let broken = [1.0, 0.0, f32::NAN, 1.0];
        assert_eq!(refused(&broken, 2, TSNE), "row 1, column 0 is NaN: PCA needs finite numbers");
        for perplexity in [0.5, -3.0, f32::NAN, f32::INFINITY] {
            let found = refused(&[1.0, 0.0], 2, Layout::Tsne { seed: 0, perplexity });
            assert_eq!(found, format!("perplexity is {perplexity}, expected a number from 1 on"));
        }
    }
}
