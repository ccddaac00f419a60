//! The gradient of y = silu(gate) · up, with σ = 1 / (1 + e^−gate):
//!
//! dgate = dy · up · σ · (1 + gate · (1 − σ)),  dup = dy · gate · σ

use super::rows_per_task;
use crate::cpu::Level;
use crate::exp::exp;
use crate::simd::{Simd, versions};
use rayon::prelude::*;

/// The gradients of [`silu_mul`](super::silu_mul), to `dgate` and `dup`.
///
/// # Panics
/// When the lengths differ.
pub fn silu_mul_backward(gate: &[f32], up: &[f32], dy: &[f32], dgate: &mut [f32], dup: &mut [f32]) {
    silu_mul_backward_at(Level::current(), gate, up, dy, dgate, dup);
}

fn silu_mul_backward_at(
    level: Level,
    gate: &[f32],
    up: &[f32],
    dy: &[f32],
    dgate: &mut [f32],
    dup: &mut [f32],
) {
    for (name, length) in [("up", up.len()), ("dy", dy.len()), ("dgate", dgate.len()), ("dup", dup.len())] {
        assert_eq!(gate.len(), length, "gate and {name} differ in length");
    }
    let step = rows_per_task(gate.len(), 1).unwrap_or(gate.len()).max(1);
    let values = |first: usize, dgate: &mut [f32], dup: &mut [f32]| {
        let here = first..first + dgate.len();
        // SAFETY: the machine has the level; all five are as long.
        unsafe { values(level, &gate[here.clone()], &up[here.clone()], &dy[here], dgate, dup) }
    };
    if step >= gate.len() {
        return values(0, dgate, dup);
    }
    let pieces = dgate.par_chunks_mut(step).zip(dup.par_chunks_mut(step)).enumerate();
    pieces.for_each(|(i, (dgate, dup))| values(i * step, dgate, dup));
}

versions! {
    unsafe fn values(gate: &[f32], up: &[f32], dy: &[f32], dgate: &mut [f32], dup: &mut [f32]) = values_with;
}

#[inline(always)]
unsafe fn values_with<S: Simd>(
    s: S,
    gate: &[f32],
    up: &[f32],
    dy: &[f32],
    dgate: &mut [f32],
    dup: &mut [f32],
) {
    let whole = gate.len() / S::LANES * S::LANES;
    let rest = gate.len() - whole;
    // SAFETY: vectors and parts of vectors lie within all five.
    unsafe {
        for i in (0..whole).step_by(S::LANES) {
            let (g, u, d) =
                (s.load(gate.as_ptr().add(i)), s.load(up.as_ptr().add(i)), s.load(dy.as_ptr().add(i)));
            let (to_gate, to_up) = one(s, g, u, d);
            s.store(dgate.as_mut_ptr().add(i), to_gate);
            s.store(dup.as_mut_ptr().add(i), to_up);
        }
        if rest > 0 {
            let (g, u, d) = (
                s.load_part(gate.as_ptr().add(whole), rest),
                s.load_part(up.as_ptr().add(whole), rest),
                s.load_part(dy.as_ptr().add(whole), rest),
            );
            let (to_gate, to_up) = one(s, g, u, d);
            s.store_part(dgate.as_mut_ptr().add(whole), to_gate, rest);
            s.store_part(dup.as_mut_ptr().add(whole), to_up, rest);
        }
    }
}

#[inline(always)]
fn one<S: Simd>(s: S, gate: S::V, up: S::V, dy: S::V) -> (S::V, S::V) {
    let ones = s.splat(1.0);
    let sigmoid = s.div(ones, s.add(ones, exp(s, s.sub(s.splat(0.0), gate))));
    let silu = s.mul(gate, sigmoid);
    // σ · (1 + gate · (1 − σ)) = σ + silu · (1 − σ)
    let derivative = s.fma(silu, s.sub(ones, sigmoid), sigmoid);
    (s.mul(s.mul(dy, up), derivative), s.mul(dy, silu))
}

#[cfg(test)]
mod tests {
    use super::super::tests::{assert_close, noise};
    use super::*;

    fn silu(x: f64) -> f64 {
        x / (1.0 + (-x).exp())
    }

    #[test]
    fn gradients_match_finite_differences() {
        let mut gate: Vec<f32> = (0..6001).map(|i| (i - 3000) as f32 / 100.0).collect();
        gate.extend([0.0, -0.0, 80.0, -80.0, 100.0, -100.0]);
        let (up, dy) = (noise(gate.len()), noise(gate.len() + 1)[1..].to_vec());
        let expected = |i: usize| {
            let (g, u, d) = (f64::from(gate[i]), f64::from(up[i]), f64::from(dy[i]));
            let step = 1e-5;
            (d * u * (silu(g + step) - silu(g - step)) / (2.0 * step), d * silu(g))
        };
        let (dgate, dup): (Vec<f64>, Vec<f64>) = (0..gate.len()).map(expected).unzip();
        for level in Level::available() {
            for count in [gate.len(), 1, 17] {
                let (mut found_gate, mut found_up) = (vec![7.0; count], vec![7.0; count]);
                silu_mul_backward_at(
                    level,
                    &gate[..count],
                    &up[..count],
                    &dy[..count],
                    &mut found_gate,
                    &mut found_up,
                );
                assert_close(&found_gate, &dgate[..count], 2e-6, &format!("{level:?} dgate"));
                assert_close(&found_up, &dup[..count], 2e-6, &format!("{level:?} dup"));
            }
        }
    }

    #[test]
    fn large_inputs_are_shared_without_a_trace() {
        let (gate, up, dy) = (noise(300_001), noise(300_002), noise(300_003));
        let (up, dy) = (&up[1..], &dy[2..]);
        let (mut whole, mut pieces) = ((gate.clone(), gate.clone()), (gate.clone(), gate.clone()));
        silu_mul_backward(&gate, up, dy, &mut whole.0, &mut whole.1);
        for first in (0..gate.len()).step_by(1000) {
            let here = first..(first + 1000).min(gate.len());
            let (dgate, dup) = (&mut pieces.0[here.clone()], &mut pieces.1[here.clone()]);
            silu_mul_backward(&gate[here.clone()], &up[here.clone()], &dy[here], dgate, dup);
        }
        assert_eq!(whole, pieces);
    }
}
