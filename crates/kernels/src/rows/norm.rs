//! RMS norm as in Hugging Face's `LlamaRMSNorm`, layer norm, and addition of residuals.
//!
//! rms:   y = x / √(mean(x²) + ε) · weight
//! layer: y = (x − mean(x)) / √(var(x) + ε) · weight + bias, with the variance over n

use super::share;
use crate::cpu::Level;
use crate::simd::{Simd, versions};

/// RMS norm of each row of `x`, rows as long as `weight`.
///
/// # Panics
/// When the lengths do not fit.
pub fn rms_norm(x: &[f32], weight: &[f32], eps: f32, out: &mut [f32]) {
    rms_norm_at(Level::current(), x, weight, eps, out);
}

fn rms_norm_at(level: Level, x: &[f32], weight: &[f32], eps: f32, out: &mut [f32]) {
    check(weight.len(), &[x.len(), out.len()]);
    share(out, weight.len(), |first, out| {
        let x = &x[first..first + out.len()];
        // SAFETY: the machine has the level; both are as long and made of whole rows.
        unsafe { rms_rows(level, x, weight, eps, out) }
    });
}

/// Layer norm of each row of `x`, rows as long as `weight` and `bias`.
///
/// # Panics
/// When the lengths do not fit.
pub fn layer_norm(x: &[f32], weight: &[f32], bias: &[f32], eps: f32, out: &mut [f32]) {
    layer_norm_at(Level::current(), x, weight, bias, eps, out);
}

fn layer_norm_at(level: Level, x: &[f32], weight: &[f32], bias: &[f32], eps: f32, out: &mut [f32]) {
    check(weight.len(), &[x.len(), out.len()]);
    assert_eq!(weight.len(), bias.len(), "weight and bias differ in length");
    share(out, weight.len(), |first, out| {
        let x = &x[first..first + out.len()];
        // SAFETY: the machine has the level; both are as long and made of whole rows.
        unsafe { layer_rows(level, x, weight, bias, eps, out) }
    });
}

/// `x += y`.
///
/// # Panics
/// When the lengths differ.
pub fn add(x: &mut [f32], y: &[f32]) {
    assert_eq!(x.len(), y.len(), "x and y differ in length");
    let level = Level::current();
    share(x, 1, |first, x| {
        let y = &y[first..first + x.len()];
        // SAFETY: the machine has the level; both are as long.
        unsafe { add_values(level, x, y) }
    });
}

/// `x += bias` for each row of `x`, rows as long as `bias`.
///
/// # Panics
/// When `x` is not made of whole rows.
pub fn add_bias(x: &mut [f32], bias: &[f32]) {
    check(bias.len(), &[x.len()]);
    let level = Level::current();
    share(x, bias.len(), |_, x| {
        for row in x.chunks_exact_mut(bias.len()) {
            // SAFETY: the machine has the level; a row is as long as the bias.
            unsafe { add_values(level, row, bias) }
        }
    });
}

pub(super) fn check(width: usize, lengths: &[usize]) {
    assert!(width > 0, "a norm over rows of no values");
    for length in lengths {
        assert_eq!(*length, lengths[0], "input and output differ in length");
        assert!(length.is_multiple_of(width), "{length} values are not whole rows of {width}");
    }
}

versions! { pub(crate) unsafe fn add_values(x: &mut [f32], y: &[f32]) = add_values_with; }
versions! { pub(crate) unsafe fn rms_rows(x: &[f32], weight: &[f32], eps: f32, out: &mut [f32]) = rms_rows_with; }
versions! {
    unsafe fn layer_rows(x: &[f32], weight: &[f32], bias: &[f32], eps: f32, out: &mut [f32]) = layer_rows_with;
}

#[inline(always)]
unsafe fn add_values_with<S: Simd>(s: S, x: &mut [f32], y: &[f32]) {
    let whole = x.len() / S::LANES * S::LANES;
    for i in (0..whole).step_by(S::LANES) {
        // SAFETY: whole vectors lie within both.
        unsafe {
            let (x, y) = (x.as_mut_ptr().add(i), y.as_ptr().add(i));
            s.store(x, s.add(s.load(x), s.load(y)));
        }
    }
    for i in whole..x.len() {
        x[i] += y[i];
    }
}

/// Σ (x − shift)² over a row. Four sums at once hide the latency of addition.
#[inline(always)]
pub(super) unsafe fn squares<S: Simd>(s: S, x: &[f32], shift: f32) -> f32 {
    let mut sums = [s.splat(0.0); 4];
    let shift_all = s.splat(shift);
    let step = 4 * S::LANES;
    let whole = x.len() / step * step;
    for i in (0..whole).step_by(step) {
        for (j, sum) in sums.iter_mut().enumerate() {
            // SAFETY: whole vectors lie within the row.
            let d = s.sub(unsafe { s.load(x.as_ptr().add(i + j * S::LANES)) }, shift_all);
            *sum = s.fma(d, d, *sum);
        }
    }
    let mut total = s.sum(s.add(s.add(sums[0], sums[1]), s.add(sums[2], sums[3])));
    for x in &x[whole..] {
        total += (x - shift) * (x - shift);
    }
    total
}

