//! Rows that matrices are multiplied with.

use std::borrow::Cow;
use std::sync::OnceLock;

use super::Projection;
use super::dot::PackedRows;
#[cfg(target_arch = "x86_64")]
use super::tiles::RoundedRows;
use crate::rows;

/// Rows of activations for several products, which round them (AMX) or pack them once.
///
/// ```
/// use gradus_kernels::{Activations, Matrix, Precision};
/// let key = Matrix::from_f32(1, 2, &[1.0, 2.0], Precision::Bf16);
/// let value = Matrix::from_f32(2, 2, &[3.0, 4.0, 5.0, 6.0], Precision::Bf16);
/// let x = Activations::new(&[1.0, 1.0]);
/// let (mut k, mut v) = ([0.0], [0.0; 2]);
/// key.multiply_shared(&x, &mut k);
/// value.multiply_shared(&x, &mut v);
/// assert_eq!((k, v), ([3.0], [7.0, 11.0]));
/// ```
pub struct Activations<'a> {
    /// Values of all rows.
    count: usize,
    /// The values; none where nothing but their rounded form is needed.
    values: Cow<'a, [f32]>,
    /// Whether what one product rounds or packs is kept for the next.
    is_shared: bool,
    /// As products without AMX read them.
    packed: OnceLock<PackedRows>,
    /// In bf16, and split into two.
    #[cfg(target_arch = "x86_64")]
    tiles: [OnceLock<RoundedRows>; 2],
}

impl<'a> Activations<'a> {
    /// Rows as wide as the matrices that they will be multiplied with have columns.
    pub fn new(values: &'a [f32]) -> Self {
        Self::of(Cow::Borrowed(values), true)
    }

    /// Rows for a single product: nothing is kept for another.
    pub fn for_one(values: &'a [f32]) -> Self {
        Self::of(Cow::Borrowed(values), false)
    }

    fn of(values: Cow<'a, [f32]>, is_shared: bool) -> Self {
        Self {
            count: values.len(),
            values,
            is_shared,
            packed: OnceLock::new(),
            #[cfg(target_arch = "x86_64")]
            tiles: [const { OnceLock::new() }; 2],
        }
    }

    /// Values of all rows.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// The values, for a product that does not round them.
    pub(super) fn values(&self) -> &[f32] {
        assert_eq!(self.values.len(), self.count, "these rows were rounded for other matrices");
        &self.values
    }

    /// The rows as `pack` packs them, for this product and the next. `None` where they are for one product only.
    pub(super) fn packed(&self, pack: impl FnOnce() -> PackedRows) -> Option<&PackedRows> {
        self.is_shared.then(|| self.packed.get_or_init(pack))
    }
}

impl Activations<'static> {
    pub(super) fn from_vec(values: Vec<f32>) -> Self {
        Self::of(Cow::Owned(values), true)
    }

    /// RMS norm of each row of `x` (see [`rows::rms_norm`]), for these projections and no others.
    ///
    /// # Panics
    /// When `x` is not whole rows as long as `weight`.
    pub fn rms_norm(x: &[f32], weight: &[f32], eps: f32, next: &[&Projection<'_>]) -> Self {
        #[cfg(target_arch = "x86_64")]
        if let Some(split) = Projection::rounding(next, x.len() / weight.len().max(1)) {
            return Self::rounded(RoundedRows::rms_norm(x, weight, eps, split), x.len(), split);
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = next;
        let mut values = vec![0.0; x.len()];
        rows::rms_norm(x, weight, eps, &mut values);
        Self::from_vec(values)
    }
}

#[cfg(target_arch = "x86_64")]
impl Activations<'_> {
    /// Rows that are rounded already.
    pub(super) fn rounded(rows: RoundedRows, count: usize, split: bool) -> Activations<'static> {
        let mut activations = Activations::of(Cow::Borrowed(&[]), true);
        activations.count = count;
        activations.tiles[usize::from(split)] = rows.into();
        activations
    }

    /// The rows as tiles, split at least if that is asked for: the main part of a split row is the row rounded. `None`
    /// where the only product rounds them itself.
    pub(super) fn tiles(&self, split: bool, columns: usize) -> Option<&RoundedRows> {
        let tiles = || {
            self.tiles[usize::from(split)]
                .get_or_init(|| RoundedRows::new(self.values(), split, columns, 1.0))
        };
        let found = self.tiles[1].get().or_else(|| self.is_shared.then(tiles));
        if let Some(rows) = found {
            assert_eq!(rows.columns(), columns, "these rows were rounded for matrices of other columns");
        }
        found
    }
}
