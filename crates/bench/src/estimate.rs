//! A metric's estimate with its interval, and intervals of many metrics from the same resamples.

use gradus_core::metrics::bootstrap::{Settings, percentiles, resampled};
use gradus_plot::Estimate;
use serde::{Deserialize, Serialize};

/// A metric's value, a share of 1; `None` where it is not defined.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct MetricEstimate {
    /// The value.
    pub value: Option<f64>,
    /// Its 95 % bootstrap interval.
    pub interval: Option<(f64, f64)>,
}

impl MetricEstimate {
    /// A value without an interval.
    pub(crate) fn exactly(value: Option<f64>) -> Self {
        Self { value, interval: None }
    }

    /// For a chart, multiplied by `scale`.
    pub(crate) fn for_chart(&self, scale: f64) -> Option<Estimate> {
        let interval = self.interval.map(|(low, high)| (scale * low, scale * high));
        self.value.map(|value| Estimate { value: scale * value, interval })
    }

    /// In percent: `74.1 (72.0–76.2)`; a dash where it is not defined.
    ///
    /// ```
    /// use gradus_bench::MetricEstimate;
    /// assert_eq!(MetricEstimate { value: Some(0.741), interval: Some((0.72, 0.7624)) }.percent(), "74.1 (72.0–76.2)");
    /// assert_eq!(MetricEstimate::default().percent(), "–");
    /// ```
    pub fn percent(&self) -> String {
        self.written("–", |share| format!("{:.1}", 100.0 * share))
    }

    /// A difference, in percent: `+1.3 (-0.4 to +3.0)`; a dash where it is not defined.
    ///
    /// ```
    /// use gradus_bench::MetricEstimate;
    /// assert_eq!(MetricEstimate { value: Some(0.013), interval: Some((-0.004, 0.03)) }.signed(), "+1.3 (-0.4 to +3.0)");
    /// ```
    pub fn signed(&self) -> String {
        self.written(" to ", |share| format!("{:+.1}", 100.0 * share))
    }

    /// As it is: `0.741 (0.720–0.762)`; a dash where it is not defined.
    ///
    /// ```
    /// use gradus_bench::MetricEstimate;
    /// assert_eq!(MetricEstimate { value: Some(0.741), interval: Some((0.72, 0.7624)) }.decimal(), "0.741 (0.720–0.762)");
    /// ```
    pub fn decimal(&self) -> String {
        self.written("–", |value| format!("{value:.3}"))
    }

    fn written(&self, between: &str, number: fn(f64) -> String) -> String {
        let Some(value) = self.value else { return "–".to_owned() };
        let value = number(value);
        match self.interval {
            Some((low, high)) => {
                format!("{value} ({}{between}{})", number(low), number(high))
            }
            None => value,
        }
    }
}

/// Each of several metrics with its interval.
pub(crate) fn estimates<T: Copy>(
    strata: &[Vec<T>],
    settings: &Settings,
    numbers: impl Fn(&[Vec<T>]) -> Vec<Option<f64>>,
) -> Vec<MetricEstimate> {
    let resampled = resampled(strata, settings, &numbers);
    let estimate = |(value, mut values): (Option<f64>, Vec<f64>)| MetricEstimate {
        value,
        interval: value.and_then(|_| ends(&mut values, settings)),
    };
    let values = numbers(strata);
    // Without a resample there is no list of values.
    let resampled = resampled.into_iter().chain(std::iter::repeat_with(Vec::new));
    values.into_iter().zip(resampled).map(estimate).collect()
}

/// The percentile interval of resampled values.
pub(crate) fn ends(values: &mut [f64], settings: &Settings) -> Option<(f64, f64)> {
    percentiles(values, settings.confidence).map(|interval| (interval.low, interval.high))
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
        let found = estimates(&strata, &Settings::default(), means);
        assert_eq!(found[0], MetricEstimate { value: Some(0.0), interval: Some((0.0, 0.0)) });
        assert_eq!(found[1].interval, Some((1.0, 1.0)));
        let (low, high) = found[2].interval.unwrap();
        assert!((low - 0.451).abs() < 0.01 && (high - 0.549).abs() < 0.01, "{low} {high}");
        let none = Settings { resamples: 0, ..Settings::default() };
        assert_eq!(estimates(&strata, &none, means)[1], MetricEstimate::exactly(Some(1.0)));
    }
}
