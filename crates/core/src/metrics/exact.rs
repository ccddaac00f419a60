//! Wilson's interval of a share k of n, without resampling or continuity correction: unlike the textbook one it stays
//! inside 0..1 and has a width at 0 and at n.

use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF, Normal};

/// A share and the interval around it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Share {
    /// k of n.
    pub share: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// Wilson's interval of `k` of `n`; none without samples.
///
/// ```
/// use gradus_core::metrics::exact::wilson;
/// let found = wilson(0, 10, 0.95).unwrap();
/// assert_eq!((found.share, found.low), (0.0, 0.0));
/// assert!((found.high - 0.2775).abs() < 1e-4);
/// ```
///
/// # Panics
///
/// When `k` is more than `n`, or `confidence` is not between 0 and 1.
pub fn wilson(k: usize, n: usize, confidence: f64) -> Option<Share> {
    assert!(k <= n, "{k} of {n} is no share");
    assert!(0.0 < confidence && confidence < 1.0, "a confidence lies between 0 and 1, not at {confidence}");
    if n == 0 {
        return None;
    }
    let (n, share) = (n as f64, k as f64 / n as f64);
    let z = Normal::standard().inverse_cdf(0.5 + confidence / 2.0);
    let squared = z * z / n;
    let centre = (share + squared / 2.0) / (1.0 + squared);
    let half = z / (1.0 + squared) * (share * (1.0 - share) / n + squared / (4.0 * n)).sqrt();
    Some(Share {
        share,
        // Exact at the ends, where rounding would leave the share just outside.
        low: if share == 0.0 { 0.0 } else { centre - half },
        high: if share == 1.0 { 1.0 } else { centre + half },
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn no_samples_no_share() {
        assert_eq!(wilson(0, 0, 0.95), None);
    }

    proptest! {
        #[test]
        fn the_interval_holds_the_share_and_shrinks(k in 0usize..200, more in 0usize..200, confidence in 0.01..0.99f64) {
            let n = k + more;
            prop_assume!(n > 0);
            let found = wilson(k, n, confidence).unwrap();
            prop_assert!(0.0 <= found.low && found.low <= found.share, "{found:?}");
            prop_assert!(found.share <= found.high && found.high <= 1.0, "{found:?}");
            let larger = wilson(10 * k, 10 * n, confidence).unwrap();
            prop_assert!(larger.high - larger.low < found.high - found.low);
            let opposite = wilson(more, n, confidence).unwrap();
            prop_assert!((found.low + opposite.high - 1.0).abs() < 1e-12);
        }
    }
}
