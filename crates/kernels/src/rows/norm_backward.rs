//! Gradients of the RMS norm. With r = 1 / √(mean(x²) + ε) and y = x · r · weight:
//!
//! dx = r · (dy · weight − x · r² · mean(dy · weight · x)),  dweight = Σ over rows of dy · x · r

use super::norm::{check, squares};
use super::{WORTH_SHARING, share};
use crate::cpu::Level;
use crate::simd::{Simd, versions};
use rayon::prelude::*;

/// The gradient of [`rms_norm`](super::rms_norm) with respect to `x`, to `dx`.
///
/// # Panics
/// When the lengths do not fit.
pub fn rms_norm_backward(x: &[f32], weight: &[f32], eps: f32, dy: &[f32], dx: &mut [f32]) {
    rms_norm_backward_at(Level::current(), x, weight, eps, dy, dx);
}

fn rms_norm_backward_at(level: Level, x: &[f32], weight: &[f32], eps: f32, dy: &[f32], dx: &mut [f32]) {
    check(weight.len(), &[x.len(), dy.len(), dx.len()]);
    share(dx, weight.len(), |first, dx| {
        let here = first..first + dx.len();
        // SAFETY: the machine has the level; all are as long and made of whole rows.
        unsafe { backward_rows(level, &x[here.clone()], weight, eps, &dy[here], dx) }
    });
}

/// Adds the gradient of [`rms_norm`](super::rms_norm) with respect to its weight to `dweight`, row after row.
///
/// # Panics
/// When the lengths do not fit.
pub fn rms_norm_weight_gradient(x: &[f32], eps: f32, dy: &[f32], dweight: &mut [f32]) {
    rms_norm_weight_gradient_at(Level::current(), x, eps, dy, dweight);
}

fn rms_norm_weight_gradient_at(level: Level, x: &[f32], eps: f32, dy: &[f32], dweight: &mut [f32]) {
    let width = dweight.len();
    check(width, &[x.len(), dy.len()]);
    let mut factors = vec![0.0; x.len() / width];
    let columns = |factors: &[f32], first: usize, dweight: &mut [f32]| {
        // SAFETY: the machine has the level; rows are whole, and the columns lie within them.
        unsafe { add_columns(level, x, dy, factors, (first, width), dweight) }
    };
    let threads = crate::threads::threads();
    if x.len() < WORTH_SHARING || threads == 1 {
        // SAFETY: the machine has the level; there is a factor for each row.
        unsafe { row_factors(level, x, width, eps, &mut factors) };
        return columns(&factors, 0, dweight);
    }
    let rows = factors.len().div_ceil(4 * threads);
    factors.par_chunks_mut(rows).zip(x.par_chunks(rows * width)).for_each(|(factors, x)| {
        // SAFETY: as above.
        unsafe { row_factors(level, x, width, eps, factors) };
    });
    // Cut along columns: each is then one sum over the rows in their order, on any number of threads.
    let step = width.div_ceil(threads).next_multiple_of(16);
    dweight.par_chunks_mut(step).enumerate().for_each(|(i, part)| columns(&factors, i * step, part));
}

versions! {
    unsafe fn backward_rows(x: &[f32], weight: &[f32], eps: f32, dy: &[f32], dx: &mut [f32]) = backward_rows_with;
}
versions! {
    unsafe fn row_factors(x: &[f32], width: usize, eps: f32, factors: &mut [f32]) = row_factors_with;
}
versions! {
    unsafe fn add_columns(x: &[f32], dy: &[f32], factors: &[f32], columns: (usize, usize), dweight: &mut [f32])
        = add_columns_with;
}

#[inline(always)]
unsafe fn backward_rows_with<S: Simd>(s: S, x: &[f32], weight: &[f32], eps: f32, dy: &[f32], dx: &mut [f32]) {
    let width = weight.len();
    let whole = width / S::LANES * S::LANES;
    let rows = x.chunks_exact(width).zip(dy.chunks_exact(width)).zip(dx.chunks_exact_mut(width));
    for ((x, dy), dx) in rows {
        // SAFETY: whole vectors lie within rows of `width`.
        unsafe {
            let r = 1.0 / (squares(s, x, 0.0) / width as f32 + eps).sqrt();
            let mut sums = [s.splat(0.0); 2];
            for i in (0..whole).step_by(S::LANES) {
                let g = s.mul(s.load(dy.as_ptr().add(i)), s.load(weight.as_ptr().add(i)));
                let sum = &mut sums[i / S::LANES % 2];
                *sum = s.fma(g, s.load(x.as_ptr().add(i)), *sum);
            }
            let mut dot = s.sum(s.add(sums[0], sums[1]));
            for i in whole..width {
                dot += dy[i] * weight[i] * x[i];
            }
            let back = r * r * r * dot / width as f32;
            for i in (0..whole).step_by(S::LANES) {
                let g = s.mul(s.load(dy.as_ptr().add(i)), s.load(weight.as_ptr().add(i)));
                let away = s.mul(s.load(x.as_ptr().add(i)), s.splat(back));
                s.store(dx.as_mut_ptr().add(i), s.sub(s.mul(g, s.splat(r)), away));
            }
            for i in whole..width {
                dx[i] = dy[i] * weight[i] * r - x[i] * back;
            }
        }
    }
}

