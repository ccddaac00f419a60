//! SiLU with a gate, and GELU in its exact form (Hendrycks and Gimpel 2016, arXiv:1606.08415).
//!
//! silu_mul:  gate / (1 + e^−gate) · up
//! gelu:      x / 2 · (1 + erf(x / √2))

use super::share;
use crate::cpu::Level;
use crate::exp::exp;
use crate::simd::{Simd, versions};

/// silu(gate) · up, value by value.
///
/// # Panics
/// When the lengths differ.
pub fn silu_mul(gate: &[f32], up: &[f32], out: &mut [f32]) {
    silu_mul_at(Level::current(), gate, up, out);
}

fn silu_mul_at(level: Level, gate: &[f32], up: &[f32], out: &mut [f32]) {
    assert_eq!(gate.len(), up.len(), "gate and up differ in length");
    assert_eq!(gate.len(), out.len(), "gate and out differ in length");
    share(out, 1, |first, out| {
        let last = first + out.len();
        // SAFETY: the machine has the level; all three are as long.
        unsafe { silu_values(level, gate[first..last].as_ptr(), &up[first..last], out.as_mut_ptr()) }
    });
}

/// [`silu_mul`], written over the gate.
///
/// # Panics
/// When the lengths differ.
pub fn silu_mul_in_place(gate: &mut [f32], up: &[f32]) {
    assert_eq!(gate.len(), up.len(), "gate and up differ in length");
    let level = Level::current();
    share(gate, 1, |first, gate| {
        let (at, up) = (gate.as_mut_ptr(), &up[first..first + gate.len()]);
        // SAFETY: the machine has the level; both are as long, and a value is read before it is written.
        unsafe { silu_values(level, at, up, at) }
    });
}

/// GELU with the error function, in place.
pub fn gelu(x: &mut [f32]) {
    let level = Level::current();
    // SAFETY: the machine has the level.
    share(x, 1, |_, x| unsafe { gelu_values(level, x) });
}

versions! { pub(crate) unsafe fn silu_values(gate: *const f32, up: &[f32], out: *mut f32) = silu_values_with; }
versions! { pub(crate) unsafe fn gelu_values(x: &mut [f32]) = gelu_values_with; }

#[inline(always)]
unsafe fn silu_values_with<S: Simd>(s: S, gate: *const f32, up: &[f32], out: *mut f32) {
    let whole = up.len() / S::LANES * S::LANES;
    let rest = up.len() - whole;
    // SAFETY: vectors and parts of vectors lie within all three; the gate may be where the output goes.
    unsafe {
        for i in (0..whole).step_by(S::LANES) {
            let (g, u) = (s.load(gate.add(i)), s.load(up.as_ptr().add(i)));
            s.store(out.add(i), s.mul(times_sigmoid(s, g, g), u));
        }
        if rest > 0 {
            let (g, u) = (s.load_part(gate.add(whole), rest), s.load_part(up.as_ptr().add(whole), rest));
            s.store_part(out.add(whole), s.mul(times_sigmoid(s, g, g), u), rest);
        }
    }
}

/// x / (1 + e^−z)
#[inline(always)]
fn times_sigmoid<S: Simd>(s: S, x: S::V, z: S::V) -> S::V {
    s.div(x, s.add(s.splat(1.0), exp(s, s.sub(s.splat(0.0), z))))
}

#[inline(always)]
unsafe fn gelu_values_with<S: Simd>(s: S, x: &mut [f32]) {
    let whole = x.len() / S::LANES * S::LANES;
    let rest = x.len() - whole;
    let x = x.as_mut_ptr();
    // SAFETY: vectors and parts of vectors lie within the slice.
    unsafe {
        for i in (0..whole).step_by(S::LANES) {
            s.store(x.add(i), gelu_one(s, s.load(x.add(i))));
        }
        if rest > 0 {
            s.store_part(x.add(whole), gelu_one(s, s.load_part(x.add(whole), rest)), rest);
        }
    }
}

