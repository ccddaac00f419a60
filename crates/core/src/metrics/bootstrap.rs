//! Percentile bootstrap: how far a number would move with other samples of the same kind.
//!
//! - [`resampled`]: several numbers over the same resamples, drawn within strata; what the others are made of
//! - [`interval`]: of any number of independent samples
//! - [`by_group`]: of samples that come in groups, such as the solutions of one problem; [`by_weight`], where weights will do
//! - [`paired`]: of the difference of two numbers over the same samples
//! - [`means`]: of many means over the same samples, fast
//!
//! All draw alike: with the same seed and as many samples (or groups) they see the same resamples. Intervals
//! are slightly narrow on few samples, as percentile intervals are: at 60, about 94 of 100 hold what 95 should.

use std::array::from_fn;

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
    let mut numbers = resampled(&[samples.to_vec()], settings, |strata| vec![number(&strata[0])]);
    numbers.pop().and_then(|mut numbers| percentiles(&mut numbers, settings.confidence))
}

/// The values of several numbers over resamples of `strata`: one list for each number, without the resamples on which
/// it is not defined. Samples are drawn within their stratum (a benchmark's subset, a generator), so strata keep their
/// sizes and a mean over them is resampled as it is computed. No lists without a sample.
///
/// ```
/// use gradus_core::metrics::bootstrap::{Settings, resampled};
/// let strata = [vec![0.0; 5], vec![1.0; 3]];
/// let sums = |strata: &[Vec<f64>]| strata.iter().map(|stratum| Some(stratum.iter().sum())).collect();
/// let found = resampled(&strata, &Settings { resamples: 2, ..Settings::default() }, sums);
/// assert_eq!(found, [[0.0, 0.0], [3.0, 3.0]]);
/// ```
pub fn resampled<T: Copy>(
    strata: &[Vec<T>],
    settings: &Settings,
    numbers: impl Fn(&[Vec<T>]) -> Vec<Option<f64>>,
) -> Vec<Vec<f64>> {
    let mut values: Vec<Vec<f64>> = Vec::new();
    if strata.iter().all(Vec::is_empty) {
        return values;
    }
    let mut random = ChaCha8Rng::seed_from_u64(settings.seed);
    let mut drawn = strata.to_vec();
    for _ in 0..settings.resamples {
        for (drawn, stratum) in drawn.iter_mut().zip(strata) {
            for place in drawn {
                *place = stratum[draw(&mut random, stratum.len())];
            }
        }
        let found = numbers(&drawn);
        values.resize_with(found.len(), Vec::new);
        for (values, number) in values.iter_mut().zip(found) {
            values.extend(number);
        }
    }
    values
}

/// The interval of `number` when samples come in groups that belong together, such as the solutions of one problem:
/// whole groups are drawn, and `number` sees their samples one after the other. Samples of a group are alike, so an
/// interval over the samples alone would be too narrow.
///
/// ```
/// use gradus_core::metrics::bootstrap::{Settings, by_group, interval};
/// let mean = |sample: &[f64]| Some(sample.iter().sum::<f64>() / sample.len() as f64);
/// let problems: Vec<Vec<f64>> = (0..40).map(|problem| vec![f64::from(problem % 2); 8]).collect();
/// let grouped = by_group(&problems, mean, &Settings::default()).unwrap();
/// let alone = interval(&problems.concat(), mean, &Settings::default()).unwrap();
/// assert!(grouped.high - grouped.low > 2.0 * (alone.high - alone.low));
/// ```
pub fn by_group<T: Copy>(
    groups: &[Vec<T>],
    number: impl Fn(&[T]) -> Option<f64>,
    settings: &Settings,
) -> Option<Interval> {
    if groups.is_empty() {
        return None;
    }
    let mut random = ChaCha8Rng::seed_from_u64(settings.seed);
    let mut resample = Vec::new();
    let mut numbers = Vec::with_capacity(settings.resamples);
    for _ in 0..settings.resamples {
        resample.clear();
        for _ in groups {
            resample.extend_from_slice(&groups[draw(&mut random, groups.len())]);
        }
        numbers.extend(number(&resample));
    }
    percentiles(&mut numbers, settings.confidence)
}

