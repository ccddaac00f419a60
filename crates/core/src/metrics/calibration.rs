//! Does a score of 0.8 come true eight times in ten? Of each thing, its score and whether it is right.
//!
//! - Brier score: the mean of (score − right)²
//! - ECE: Σ n_b/n · |share right − mean score| over ten bins of equal width; a score on an edge belongs to the bin
//!   above it, 1 to the last
//!
//! A score outside 0..1 is no probability: nothing here has a number then.

use serde::{Deserialize, Serialize};

use super::share;

/// How many bins.
pub const BINS: usize = 10;

/// One bar of a reliability diagram.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Bin {
    /// Scores from here,
    pub low: f64,
    /// to below here.
    pub high: f64,
    /// Scores in it.
    pub count: usize,
    /// Their mean.
    pub mean_score: Option<f64>,
    /// Share of right things among them.
    pub share_right: Option<f64>,
}

/// The mean squared distance of the scores from what came true.
///
/// ```
/// use gradus_core::metrics::calibration::brier;
/// assert_eq!(brier(&[(1.0, true), (0.5, false)]), Some(0.125));
/// assert_eq!(brier(&[]), None);
/// ```
pub fn brier(scored: &[(f64, bool)]) -> Option<f64> {
    let squared = |&(score, right): &(f64, bool)| (score - f64::from(right)).powi(2);
    usable(scored).then(|| scored.iter().map(squared).sum::<f64>() / scored.len() as f64)
}

/// The expected calibration error.
///
/// ```
/// use gradus_core::metrics::calibration::ece;
/// let found = ece(&[(0.75, true), (0.75, true), (0.75, false), (0.75, true), (0.25, true)]).unwrap();
/// assert!((found - 0.15).abs() < 1e-12);
/// ```
pub fn ece(scored: &[(f64, bool)]) -> Option<f64> {
    let gap = |bin: &Bin| {
        let apart = bin.share_right.zip(bin.mean_score).map_or(0.0, |(right, said)| (right - said).abs());
        bin.count as f64 / scored.len() as f64 * apart
    };
    bins(scored).map(|bins| bins.iter().map(gap).sum())
}

/// The bars of a reliability diagram, from the lowest scores to the highest, empty ones too.
///
/// ```
/// use gradus_core::metrics::calibration::bins;
/// let bins = bins(&[(0.3, true), (0.38, false), (1.0, true)]).unwrap();
/// assert_eq!((bins[3].low, bins[3].high, bins[3].count, bins[3].share_right), (0.3, 0.4, 2, Some(0.5)));
/// assert_eq!((bins[4].mean_score, bins[9].count), (None, 1));
/// ```
pub fn bins(scored: &[(f64, bool)]) -> Option<[Bin; BINS]> {
    if !usable(scored) {
        return None;
    }
    let mut sums = [(0, 0, 0.0); BINS];
    for &(score, right) in scored {
        let (count, hits, sum) = &mut sums[((score * BINS as f64) as usize).min(BINS - 1)];
        *count += 1;
        *hits += usize::from(right);
        *sum += score;
    }
    let edge = |index: usize| index as f64 / BINS as f64;
    Some(std::array::from_fn(|index| {
        let (count, hits, sum) = sums[index];
        Bin {
            low: edge(index),
            high: edge(index + 1),
            count,
            mean_score: (count > 0).then(|| sum / count as f64),
            share_right: share(hits, count),
        }
    }))
}

fn usable(scored: &[(f64, bool)]) -> bool {
    !scored.is_empty() && scored.iter().all(|(score, _)| (0.0..=1.0).contains(score))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_no_probability_has_no_number() {
        for score in [-0.1, 1.1, f64::NAN] {
            let scored = [(0.5, true), (score, true)];
            assert_eq!((brier(&scored), ece(&scored), bins(&scored)), (None, None, None));
        }
        assert_eq!((brier(&[]), ece(&[]), bins(&[])), (None, None, None));
    }

    #[test]
    fn an_edge_belongs_to_the_bin_above() {
        let scored: Vec<(f64, bool)> = (0..=10).map(|tenth| (f64::from(tenth) / 10.0, true)).collect();
        let counts = bins(&scored).unwrap().map(|bin| bin.count);
        assert_eq!(counts, [1, 1, 1, 1, 1, 1, 1, 1, 1, 2]);
    }

    proptest! {
        #[test]
        fn bins_hold_everything_and_errors_are_shares(
            scored in prop::collection::vec((0.0..=1.0f64, any::<bool>()), 1..60)
        ) {
            let bins = bins(&scored).unwrap();
            prop_assert_eq!(bins.iter().map(|bin| bin.count).sum::<usize>(), scored.len());
            for bin in bins.iter().filter(|bin| bin.count > 0) {
                let mean = bin.mean_score.unwrap();
                prop_assert!(bin.low - 1e-12 <= mean && mean <= bin.high + 1e-12);
            }
            let (brier, ece) = (brier(&scored).unwrap(), ece(&scored).unwrap());
            prop_assert!((0.0..=1.0).contains(&brier) && (0.0..=1.0 + 1e-12).contains(&ece));
            // The mean square of a gap is at least the square of its mean.
            prop_assert!(ece * ece <= brier + 1e-12);
        }
    }
}
