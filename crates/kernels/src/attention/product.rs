//! The products in f32 that attention and its gradient are made of.

#![expect(clippy::needless_range_loop, reason = "loops over registers, which index several arrays alike")]

use crate::exp::exp2;
use crate::simd::Simd;

/// Rows of a register tile.
pub(super) const TILE_ROWS: usize = 6;

/// Replaces scores by two to the power of score − shift; adds the powers to `sum`, lane by lane.
#[inline(always)]
pub(super) unsafe fn exponentiate<S: Simd>(
    s: S,
    scores: *mut f32,
    width: usize,
    shift: S::V,
    mut sum: S::V,
) -> S::V {
    // SAFETY: the caller vouches for `width` scores, whole vectors.
    unsafe {
        for j in (0..width).step_by(S::LANES) {
            let power = exp2(s, s.sub(s.load(scores.add(j)), shift));
            sum = s.add(sum, power);
            s.store(scores.add(j), power);
        }
    }
    sum
}

/// Σ a · b.
#[inline(always)]
pub(super) unsafe fn dot<S: Simd>(s: S, a: &[f32], b: &[f32]) -> f32 {
    let whole = a.len() / S::LANES * S::LANES;
    let rest = a.len() - whole;
    // SAFETY: vectors and parts of vectors lie within both, which are as long.
    unsafe {
        let mut sum = s.splat(0.0);
        for i in (0..whole).step_by(S::LANES) {
            sum = s.fma(s.load(a.as_ptr().add(i)), s.load(b.as_ptr().add(i)), sum);
        }
        if rest > 0 {
            let (a, b) = (a.as_ptr().add(whole), b.as_ptr().add(whole));
            sum = s.fma(s.load_part(a, rest), s.load_part(b, rest), sum);
        }
        s.sum(sum)
    }
}

/// A left side: where it begins, and its strides from row to row and from term to term, so that it may lie transposed.
type Left = (*const f32, (usize, usize));
/// A right side: where it begins, and its stride from term to term.
type Right = (*const f32, usize);
/// A product: where it begins, and its stride from row to row.
type Sums = (*mut f32, usize);

/// C = A·B, or C += A·B: `tiles` tiles of six rows, `depth` terms, `vectors` vectors of columns; strides in values.
#[inline(always)]
pub(super) unsafe fn multiply<S: Simd>(
    s: S,
    (tiles, depth, vectors): (usize, usize, usize),
    (a, a_strides): Left,
    (b, b_stride): Right,
    (c, c_stride): Sums,
    add: bool,
) {
    let mut done = 0;
    while done < vectors {
        let now = S::TILE.min(vectors - done);
        for tile in 0..tiles {
            // SAFETY: the caller vouches for the matrices; the tile lies within them.
            unsafe {
                let a = (a.add(tile * TILE_ROWS * a_strides.0), a_strides);
                let b = (b.add(done * S::LANES), b_stride);
                let c = (c.add(tile * TILE_ROWS * c_stride + done * S::LANES), c_stride);
                match now {
                    1 => tile_product::<S, 1>(s, depth, a, b, c, add),
                    2 => tile_product::<S, 2>(s, depth, a, b, c, add),
                    3 if S::TILE >= 3 => tile_product::<S, 3>(s, depth, a, b, c, add),
                    _ if S::TILE >= 4 => tile_product::<S, 4>(s, depth, a, b, c, add),
                    _ => unreachable!("a tile is at most as wide as registers allow"),
                }
            }
        }
        done += now;
    }
}

/// One tile of [`multiply`], its sums in registers.
#[inline(always)]
unsafe fn tile_product<S: Simd, const N: usize>(
    s: S,
    depth: usize,
    (a, a_strides): Left,
    (mut b, b_stride): Right,
    (c, c_stride): Sums,
    add: bool,
) {
    // SAFETY: the caller vouches for the matrices.
    unsafe {
        let mut sums = [[s.splat(0.0); N]; TILE_ROWS];
        if add {
            for i in 0..TILE_ROWS {
                for j in 0..N {
                    sums[i][j] = s.load(c.add(i * c_stride + j * S::LANES));
                }
            }
        }
        for d in 0..depth {
            let mut right = [s.splat(0.0); N];
            for j in 0..N {
                right[j] = s.load(b.add(j * S::LANES));
            }
            for i in 0..TILE_ROWS {
                let left = s.splat(*a.add(i * a_strides.0 + d * a_strides.1));
                for j in 0..N {
                    sums[i][j] = s.fma(left, right[j], sums[i][j]);
                }
            }
            b = b.add(b_stride);
        }
        for i in 0..TILE_ROWS {
            for j in 0..N {
                s.store(c.add(i * c_stride + j * S::LANES), sums[i][j]);
            }
        }
    }
}