/// As [`by_group`], for a number that needs only how often each of `groups` was drawn: what is sorted once need not be sorted
/// for every resample.
///
/// ```
/// use gradus_core::metrics::bootstrap::{Settings, by_group, by_weight};
/// let problems = [vec![0.0, 1.0], vec![1.0, 1.0], vec![0.0, 0.0]];
/// let mean = |sample: &[f64]| Some(sample.iter().sum::<f64>() / sample.len() as f64);
/// let sums = [1.0, 2.0, 0.0];
/// let weighted =
///     |drawn: &[u32]| Some(drawn.iter().zip(sums).map(|(times, sum)| f64::from(*times) * sum).sum::<f64>() / 6.0);
/// let settings = Settings::default();
/// assert_eq!(by_weight(3, weighted, &settings), by_group(&problems, mean, &settings));
/// ```
pub fn by_weight(
    groups: usize,
    number: impl Fn(&[u32]) -> Option<f64>,
    settings: &Settings,
) -> Option<Interval> {
    if groups == 0 {
        return None;
    }
    let mut random = ChaCha8Rng::seed_from_u64(settings.seed);
    let mut drawn = vec![0; groups];
    let mut numbers = Vec::with_capacity(settings.resamples);
    for _ in 0..settings.resamples {
        drawn.fill(0);
        for _ in 0..groups {
            drawn[draw(&mut random, groups)] += 1;
        }
        numbers.extend(number(&drawn));
    }
    percentiles(&mut numbers, settings.confidence)
}

/// How two numbers over the same samples differ.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Paired {
    /// The first number minus the second.
    pub difference: f64,
    /// Of the difference.
    pub interval: Interval,
    /// Two-sided p-value of 'they do not differ'.
    pub p: f64,
}

/// The difference of `number` over `a` and over `b`, which hold the same samples in the same order (two judges, one
/// benchmark): each resample takes the same samples of both. None when the number is not defined on `a`, on `b`, or
/// on no resample of both. The p-value is [`two_sided`]'s.
///
/// ```
/// use gradus_core::metrics::bootstrap::{Settings, paired};
/// let mean = |sample: &[f64]| Some(sample.iter().sum::<f64>() / sample.len() as f64);
/// let (a, b) = ([1.0, 0.9, 0.8, 0.9, 0.4], [0.7, 0.5, 0.6, 0.8, 0.1]);
/// let found = paired(&a, &b, mean, &Settings::default()).unwrap();
/// assert!((found.difference - 0.26).abs() < 1e-12 && found.interval.low > 0.0 && found.p < 0.01);
/// ```
///
/// # Panics
///
/// When `a` and `b` are not equally long.
pub fn paired<T: Copy>(
    a: &[T],
    b: &[T],
    number: impl Fn(&[T]) -> Option<f64>,
    settings: &Settings,
) -> Option<Paired> {
    assert_eq!(a.len(), b.len(), "paired samples come in pairs");
    if a.is_empty() {
        return None;
    }
    let difference = number(a)? - number(b)?;
    let pairs: Vec<(T, T)> = a.iter().copied().zip(b.iter().copied()).collect();
    let mut differences = resampled(&[pairs], settings, |strata| {
        let (a, b): (Vec<T>, Vec<T>) = strata[0].iter().copied().unzip();
        vec![number(&a).zip(number(&b)).map(|(a, b)| a - b)]
    });
    let mut differences = differences.pop()?;
    let p = two_sided(&differences)?;
    Some(Paired { difference, interval: percentiles(&mut differences, settings.confidence)?, p })
}

