//! Principal components, exactly: the covariance matrix in f64, then all its eigenvectors (faer).
//!
//! Equals scikit-learn's `PCA` with its full solver: variance over n − 1, components from the most variance down, each
//! turned so that its entry of largest magnitude is positive (`svd_flip` on the components). Components without
//! variance (more kept than the rank) are orthonormal to the others and otherwise arbitrary, there as here.
//! The same rows give the same bits on one machine, whatever the number of threads.
//! Left out: whitening, the inverse, randomised and incremental solvers.

use faer::linalg::matmul::matmul;
use faer::linalg::matmul::triangular::{self, BlockStructure};
use faer::{Accum, MatMut, MatRef, Par, Side};
use rayon::prelude::*;

use super::Pca;

/// A fitted projection.
#[derive(Debug, Clone, PartialEq)]
pub struct Fitted {
    /// What a pool keeps.
    pub pca: Pca,
    /// Of each kept component, its share of the whole variance.
    pub explained: Vec<f64>,
}

/// How many components to keep.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Keep {
    /// This many: from 1 to the smaller of rows and dimension.
    Fixed(usize),
    /// The fewest that explain more than this share of the variance, between 0 and 1, both excluded.
    Explained(f64),
}

/// Why no projection was fitted.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum PcaError {
    /// The values do not make whole rows.
    #[error("{values} values are not rows of {dimension}")]
    Shape {
        /// How many values there are.
        values: usize,
        /// How long a row should be.
        dimension: usize,
    },
    /// Variance needs two rows.
    #[error("PCA needs at least 2 rows, found {rows}")]
    TooFew {
        /// How many rows there are.
        rows: usize,
    },
    /// A value is infinite or not a number.
    #[error("row {row}, column {column} is {value}: PCA needs finite numbers")]
    NotFinite {
        /// From 0.
        row: usize,
        /// From 0.
        column: usize,
        /// What stands there.
        value: f32,
    },
    /// More components than there can be, or none.
    #[error("cannot keep {kept} components: {rows} rows of {dimension} have 1 to {}", .rows.min(.dimension))]
    Kept {
        /// How many were asked for.
        kept: usize,
        /// How many rows there are.
        rows: usize,
        /// How long a row is.
        dimension: usize,
    },
    /// Not a share of the variance.
    #[error("cannot explain {share} of the variance: expected a number above 0 and below 1")]
    Share {
        /// What was asked for.
        share: f64,
    },
    /// Nothing to explain.
    #[error("all {rows} rows are equal: they have no principal components")]
    NoVariance {
        /// How many rows there are.
        rows: usize,
    },
    /// The eigenvectors were not found; no finite matrix is known to do this.
    #[error("the eigenvectors of the covariance matrix ({dimension} × {dimension}) did not converge")]
    NoConvergence {
        /// How long a row is.
        dimension: usize,
    },
}

/// Rows that are centered and multiplied at a time: a block of 1,024 × 384 f64 takes 3 MiB.
const BLOCK: usize = 1024;

/// Columns of the covariance matrix that one task computes.
const STRIPE: usize = 96;

