//! Wᵀ of a packed W, which the gradient of a product needs: dx = dy · W is `transposed.multiply(dy, dx)`.
//!
//! On AMX a square of 32 × 32 weights becomes a square of the transpose, tile by tile in registers and without
//! rounding; quantized panels are decoded on the way. Elsewhere rows go through f32.

use super::dot::{self, Columns, FEW_COLUMNS};
use super::parallel::{Shared, share};
use super::scratch::Scratch;
use super::{Matrix, Precision, Storage};
use crate::blocks::dequantize_at;
use crate::simd::{Simd, versions};
use half::bf16;

/// Rows of W that are expanded and transposed together, a multiple of every number of lanes.
const GROUP: usize = 16;

impl Matrix {
    /// Wᵀ in the same precision; quantized weights come out expanded.
    ///
    /// ```
    /// use gradus_kernels::{Matrix, Precision};
    /// let matrix = Matrix::from_f32(2, 3, &[1., 2., 3., 4., 5., 6.], Precision::F32);
    /// let mut dx = [0f32; 3];
    /// matrix.transposed().multiply(&[1., 10.], &mut dx);
    /// assert_eq!(dx, [41., 52., 63.]);
    /// ```
    pub fn transposed(&self) -> Matrix {
        let (rows, columns, level) = (self.columns, self.rows, self.level);
        #[cfg(target_arch = "x86_64")]
        if level == crate::cpu::Level::Amx {
            let storage = Storage::Tiles(super::tiles::transposed(self));
            return Matrix { rows, columns, level, storage };
        }
        let is_rounded = match &self.storage {
            Storage::Bf16(_) => true,
            Storage::Blocks(blocks) => blocks.precision == Precision::Bf16,
            _ => false,
        };
        let storage = if columns <= FEW_COLUMNS {
            Storage::Columns(Columns::new((rows, columns), |column, out| {
                self.row(column, out);
                if is_rounded {
                    super::round(out);
                }
            }))
        } else if is_rounded {
            Storage::Bf16(transposed_rows(self).into_iter().map(bf16::from_f32).collect())
        } else {
            Storage::F32(transposed_rows(self))
        };
        Matrix { rows, columns, level, storage }
    }

    /// All rows as f32, one after the other, as [`Matrix::row`] gives them.
    pub fn values(&self) -> Vec<f32> {
        let mut values = vec![0f32; self.rows * self.columns];
        let shared = Shared::new(values.as_mut_ptr());
        share(self.rows, (self.rows * self.columns) as f64, |range| {
            for row in range {
                // SAFETY: every task writes its own rows.
                let out = unsafe {
                    std::slice::from_raw_parts_mut(shared.get().add(row * self.columns), self.columns)
                };
                self.row(row, out);
            }
        });
        values
    }
}

/// The rows of Wᵀ in f32, padded as [`Storage::F32`] wants them.
fn transposed_rows(matrix: &Matrix) -> Vec<f32> {
    let (rows, columns) = (matrix.rows, matrix.columns);
    let (stride, expanded) = (dot::padded(rows), dot::padded(columns));
    let mut out = vec![0f32; columns * stride];
    let shared = Shared::new(out.as_mut_ptr());
    share(rows.div_ceil(GROUP), (rows * columns) as f64 * 0.5, |range| {
        let mut room = Scratch::with_bytes(GROUP * expanded * 4);
        let room = room.as_mut_ptr().cast::<f32>();
        for first in range.map(|group| group * GROUP) {
            let count = GROUP.min(rows - first);
            // SAFETY: the scratch holds GROUP expanded rows; a task writes its own columns of the transpose, which
            // has padding for whole groups; the matrix was made for a level that exists.
            unsafe {
                for i in 0..GROUP {
                    let to = std::slice::from_raw_parts_mut(room.add(i * expanded), expanded);
                    if i < count { expand(matrix, first + i, to) } else { to.fill(0.0) }
                }
                transpose_group(matrix.level, room, expanded, shared.get().add(first), stride, columns);
            }
        }
    });
    out
}

/// Row `row` as f32, zeros after its columns.
fn expand(matrix: &Matrix, row: usize, out: &mut [f32]) {
    let from = row * out.len();
    match &matrix.storage {
        Storage::F32(weights) => out.copy_from_slice(&weights[from..][..out.len()]),
        Storage::Bf16(weights) => {
            for (out, weight) in out.iter_mut().zip(&weights[from..]) {
                *out = weight.to_f32();
            }
        }
        Storage::Columns(columns) => {
            let (values, padding) = out.split_at_mut(matrix.columns);
            columns.row(row, values);
            padding.fill(0.0);
        }
        // Whole blocks are multiples of the padding.
        Storage::Blocks(blocks) => dequantize_at(matrix.level, blocks.kind, blocks.row(row), out),
        #[cfg(target_arch = "x86_64")]
        Storage::Tiles(_) => unreachable!("tiles are transposed by the AMX code"),
    }
}

