//! Gradients of weights: out += dYᵀ · X, sums over the rows (tokens) of both.
//!
//! Every value of `out` is one sum over the rows in their order, in blocks of a fixed size, whatever the number of
//! threads. On AMX the sums run in tiles (`tiles/gradient.rs`); here is the product in f32: columns of X are copied
//! side by side, then six outputs by a few vectors stay in registers over a block of rows.

#![expect(clippy::needless_range_loop, reason = "loops over registers, which index several arrays alike")]

use super::parallel::{Shared, share};
use super::scratch::Scratch;
use super::{Precision, level_for};
use crate::cpu::Level;
use crate::simd::{Simd, versions};
use std::ops::Range;

/// Rows whose products are summed in registers before they are added to `out`.
const BLOCK: usize = 256;
/// Outputs of a register tile.
const TILE_ROWS: usize = 6;
/// Columns of X that a task copies at once, a multiple of every register tile.
const STRIP: usize = 64;

/// `out[n, k] += dyᵀ · x` for `dy[rows, n]` and `x[rows, k]`: the gradient of the weights of y = x · Wᵀ.
///
/// ```
/// use gradus_kernels::{Precision, gradient};
/// let mut out = [100.0; 2];
/// gradient(&[1.0, 2.0, 3.0], &[1.0, 10.0, 2.0, 20.0, 3.0, 30.0], 3, Precision::F32, &mut out);
/// assert_eq!(out, [114.0, 240.0]);
/// ```
///
/// # Panics
/// When `dy` or `x` is not `rows` rows, or `out` does not fit them.
pub fn gradient(dy: &[f32], x: &[f32], rows: usize, precision: Precision, out: &mut [f32]) {
    gradient_at(Level::current(), dy, x, rows, precision, out);
}

fn gradient_at(level: Level, dy: &[f32], x: &[f32], rows: usize, precision: Precision, out: &mut [f32]) {
    assert!(level <= Level::detected(), "this machine has no {level:?}");
    if rows == 0 {
        assert!(dy.is_empty() && x.is_empty(), "values but no rows");
        return;
    }
    let (n, k) = (dy.len() / rows, x.len() / rows);
    assert_eq!(dy.len(), rows * n, "dy is not {rows} rows");
    assert_eq!(x.len(), rows * k, "x is not {rows} rows");
    assert_eq!(out.len(), n * k, "out is not {n} × {k}");
    if out.is_empty() {
        return;
    }
    let sides = Sides { dy, x, rows, n, k };
    match level_for(level, precision) {
        #[cfg(target_arch = "x86_64")]
        Level::Amx => super::tiles::gradient(&sides, precision, out),
        level => in_f32(level, &sides, out),
    }
}

/// The two sides of the product, row by row.
#[derive(Clone, Copy)]
pub(super) struct Sides<'a> {
    pub(super) dy: &'a [f32],
    pub(super) x: &'a [f32],
    pub(super) rows: usize,
    /// Columns of dy.
    pub(super) n: usize,
    /// Columns of x.
    pub(super) k: usize,
}

/// `units` in so many nearly equal pieces, and the piece with this index.
pub(super) fn piece(units: usize, pieces: usize, index: usize) -> Range<usize> {
    units * index / pieces..units * (index + 1) / pieces
}

/// Into how many pieces the outputs are cut when there are so many strips of columns: enough tasks for all threads.
pub(super) fn pieces_of_outputs(units: usize, strips: usize) -> usize {
    (4 * crate::threads::threads()).div_ceil(strips).min(units)
}

fn in_f32(level: Level, sides: &Sides, out: &mut [f32]) {
    let (strips, units) = (sides.k.div_ceil(STRIP), sides.n.div_ceil(TILE_ROWS));
    let pieces = pieces_of_outputs(units, strips);
    let shared = Shared::new(out.as_mut_ptr());
    let nanoseconds = (sides.rows * sides.n * sides.k) as f64 / 30.0;
    share(strips * pieces, nanoseconds, |range| {
        for task in range {
            let units = piece(units, pieces, task % pieces);
            // SAFETY: the level is available, and tasks write different parts of `out`.
            unsafe { strip(level, sides, task / pieces * STRIP, units, shared.get()) }
        }
    });
}

