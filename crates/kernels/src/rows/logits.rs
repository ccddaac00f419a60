//! Statistics and shares of a row of logits. log softmax(x)ᵢ = xᵢ − log_sum_exp(x).

use crate::cpu::Level;
use crate::exp::exp;
use crate::simd::{Simd, versions};

/// log Σ eˣ, within 10⁻⁶ for any vocabulary; −∞ for no values or none above −∞.
///
/// ```
/// # use gradus_kernels::rows::log_sum_exp;
/// assert!((log_sum_exp(&[1000.0, 1000.0]) - 1000.6931).abs() < 1e-4);
/// ```
pub fn log_sum_exp(row: &[f32]) -> f32 {
    // SAFETY: the machine has the level.
    unsafe { log_sum_exp_of(Level::current(), row) }
}

/// The index of the largest value, the first of equals; 0 if there is none. NaN is never the largest.
pub fn argmax(row: &[f32]) -> usize {
    // SAFETY: the machine has the level.
    let top = unsafe { largest(Level::current(), row) };
    row.iter().position(|x| *x == top).unwrap_or(0)
}

/// e^((x − top) / temperature) in place: with the largest logit as `top`, each token's share of the best token's probability. Shares
/// below 10⁻³⁷ are 0.
///
/// ```
/// # use gradus_kernels::rows::shares;
/// let mut row = [1.0, 3.0, f32::NEG_INFINITY];
/// shares(&mut row, 3.0, 2.0);
/// assert!((row[0] - 0.36788).abs() < 1e-5 && row[1..] == [1.0, 0.0]);
/// ```
pub fn shares(row: &mut [f32], top: f32, temperature: f32) {
    // SAFETY: the machine has the level.
    unsafe { shares_of(Level::current(), row, top, temperature) }
}

versions! { unsafe fn shares_of(row: &mut [f32], top: f32, temperature: f32) = shares_with; }
versions! { unsafe fn log_sum_exp_of(row: &[f32]) -> f32 = log_sum_exp_with; }
versions! { unsafe fn largest(row: &[f32]) -> f32 = largest_with; }

#[inline(always)]
unsafe fn largest_with<S: Simd>(s: S, row: &[f32]) -> f32 {
    let mut tops = [s.splat(f32::NEG_INFINITY); 4];
    let step = 4 * S::LANES;
    let whole = row.len() / step * step;
    for i in (0..whole).step_by(step) {
        for (j, top) in tops.iter_mut().enumerate() {
            // The running maximum comes second: that is the one the instruction keeps when the other is NaN.
            // SAFETY: whole vectors lie within the row.
            *top = s.max(unsafe { s.load(row.as_ptr().add(i + j * S::LANES)) }, *top);
        }
    }
    let top = s.largest(s.max(s.max(tops[0], tops[1]), s.max(tops[2], tops[3])));
    row[whole..].iter().copied().fold(top, f32::max)
}

#[inline(always)]
unsafe fn log_sum_exp_with<S: Simd>(s: S, row: &[f32]) -> f32 {
    /// Values that are summed in f32 before the sum goes to f64.
    const RUN: usize = 4096;
    // SAFETY: vectors and parts of vectors lie within the row.
    unsafe {
        let top = largest_with(s, row);
        if top.is_infinite() {
            return top;
        }
        let shift = s.splat(top);
        let mut total = 0f64;
        for run in row.chunks(RUN) {
            let mut sums = [s.splat(0.0); 2];
            let whole = run.len() / (2 * S::LANES) * (2 * S::LANES);
            for i in (0..whole).step_by(2 * S::LANES) {
                for (j, sum) in sums.iter_mut().enumerate() {
                    let x = s.load(run.as_ptr().add(i + j * S::LANES));
                    *sum = s.add(*sum, exp(s, s.sub(x, shift)));
                }
            }
            total += f64::from(s.sum(s.add(sums[0], sums[1])));
            for x in &run[whole..] {
                total += f64::from(x - top).exp();
            }
        }
        (f64::from(top) + total.ln()) as f32
    }
}

