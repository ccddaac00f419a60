//! Many rows of x: blocks of M rows by N outputs, whose sums stay in registers over a piece of k.
//!
//! The rows of a block of x are copied side by side, a register of each in turn, so that a block is read from one place.

use super::lanes::Lanes;
use super::{FEW, GROUP, Product, for_level, padded};
use crate::cpu::Level;
use crate::matrix::parallel::{Shared, share};
use crate::matrix::scratch::Scratch;
use std::ops::Range;

/// Bytes of expanded rows of W, and of rows of x, that a core's second-level cache holds beside each other.
const W_BYTES: usize = 256 << 10;
const X_BYTES: usize = 128 << 10;
/// The most groups of rows of W that are expanded at once.
const GROUPS: usize = 8;
/// Longer rows are multiplied piece by piece, so that N of them stay in the first-level cache.
const LONG: usize = 1024;
const PIECE: usize = 512;

/// All rows of x times some rows of W.
///
/// # Safety
/// The level of the matrix is available, x and y are as the product says, and nobody else writes these outputs.
pub(super) unsafe fn run(product: &Product<'_>, outputs: Range<usize>) {
    let row_bytes = product.padded * 4;
    let at_once = (W_BYTES / row_bytes / GROUP).clamp(1, GROUPS) * GROUP;
    let mut room = Scratch::with_bytes(at_once * row_bytes);
    let mut sums =
        Scratch::with_bytes(if product.padded > LONG { rows_at_once(product) * GROUP * 64 } else { 0 });
    for first in outputs.clone().step_by(at_once) {
        let count = at_once.min(outputs.end - first);
        let mut weights = [std::ptr::null(); GROUPS * GROUP];
        for (i, weights) in weights[..count].iter_mut().enumerate() {
            // SAFETY: the scratch has room for so many rows.
            unsafe {
                let room = room.as_mut_ptr().cast::<f32>().add(i * product.padded);
                *weights = product.weights(first + i, 0..product.padded, room);
            }
        }
        // The last group repeats a row where it has none; nobody looks at its products.
        let last = weights[count - 1];
        weights[count..].fill(last);
        let task = Task { product, weights: &weights, first, count, sums: sums.as_mut_ptr() };
        // SAFETY: the caller's promise.
        unsafe { multiply(product.level(), &task) }
    }
}

/// Rows of x that pass over the expanded rows of W while they are in the second-level cache.
fn rows_at_once(product: &Product<'_>) -> usize {
    (X_BYTES / (product.padded * 4)).max(1).next_multiple_of(M)
}

/// All rows of x times the expanded rows of W.
struct Task<'a> {
    product: &'a Product<'a>,
    weights: &'a [*const f32],
    /// Of the outputs.
    first: usize,
    count: usize,
    /// Room for sums of [`rows_at_once`] rows by N outputs, if rows are long.
    sums: *mut u8,
}

