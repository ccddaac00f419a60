//! Numbers of plain counts, without resampling.
//!
//! - McNemar's exact test: two judges of the same samples; b samples only the first has right, c only the second.
//!   When neither is better, each of the b + c is a coin flip: p = 2·P(X ≤ min(b, c)), X ~ Binomial(b + c, ½)
//! - Wilson's interval of a share k of n, without continuity correction: unlike the textbook one it stays inside 0..1
//!   and has a width at 0 and at n

use serde::{Deserialize, Serialize};
use statrs::distribution::{Binomial, ContinuousCDF, DiscreteCDF, Normal};

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

/// The two-sided p-value of 'neither is better', from the samples that only the first (`b`) or only the second (`c`)
/// has right. Where they never differ nothing speaks against it: 1.
///
/// ```
/// use gradus_core::metrics::exact::mcnemar;
/// assert!((mcnemar(1, 9) - 0.021484375).abs() < 1e-12);
/// assert_eq!(mcnemar(0, 0), 1.0);
/// ```
pub fn mcnemar(b: u64, c: u64) -> f64 {
    // The two tails meet or overlap: 1, where the tail alone is so up to rounding.
    if b.abs_diff(c) <= 1 {
        return 1.0;
    }
    let flips = Binomial::new(0.5, b + c).expect("a fair coin can be flipped any number of times");
    2.0 * flips.cdf(b.min(c))
}

/// [`mcnemar`] of paired verdicts: whether the first and whether the second had each sample right.
///
/// ```
/// use gradus_core::metrics::exact::mcnemar_of;
/// assert_eq!(mcnemar_of(&[(true, false), (true, true), (false, false)]), 1.0);
/// ```
pub fn mcnemar_of(right: &[(bool, bool)]) -> f64 {
    let only = |pair| right.iter().filter(|&&found| found == pair).count() as u64;
    mcnemar(only((true, false)), only((false, true)))
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

    /// By the definition, in whole numbers.
    fn by_counting(b: u64, c: u64) -> f64 {
        let flips = b + c;
        let ways = |k: u64| (0..k).fold(1u128, |ways, i| ways * u128::from(flips - i) / u128::from(i + 1));
        let tail: u128 = (0..=b.min(c)).map(ways).sum();
        (2.0 * tail as f64 / (1u128 << flips) as f64).min(1.0)
    }

    #[test]
    fn no_samples_no_share() {
        assert_eq!(wilson(0, 0, 0.95), None);
        assert_eq!(mcnemar_of(&[]), 1.0);
    }

    proptest! {
        #[test]
        fn the_test_counts_coin_flips(b in 0u64..40, c in 0u64..40) {
            let (found, expected) = (mcnemar(b, c), by_counting(b, c));
            prop_assert!((found - expected).abs() < 1e-11 * expected, "{found} {expected}");
            prop_assert!(found <= 1.0);
            prop_assert_eq!(mcnemar(b, c), mcnemar(c, b));
        }

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