#[inline(always)]
unsafe fn shares_with<S: Simd>(s: S, row: &mut [f32], top: f32, temperature: f32) {
    let whole = row.len() / S::LANES * S::LANES;
    let rest = row.len() - whole;
    let start = row.as_mut_ptr();
    // SAFETY: vectors and parts of vectors lie within the row.
    unsafe {
        for i in (0..whole).step_by(S::LANES) {
            s.store(start.add(i), share(s, s.load(start.add(i)), top, temperature));
        }
        if rest > 0 {
            let x = s.load_part(start.add(whole), rest);
            s.store_part(start.add(whole), share(s, x, top, temperature), rest);
        }
    }
}

#[inline(always)]
fn share<S: Simd>(s: S, x: S::V, top: f32, temperature: f32) -> S::V {
    /// A little more than the least that `exp` gives, so that this is taken for 0.
    const NOTHING: f32 = 2e-38;
    let e = exp(s, s.div(s.sub(x, s.splat(top)), s.splat(temperature)));
    s.max(s.sub(e, s.splat(NOTHING)), s.splat(0.0))
}

#[cfg(test)]
mod tests {
    use super::super::tests::noise;
    use super::*;

    #[test]
    fn log_sum_exp_matches_f64() {
        for count in [1, 2, 15, 16, 31, 33, 1000, 4097, 49_152, 151_936] {
            for factor in [0.0, 1.0, 10.0] {
                let row: Vec<f32> = noise(count).iter().map(|x| x * factor).collect();
                let top = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
                let sum: f64 = row.iter().map(|x| f64::from(x - top).exp()).sum();
                let expected = f64::from(top) + sum.ln();
                for level in Level::available() {
                    // SAFETY: the machine has the level.
                    let found = unsafe { log_sum_exp_of(level, &row) };
                    let error = (f64::from(found) - expected).abs();
                    assert!(error < 1e-6 * (1.0 + expected.abs()), "{level:?}, {count}: off by {error:e}");
                }
            }
        }
    }

    #[test]
    fn shares_match_f64() {
        for count in [1, 15, 16, 33, 49_152] {
            for temperature in [1e-40, 1e-6, 0.3, 1.0, 7.0] {
                let mut row: Vec<f32> = noise(count).iter().map(|x| (x * 30.0).min(40.0)).collect();
                row[count / 2] = f32::NEG_INFINITY;
                row[count - 1] = 40.0;
                let expected = |x: &f32| (f64::from(x - 40.0) / f64::from(temperature)).exp();
                for level in Level::available() {
                    let mut found = row.clone();
                    // SAFETY: the machine has the level.
                    unsafe { shares_of(level, &mut found, 40.0, temperature) };
                    for (x, found) in row.iter().zip(&found) {
                        let (expected, found) = (expected(x), f64::from(*found));
                        let error = (found - expected).abs();
                        // The argument itself is rounded to f32.
                        assert!(
                            error <= 1e-5 * expected + 1e-37,
                            "{level:?}, {temperature}: {found} for {expected}"
                        );
                    }
                    assert_eq!(found[count - 1], 1.0);
                    assert!(count == 1 || found[count / 2] == 0.0);
                }
            }
        }
    }

    #[test]
    fn edges() {
        assert_eq!(log_sum_exp(&[]), f32::NEG_INFINITY);
        assert_eq!(log_sum_exp(&[f32::NEG_INFINITY; 40]), f32::NEG_INFINITY);
        assert_eq!(log_sum_exp(&[5.0]), 5.0);
        assert_eq!(argmax(&[]), 0);
        let mut row = vec![1.0; 200];
        assert_eq!(argmax(&row), 0);
        for at in [199, 130, 64, 3] {
            row[at] = 2.0;
            assert_eq!(argmax(&row), at);
        }
        row[0] = f32::NAN;
        row[100] = f32::NAN;
        assert_eq!(argmax(&row), 3);
    }
}