/// Fits a projection on row-major `rows`.
///
/// ```
/// use gradus_retrieve::pca::{Keep, fit};
/// // On a line but for a little: one component explains nearly everything.
/// let rows = [0.0, 0.0, 1.0, 2.0, 2.0, 4.0, 3.0, 6.1];
/// let pca = fit(&rows, 2, Keep::Explained(0.99))?.pca;
/// assert_eq!(pca.kept, 1);
/// assert!((pca.components[1] / pca.components[0] - 2.03).abs() < 0.01);
/// # Ok::<(), gradus_retrieve::pca::PcaError>(())
/// ```
pub fn fit(rows: &[f32], dimension: usize, keep: Keep) -> Result<Fitted, PcaError> {
    if dimension == 0 || !rows.len().is_multiple_of(dimension) {
        return Err(PcaError::Shape { values: rows.len(), dimension });
    }
    let count = rows.len() / dimension;
    if count < 2 {
        return Err(PcaError::TooFew { rows: count });
    }
    let most = count.min(dimension);
    match keep {
        Keep::Fixed(kept) if kept == 0 || kept > most => {
            return Err(PcaError::Kept { kept, rows: count, dimension });
        }
        Keep::Explained(share) if !(share > 0.0 && share < 1.0) => return Err(PcaError::Share { share }),
        Keep::Fixed(_) | Keep::Explained(_) => {}
    }
    if let Some(at) = rows.par_iter().position_first(|value| !value.is_finite()) {
        return Err(PcaError::NotFinite { row: at / dimension, column: at % dimension, value: rows[at] });
    }

    let mean = mean(rows, dimension);
    let scatter = scatter(rows, &mean);
    let scatter = MatRef::from_column_major_slice(&scatter, dimension, dimension);
    // The trace before the decomposition: rows that are equal have exactly none.
    if (0..dimension).all(|column| scatter[(column, column)] == 0.0) {
        return Err(PcaError::NoVariance { rows: count });
    }
    let eigen = scatter.self_adjoint_eigen(Side::Lower).map_err(|_| PcaError::NoConvergence { dimension })?;
    // faer sorts from the smallest up; a rank below the dimension leaves values a little below 0.
    let values = eigen.S().column_vector();
    let variance: Vec<f64> = (0..most).map(|at| values[dimension - 1 - at].max(0.0)).collect();
    let whole: f64 = variance.iter().sum();
    let mut explained: Vec<f64> = variance.iter().map(|value| value / whole).collect();
    let kept = match keep {
        Keep::Fixed(kept) => kept,
        Keep::Explained(share) => fewest(&explained, share),
    };
    explained.truncate(kept);

    let vectors = eigen.U();
    let components = (0..kept)
        .flat_map(|at| {
            let vector = vectors.col(dimension - 1 - at);
            let largest = vector
                .iter()
                .fold(0.0_f64, |best, &entry| if entry.abs() > best.abs() { entry } else { best });
            let sign = if largest < 0.0 { -1.0 } else { 1.0 };
            vector.iter().map(move |entry| (sign * entry) as f32)
        })
        .collect();
    let mean = mean.iter().map(|&value| value as f32).collect();
    Ok(Fitted { pca: Pca { mean, components, kept }, explained })
}

/// The mean row: sums of blocks, added in order.
fn mean(rows: &[f32], dimension: usize) -> Vec<f64> {
    let sums: Vec<Vec<f64>> = rows
        .par_chunks(BLOCK * dimension)
        .map(|block| {
            let mut sum = vec![0.0; dimension];
            for row in block.chunks_exact(dimension) {
                sum.iter_mut().zip(row).for_each(|(sum, &value)| *sum += f64::from(value));
            }
            sum
        })
        .collect();
    let mut mean = vec![0.0; dimension];
    for sum in sums {
        mean.iter_mut().zip(sum).for_each(|(mean, sum)| *mean += sum);
    }
    let count = (rows.len() / dimension) as f64;
    mean.iter_mut().for_each(|mean| *mean /= count);
    mean
}

/// Σ (x − mean)(x − mean)ᵀ, column-major, of which only the lower triangle is filled. Every task owns some columns and goes through
/// the rows in order, so that the sums do not depend on the threads.
fn scatter(rows: &[f32], mean: &[f64]) -> Vec<f64> {
    let dimension = mean.len();
    let mut whole = vec![0.0; dimension * dimension];
    let mut centered = Vec::new();
    for block in rows.chunks(BLOCK * dimension) {
        centered.resize(block.len(), 0.0);
        centered.par_chunks_exact_mut(dimension).zip(block.par_chunks_exact(dimension)).for_each(
            |(to, from)| {
                for ((to, &value), mean) in to.iter_mut().zip(from).zip(mean) {
                    *to = f64::from(value) - mean;
                }
            },
        );
        let block = MatRef::from_column_major_slice(&centered, dimension, block.len() / dimension);
        whole.par_chunks_mut(STRIPE * dimension).enumerate().for_each(|(at, stripe)| {
            let (from, width) = (at * STRIPE, stripe.len() / dimension);
            let below = dimension - from;
            let stripe =
                MatMut::from_column_major_slice_mut(stripe, dimension, width).subrows_mut(from, below);
            let (square, rest) = stripe.split_at_row_mut(width);
            let own = block.subrows(from, width);
            triangular::matmul(
                square,
                BlockStructure::TriangularLower,
                Accum::Add,
                own,
                BlockStructure::Rectangular,
                own.transpose(),
                BlockStructure::Rectangular,
                1.0,
                Par::Seq,
            );
            let lower = block.subrows(from + width, below - width);
            matmul(rest, Accum::Add, lower, own.transpose(), 1.0, Par::Seq);
        });
    }
    whole
}

