//! A number with its interval, and intervals of many numbers from the same resamples.
//!
//! Samples are drawn anew within each stratum (a benchmark's subset, a generator), as the benchmark was drawn, so the
//! parts keep their sizes and a mean over parts is resampled as it is computed.

use gradus_core::metrics::bootstrap::Settings;
use gradus_plot::Estimate;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

/// A number; `None` where it is not defined. Shares of 1, not percent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// The number.
    pub value: Option<f64>,
    /// Its 95 % bootstrap interval.
    pub interval: Option<(f64, f64)>,
}

impl Figure {
    /// A number without an interval.
    pub fn exactly(value: Option<f64>) -> Self {
        Self { value, interval: None }
    }

    /// For a chart, multiplied by `scale`.
    pub fn estimate(&self, scale: f64) -> Option<Estimate> {
        let interval = self.interval.map(|(low, high)| (scale * low, scale * high));
        self.value.map(|value| Estimate { value: scale * value, interval })
    }

    /// In percent: `74.1 (72.0–76.2)`; a dash where it is not defined.
    ///
    /// ```
    /// use gradus_bench::Figure;
    /// assert_eq!(Figure { value: Some(0.741), interval: Some((0.72, 0.7624)) }.percent(), "74.1 (72.0–76.2)");
    /// assert_eq!(Figure::default().percent(), "–");
    /// ```
    pub fn percent(&self) -> String {
        match (self.value, self.interval) {
            (Some(value), Some((low, high))) => {
                format!("{:.1} ({:.1}–{:.1})", 100.0 * value, 100.0 * low, 100.0 * high)
            }
            (Some(value), None) => format!("{:.1}", 100.0 * value),
            (None, _) => "–".to_owned(),
        }
    }
}

/// The values of several numbers over resamples of `strata`, those where a number is not defined left out.
pub(crate) fn resampled<T: Copy>(
    strata: &[Vec<T>],
    settings: &Settings,
    numbers: impl Fn(&[Vec<T>]) -> Vec<Option<f64>>,
) -> Vec<Vec<f64>> {
    let mut random = ChaCha8Rng::seed_from_u64(settings.seed);
    let mut drawn: Vec<Vec<T>> = strata.to_vec();
    let mut values: Vec<Vec<f64>> = Vec::new();
    for _ in 0..settings.resamples {
        for (drawn, stratum) in drawn.iter_mut().zip(strata) {
            for place in drawn {
                *place = stratum[(random.next_u64() % stratum.len() as u64) as usize];
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

/// Each of several numbers with its interval.
pub(crate) fn figures<T: Copy>(
    strata: &[Vec<T>],
    settings: &Settings,
    numbers: impl Fn(&[Vec<T>]) -> Vec<Option<f64>>,
) -> Vec<Figure> {
    let resampled = resampled(strata, settings, &numbers);
    let figure = |(value, mut values): (Option<f64>, Vec<f64>)| Figure {
        value,
        interval: value.and_then(|_| ends(&mut values, settings.confidence)),
    };
    let values = numbers(strata);
    // Without a resample there is no list of values.
    let resampled = resampled.into_iter().chain(std::iter::repeat_with(Vec::new));
    values.into_iter().zip(resampled).map(figure).collect()
}

/// The percentile interval of resampled values.
pub(crate) fn ends(values: &mut [f64], confidence: f64) -> Option<(f64, f64)> {
    values.sort_by(f64::total_cmp);
    let last = values.len().checked_sub(1)?;
    let at = |quantile: f64| values[(quantile * last as f64).round() as usize];
    let tail = (1.0 - confidence) / 2.0;
    Some((at(tail), at(1.0 - tail)))
}

/// How probable a difference at least this far from 0 is by chance: twice the smaller share of resampled differences on
/// either side of 0, each share with one added above and below so that it is never 0.
pub(crate) fn two_sided(differences: &[f64]) -> Option<f64> {
    if differences.is_empty() {
        return None;
    }
    let count = |keep: fn(&f64) -> bool| differences.iter().filter(|value| keep(value)).count();
    let fewer = count(|value| *value <= 0.0).min(count(|value| *value >= 0.0));
    Some((2.0 * (fewer + 1) as f64 / (differences.len() + 1) as f64).min(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn means(strata: &[Vec<f64>]) -> Vec<Option<f64>> {
        let mean = |stratum: &Vec<f64>| Some(stratum.iter().sum::<f64>() / stratum.len() as f64);
        strata.iter().map(mean).collect()
    }

    #[test]
    fn strata_are_drawn_apart() {
        let strata = vec![vec![0.0; 5], vec![1.0; 3], (0..400).map(|index| f64::from(index % 2)).collect()];
        let found = figures(&strata, &Settings::default(), means);
        assert_eq!(found[0], Figure { value: Some(0.0), interval: Some((0.0, 0.0)) });
        assert_eq!(found[1].interval, Some((1.0, 1.0)));
        let (low, high) = found[2].interval.unwrap();
        assert!((low - 0.451).abs() < 0.01 && (high - 0.549).abs() < 0.01, "{low} {high}");
        let none = Settings { resamples: 0, ..Settings::default() };
        assert_eq!(figures(&strata, &none, means)[1], Figure::exactly(Some(1.0)));
    }

    #[test]
    fn a_difference_on_one_side_of_zero_is_rarely_chance() {
        assert_eq!(two_sided(&vec![0.1; 999]), Some(0.002));
        assert_eq!(two_sided(&[-0.1, 0.1]), Some(1.0));
        assert_eq!(two_sided(&[]), None);
    }
}