#[inline(always)]
unsafe fn row_factors_with<S: Simd>(s: S, x: &[f32], width: usize, eps: f32, factors: &mut [f32]) {
    for (x, factor) in x.chunks_exact(width).zip(factors) {
        // SAFETY: as for the function around.
        *factor = unsafe { 1.0 / (squares(s, x, 0.0) / width as f32 + eps).sqrt() };
    }
}

/// Some columns of all rows, which begin at `first` in rows of `width`.
#[inline(always)]
unsafe fn add_columns_with<S: Simd>(
    s: S,
    x: &[f32],
    dy: &[f32],
    factors: &[f32],
    (first, width): (usize, usize),
    dweight: &mut [f32],
) {
    let whole = dweight.len() / S::LANES * S::LANES;
    for (row, factor) in factors.iter().enumerate() {
        let at = row * width + first;
        let (x, dy) = (&x[at..at + dweight.len()], &dy[at..at + dweight.len()]);
        for i in (0..whole).step_by(S::LANES) {
            // SAFETY: whole vectors lie within all three.
            unsafe {
                let to = dweight.as_mut_ptr().add(i);
                let normed = s.mul(s.load(x.as_ptr().add(i)), s.splat(*factor));
                s.store(to, s.fma(s.load(dy.as_ptr().add(i)), normed, s.load(to)));
            }
        }
        for i in whole..dweight.len() {
            dweight[i] += dy[i] * (x[i] * factor);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{assert_close, noise};
    use super::*;

    const EPS: f32 = 1e-2;

    fn widened(x: &[f32]) -> Vec<f64> {
        x.iter().map(|x| f64::from(*x)).collect()
    }

    /// Σ dy · rms_norm(x), in f64.
    fn loss(x: &[f64], weight: &[f64], dy: &[f64]) -> f64 {
        let width = weight.len();
        let rows = x.chunks(width).zip(dy.chunks(width));
        rows.map(|(x, dy)| {
            let mean = x.iter().map(|x| x * x).sum::<f64>() / width as f64;
            let r = 1.0 / (mean + f64::from(EPS)).sqrt();
            (0..width).map(|i| dy[i] * x[i] * r * weight[i]).sum::<f64>()
        })
        .sum()
    }

    /// Central differences in f64, which are right to about 10⁻⁹.
    fn differences(at: &[f64], f: impl Fn(&[f64]) -> f64) -> Vec<f64> {
        let mut x = at.to_vec();
        (0..x.len())
            .map(|i| {
                let (old, step) = (x[i], 1e-5);
                x[i] = old + step;
                let above = f(&x);
                x[i] = old - step;
                let below = f(&x);
                x[i] = old;
                (above - below) / (2.0 * step)
            })
            .collect()
    }

    #[test]
    fn gradients_match_finite_differences() {
        for (rows, width) in [(1, 1), (2, 7), (3, 33), (2, 100)] {
            let (x, dy) = (noise(rows * width), noise(rows * width + 1)[1..].to_vec());
            let weight = noise(width + 2)[2..].to_vec();
            let (x64, dy64, weight64) = (widened(&x), widened(&dy), widened(&weight));
            let dx = differences(&x64, |x| loss(x, &weight64, &dy64));
            let dweight = differences(&weight64, |weight| loss(&x64, weight, &dy64));
            for level in Level::available() {
                let mut found = vec![7.0; x.len()];
                rms_norm_backward_at(level, &x, &weight, EPS, &dy, &mut found);
                assert_close(&found, &dx, 1e-5, &format!("{level:?}, {rows} × {width}, dx"));
                let mut found = vec![1.0; width];
                rms_norm_weight_gradient_at(level, &x, EPS, &dy, &mut found);
                let added: Vec<f64> = dweight.iter().map(|d| d + 1.0).collect();
                assert_close(&found, &added, 1e-5, &format!("{level:?}, {rows} × {width}, dweight"));
            }
        }
    }

    #[test]
    fn threads_do_not_change_a_bit() {
        let (rows, width) = (700, 200);
        let (x, dy, weight) = (noise(rows * width), noise(rows * width + 1)[1..].to_vec(), noise(width));
        let with_threads = |threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            let (mut dx, mut dweight) = (vec![0.0; x.len()], vec![0.0; width]);
            pool.install(|| {
                rms_norm_backward(&x, &weight, EPS, &dy, &mut dx);
                rms_norm_weight_gradient(&x, EPS, &dy, &mut dweight);
            });
            (dx, dweight)
        };
        let one = with_threads(1);
        assert!(one == with_threads(2) && one == with_threads(5));
    }
}