#[inline(always)]
unsafe fn rms_rows_with<S: Simd>(s: S, x: &[f32], weight: &[f32], eps: f32, out: &mut [f32]) {
    let width = weight.len();
    let whole = width / S::LANES * S::LANES;
    for (x, out) in x.chunks_exact(width).zip(out.chunks_exact_mut(width)) {
        // SAFETY: whole vectors lie within rows of `width`.
        unsafe {
            let factor = 1.0 / (squares(s, x, 0.0) / width as f32 + eps).sqrt();
            let all = s.splat(factor);
            for i in (0..whole).step_by(S::LANES) {
                let y = s.mul(s.mul(s.load(x.as_ptr().add(i)), all), s.load(weight.as_ptr().add(i)));
                s.store(out.as_mut_ptr().add(i), y);
            }
            for i in whole..width {
                out[i] = x[i] * factor * weight[i];
            }
        }
    }
}

#[inline(always)]
unsafe fn layer_rows_with<S: Simd>(s: S, x: &[f32], weight: &[f32], bias: &[f32], eps: f32, out: &mut [f32]) {
    let width = weight.len();
    let whole = width / S::LANES * S::LANES;
    for (x, out) in x.chunks_exact(width).zip(out.chunks_exact_mut(width)) {
        // SAFETY: whole vectors lie within rows of `width`.
        unsafe {
            let mut sum = s.splat(0.0);
            for i in (0..whole).step_by(S::LANES) {
                sum = s.add(sum, s.load(x.as_ptr().add(i)));
            }
            let mean = (s.sum(sum) + x[whole..].iter().sum::<f32>()) / width as f32;
            let factor = 1.0 / (squares(s, x, mean) / width as f32 + eps).sqrt();
            let (shift, all) = (s.splat(mean), s.splat(factor));
            for i in (0..whole).step_by(S::LANES) {
                let y = s.mul(s.sub(s.load(x.as_ptr().add(i)), shift), all);
                let y = s.fma(y, s.load(weight.as_ptr().add(i)), s.load(bias.as_ptr().add(i)));
                s.store(out.as_mut_ptr().add(i), y);
            }
            for i in whole..width {
                out[i] = (x[i] - mean) * factor * weight[i] + bias[i];
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{assert_close, noise};
    use super::*;

    fn rms(x: &[f32], weight: &[f32], eps: f64) -> Vec<f64> {
        let row = |x: &[f32]| {
            let mean = x.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>() / x.len() as f64;
            let factor = 1.0 / (mean + eps).sqrt();
            x.iter().zip(weight).map(|(x, w)| f64::from(*x) * factor * f64::from(*w)).collect::<Vec<_>>()
        };
        x.chunks(weight.len()).flat_map(row).collect()
    }

    fn layer(x: &[f32], weight: &[f32], bias: &[f32], eps: f64) -> Vec<f64> {
        let row = |x: &[f32]| {
            let n = x.len() as f64;
            let mean = x.iter().map(|x| f64::from(*x)).sum::<f64>() / n;
            let variance = x.iter().map(|x| (f64::from(*x) - mean).powi(2)).sum::<f64>() / n;
            let y = |i: usize| (f64::from(x[i]) - mean) / (variance + eps).sqrt();
            (0..x.len()).map(|i| y(i) * f64::from(weight[i]) + f64::from(bias[i])).collect::<Vec<_>>()
        };
        x.chunks(weight.len()).flat_map(row).collect()
    }

    #[test]
    fn norms_match_the_formulas() {
        for (rows, width) in [(1, 1), (3, 7), (5, 16), (4, 70), (2, 576), (300, 384), (40, 2050)] {
            let (x, weight, bias) = (noise(rows * width), noise(width), noise(width + 1)[1..].to_vec());
            for level in Level::available() {
                let what = format!("{level:?}, {rows} rows of {width}");
                let mut out = vec![0.0; x.len()];
                rms_norm_at(level, &x, &weight, 1e-5, &mut out);
                assert_close(&out, &rms(&x, &weight, 1e-5), 1e-6, &what);
                layer_norm_at(level, &x, &weight, &bias, 1e-5, &mut out);
                // A row of one value has no variance: what is left of it is the rounding of its mean.
                assert_close(&out, &layer(&x, &weight, &bias, 1e-5), 3e-6, &what);
            }
        }
    }

    #[test]
    fn addition_is_exact() {
        for count in [0, 1, 15, 33, 1 << 18] {
            let (mut x, y) = (noise(count), noise(count + 1)[1..].to_vec());
            let expected: Vec<f32> = x.iter().zip(&y).map(|(x, y)| x + y).collect();
            add(&mut x, &y);
            assert_eq!(x, expected);
        }
    }
}
