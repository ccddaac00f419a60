//! Rows that several matrices are multiplied with.

#[cfg(target_arch = "x86_64")]
use std::sync::OnceLock;

#[cfg(target_arch = "x86_64")]
use super::tiles::RoundedRows;

/// Rows of activations for several products, which round them once where they round at all (AMX).
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
    pub(super) values: &'a [f32],
    /// Whether what one product rounds is kept for the next.
    #[cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "elsewhere nothing is rounded"))]
    pub(super) is_shared: bool,
    /// In bf16, and split into two.
    #[cfg(target_arch = "x86_64")]
    pub(super) tiles: [OnceLock<RoundedRows>; 2],
}

impl<'a> Activations<'a> {
    /// Rows as wide as the matrices that they will be multiplied with have columns.
    pub fn new(values: &'a [f32]) -> Self {
        Self { is_shared: true, ..Self::for_one(values) }
    }

    /// For a single product.
    pub(super) fn for_one(values: &'a [f32]) -> Self {
        Self {
            values,
            is_shared: false,
            #[cfg(target_arch = "x86_64")]
            tiles: [const { OnceLock::new() }; 2],
        }
    }

    /// The rows.
    pub fn values(&self) -> &'a [f32] {
        self.values
    }
}
