//! A few rows of x: pieces of twelve rows of W, which are multiplied with every row of x. f32 and bf16 are read where they
//! lie. Quantized weights go to `quantized.rs` where it decodes their kind; else they are expanded, used and forgotten.

use super::lanes::Lanes;
#[cfg(target_arch = "x86_64")]
use super::quantized;
use super::{FEW, Product, for_level};
use crate::matrix::Storage;
use crate::matrix::scratch::Scratch;
use std::ops::Range;

/// Rows of W at a time: enough chains of additions that none waits for another.
const ROWS: usize = 12;
/// Columns that are expanded at a time, whole blocks of every kind: twelve rows of them stay close.
const PIECE: usize = 1024;

/// All rows of x times some rows of W.
///
/// # Safety
/// The level of the matrix is available, x and y are as the product says, there are at most [`FEW`] rows, and nobody else
/// writes these outputs.
pub(super) unsafe fn run(product: &Product<'_>, outputs: Range<usize>) {
    #[cfg(target_arch = "x86_64")]
    if let Storage::Blocks(blocks) = &product.matrix.storage
        && quantized::is_for(product.level(), blocks.kind)
    {
        // SAFETY: the caller's promise.
        return unsafe { quantized::run(product, blocks, outputs) };
    }
    let (is_bf16, piece) = match &product.matrix.storage {
        Storage::F32(_) => (false, product.padded),
        Storage::Bf16(_) => (true, product.padded),
        _ => (false, PIECE),
    };
    let mut room = Scratch::with_bytes(ROWS * PIECE * 4);
    let mut sums = Scratch::with_bytes(FEW * ROWS * 64);
    for first in outputs.clone().step_by(ROWS) {
        let count = ROWS.min(outputs.end - first);
        for k in (0..product.padded).step_by(piece) {
            let k = k..(k + piece).min(product.padded);
            let mut weights = [std::ptr::null::<u8>(); ROWS];
            for (i, weights) in weights[..count].iter_mut().enumerate() {
                if let Storage::Bf16(all) = &product.matrix.storage {
                    *weights =
                        all[product.row(first + i) * product.padded..][..product.padded].as_ptr().cast();
                    continue;
                }
                // SAFETY: the scratch has room for so many rows of a piece.
                unsafe {
                    let room = room.as_mut_ptr().cast::<f32>().add(i * PIECE);
                    *weights = product.weights(first + i, k.clone(), room).cast();
                }
            }
            // Nobody looks at products of rows that are not there.
            let last = weights[count - 1];
            weights[count..].fill(last);
            let task = Task { product, weights, first, count, k, sums: sums.as_mut_ptr() };
            // SAFETY: the caller's promise.
            unsafe {
                match is_bf16 {
                    true => multiply_bf16(product.level(), &task),
                    false => multiply(product.level(), &task),
                }
            }
        }
    }
}

/// All rows of x times a piece of some rows of W.
struct Task<'a> {
    product: &'a Product<'a>,
    /// Where column `k.start` is, in f32 or bf16.
    weights: [*const u8; ROWS],
    first: usize,
    count: usize,
    k: Range<usize>,
    /// Room for the sums of all rows of x.
    sums: *mut u8,
}

for_level!(multiply, rows(task: &Task<'_>), avx512 (1, 12), avx2 (1, 12), neon (1, 12), portable (1, 4));
for_level!(multiply_bf16, rows_of_bf16(task: &Task<'_>), avx512 (1, 12), avx2 (1, 12), neon (1, 12), portable (1, 4));

/// # Safety
/// The lanes' instructions are available, the weights are f32, and that of [`run`].
#[inline(always)]
unsafe fn rows<L: Lanes, const M: usize, const N: usize>(task: &Task<'_>) {
    // SAFETY: the caller's promise.
    unsafe { multiply_with::<L, M, N>(task, |row, at| L::load(row.cast::<f32>().add(at))) }
}

/// # Safety
/// The lanes' instructions are available, the weights are bf16, and that of [`run`].
#[inline(always)]
unsafe fn rows_of_bf16<L: Lanes, const M: usize, const N: usize>(task: &Task<'_>) {
    // SAFETY: the caller's promise.
    unsafe { multiply_with::<L, M, N>(task, |row, at| L::load_bf16(row.cast::<u16>().add(at))) }
}

/// Products with weights that `load` reads, from a row's start and a column.
///
/// # Safety
/// The lanes' instructions are available, `load` may read what the task names, and that of [`run`].
#[inline(always)]
unsafe fn multiply_with<L: Lanes, const M: usize, const N: usize>(
    task: &Task<'_>,
    load: impl Fn(*const u8, usize) -> L,
) {
    let Product { x, m, padded, y, outputs, .. } = *task.product;
    for row in 0..m {
        for output in (0..task.count).step_by(N) {
            // SAFETY: the caller's promise; N divides ROWS.
            unsafe {
                let x = x.get().add(row * padded + task.k.start).cast_const();
                let waiting = task.sums.cast::<L>().add(row * ROWS + output);
                let w: [*const u8; N] = std::array::from_fn(|j| task.weights[output + j]);
                let mut sums = [[L::zero(); N]; M];
                if task.k.start > 0 {
                    sums = [std::array::from_fn(|j| waiting.add(j).read()); M];
                }
                let mut at = 0;
                while at < task.k.len() {
                    let x = L::load(x.add(at));
                    for j in 0..N {
                        sums[0][j] = x.multiply_add(load(w[j], at), sums[0][j]);
                    }
                    at += L::COUNT;
                }
                if task.k.end < padded {
                    for (j, sum) in sums[0].iter().enumerate() {
                        waiting.add(j).write(*sum);
                    }
                    continue;
                }
                let totals = L::all_totals(sums);
                let to = y.get().add(row * outputs + task.first + output);
                for (j, total) in totals[0].iter().enumerate().take(task.count - output) {
                    to.add(j).write(*total);
                }
            }
        }
    }
}