versions! {
    unsafe fn transpose_group(from: *const f32, from_stride: usize, to: *mut f32, stride: usize, columns: usize)
        = transpose_group_with;
}

/// Writes the transpose of GROUP rows: `columns` rows of GROUP values.
#[inline(always)]
unsafe fn transpose_group_with<S: Simd>(
    s: S,
    from: *const f32,
    from_stride: usize,
    to: *mut f32,
    stride: usize,
    columns: usize,
) {
    let whole = columns / S::LANES * S::LANES;
    let mut rows = [std::ptr::null(); GROUP];
    for first in (0..GROUP).step_by(S::LANES) {
        // SAFETY: the caller vouches for GROUP rows of `from_stride` and `columns` rows of `stride`.
        unsafe {
            for d in (0..whole).step_by(S::LANES) {
                for (i, row) in rows[..S::LANES].iter_mut().enumerate() {
                    *row = from.add((first + i) * from_stride + d);
                }
                s.transpose(&rows[..S::LANES], to.add(d * stride + first), stride);
            }
            for d in whole..columns {
                for i in first..first + S::LANES {
                    *to.add(d * stride + i) = *from.add(i * from_stride + d);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{blocks, levels_and_precisions, numbers};
    use super::*;
    use crate::BlockKind;
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;
    use std::sync::Arc;

    /// Wᵀ row by row.
    fn turned(values: &[f32], columns: usize) -> Vec<f32> {
        let rows = values.len() / columns.max(1);
        (0..columns * rows).map(|i| values[i % rows * columns + i / rows]).collect()
    }

    #[test]
    fn weights_keep_their_bits() {
        let mut random = ChaCha8Rng::seed_from_u64(1);
        for (rows, columns) in [(1, 1), (3, 5), (16, 32), (33, 31), (70, 100), (192, 96), (200, 577)] {
            let weights = numbers(&mut random, rows * columns);
            for (level, precision) in levels_and_precisions() {
                let matrix = Matrix::at_level(level, rows, columns, precision, &weights, |w| *w);
                let transposed = matrix.transposed();
                assert_eq!((transposed.rows(), transposed.columns()), (columns, rows));
                let values = matrix.values();
                assert!(transposed.values() == turned(&values, columns), "{matrix:?} {precision:?}");
                assert!(transposed.transposed().values() == values, "{matrix:?} {precision:?}, twice");
            }
        }
    }

    /// The same as packing the transposed weights in the first place, products included.
    #[test]
    fn quantised_weights_come_out_expanded() {
        let mut random = ChaCha8Rng::seed_from_u64(2);
        for kind in BlockKind::ALL {
            for (rows, columns) in [(35, 256), (64, 512)] {
                let bytes = blocks(&mut random, kind, rows * columns);
                let length = bytes.len();
                let bytes: super::super::SharedBytes = Arc::new(bytes);
                let dy = numbers(&mut random, 3 * rows);
                for (level, precision) in levels_and_precisions() {
                    let make = |bytes| {
                        Matrix::blocks_at_level(level, (rows, columns), kind, (bytes, 0..length), precision)
                    };
                    let matrix = make(bytes.clone()).unwrap();
                    let direct = turned(&matrix.values(), columns);
                    let direct = Matrix::at_level(level, columns, rows, precision, &direct, |w| *w);
                    let (mut found, mut expected) = (vec![0.0; 3 * columns], vec![1.0; 3 * columns]);
                    matrix.transposed().multiply(&dy, &mut found);
                    direct.multiply(&dy, &mut expected);
                    assert!(found == expected, "{kind:?} {level:?} {precision:?} {rows} × {columns}");
                }
            }
        }
    }

    #[test]
    fn empty_matrices_have_empty_transposes() {
        for (level, precision) in levels_and_precisions() {
            for (rows, columns) in [(0, 4), (3, 0), (0, 0)] {
                let matrix = Matrix::at_level(level, rows, columns, precision, &[] as &[f32], |w| *w);
                let transposed = matrix.transposed();
                assert_eq!((transposed.rows(), transposed.columns()), (columns, rows));
                assert!(transposed.values().is_empty());
            }
        }
    }
}
