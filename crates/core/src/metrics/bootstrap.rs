//! Percentile bootstrap: how far a number would move with other samples of the same kind.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

/// An interval that holds the number with the asked-for confidence.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Resamples on which the number was defined.
    pub resamples: usize,
}

/// How to draw.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// How many resamples.
    pub resamples: usize,
    /// The share of resamples inside the interval.
    pub confidence: f64,
    /// Same seed, same interval.
    pub seed: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self { resamples: 1000, confidence: 0.95, seed: 0 }
    }
}

/// The interval of `number` over resamples of `samples`. None when there is no sample, or the number is defined on
/// no resample; a resample on which it is not (a class is missing) is left out and shows in the count.
///
/// ```
/// use gradus_core::metrics::bootstrap::{Settings, interval};
/// let mean = |sample: &[f64]| Some(sample.iter().sum::<f64>() / sample.len() as f64);
/// let found = interval(&[0.0, 1.0, 0.0, 1.0], mean, &Settings::default()).unwrap();
/// assert!(found.low < 0.5 && 0.5 < found.high);
/// ```
pub fn interval<T: Copy>(
    samples: &[T],
    number: impl Fn(&[T]) -> Option<f64>,
    settings: &Settings,
) -> Option<Interval> {
    if samples.is_empty() {
        return None;
    }
    let mut random = ChaCha8Rng::seed_from_u64(settings.seed);
    let mut resample = Vec::with_capacity(samples.len());
    let mut numbers = Vec::with_capacity(settings.resamples);
    for _ in 0..settings.resamples {
        resample.clear();
        // Over `next_u64`, so that a seed gives the same interval with every version of `rand`.
        resample
            .extend((0..samples.len()).map(|_| samples[(random.next_u64() % samples.len() as u64) as usize]));
        numbers.extend(number(&resample));
    }
    numbers.sort_by(f64::total_cmp);
    let last = numbers.len().checked_sub(1)?;
    let at = |quantile: f64| numbers[(quantile * last as f64).round() as usize];
    let tail = (1.0 - settings.confidence) / 2.0;
    Some(Interval { low: at(tail), high: at(1.0 - tail), resamples: numbers.len() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mean(sample: &[f64]) -> Option<f64> {
        Some(sample.iter().sum::<f64>() / sample.len() as f64)
    }

    #[test]
    fn as_wide_as_theory_says() {
        // 400 coin flips: the standard error is 0.025, so 95 % are within 0.049.
        let flips: Vec<f64> = (0..400).map(|index| f64::from(index % 2)).collect();
        let found = interval(&flips, mean, &Settings::default()).unwrap();
        assert!((found.low - 0.451).abs() < 0.01 && (found.high - 0.549).abs() < 0.01, "{found:?}");
        assert_eq!(interval(&flips, mean, &Settings::default()), Some(found));
    }

    #[test]
    fn without_numbers_no_interval() {
        assert_eq!(interval(&[], mean, &Settings::default()), None);
        assert_eq!(interval(&[1.0], |_| None, &Settings::default()), None);
        let one = interval(&[1.0], mean, &Settings::default()).unwrap();
        assert_eq!((one.low, one.high, one.resamples), (1.0, 1.0, 1000));
    }
}