versions! {
    unsafe fn strip(sides: &Sides, column: usize, units: Range<usize>, out: *mut f32) = strip_with;
}

/// Some columns of `out`, from `column` on, for some groups of six outputs.
#[inline(always)]
unsafe fn strip_with<S: Simd>(s: S, sides: &Sides, column: usize, units: Range<usize>, out: *mut f32) {
    let Sides { dy, x, rows, n, k } = *sides;
    let width = STRIP.min(k - column);
    let mut x_room = Scratch::with_bytes(BLOCK * STRIP * 4);
    let packed_x = x_room.as_mut_ptr().cast::<f32>();
    let mut ragged = [0f32; BLOCK * TILE_ROWS];
    for first in (0..rows).step_by(BLOCK) {
        let count = BLOCK.min(rows - first);
        // SAFETY: the room holds what is written; `out` is n rows of k, of which this task has its own part.
        unsafe {
            for row in 0..count {
                let from = &x[(first + row) * k + column..][..width];
                let to = std::slice::from_raw_parts_mut(packed_x.add(row * STRIP), STRIP);
                to[..width].copy_from_slice(from);
                to[width..].fill(0.0);
            }
            for unit in units.clone() {
                let output = unit * TILE_ROWS;
                let height = TILE_ROWS.min(n - output);
                let a = if height == TILE_ROWS {
                    (dy[first * n + output..].as_ptr(), n)
                } else {
                    // The last outputs are fewer than a tile has, and the last row has nothing after them.
                    for (row, to) in ragged[..count * TILE_ROWS].chunks_exact_mut(TILE_ROWS).enumerate() {
                        to[..height].copy_from_slice(&dy[(first + row) * n + output..][..height]);
                    }
                    (ragged.as_ptr(), TILE_ROWS)
                };
                let mut done = 0;
                while done < width {
                    let to = out.add(output * k + column + done);
                    let part = (height, width - done);
                    let b = packed_x.add(done);
                    let vectors = (width - done).div_ceil(S::LANES).min(S::TILE);
                    match vectors {
                        1 => tile::<S, 1>(s, count, a, b, to, k, part),
                        2 => tile::<S, 2>(s, count, a, b, to, k, part),
                        3 if S::TILE >= 3 => tile::<S, 3>(s, count, a, b, to, k, part),
                        _ if S::TILE >= 4 => tile::<S, 4>(s, count, a, b, to, k, part),
                        _ => unreachable!("a tile is at most as wide as registers allow"),
                    }
                    done += vectors * S::LANES;
                }
            }
        }
    }
}