/// How probable a difference this far from 0 is by chance, from resampled differences; none without any.
///
/// p = 2·min(share of differences ≤ 0, share ≥ 0), at most 1. Both shares are (count + 1)/(resamples + 1): the
/// samples themselves are one more draw, so p is never 0, and at least 2/(resamples + 1).
///
/// ```
/// use gradus_core::metrics::bootstrap::two_sided;
/// assert_eq!(two_sided(&vec![0.1; 999]), Some(0.002));
/// assert_eq!(two_sided(&[-0.1, 0.1]), Some(1.0));
/// ```
pub fn two_sided(differences: &[f64]) -> Option<f64> {
    let count = |keep: fn(&f64) -> bool| differences.iter().filter(|value| keep(value)).count();
    let fewer = count(|value| *value <= 0.0).min(count(|value| *value >= 0.0));
    let share = (fewer + 1) as f64 / (differences.len() + 1) as f64;
    (!differences.is_empty()).then(|| (2.0 * share).min(1.0))
}

/// One interval of the mean for each of `columns`: each holds one value per sample, all in the same order of
/// samples. None without samples.
///
/// The resamples are drawn once and shared by all columns, so intervals of two columns move together: compare
/// columns with [`paired`], not by whether their intervals overlap. Each interval equals, bit for bit, that of
/// [`interval`] over its column alone, in a small part of the time.
///
/// ```
/// use gradus_core::metrics::bootstrap::{Settings, means};
/// let found = means(&[&[0.0, 1.0, 0.0, 1.0], &[2.0, 2.0, 2.0, 2.0]], &Settings::default()).unwrap();
/// assert!(found[0].low < 0.5 && 0.5 < found[0].high);
/// assert_eq!((found[1].low, found[1].high), (2.0, 2.0));
/// ```
///
/// # Panics
///
/// When the columns are not equally long.
pub fn means(columns: &[&[f64]], settings: &Settings) -> Option<Vec<Interval>> {
    let count = columns.first().map_or(0, |column| column.len());
    assert!(columns.iter().all(|column| column.len() == count), "every column has a value for every sample");
    if count == 0 || settings.resamples == 0 {
        return None;
    }
    // Columns stand side by side in tiles of a few: their sums stay in registers, and a tile stays in the cache
    // while a block of resamples is read from it.
    let tiles: Vec<Vec<[f64; LANES]>> = columns
        .chunks(LANES)
        .map(|tile| {
            (0..count).map(|row| from_fn(|lane| tile.get(lane).map_or(0.0, |column| column[row]))).collect()
        })
        .collect();
    let mut random = ChaCha8Rng::seed_from_u64(settings.seed);
    let mut numbers = vec![Vec::with_capacity(settings.resamples); columns.len()];
    let mut drawn = Vec::new();
    for block in (0..settings.resamples).step_by(BLOCK) {
        let resamples = BLOCK.min(settings.resamples - block);
        drawn.clear();
        drawn.extend((0..resamples * count).map(|_| draw(&mut random, count)));
        for (tile, numbers) in tiles.iter().zip(numbers.chunks_mut(LANES)) {
            for resample in drawn.chunks_exact(count) {
                let sums = sums(tile, resample);
                for (numbers, sum) in numbers.iter_mut().zip(sums) {
                    numbers.push(sum / count as f64);
                }
            }
        }
    }
    numbers.into_iter().map(|mut numbers| percentiles(&mut numbers, settings.confidence)).collect()
}

const LANES: usize = 16;
const BLOCK: usize = 64;

fn sums(rows: &[[f64; LANES]], indices: &[usize]) -> [f64; LANES] {
    let mut sums = [0.0; LANES];
    for &index in indices {
        for (sum, value) in sums.iter_mut().zip(&rows[index]) {
            *sum += value;
        }
    }
    sums
}

/// Over `next_u64`, so that a seed gives the same interval with every version of `rand`.
fn draw(random: &mut ChaCha8Rng, count: usize) -> usize {
    (random.next_u64() % count as u64) as usize
}