/// max(x, 0) − |x| · erfc(|x| / √2) / 2, which keeps its precision where the result vanishes.
#[inline(always)]
fn gelu_one<S: Simd>(s: S, x: S::V) -> S::V {
    let zero = s.splat(0.0);
    let size = s.max(x, s.sub(zero, x));
    let tail = erfc(s, s.mul(size, s.splat(std::f32::consts::FRAC_1_SQRT_2)));
    s.sub(s.max(x, zero), s.mul(s.mul(size, s.splat(0.5)), tail))
}

/// 1 − erf(z) for z ≥ 0: the Chebyshev fit of Numerical Recipes (`erfcc`), good to 1.2·10⁻⁷ of the result, in f32 somewhat
/// less where that is tiny.
#[inline(always)]
fn erfc<S: Simd>(s: S, z: S::V) -> S::V {
    const FIT: [f32; 9] = [
        -0.822_152_2, 1.488_515_9, -1.135_204, 0.278_868_08, -0.186_288_06, 0.096_784_18, 0.374_091_96,
        1.000_023_7, -1.265_512_2,
    ];
    let t = s.div(s.splat(1.0), s.fma(z, s.splat(0.5), s.splat(1.0)));
    let mut fit = s.splat(0.170_872_77);
    for c in &FIT {
        fit = s.fma(fit, t, s.splat(*c));
    }
    s.mul(t, exp(s, s.sub(fit, s.mul(z, z))))
}

#[cfg(test)]
mod tests {
    use super::super::tests::{assert_close, noise};
    use super::*;

    /// By its series, which converges everywhere and is exact to 10⁻⁹ on ±4.
    fn erf_exactly(x: f64) -> f64 {
        if x.abs() > 4.5 {
            return x.signum();
        }
        let (mut term, mut sum) = (x, x);
        for n in 1..200 {
            term *= -x * x / f64::from(n);
            sum += term / f64::from(2 * n + 1);
        }
        sum * std::f64::consts::FRAC_2_SQRT_PI
    }

    fn inputs() -> Vec<f32> {
        let mut x: Vec<f32> = (0..20_001).map(|i| (i - 10_000) as f32 / 1000.0).collect();
        x.extend([0.0, -0.0, 50.0, -50.0, 100.0, -100.0, 1e30, -1e30]);
        x
    }

    #[test]
    fn activations_match_the_formulas() {
        let x = inputs();
        let up = noise(x.len());
        let formulas = |f: &dyn Fn(f64) -> f64| x.iter().map(|x| f(f64::from(*x))).collect::<Vec<_>>();
        let exact = formulas(&|x| x / 2.0 * (1.0 + erf_exactly(x * std::f64::consts::FRAC_1_SQRT_2)));
        let silu: Vec<f64> = x
            .iter()
            .zip(&up)
            .map(|(x, up)| f64::from(*x) / (1.0 + (-f64::from(*x)).exp()) * f64::from(*up))
            .collect();
        for level in Level::available() {
            for count in [x.len(), 1, 17] {
                let mut found = x[..count].to_vec();
                // SAFETY: the machine has the level.
                unsafe { gelu_values(level, &mut found) };
                assert_close(&found, &exact[..count], 5e-7, &format!("{level:?} gelu"));
                let mut found = vec![0.0; count];
                silu_mul_at(level, &x[..count], &up[..count], &mut found);
                if level == Level::current() {
                    let mut over = x[..count].to_vec();
                    silu_mul_in_place(&mut over, &up[..count]);
                    assert_eq!(over, found);
                }
                assert_close(&found, &silu[..count], 5e-7, &format!("{level:?} silu"));
            }
        }
    }

    #[test]
    fn large_inputs_are_shared_without_a_trace() {
        let x = noise(300_001);
        let (mut whole, mut pieces) = (x.clone(), x);
        gelu(&mut whole);
        pieces.chunks_mut(1000).for_each(gelu);
        assert_eq!(whole, pieces);
    }
}
