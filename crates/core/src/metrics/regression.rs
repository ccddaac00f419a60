//! Ordinary least squares of y on x: the line, how sure its slope is, and a band around it.
//!
//! ```text
//! slope  b = Σ(x − x̄)(y − ȳ) / Σ(x − x̄)²        s² = Σ residual² / (n − 2)
//! stderr   = s / √Σ(x − x̄)²                      p  = two-sided P(|t| ≥ |b / stderr|), n − 2 degrees of freedom
//! band     = ŷ ± t · s · √(1/n + (x − x̄)² / Σ(x − x̄)²)
//! ```
//!
//! The band holds the mean of y at an x, not a single y.

use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF, StudentsT};

/// A fitted line.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Fit {
    /// Points.
    pub n: usize,
    /// Change of y for one more x.
    pub slope: f64,
    /// y at x = 0.
    pub intercept: f64,
    /// Pearson's correlation; 0 when y has no spread.
    pub r: f64,
    /// Two-sided p-value of 'the slope is 0'.
    pub p: f64,
    /// Standard error of the slope.
    pub stderr: f64,
    /// Mean of x.
    pub mean_x: f64,
    /// Σ(x − x̄)².
    pub spread_x: f64,
    /// Standard deviation of the residuals, over n − 2.
    pub deviation: f64,
}

/// The line at one x and the band around it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Band {
    /// The line.
    pub y: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// The line through the points. None with fewer than three points, without spread in x, or with a coordinate that is
/// not finite.
///
/// On a perfect line the residuals are 0: r is ±1, p and the standard error are 0 and the band has no width, all up
/// to the rounding of the points.
/// A perfect line of slope 0 says nothing against a slope of 0: r is 0 and p is 1.
///
/// ```
/// use gradus_core::metrics::regression::fit;
/// let line = fit(&[0.0, 1.0, 2.0, 3.0], &[1.0, 2.5, 4.5, 7.0]).unwrap();
/// assert!((line.slope - 2.0).abs() < 1e-12 && (line.intercept - 0.75).abs() < 1e-12);
/// assert!(line.p < 0.02);
/// let band = line.band(1.5, 0.95);
/// assert!(band.low < band.y && band.y < band.high);
/// ```
///
/// # Panics
///
/// When there are not as many x as y.
pub fn fit(x: &[f64], y: &[f64]) -> Option<Fit> {
    assert_eq!(x.len(), y.len(), "a point has an x and a y");
    let n = x.len();
    // Equal x are compared, not subtracted from their mean: that of three 0.1 is not 0.1.
    let level = x.windows(2).all(|pair| pair[0] == pair[1]);
    if n < 3 || level || !x.iter().chain(y).all(|value| value.is_finite()) {
        return None;
    }
    let (mean_x, mean_y) = (mean(x), mean(y));
    let spread_x: f64 = x.iter().map(|x| (x - mean_x).powi(2)).sum();
    let together: f64 = x.iter().zip(y).map(|(x, y)| (x - mean_x) * (y - mean_y)).sum();
    let slope = together / spread_x;
    let intercept = mean_y - slope * mean_x;
    let freedom = (n - 2) as f64;
    let line = Fit { n, slope, intercept, r: 0.0, p: 1.0, stderr: 0.0, mean_x, spread_x, deviation: 0.0 };
    if y.windows(2).all(|pair| pair[0] == pair[1]) {
        return Some(Fit { slope: 0.0, intercept: y[0], ..line });
    }
    let spread_y: f64 = y.iter().map(|y| (y - mean_y).powi(2)).sum();
    let residual = |(x, y): (&f64, &f64)| (y - mean_y - slope * (x - mean_x)).powi(2);
    let deviation = (x.iter().zip(y).map(residual).sum::<f64>() / freedom).sqrt();
    let stderr = deviation / spread_x.sqrt();
    let r = together / (spread_x.sqrt() * spread_y.sqrt());
    Some(Fit {
        r: if deviation == 0.0 { slope.signum() } else { r.clamp(-1.0, 1.0) },
        // On a perfect line t is infinite and p is 0.
        p: if slope == 0.0 { 1.0 } else { two_sided(slope / stderr, n - 2) },
        stderr,
        deviation,
        ..line
    })
}

impl Fit {
    /// The line at `x`, and the band that holds the mean of y there with `confidence`.
    ///
    /// # Panics
    ///
    /// When `confidence` is not between 0 and 1, or the fit was read from elsewhere and has fewer than three points.
    pub fn band(&self, x: f64, confidence: f64) -> Band {
        let y = self.intercept + self.slope * x;
        let away = (x - self.mean_x).powi(2) / self.spread_x;
        let half = quantile(0.5 + confidence / 2.0, self.n.saturating_sub(2))
            * self.deviation
            * (1.0 / self.n as f64 + away).sqrt();
        Band { y, low: y - half, high: y + half }
    }
}

