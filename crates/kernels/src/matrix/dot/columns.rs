//! Matrices of few columns, such as the second one of an adapter: registers of outputs instead of lanes along k.
//!
//! A dot product of sixteen values costs less than the sum of its lanes. Here W lies column by column, and one value of x
//! after another is multiplied with a column of it. Every output is one chain of fused multiply-adds in the order of the
//! columns, whatever else is computed beside it, and may go on from the number that lies in y.

use super::super::Before;
use super::super::parallel::{Shared, share};
use crate::cpu::Level;
use crate::simd::{Simd, versions};
use std::ops::Range;

/// Matrices of up to so many columns lie column by column.
pub(in crate::matrix) const FEW_COLUMNS: usize = 64;

/// Rows of x in registers.
const TILE_ROWS: usize = 6;
/// Rows of x, and outputs, of a task: a piece of W for the first-level cache, a piece of y for the second.
const TASK_ROWS: usize = 16 * TILE_ROWS;
const TASK_OUTPUTS: usize = 256;
/// Outputs for which there is room in a column, a multiple of every number of lanes.
const GROUP: usize = 16;

/// W, column by column.
pub(in crate::matrix) struct Columns {
    values: Vec<f32>,
    stride: usize,
}

impl Columns {
    /// `fill` writes a row of W.
    pub(in crate::matrix) fn from_rows(
        (rows, columns): (usize, usize),
        fill: impl Fn(usize, &mut [f32]),
    ) -> Self {
        let stride = rows.next_multiple_of(GROUP);
        let (mut values, mut row) = (vec![0.0; columns * stride], vec![0.0; columns]);
        for output in 0..rows {
            fill(output, &mut row);
            for (column, value) in row.iter().enumerate() {
                values[column * stride + output] = *value;
            }
        }
        Self { values, stride }
    }

    /// `fill` writes a column of W.
    pub(in crate::matrix) fn new((rows, columns): (usize, usize), fill: impl Fn(usize, &mut [f32])) -> Self {
        let stride = rows.next_multiple_of(GROUP);
        let mut values = vec![0.0; columns * stride];
        for column in 0..columns {
            fill(column, &mut values[column * stride..][..rows]);
        }
        Self { values, stride }
    }

    /// A row of W.
    pub(in crate::matrix) fn row(&self, row: usize, out: &mut [f32]) {
        for (column, out) in out.iter_mut().enumerate() {
            *out = self.values[column * self.stride + row];
        }
    }

    pub(in crate::matrix) fn bytes(&self) -> usize {
        size_of_val(&self.values[..])
    }

    /// See [`Matrix::multiply`](crate::Matrix::multiply) and `add_multiply`; `outputs` of W are there, or are wanted.
    pub(in crate::matrix) fn product(
        &self,
        level: Level,
        (x, columns): (&[f32], usize),
        (outputs, wanted): (usize, Option<&[usize]>),
        before: Before,
        y: &mut [f32],
    ) {
        let gathered = wanted
            .map(|wanted| Self::from_rows((outputs, columns), |output, row| self.row(wanted[output], row)));
        let Self { values, stride } = gathered.as_ref().unwrap_or(self);
        let m = x.len() / columns;
        let groups = outputs.div_ceil(TASK_OUTPUTS);
        let shared = Shared::new(y.as_mut_ptr());
        let nanoseconds = (m * columns * outputs) as f64 / 20.0;
        share(groups * m.div_ceil(TASK_ROWS), nanoseconds, |range| {
            for task in range {
                let (first, output) = (task / groups * TASK_ROWS, task % groups * TASK_OUTPUTS);
                let part = Part {
                    x,
                    columns,
                    values,
                    stride: *stride,
                    rows: first..m.min(first + TASK_ROWS),
                    outputs: output..outputs.min(output + TASK_OUTPUTS),
                    y: shared.get(),
                    width: outputs,
                    before,
                };
                // SAFETY: the matrix was made for a level that exists; y has m rows of `outputs`, of which each task
                // writes its own part; columns have room for whole groups.
                unsafe { multiply(level, &part) }
            }
        });
    }
}