for_level!(multiply, blocks(task: &Task<'_>), avx512 (4, 6), avx2 (4, 3), neon (4, 6), portable (4, 2));

/// Rows of x in a block, whatever the level; the last one may have fewer.
const M: usize = 4;

/// Rows of x as products read them: padded, and beginning where cache lines do, which are read twice as fast then.
pub(in crate::matrix) struct PackedRows {
    room: Scratch,
    columns: usize,
    /// Lanes of the registers of a block; 0 where rows are few and lie one after the other.
    lanes: usize,
}

impl PackedRows {
    pub(super) fn new(x: &[f32], columns: usize, level: Level) -> Self {
        let (m, padded) = (x.len() / columns, padded(columns));
        let lanes = if m <= FEW { 0 } else { lanes(level) };
        let mut room = Scratch::with_bytes(m * padded * 4);
        let to = Shared::new(room.as_mut_ptr().cast::<f32>());
        share(m.div_ceil(M), x.len() as f64 * 0.2, |range| {
            for block in range {
                let rows = &x[block * M * columns..x.len().min((block + 1) * M * columns)];
                // SAFETY: there is room for all padded rows, and each task writes its own blocks.
                unsafe { pack_block(rows, columns, lanes, to.get().add(block * M * padded)) }
            }
        });
        Self { room, columns, lanes }
    }

    /// That these rows are what products of this level read.
    pub(super) fn check(&self, columns: usize, level: Level) {
        assert_eq!(self.columns, columns, "these rows were packed for matrices of other columns");
        assert!(self.lanes == 0 || self.lanes == lanes(level), "these rows were packed for another level");
    }

    /// Where the first row begins; what is there is only read.
    pub(super) fn start(&self) -> Shared<f32> {
        Shared::new(self.room.as_ptr().cast::<f32>().cast_mut())
    }
}

/// f32 lanes of a register.
fn lanes(level: Level) -> usize {
    match level {
        #[cfg(target_arch = "x86_64")]
        Level::Amx | Level::Avx512 => 16,
        #[cfg(target_arch = "aarch64")]
        Level::Neon => 4,
        _ => 8,
    }
}

/// Up to M rows: a register of each in turn, or with 0 lanes one after the other.
///
/// # Safety
/// `to` is writable for so many padded rows.
unsafe fn pack_block(rows: &[f32], columns: usize, lanes: usize, to: *mut f32) {
    let (count, padded) = (rows.len() / columns, padded(columns));
    let (width, step) = if lanes == 0 { (padded, padded) } else { (lanes, lanes * count) };
    for (i, row) in rows.chunks_exact(columns).enumerate() {
        for piece in 0..padded / width {
            let from = &row[columns.min(piece * width)..columns.min((piece + 1) * width)];
            // SAFETY: the caller's promise.
            let to = unsafe { std::slice::from_raw_parts_mut(to.add(i * width + piece * step), width) };
            to[..from.len()].copy_from_slice(from);
            to[from.len()..].fill(0.0);
        }
    }
}

/// # Safety
/// The lanes' instructions are available, and that of [`run`].
#[inline(always)]
unsafe fn blocks<L: Lanes, const ROWS: usize, const N: usize>(task: &Task<'_>) {
    let Product { m, padded, .. } = *task.product;
    let at_once = rows_at_once(task.product);
    let piece = if padded > LONG { PIECE } else { padded };
    for start in (0..m).step_by(at_once) {
        let end = (start + at_once).min(m);
        for output in (0..task.count).step_by(N) {
            for k in (0..padded).step_by(piece) {
                let k = k..(k + piece).min(padded);
                for row in (start..end).step_by(ROWS) {
                    // Sums of a row have their place in the room.
                    let sums = task.sums.cast::<L>().wrapping_add((row - start) * N);
                    // SAFETY: the caller's promise; N divides GROUP, so all N rows of weights exist.
                    unsafe {
                        match end - row {
                            1 => block::<L, 1, N>(task, row, output, &k, sums),
                            2 => block::<L, 2, N>(task, row, output, &k, sums),
                            3 => block::<L, 3, N>(task, row, output, &k, sums),
                            _ => block::<L, ROWS, N>(task, row, output, &k, sums),
                        }
                    }
                }
            }
        }
    }
}

/// A piece of k for a block of x and N outputs. Sums of several pieces wait in memory.
#[inline(always)]
unsafe fn block<L: Lanes, const ROWS: usize, const N: usize>(
    task: &Task<'_>,
    row: usize,
    output: usize,
    k: &Range<usize>,
    waiting: *mut L,
) {
    let Product { x, padded, y, outputs, .. } = *task.product;
    // SAFETY: as for `blocks`.
    unsafe {
        let mut x = x.get().cast_const().add(row * padded + k.start * ROWS);
        let w: [*const f32; N] = std::array::from_fn(|j| task.weights[output + j]);
        let mut sums = [[L::zero(); N]; ROWS];
        if k.start > 0 {
            for (i, sums) in sums.iter_mut().enumerate() {
                for (j, sum) in sums.iter_mut().enumerate() {
                    *sum = waiting.add(i * N + j).read();
                }
            }
        }
        let mut at = k.start;
        while at < k.end {
            let w: [L; N] = std::array::from_fn(|j| L::load(w[j].add(at)));
            for (i, sums) in sums.iter_mut().enumerate() {
                let x = L::load(x.add(i * L::COUNT));
                for (sum, w) in sums.iter_mut().zip(w) {
                    *sum = x.multiply_add(w, *sum);
                }
            }
            at += L::COUNT;
            x = x.add(ROWS * L::COUNT);
        }
        if k.end < padded {
            for (i, sums) in sums.iter().enumerate() {
                for (j, sum) in sums.iter().enumerate() {
                    waiting.add(i * N + j).write(*sum);
                }
            }
            return;
        }
        let totals = L::all_totals(sums);
        for (i, totals) in totals.iter().enumerate() {
            let to = y.get().add((row + i) * outputs + task.first + output);
            for (j, total) in totals.iter().enumerate().take(task.count - output) {
                to.add(j).write(*total);
            }
        }
    }
}