/// The chance of a t at least this far from 0, on either side.
///
/// # Panics
///
/// Without a degree of freedom.
pub(super) fn two_sided(t: f64, freedom: usize) -> f64 {
    if t.is_infinite() { 0.0 } else { (2.0 * student(freedom).sf(t.abs())).min(1.0) }
}

/// The t below which a share `q` of Student's distribution lies.
///
/// # Panics
///
/// When `q` is not between 0 and 1, or without a degree of freedom.
pub(super) fn quantile(q: f64, freedom: usize) -> f64 {
    assert!(0.0 < q && q < 1.0, "a quantile lies between 0 and 1, not at {q}");
    student(freedom).inverse_cdf(q)
}

fn student(freedom: usize) -> StudentsT {
    StudentsT::new(0.0, 1.0, freedom as f64).expect("Student's t has at least one degree of freedom")
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn near(a: f64, b: f64) -> bool {
        (a - b).abs() <= 1e-9 * (1.0 + a.abs().max(b.abs()))
    }

    #[test]
    fn no_line_no_number() {
        assert_eq!(fit(&[], &[]), None);
        assert_eq!(fit(&[1.0, 2.0], &[1.0, 2.0]), None);
        assert_eq!(fit(&[0.1; 3], &[1.0, 2.0, 3.0]), None);
        assert_eq!(fit(&[1.0, 2.0, f64::NAN], &[1.0, 2.0, 3.0]), None);
        assert_eq!(fit(&[1.0, 2.0, 3.0], &[1.0, f64::INFINITY, 3.0]), None);
    }

    #[test]
    fn a_perfect_line_is_certain_and_a_level_one_is_not() {
        let line = fit(&[0.0, 1.0, 2.0], &[5.0, 3.0, 1.0]).unwrap();
        assert_eq!((line.slope, line.r, line.p, line.stderr), (-2.0, -1.0, 0.0, 0.0));
        let band = line.band(7.0, 0.95);
        assert_eq!((band.low, band.high), (band.y, band.y));
        let level = fit(&[0.0, 1.0, 2.0], &[0.1; 3]).unwrap();
        assert_eq!((level.slope, level.intercept, level.r, level.p), (0.0, 0.1, 0.0, 1.0));
    }

    #[test]
    fn the_band_is_narrowest_at_the_mean_and_wider_with_more_confidence() {
        let line = fit(&[1.0, 2.0, 4.0, 7.0], &[2.0, 1.0, 5.0, 4.0]).unwrap();
        let width = |x, confidence| line.band(x, confidence).high - line.band(x, confidence).low;
        assert!(width(3.5, 0.95) < width(3.0, 0.95) && width(3.5, 0.95) < width(4.0, 0.95));
        assert!(width(3.5, 0.5) < width(3.5, 0.95) && width(3.5, 0.95) < width(3.5, 0.99));
    }

    proptest! {
        #[test]
        fn moving_and_stretching_y_moves_and_stretches_the_line(
            points in prop::collection::vec((-9.0..9.0f64, -9.0..9.0f64), 3..20),
            shift in -9.0..9.0f64,
            factor in 0.1..9.0f64,
        ) {
            let (x, y): (Vec<f64>, Vec<f64>) = points.into_iter().unzip();
            let moved: Vec<f64> = y.iter().map(|y| shift + factor * y).collect();
            let (Some(before), Some(after)) = (fit(&x, &y), fit(&x, &moved)) else { return Ok(()) };
            prop_assume!(before.spread_x > 1e-3 && before.deviation > 1e-3);
            prop_assert!(near(after.slope, factor * before.slope), "{before:?} {after:?}");
            prop_assert!(near(after.r, before.r) && (after.p - before.p).abs() < 1e-7, "{before:?} {after:?}");
            prop_assert!((0.0..=1.0).contains(&before.p) && (-1.0..=1.0).contains(&before.r));
        }

        #[test]
        fn the_line_passes_through_the_means(points in prop::collection::vec((-9.0..9.0f64, -9.0..9.0f64), 3..20)) {
            let (x, y): (Vec<f64>, Vec<f64>) = points.into_iter().unzip();
            let Some(line) = fit(&x, &y) else { return Ok(()) };
            prop_assume!(line.spread_x > 1e-3);
            prop_assert!(near(line.band(mean(&x), 0.95).y, mean(&y)), "{line:?}");
        }
    }
}
