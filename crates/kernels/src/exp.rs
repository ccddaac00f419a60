//! Exponentials over vectors, to within 2·10⁻⁷ of the true value.
//!
//! The argument is cut into a whole power of two and a rest in ±½ (±ln 2 / 2), whose power is a polynomial
//! of degree six that interpolates (2ᶠ − 1) / f at Chebyshev points, so that the power of 0 is exactly 1.
//! What `exp2` makes smaller than 2⁻¹²⁶ may be zero.

use crate::simd::Simd;

/// 2ᵗ for t ≤ 127, and 0 for t = −∞.
#[inline(always)]
pub(crate) fn exp2<S: Simd>(s: S, t: S::V) -> S::V {
    const POLYNOMIAL: [f32; 6] =
        [std::f32::consts::LN_2, 0.240_226_5, 0.055_503_57, 0.009_618_083, 0.001_339_086_3, 0.000_154_531_63];
    let (whole, rest) = s.split(t);
    s.times_power(polynomial(s, rest, POLYNOMIAL), whole)
}

/// eˣ for x within ±87, and e^±87 beyond: underflow would take the processor's slow path.
#[inline(always)]
pub(crate) fn exp<S: Simd>(s: S, x: S::V) -> S::V {
    const POLYNOMIAL: [f32; 6] = [1.0, 0.5, 0.166_665_05, 0.041_666_467, 0.008_369_15, 0.001_393_364_3];
    // ln 2 in two parts: the first has few enough bits that its product with a whole number is exact.
    const LN2_HIGH: f32 = 0.693_359_4;
    const LN2_LOW: f32 = -2.121_944_4e-4;
    let x = s.max(s.min(x, s.splat(87.0)), s.splat(-87.0));
    let whole = s.round(s.mul(x, s.splat(std::f32::consts::LOG2_E)));
    let rest = s.fma(whole, s.splat(-LN2_HIGH), x);
    let rest = s.fma(whole, s.splat(-LN2_LOW), rest);
    s.times_power(polynomial(s, rest, POLYNOMIAL), whole)
}

/// 1 + c₀x + c₁x² + …
#[inline(always)]
fn polynomial<S: Simd>(s: S, x: S::V, c: [f32; 6]) -> S::V {
    let mut p = s.splat(c[5]);
    p = s.fma(p, x, s.splat(c[4]));
    p = s.fma(p, x, s.splat(c[3]));
    p = s.fma(p, x, s.splat(c[2]));
    p = s.fma(p, x, s.splat(c[1]));
    p = s.fma(p, x, s.splat(c[0]));
    s.fma(p, x, s.splat(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::Level;
    use crate::simd::versions;

    #[inline(always)]
    unsafe fn both_of<S: Simd>(s: S, x: &[f32], two: &mut [f32], e: &mut [f32]) {
        for i in (0..x.len()).step_by(S::LANES) {
            // SAFETY: the three slices are equally long, a multiple of the lanes.
            unsafe {
                let v = s.load(x.as_ptr().add(i));
                s.store(two.as_mut_ptr().add(i), exp2(s, v));
                s.store(e.as_mut_ptr().add(i), exp(s, v));
            }
        }
    }
    versions! { unsafe fn both(x: &[f32], two: &mut [f32], e: &mut [f32]) = both_of; }

    #[test]
    fn relative_error_is_below_two_in_ten_million() {
        let x: Vec<f32> = (0..1 << 20).map(|i| -87.0 + 174.0 * i as f32 / (1 << 20) as f32).collect();
        for level in Level::available() {
            let (mut two, mut e) = (x.clone(), x.clone());
            // SAFETY: the level is available; the slices are equally long, a multiple of sixteen.
            unsafe { both(level, &x, &mut two, &mut e) };
            let worst = |y: &[f32], f: fn(f64) -> f64| {
                x.iter()
                    .zip(y)
                    .map(|(&x, &y)| (f64::from(y) / f(f64::from(x)) - 1.0).abs())
                    .fold(0.0, f64::max)
            };
            let (two, e) = (worst(&two, f64::exp2), worst(&e, f64::exp));
            assert!(two < 2e-7 && e < 2e-7, "{level:?}: 2^t off by {two:e}, e^x off by {e:e}");
        }
    }

    #[test]
    fn edges_are_exact() {
        let x = [0.0, f32::NEG_INFINITY, -200.0, -1e30, 1.0, -126.0, -150.0, 10.0].repeat(2);
        for level in Level::available() {
            let (mut two, mut e) = (x.clone(), x.clone());
            // SAFETY: the level is available; the slices are sixteen long.
            unsafe { both(level, &x, &mut two, &mut e) };
            assert_eq!(two[..6], [1.0, 0.0, 0.0, 0.0, 2.0, f32::MIN_POSITIVE], "{level:?}");
            assert_eq!(e[0], 1.0, "{level:?}");
            assert!(e[1..4].iter().all(|e| *e < 2e-38), "{level:?}");
        }
    }
}