/// Some rows of x by some outputs.
struct Part<'a> {
    x: &'a [f32],
    columns: usize,
    values: &'a [f32],
    stride: usize,
    rows: Range<usize>,
    outputs: Range<usize>,
    y: *mut f32,
    /// Outputs of a row of y.
    width: usize,
    before: Before,
}

versions! { unsafe fn multiply(part: &Part<'_>) = multiply_with; }

#[inline(always)]
unsafe fn multiply_with<S: Simd>(s: S, part: &Part<'_>) {
    for output in part.outputs.clone().step_by(S::TILE * S::LANES) {
        let mut row = part.rows.start;
        while row < part.rows.end {
            // SAFETY: the caller's promise; these rows exist.
            unsafe {
                if row + TILE_ROWS <= part.rows.end {
                    rows::<S, TILE_ROWS>(s, part, row, output);
                    row += TILE_ROWS;
                } else {
                    rows::<S, 1>(s, part, row, output);
                    row += 1;
                }
            }
        }
    }
}

/// M rows of x by as many outputs as registers allow.
///
/// # Safety
/// The rows and the first output exist, and nobody else writes these parts of y.
#[inline(always)]
unsafe fn rows<S: Simd, const M: usize>(s: S, part: &Part<'_>, row: usize, output: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        match (part.outputs.end - output).div_ceil(S::LANES).min(S::TILE) {
            1 => tile::<S, M, 1>(s, part, row, output),
            2 => tile::<S, M, 2>(s, part, row, output),
            3 if S::TILE >= 3 => tile::<S, M, 3>(s, part, row, output),
            _ if S::TILE >= 4 => tile::<S, M, 4>(s, part, row, output),
            _ => unreachable!("a tile is at most as wide as registers allow"),
        }
    }
}

/// M rows of x by N vectors of outputs, the last of which may be cut off.
///
/// # Safety
/// The rows and the first output of each vector exist, and nobody else writes these parts of y.
#[inline(always)]
unsafe fn tile<S: Simd, const M: usize, const N: usize>(s: S, part: &Part<'_>, row: usize, output: usize) {
    // SAFETY: the caller's promise; a column has room for whole vectors.
    unsafe {
        let y = part.y.add(row * part.width + output);
        let there = |j: usize| (part.outputs.end - output - j * S::LANES).min(S::LANES);
        let mut sums = [[s.splat(0.0); N]; M];
        if part.before == Before::Kept {
            for (i, sums) in sums.iter_mut().enumerate() {
                for (j, sum) in sums.iter_mut().enumerate() {
                    let from = y.add(i * part.width + j * S::LANES);
                    *sum = if there(j) == S::LANES { s.load(from) } else { s.load_part(from, there(j)) };
                }
            }
        }
        let x = part.x.as_ptr().add(row * part.columns);
        let mut weights = part.values.as_ptr().add(output);
        for column in 0..part.columns {
            let mut w = [s.splat(0.0); N];
            for (j, w) in w.iter_mut().enumerate() {
                *w = s.load(weights.add(j * S::LANES));
            }
            for (i, sums) in sums.iter_mut().enumerate() {
                let x = s.splat(*x.add(i * part.columns + column));
                for (sum, w) in sums.iter_mut().zip(w) {
                    *sum = s.fma(x, w, *sum);
                }
            }
            weights = weights.wrapping_add(part.stride);
        }
        for (i, sums) in sums.iter().enumerate() {
            for (j, sum) in sums.iter().enumerate() {
                let to = y.add(i * part.width + j * S::LANES);
                if there(j) == S::LANES { s.store(to, *sum) } else { s.store_part(to, *sum, there(j)) }
            }
        }
    }
}
