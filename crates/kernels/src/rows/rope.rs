//! Rotary positions (Su et al. 2021, arXiv:2104.09864) in Hugging Face's "rotate half" convention: value i of a
//! head is paired with value i + dim / 2.
//!
//! x₁' = x₁ cos − x₂ sin,  x₂' = x₂ cos + x₁ sin

use super::share;
use crate::cpu::Level;
use crate::simd::{Simd, versions};

/// Rotates each head of `x`, which is [rows, heads, head_dim], by the position of its row.
///
/// `cos` and `sin` are tables [positions, head_dim / 2]; `positions` has one entry for each row.
///
/// # Panics
/// When the lengths do not fit, or a position lies beyond the tables.
pub fn rope_in_place(x: &mut [f32], head_dim: usize, cos: &[f32], sin: &[f32], positions: &[u32]) {
    rope_at(Level::current(), x, head_dim, cos, sin, positions, Rotation::Forward);
}

/// Undoes [`rope_in_place`], which is also its gradient: a rotation's transpose is its inverse.
///
/// # Panics
/// As [`rope_in_place`].
pub fn rope_backward_in_place(x: &mut [f32], head_dim: usize, cos: &[f32], sin: &[f32], positions: &[u32]) {
    rope_at(Level::current(), x, head_dim, cos, sin, positions, Rotation::Inverse);
}

/// Which way heads are rotated.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rotation {
    Forward,
    Inverse,
}

fn rope_at(
    level: Level,
    x: &mut [f32],
    head_dim: usize,
    cos: &[f32],
    sin: &[f32],
    positions: &[u32],
    rotation: Rotation,
) {
    assert!(
        head_dim > 0 && head_dim.is_multiple_of(2),
        "rotary positions need an even head_dim, found {head_dim}"
    );
    assert_eq!(cos.len(), sin.len(), "cos and sin differ in length");
    if positions.is_empty() {
        assert!(x.is_empty(), "{} values but no positions", x.len());
        return;
    }
    let width = x.len() / positions.len();
    let fits = x.len() == width * positions.len() && width.is_multiple_of(head_dim);
    assert!(fits, "{} values are not {} rows of heads of {head_dim}", x.len(), positions.len());
    let half = head_dim / 2;
    let known = cos.len() / half;
    for position in positions {
        assert!((*position as usize) < known, "position {position} lies beyond the tables of {known}");
    }
    if width == 0 {
        return;
    }
    let sign = if rotation == Rotation::Forward { 1.0 } else { -1.0 };
    share(x, width, |first, x| {
        for (row, position) in x.chunks_exact_mut(width).zip(&positions[first / width..]) {
            let at = *position as usize * half;
            // SAFETY: the machine has the level; the tables hold `half` values, the row whole heads of twice that.
            unsafe { rotate(level, row, &cos[at..at + half], &sin[at..at + half], sign) }
        }
    });
}

versions! { unsafe fn rotate(row: &mut [f32], cos: &[f32], sin: &[f32], sign: f32) = rotate_with; }

#[inline(always)]
unsafe fn rotate_with<S: Simd>(s: S, row: &mut [f32], cos: &[f32], sin: &[f32], sign: f32) {
    let half = cos.len();
    let whole = half / S::LANES * S::LANES;
    for head in row.chunks_exact_mut(2 * half) {
        let (low, high) = head.split_at_mut(half);
        for i in (0..whole).step_by(S::LANES) {
            // SAFETY: whole vectors lie within all four.
            unsafe {
                let (c, d) = (s.load(cos.as_ptr().add(i)), s.mul(s.load(sin.as_ptr().add(i)), s.splat(sign)));
                let (a, b) = (s.load(low.as_ptr().add(i)), s.load(high.as_ptr().add(i)));
                s.store(low.as_mut_ptr().add(i), s.sub(s.mul(a, c), s.mul(b, d)));
                s.store(high.as_mut_ptr().add(i), s.add(s.mul(b, c), s.mul(a, d)));
            }
        }
        for i in whole..half {
            let (a, b, d) = (low[i], high[i], sin[i] * sign);
            low[i] = a * cos[i] - b * d;
            high[i] = b * cos[i] + a * d;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{assert_close, noise};
    use super::*;

    #[test]
    fn pairs_turn_by_their_angle() {
        for (heads, dim, rows) in [(1, 2, 1), (3, 64, 5), (2, 80, 7), (5, 34, 3), (9, 64, 200)] {
            let half = dim / 2;
            let angle = |p: usize, i: usize| p as f64 * 10_000f64.powf(-(i as f64) / half as f64);
            let table = |f: fn(f64) -> f64| -> Vec<f32> {
                (0..300 * half).map(|j| f(angle(j / half, j % half)) as f32).collect()
            };
            let (cos, sin) = (table(f64::cos), table(f64::sin));
            let positions: Vec<u32> = (0..rows as u32).map(|row| row * 37 % 300).collect();
            let x = noise(rows * heads * dim);
            let mut expected = vec![0.0; x.len()];
            for (row, position) in positions.iter().enumerate() {
                for head in 0..heads {
                    for i in 0..half {
                        let at = (row * heads + head) * dim + i;
                        let (a, b) = (f64::from(x[at]), f64::from(x[at + half]));
                        let (sin, cos) = angle(*position as usize, i).sin_cos();
                        expected[at] = a * cos - b * sin;
                        expected[at + half] = b * cos + a * sin;
                    }
                }
            }
            for level in Level::available() {
                let mut found = x.clone();
                rope_at(level, &mut found, dim, &cos, &sin, &positions, Rotation::Forward);
                assert_close(&found, &expected, 5e-7, &format!("{level:?}, {heads} heads of {dim}"));
                rope_at(level, &mut found, dim, &cos, &sin, &positions, Rotation::Inverse);
                let there: Vec<f64> = x.iter().map(|x| f64::from(*x)).collect();
                assert_close(&found, &there, 5e-7, &format!("{level:?}, {heads} heads of {dim}, and back"));
            }
        }
    }

    #[test]
    #[should_panic(expected = "position 4 lies beyond the tables of 4")]
    fn unknown_positions_are_refused() {
        rope_in_place(&mut [0.0; 2], 2, &[1.0; 4], &[0.0; 4], &[4]);
    }
}