/// The middle `confidence` of resampled numbers, which are sorted for it; none without any.
pub fn percentiles(numbers: &mut [f64], confidence: f64) -> Option<Interval> {
    numbers.sort_unstable_by(f64::total_cmp);
    let last = numbers.len().checked_sub(1)?;
    let at = |quantile: f64| numbers[(quantile * last as f64).round() as usize];
    let tail = (1.0 - confidence) / 2.0;
    Some(Interval { low: at(tail), high: at(1.0 - tail), resamples: numbers.len() })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

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
    #[test]
    fn a_pair_with_itself_does_not_differ() {
        let found = paired(&[0.2, 0.9, 0.4], &[0.2, 0.9, 0.4], mean, &Settings::default()).unwrap();
        assert_eq!(
            (found.difference, found.interval.low, found.interval.high, found.p),
            (0.0, 0.0, 0.0, 1.0)
        );
        assert_eq!(paired(&[], &[], mean, &Settings::default()), None);
        assert_eq!(paired(&[1.0], &[2.0], |_| None, &Settings::default()), None);
    }

    #[test]
    fn p_is_never_zero() {
        let found = paired(&[2.0; 9], &[1.0; 9], mean, &Settings::default()).unwrap();
        assert_eq!(found.p, 2.0 / 1001.0);
    }

    #[test]
    fn a_difference_is_surer_than_its_parts() {
        // One judge is better by a little everywhere, while samples differ a lot.
        let a: Vec<f64> = (0..50).map(f64::from).collect();
        let b: Vec<f64> = a.iter().map(|value| value - 0.5 - 0.001 * value).collect();
        let found = paired(&a, &b, mean, &Settings::default()).unwrap();
        let alone = interval(&a, mean, &Settings::default()).unwrap();
        assert!(found.interval.high - found.interval.low < 0.01 * (alone.high - alone.low), "{found:?}");
    }

    #[test]
    fn no_column_and_no_sample_no_mean() {
        assert_eq!(means(&[], &Settings::default()), None);
        assert_eq!(means(&[&[], &[]], &Settings::default()), None);
        let unasked = |_: &[f64]| -> Option<f64> { panic!("there is nothing to ask for") };
        assert_eq!(interval(&[], unasked, &Settings::default()), None);
        assert_eq!(by_group(&[], unasked, &Settings::default()), None);
    }

    proptest! {
        #[test]
        fn columns_together_are_columns_alone(
            columns in (1usize..40, 1usize..12).prop_flat_map(|(columns, rows)| {
                prop::collection::vec(prop::collection::vec(-9.0..9.0f64, rows), columns)
            }),
            resamples in 1usize..150,
            seed in any::<u64>(),
        ) {
            let settings = Settings { resamples, seed, ..Settings::default() };
            let borrowed: Vec<&[f64]> = columns.iter().map(Vec::as_slice).collect();
            let found = means(&borrowed, &settings).unwrap();
            prop_assert_eq!(found.len(), columns.len());
            for (column, found) in columns.iter().zip(found) {
                prop_assert_eq!(interval(column, mean, &settings), Some(found));
            }
        }

        #[test]
        fn groups_of_one_are_samples(samples in prop::collection::vec(-9.0..9.0f64, 1..12), seed in any::<u64>()) {
            let settings = Settings { resamples: 50, seed, ..Settings::default() };
            let groups: Vec<Vec<f64>> = samples.iter().map(|sample| vec![*sample]).collect();
            prop_assert_eq!(by_group(&groups, mean, &settings), interval(&samples, mean, &settings));
        }

        #[test]
        fn turning_a_pair_turns_the_difference(
            pairs in prop::collection::vec((-9.0..9.0f64, -9.0..9.0f64), 1..12),
            seed in any::<u64>(),
        ) {
            let settings = Settings { resamples: 50, seed, ..Settings::default() };
            let (a, b): (Vec<f64>, Vec<f64>) = pairs.into_iter().unzip();
            let there = paired(&a, &b, mean, &settings).unwrap();
            let back = paired(&b, &a, mean, &settings).unwrap();
            prop_assert_eq!((there.difference, there.p), (-back.difference, back.p));
            prop_assert!(0.0 < there.p && there.p <= 1.0);
        }
    }
}