/// Adds a register tile to `to`, of which `height` rows and `width` columns exist.
#[inline(always)]
unsafe fn tile<S: Simd, const N: usize>(
    s: S,
    rows: usize,
    (mut a, a_stride): (*const f32, usize),
    mut b: *const f32,
    to: *mut f32,
    stride: usize,
    (height, width): (usize, usize),
) {
    // SAFETY: the caller vouches for `rows` rows of six values at `a`, `a_stride` apart, and of a strip at `b`, and for the part of `to`.
    unsafe {
        let mut sums = [[s.splat(0.0); N]; TILE_ROWS];
        for _ in 0..rows {
            let mut right = [s.splat(0.0); N];
            for j in 0..N {
                right[j] = s.load(b.add(j * S::LANES));
            }
            for i in 0..TILE_ROWS {
                let left = s.splat(*a.add(i));
                for j in 0..N {
                    sums[i][j] = s.fma(left, right[j], sums[i][j]);
                }
            }
            a = a.wrapping_add(a_stride);
            b = b.add(STRIP);
        }
        for i in 0..TILE_ROWS {
            for j in 0..N {
                let to = to.wrapping_add(i * stride + j * S::LANES);
                let left = width.saturating_sub(j * S::LANES);
                if i >= height || left == 0 {
                    continue;
                }
                if left >= S::LANES {
                    s.store(to, s.add(s.load(to), sums[i][j]));
                } else {
                    s.store_part(to, s.add(s.load_part(to, left), sums[i][j]), left);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{levels_and_precisions, numbers};
    use super::*;
    use proptest::prelude::*;
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;

    /// The sums, and the largest of them or of the roots of their squared terms: what roundings of terms add up to.
    fn exact(sides: &Sides, start: f64) -> (Vec<f64>, f64) {
        let mut out = vec![start; sides.n * sides.k];
        let mut squares = vec![1.0; out.len()];
        for row in 0..sides.rows {
            for i in 0..sides.n {
                for j in 0..sides.k {
                    let term = f64::from(sides.dy[row * sides.n + i]) * f64::from(sides.x[row * sides.k + j]);
                    out[i * sides.k + j] += term;
                    squares[i * sides.k + j] += term * term;
                }
            }
        }
        let sizes =
            out.iter().zip(&squares).map(|(sum, squares): (&f64, &f64)| sum.abs().max(squares.sqrt()));
        let largest = sizes.fold(0.0, f64::max);
        (out, largest)
    }

    fn check(seed: u64, rows: usize, n: usize, k: usize) {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let (dy, x) = (numbers(&mut random, rows * n), numbers(&mut random, rows * k));
        let (expected, largest) = exact(&Sides { dy: &dy, x: &x, rows, n, k }, 0.5);
        for (level, precision) in levels_and_precisions() {
            let mut found = vec![0.5; n * k];
            gradient_at(level, &dy, &x, rows, precision, &mut found);
            let worst =
                found.iter().zip(&expected).map(|(a, b)| (f64::from(*a) - b).abs()).fold(0.0, f64::max);
            let tolerance = match (level, precision) {
                (Level::Amx, Precision::Bf16) => 1e-2,
                (Level::Amx, Precision::Bf16x3) => 3e-5,
                _ => 3e-6,
            };
            assert!(
                worst <= tolerance * largest,
                "{level:?} {precision:?}, {rows} rows, {n} × {k}: off by {worst:e} of {largest}"
            );
        }
    }

    #[test]
    fn usual_shapes_are_right() {
        for (rows, n, k) in
            [(1, 1, 1), (5, 8, 64), (512, 16, 576), (700, 576, 8), (300, 100, 130), (2100, 64, 48)]
        {
            check(1, rows, n, k);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        #[test]
        fn any_shape_is_right(seed: u64, rows in 1usize..600, n in 1usize..80, k in 1usize..80) {
            check(seed, rows, n, k);
        }
    }

    #[test]
    fn threads_do_not_change_a_bit() {
        let mut random = ChaCha8Rng::seed_from_u64(4);
        for (rows, n, k) in [(600, 200, 170), (3000, 16, 200), (3000, 200, 16)] {
            let (dy, x) = (numbers(&mut random, rows * n), numbers(&mut random, rows * k));
            for (level, precision) in levels_and_precisions() {
                let with_threads = |threads| {
                    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
                    let mut out = vec![0.25; n * k];
                    pool.install(|| gradient_at(level, &dy, &x, rows, precision, &mut out));
                    out
                };
                let one = with_threads(1);
                assert!(one == with_threads(2) && one == with_threads(5), "{level:?} {precision:?}");
            }
        }
    }

    #[test]
    fn nothing_adds_nothing() {
        gradient(&[], &[], 0, Precision::F32, &mut [1.0; 4]);
        gradient(&[], &[1.0; 4], 2, Precision::Bf16x3, &mut []);
    }
}