/// How many from the front make the sum exceed `share`.
fn fewest(explained: &[f64], share: f64) -> usize {
    let mut sum = 0.0;
    let within = explained.iter().take_while(|&&part| {
        sum += part;
        sum <= share
    });
    (within.count() + 1).min(explained.len())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Rows, dimension and how many components to keep.
    fn cases() -> impl Strategy<Value = (Vec<f32>, usize, usize)> {
        (2..40usize, 1..12usize).prop_flat_map(|(count, dimension)| {
            let rows = prop::collection::vec(-10.0..10.0f32, count * dimension);
            (rows, Just(dimension), 1..=count.min(dimension))
        })
    }

    fn dot(a: &[f32], b: &[f32]) -> f64 {
        a.iter().zip(b).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum()
    }

    #[test]
    fn what_cannot_be_fitted_is_refused_with_the_reason() {
        let refused = |rows: &[f32], dimension, keep| fit(rows, dimension, keep).unwrap_err().to_string();
        let rows = [1.0, 2.0, 3.0, 4.0, 5.0, 7.0];
        assert_eq!(refused(&rows, 4, Keep::Fixed(1)), "6 values are not rows of 4");
        assert_eq!(refused(&[], 0, Keep::Fixed(1)), "0 values are not rows of 0");
        assert_eq!(refused(&[], 3, Keep::Fixed(1)), "PCA needs at least 2 rows, found 0");
        assert_eq!(refused(&rows, 6, Keep::Fixed(1)), "PCA needs at least 2 rows, found 1");
        assert_eq!(refused(&rows, 3, Keep::Fixed(3)), "cannot keep 3 components: 2 rows of 3 have 1 to 2");
        assert_eq!(refused(&rows, 3, Keep::Fixed(0)), "cannot keep 0 components: 2 rows of 3 have 1 to 2");
        for share in [0.0, 1.0, 1.5, f64::NAN] {
            let expected =
                format!("cannot explain {share} of the variance: expected a number above 0 and below 1");
            assert_eq!(refused(&rows, 3, Keep::Explained(share)), expected);
        }
        let expected = "row 1, column 2 is NaN: PCA needs finite numbers";
        assert_eq!(refused(&[1.0, 2.0, 3.0, 4.0, 5.0, f32::NAN], 3, Keep::Fixed(1)), expected);
        let expected = "all 3 rows are equal: they have no principal components";
        assert_eq!(refused(&[0.5, 2.0, 0.5, 2.0, 0.5, 2.0], 2, Keep::Fixed(1)), expected);
    }

    #[test]
    fn a_share_that_is_met_exactly_needs_one_more() {
        assert_eq!(
            [0.4, 0.5, 0.6, 0.75, 0.9].map(|share| fewest(&[0.5, 0.25, 0.25], share)),
            [1, 2, 2, 3, 3]
        );
        assert_eq!(fewest(&[0.5, 0.5 - 1e-12], 1.0 - 1e-15), 2);
    }

    #[test]
    fn no_rows_have_no_projections() {
        assert!(fit(&[1.0, 0.0, 0.0, 1.0], 2, Keep::Fixed(1)).unwrap().pca.apply(&[]).is_empty());
    }

    /// More than two blocks and two stripes, both with a rest.
    fn many() -> (Vec<f32>, usize) {
        let (count, dimension) = (2 * BLOCK + 3, 2 * STRIPE + 10);
        let value = |at: usize| ((at * at % 1013) as f32 * 0.37).sin() + (at % 7) as f32;
        ((0..count * dimension).map(value).collect(), dimension)
    }

    #[test]
    fn blocks_and_stripes_make_the_whole_scatter_matrix() {
        let (rows, dimension) = many();
        let mean = mean(&rows, dimension);
        let mut expected = vec![0.0; dimension * dimension];
        for row in rows.chunks_exact(dimension) {
            let centered: Vec<f64> = row.iter().zip(&mean).map(|(&x, mean)| f64::from(x) - mean).collect();
            for column in 0..dimension {
                for below in column..dimension {
                    expected[column * dimension + below] += centered[column] * centered[below];
                }
            }
        }
        for (found, expected) in scatter(&rows, &mean).iter().zip(&expected) {
            assert!((found - expected).abs() < 1e-8, "{found}, expected {expected}");
        }
    }

    #[test]
    fn threads_change_no_bit() {
        let (rows, dimension) = many();
        let with = |threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| {
                let pca = fit(&rows, dimension, Keep::Fixed(20)).unwrap().pca;
                let projected = pca.apply(&rows);
                (pca, projected)
            })
        };
        assert!(with(1) == with(2) && with(1) == with(5));
    }

    proptest! {
        #[test]
        fn components_are_orthonormal_and_turned((rows, dimension, kept) in cases()) {
            let Fitted { pca, explained } = fit(&rows, dimension, Keep::Fixed(kept)).unwrap();
            let components: Vec<&[f32]> = pca.components.chunks_exact(dimension).collect();
            prop_assert_eq!((components.len(), explained.len()), (kept, kept));
            for (i, a) in components.iter().enumerate() {
                for (j, b) in components.iter().enumerate() {
                    prop_assert!((dot(a, b) - f64::from(i == j)).abs() < 1e-6);
                }
                prop_assert!(a.iter().all(|entry| -entry <= a.iter().copied().fold(0.0, f32::max)));
            }
            prop_assert!(explained.is_sorted_by(|a, b| a >= b));
            prop_assert!(explained.iter().sum::<f64>() < 1.0 + 1e-12);
        }

        #[test]
        fn the_mean_is_projected_to_0((rows, dimension, kept) in cases()) {
            let pca = fit(&rows, dimension, Keep::Fixed(kept)).unwrap().pca;
            prop_assert!(pca.apply(&pca.mean).iter().all(|&value| value == 0.0));
        }

        #[test]
        fn projections_are_uncorrelated_with_the_explained_variance((rows, dimension, kept) in cases()) {
            let Fitted { pca, explained } = fit(&rows, dimension, Keep::Fixed(kept)).unwrap();
            let projected = pca.apply(&rows);
            let along = |at: usize| projected.chunks_exact(kept).map(|row| row[at]).collect::<Vec<f32>>();
            let centered = |row: &[f32]| row.iter().zip(&pca.mean).map(|(x, m)| f64::from(x - m).powi(2)).sum::<f64>();
            let whole: f64 = rows.chunks_exact(dimension).map(centered).sum();
            for (i, share) in explained.iter().enumerate() {
                for j in 0..=i {
                    let expected = if i == j { *share } else { 0.0 };
                    prop_assert!((dot(&along(i), &along(j)) / whole - expected).abs() < 1e-5);
                }
            }
        }

        #[test]
        fn with_all_components_distances_stay((rows, dimension, _) in cases()) {
            let count = rows.len() / dimension;
            let pca = fit(&rows, dimension, Keep::Fixed(count.min(dimension))).unwrap().pca;
            let projected = pca.apply(&rows);
            let distance = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| f64::from(a - b).powi(2)).sum::<f64>().sqrt();
            let (first, rest) = rows.split_at(dimension);
            let (first_projected, rest_projected) = projected.split_at(pca.kept);
            for (row, short) in rest.chunks_exact(dimension).zip(rest_projected.chunks_exact(pca.kept)) {
                prop_assert!((distance(first, row) - distance(first_projected, short)).abs() < 1e-3);
            }
        }

        #[test]
        fn a_row_alone_is_projected_as_in_a_batch((rows, dimension, kept) in cases()) {
            let pca = fit(&rows, dimension, Keep::Fixed(kept)).unwrap().pca;
            let batch = pca.apply(&rows);
            for (row, expected) in rows.chunks_exact(dimension).zip(batch.chunks_exact(kept)) {
                for (found, expected) in pca.apply(row).iter().zip(expected) {
                    prop_assert!((found - expected).abs() < 1e-4);
                }
            }
        }
    }
}
