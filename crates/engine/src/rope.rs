//! Rotary position embedding: cosines and sines of the positions in a batch.
//!
//! Frequencies are θ^(−2i/d), stretched as [`RopeScaling`] says. Formulas follow transformers' `modeling_rope_utils.py`, which
//! checkpoints are trained with, and so do the roundings: frequencies and angles are f32. At position 32,768 that moves an
//! angle by up to 0.003, and a model has learned it so.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::f64::consts::PI;

use crate::config::{Rope, RopeScaling};

/// Inverse frequencies for each pair of dimensions, and the factor of cosines and sines.
pub(crate) fn frequencies(rope: &Rope, head_dim: usize) -> (Vec<f32>, f64) {
    let dim = head_dim as f64;
    let plain = (0..head_dim / 2).map(|pair| {
        let exponent = 2.0 * pair as f32 / head_dim as f32;
        f64::from(1.0 / rope.theta.powf(f64::from(exponent)) as f32)
    });
    let (stretched, factor): (Vec<f64>, f64) = match &rope.scaling {
        RopeScaling::None => (plain.collect(), 1.0),
        RopeScaling::Linear { factor } => (plain.map(|f| f / factor).collect(), 1.0),
        RopeScaling::Divisors(by) => (plain.zip(by).map(|(f, by)| f / f64::from(*by)).collect(), 1.0),
        RopeScaling::Llama3 { factor, low, high, original } => {
            let stretched = plain.map(|f| {
                let turns = original * f / (2.0 * PI);
                let share = ((turns - low) / (high - low)).clamp(0.0, 1.0);
                (1.0 - share) * f / factor + share * f
            });
            (stretched.collect(), 1.0)
        }
        RopeScaling::Yarn { factor, beta_fast, beta_slow, original, attention, truncate } => {
            // The (fractional) dimension that makes `turns` turns over the original context.
            let dimension = |turns: f64| dim * (original / (turns * 2.0 * PI)).ln() / (2.0 * rope.theta.ln());
            let (low, high) = (dimension(*beta_fast), dimension(*beta_slow));
            let (low, high) = if *truncate { (low.floor(), high.ceil()) } else { (low, high) };
            let (low, high) = (low.max(0.0), high.min(dim - 1.0));
            let width = if high > low { high - low } else { 0.001 };
            let stretched = plain.enumerate().map(|(pair, f)| {
                let share = ((pair as f64 - low) / width).clamp(0.0, 1.0);
                share * f / factor + (1.0 - share) * f
            });
            let default = if *factor > 1.0 { 0.1 * factor.ln() + 1.0 } else { 1.0 };
            (stretched.collect(), attention.unwrap_or(default))
        }
    };
    (stretched.into_iter().map(|frequency| frequency as f32).collect(), factor)
}

/// Cosines and sines of `positions`, `[positions, head_dim / 2]` each.
pub(crate) fn angles(frequencies: &(Vec<f32>, f64), positions: &[u32]) -> (Vec<f32>, Vec<f32>) {
    let (inverse, factor) = frequencies;
    let (mut cosines, mut sines) = (Vec::new(), Vec::new());
    // Sequences of a batch have most positions in common, and cosines are dear.
    let mut known: HashMap<u32, usize> = HashMap::new();
    for (row, position) in positions.iter().enumerate() {
        match known.entry(*position) {
            Entry::Occupied(first) => {
                let start = first.get() * inverse.len();
                cosines.extend_from_within(start..start + inverse.len());
                sines.extend_from_within(start..start + inverse.len());
            }
            Entry::Vacant(entry) => {
                entry.insert(row);
                let angles = inverse.iter().map(|frequency| f64::from(*position as f32 * frequency));
                cosines.extend(angles.clone().map(|angle| (angle.cos() * factor) as f32));
                sines.extend(angles.map(|angle| (angle.sin() * factor) as f32));
            }
        }
    }
    (cosines, sines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_has_the_same_angles_wherever_it_is() {
        let frequencies = frequencies(&Rope { theta: 10_000.0, scaling: RopeScaling::None }, 4);
        let (cosines, sines) = angles(&frequencies, &[0, 3, 0, 3]);
        assert_eq!(cosines[..4], [1.0, 1.0, 3f64.cos() as f32, f64::from(3.0 * 0.01f32).cos() as f32]);
        assert_eq!((&cosines[..4], &sines[..4]), (&cosines[4..], &sines[4..]));
    }

    #[test]
    fn plain_frequencies_fall_from_one() {
        let (inverse, factor) = frequencies(&Rope { theta: 10_000.0, scaling: RopeScaling::None }, 4);
        assert_eq!((inverse, factor), (vec![1.0, 0.01], 1.0));
    }

    #[test]
    fn llama3_leaves_high_frequencies_and_divides_low_ones() {
        let scaling = RopeScaling::Llama3 { factor: 8.0, low: 1.0, high: 4.0, original: 8192.0 };
        let rope = Rope { theta: 500_000.0, scaling };
        let plain = Rope { scaling: RopeScaling::None, ..rope.clone() };
        let (stretched, _) = frequencies(&rope, 128);
        let (original, _) = frequencies(&plain, 128);
        assert_eq!(stretched[0], original[0]);
        assert_eq!(stretched[63] * 8.0, original[63]);
    }
}
