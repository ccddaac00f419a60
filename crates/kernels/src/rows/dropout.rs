//! Dropout (Srivastava et al. 2014) whose mask is a function of a seed and an index, so that the backward pass and
//! other devices repeat it instead of keeping it.

use super::share;
use crate::cpu::Level;
use crate::simd::{Simd, versions};

/// `out[i] = x[i] · 1/(1 − rate)` where value i is kept, else 0. The gradient is the same call on the gradient.
///
/// Value i is kept iff `hash(seed, i) ≥ ⌊rate · 2³²⌋`, in 32-bit arithmetic that wraps around:
///
/// ```text
/// mix(h):  h ^= h >> 16;  h *= 0x7feb352d;  h ^= h >> 15;  h *= 0x846ca68b;  h ^= h >> 16     (lowbias32)
/// key₀ = mix(low(seed) + 0x9e3779b9),  key₁ = mix(key₀ ^ high(seed))
/// hash(seed, i) = mix(mix(low(i) ^ key₀) + key₁ + high(i))
/// ```
///
/// with low and high the halves of 64 bits, the limit taken in f64 from the f32 rate, and 1/(1 − rate) rounded to f32.
///
/// # Panics
/// When the lengths differ, or the rate is not within 0 ≤ rate < 1.
pub fn dropout(x: &[f32], rate: f32, seed: u64, out: &mut [f32]) {
    dropout_at(Level::current(), x, rate, seed, out);
}

fn dropout_at(level: Level, x: &[f32], rate: f32, seed: u64, out: &mut [f32]) {
    assert_eq!(x.len(), out.len(), "x and out differ in length");
    assert!((0.0..1.0).contains(&rate), "a dropout rate of {rate}, expected 0 ≤ rate < 1");
    let keys = keys(seed);
    let limit = (f64::from(rate) * 4_294_967_296.0) as u32;
    let scale = 1.0 / (1.0 - rate);
    share(out, 1, |first, out| {
        let mut at = first;
        let mut rest = out;
        while !rest.is_empty() {
            // Runs end where the high half of the index changes, at the latest.
            let run = rest.len().min((1 << 32) - at % (1 << 32));
            let (now, after) = rest.split_at_mut(run);
            // SAFETY: the machine has the level; both are as long.
            unsafe { drop_run(level, &x[at..at + run], at as u64, keys, limit, scale, now) };
            at += run;
            rest = after;
        }
    });
}

fn keys(seed: u64) -> [u32; 2] {
    let first = mix((seed as u32).wrapping_add(0x9e37_79b9));
    [first, mix(first ^ (seed >> 32) as u32)]
}

/// Chris Wellons' lowbias32.
#[inline(always)]
fn mix(mut h: u32) -> u32 {
    h ^= h >> 16;
    h = h.wrapping_mul(0x7feb_352d);
    h ^= h >> 15;
    h = h.wrapping_mul(0x846c_a68b);
    h ^ (h >> 16)
}

versions! {
    unsafe fn drop_run(x: &[f32], first: u64, keys: [u32; 2], limit: u32, scale: f32, out: &mut [f32])
        = drop_run_with;
}

/// Integers only, which the compiler turns into vectors of the instruction set around.
#[inline(always)]
unsafe fn drop_run_with<S: Simd>(
    _: S,
    x: &[f32],
    first: u64,
    keys: [u32; 2],
    limit: u32,
    scale: f32,
    out: &mut [f32],
) {
    let (low, second) = (first as u32, keys[1].wrapping_add((first >> 32) as u32));
    for (i, (x, out)) in x.iter().zip(out).enumerate() {
        let hash = mix(mix(low.wrapping_add(i as u32) ^ keys[0]).wrapping_add(second));
        *out = if hash >= limit { x * scale } else { 0.0 };
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::noise;
    use super::*;

    /// The documented definition, one value at a time.
    fn hash(seed: u64, i: u64) -> u32 {
        let [first, second] = keys(seed);
        mix(mix(i as u32 ^ first).wrapping_add(second).wrapping_add((i >> 32) as u32))
    }

    fn kept(seed: u64, i: u64, rate: f32) -> bool {
        f64::from(hash(seed, i)) >= (f64::from(rate) * 4_294_967_296.0).floor()
    }

    #[test]
    fn every_level_follows_the_definition() {
        for count in [1, 17, 1000, 200_003] {
            let x = noise(count);
            for (rate, seed) in [(0.0, 1), (0.1, 2), (0.5, u64::MAX), (0.99, 1 << 32)] {
                let scale = 1.0 / (1.0 - rate);
                let expected: Vec<f32> =
                    (0..count).map(|i| if kept(seed, i as u64, rate) { x[i] * scale } else { 0.0 }).collect();
                for level in Level::available() {
                    let mut found = vec![7.0; count];
                    dropout_at(level, &x, rate, seed, &mut found);
                    assert_eq!(found, expected, "{level:?} {count} {rate}");
                }
            }
        }
    }

    /// These bits, from the definition written in Python, are a promise to other devices.
    #[test]
    fn the_hash_does_not_change() {
        let found = [(0, 0), (1, 0), (0x1234_5678_9abc_def0, 5), (7, (3 << 32) + 9)].map(|(s, i)| hash(s, i));
        assert_eq!(found, [0x7964_6377, 0x312e_c857, 0x91a0_cd4c, 0x9544_ce2f]);
    }

    /// A share of n values is off by a few times √(rate (1 − rate) / n); neighbors and seeds are independent.
    #[test]
    fn the_kept_share_is_right_and_seeds_differ() {
        let n = 1 << 20;
        let ones = vec![1.0; n];
        let mask = |seed| {
            let mut out = vec![0.0; n];
            dropout(&ones, 0.25, seed, &mut out);
            out.iter().map(|x| *x > 0.0).collect::<Vec<bool>>()
        };
        let share =
            |flags: &mut dyn Iterator<Item = bool>| flags.filter(|flag| *flag).count() as f64 / n as f64;
        let masks: Vec<Vec<bool>> = [0, 1, 2, 1 << 32, 3 << 40].map(mask).into();
        for (i, a) in masks.iter().enumerate() {
            assert!((share(&mut a.iter().copied()) - 0.75).abs() < 2.5e-3, "seed {i}");
            for lag in [1, 2, 64, 576] {
                let both = share(&mut a.iter().zip(&a[lag..]).map(|(a, b)| *a && *b));
                assert!((both - 0.5625).abs() < 3e-3, "seed {i}, lag {lag}: {both}");
            }
            for (j, b) in masks.iter().enumerate().skip(i + 1) {
                let both = share(&mut a.iter().zip(b).map(|(a, b)| *a && *b));
                assert!((both - 0.5625).abs() < 3e-3, "seeds {i} and {j}: {both}");
            }
        }
    }

    #[test]
    #[should_panic(expected = "a dropout rate of 1")]
    fn dropping_all_is_refused() {
        dropout(&[1.0], 1.0, 0, &mut [0.0]);
    }
}
