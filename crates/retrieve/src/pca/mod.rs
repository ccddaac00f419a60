//! Vectors in fewer dimensions: `y = C (x − mean)`, where the rows of `C` are principal components.
//!
//! [`fit()`] finds them exactly; a pool is built with any function of the type [`Reduce`].

mod fit;

pub use fit::{Fitted, Keep, PcaError, fit};

use gradus_kernels::vectors::dot;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::error::Result;

/// Fits components to rows of length 1: `fit(rows, dimension)`.
pub type Reduce<'a> = dyn Fn(&[f32], usize) -> Result<Pca> + Sync + 'a;

/// What is subtracted, and the directions that are kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Pca {
    /// The mean of the rows it was fitted to.
    pub mean: Vec<f32>,
    /// One row of the mean's length per kept dimension.
    pub components: Vec<f32>,
    /// Dimensions kept.
    pub kept: usize,
}

impl Pca {
    /// Rows of the kept dimensions, in order.
    ///
    /// # Panics
    /// When `rows` is no whole number of vectors.
    pub(crate) fn apply(&self, rows: &[f32]) -> Vec<f32> {
        let dimension = self.mean.len().max(1);
        assert_eq!(rows.len() % dimension, 0, "vectors come whole");
        let mut reduced = vec![0.0; rows.len() / dimension * self.kept];
        let pairs = rows.par_chunks(dimension).zip(reduced.par_chunks_mut(self.kept.max(1)));
        pairs.with_min_len(64).for_each_init(
            || vec![0.0; dimension],
            |centered, (row, reduced)| {
                for ((centered, value), mean) in centered.iter_mut().zip(row).zip(&self.mean) {
                    *centered = value - mean;
                }
                for (value, component) in reduced.iter_mut().zip(self.components.chunks_exact(dimension)) {
                    *value = dot(centered, component);
                }
            },
        );
        reduced
    }

    /// Whether the parts have the sizes they should have, for vectors of `dimension`, and are numbers.
    pub(crate) fn is_sound(&self, dimension: usize) -> bool {
        self.mean.len() == dimension
            && self.kept > 0
            && self.components.len() == self.kept * dimension
            && self.mean.iter().chain(&self.components).all(|value| value.is_finite())
    }
}
