//! ProcessBench (Zheng et al., 2024): a prediction is right when it names the first wrong step exactly, or says that
//! there is none.
//!
//! F1 is the harmonic mean of the accuracies on erroneous and on error-free samples; ArithACC weighs all samples
//! equally. A prediction that could not be read is wrong, and counted apart.

use serde::{Deserialize, Serialize};

use super::share;
use crate::select::DecisionRule;

/// One sample. Indices are 0-based; `None` inside is 'no error'.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Located {
    /// Where the first error was said to be; none when the prediction could not be read.
    pub predicted: Option<Option<usize>>,
    /// Where it is.
    pub truth: Option<usize>,
}

/// The numbers of one subset, as shares of 1.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct ProcessScores {
    /// Samples with an error.
    pub erroneous: usize,
    /// Samples without one.
    pub error_free: usize,
    /// Predictions that could not be read.
    pub undecided: usize,
    /// Share of erroneous samples whose first error was found exactly.
    pub acc_err: Option<f64>,
    /// Share of error-free samples that were said to be so.
    pub acc_cor: Option<f64>,
    /// Harmonic mean of the two; none without samples of both kinds.
    pub f1: Option<f64>,
    /// Share of all samples that were judged right.
    pub accuracy: Option<f64>,
}

/// The numbers over `samples`.
///
/// ```
/// use gradus_core::metrics::process::{Located, scores};
/// let samples = [
///     Located { predicted: Some(Some(2)), truth: Some(2) },
///     Located { predicted: Some(Some(1)), truth: Some(2) },
///     Located { predicted: Some(None), truth: None },
/// ];
/// let found = scores(&samples);
/// assert_eq!((found.acc_err, found.acc_cor), (Some(0.5), Some(1.0)));
/// assert!((found.f1.unwrap() - 2.0 / 3.0).abs() < 1e-12);
/// ```
pub fn scores(samples: &[Located]) -> ProcessScores {
    let mut counts = ProcessCounts::default();
    samples.iter().for_each(|sample| counts.add(*sample));
    counts.scores()
}

/// Predictions by what became of them: enough for [`ProcessScores`], sample by sample and without keeping them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ProcessCounts {
    /// Samples with an error.
    pub erroneous: usize,
    /// Samples without one.
    pub error_free: usize,
    /// Predictions that could not be read.
    pub undecided: usize,
    /// Erroneous samples whose first error was found exactly.
    pub found: usize,
    /// Error-free samples that were said to be so.
    pub cleared: usize,
}

impl ProcessCounts {
    /// Counts a sample.
    pub fn add(&mut self, sample: Located) {
        let is_hit = usize::from(sample.predicted == Some(sample.truth));
        self.undecided += usize::from(sample.predicted.is_none());
        if sample.truth.is_some() {
            self.erroneous += 1;
            self.found += is_hit;
        } else {
            self.error_free += 1;
            self.cleared += is_hit;
        }
    }

    /// The numbers over the samples so far.
    pub fn scores(self) -> ProcessScores {
        let Self { erroneous, error_free, undecided, found, cleared } = self;
        let (acc_err, acc_cor) = (share(found, erroneous), share(cleared, error_free));
        ProcessScores {
            erroneous,
            error_free,
            undecided,
            acc_err,
            acc_cor,
            f1: acc_err.zip(acc_cor).map(|(err, cor)| harmonic(err, cor)),
            accuracy: share(found + cleared, erroneous + error_free),
        }
    }
}

/// The first step whose score is below `threshold`. A score that is not a number is no verdict and counts as below.
///
/// ```
/// use gradus_core::metrics::process::first_error;
/// assert_eq!(first_error(&[0.9, 0.4, 0.1], 0.5), Some(1));
/// assert_eq!(first_error(&[0.9, 0.5], 0.5), None);
/// ```
pub fn first_error(scores: &[f64], threshold: f64) -> Option<usize> {
    DecisionRule::Threshold { threshold }.first_error(scores)
}

/// One threshold of a sweep and its numbers.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct AtThreshold {
    /// Scores below it are errors.
    pub threshold: f64,
    /// The numbers there.
    pub scores: ProcessScores,
}

/// The thresholds of a sweep: 0.05, 0.10, …, 0.95.
///
/// ```
/// use gradus_core::metrics::process::thresholds;
/// assert_eq!((thresholds()[0], thresholds()[5], thresholds()[18]), (0.05, 0.3, 0.95));
/// ```
pub fn thresholds() -> [f64; 19] {
    // Divided, not added up: each is the double nearest to its decimal.
    std::array::from_fn(|index| (5 * (index + 1)) as f64 / 100.0)
}

/// The numbers at each of `thresholds`; a sample is its step scores, none where there are none to read, and its
/// first error.
///
/// ```
/// use gradus_core::metrics::process::{best, sweep, thresholds};
/// let swept = sweep(&[(Some(&[0.9, 0.3]), Some(1)), (Some(&[0.8, 0.7]), None), (None, None)], &thresholds());
/// let best = best(&swept).unwrap();
/// assert_eq!((best.threshold, best.scores.acc_cor, best.scores.undecided), (0.35, Some(0.5), 1));
/// ```
pub fn sweep(samples: &[(Option<&[f64]>, Option<usize>)], thresholds: &[f64]) -> Vec<AtThreshold> {
    let at = |&threshold: &f64| AtThreshold {
        threshold,
        scores: by_rule(samples, DecisionRule::Threshold { threshold }),
    };
    thresholds.iter().map(at).collect()
}

/// The threshold with the highest F1, the lowest one among equals; none without an F1. It is an optimist's number
/// on the samples that it was chosen on: report it beside a fixed threshold.
pub fn best(sweep: &[AtThreshold]) -> Option<AtThreshold> {
    let mut best: Option<(f64, AtThreshold)> = None;
    for &at in sweep {
        if let Some(f1) = at.scores.f1
            && best.is_none_or(|(highest, other)| {
                f1 > highest || (f1 == highest && at.threshold < other.threshold)
            })
        {
            best = Some((f1, at));
        }
    }
    best.map(|(_, at)| at)
}

/// The priors of a sweep of the posterior rule: ten to a decade, from 0.01 to 100, in round numbers.
///
/// ```
/// use gradus_core::metrics::process::priors;
/// assert_eq!((priors()[0], priors()[11], priors()[20], priors()[40]), (0.01, 0.13, 1.0, 100.0));
/// ```
pub fn priors() -> [f64; 41] {
    const TENTHS: [u32; 10] = [10, 13, 16, 20, 25, 32, 40, 50, 63, 79];
    std::array::from_fn(|index| f64::from(TENTHS[index % 10] * 10_u32.pow(index as u32 / 10)) / 1000.0)
}

/// The numbers by a decision rule; a sample is as for [`sweep`].
fn by_rule(samples: &[(Option<&[f64]>, Option<usize>)], rule: DecisionRule) -> ProcessScores {
    let locate = |&(scores, truth): &(Option<&[f64]>, Option<usize>)| Located {
        predicted: scores.map(|scores| rule.first_error(scores)),
        truth,
    };
    scores(&samples.iter().map(locate).collect::<Vec<_>>())
}

/// The plain mean of the subsets' F1, as the benchmark reports it; none without subsets, or when one has none.
///
/// ```
/// use gradus_core::metrics::process::average;
/// assert_eq!(average(&[Some(0.5), Some(0.25)]), Some(0.375));
/// assert_eq!(average(&[Some(0.5), None]), None);
/// ```
pub fn average(f1s: &[Option<f64>]) -> Option<f64> {
    let sum = f1s.iter().copied().sum::<Option<f64>>()?;
    (!f1s.is_empty()).then(|| sum / f1s.len() as f64)
}

/// Where first errors are against where they were said to be.
///
/// Row and column `i` are step `i` while `i` is below `positions`; then come all later steps in one, then 'no error',
/// and, in the columns only, what could not be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confusion {
    /// Steps that have a row and a column of their own.
    pub positions: usize,
    /// Counts: a row for each truth, in it a column for each prediction.
    pub counts: Vec<Vec<usize>>,
}

/// Counts `samples` by truth and prediction. On the diagonal the prediction is right, except among later steps:
/// there it may name another one.
///
/// ```
/// use gradus_core::metrics::process::{Located, confusion};
/// let found = confusion(&[Located { predicted: Some(None), truth: Some(7) }], 3);
/// // The truth is a later step, the prediction 'no error'.
/// assert_eq!(found.counts[3], [0, 0, 0, 0, 1, 0]);
/// ```
pub fn confusion(samples: &[Located], positions: usize) -> Confusion {
    let place = |step: Option<usize>| step.map_or(positions + 1, |step| step.min(positions));
    let mut counts = vec![vec![0; positions + 3]; positions + 2];
    for sample in samples {
        counts[place(sample.truth)][sample.predicted.map_or(positions + 2, place)] += 1;
    }
    Confusion { positions, counts }
}

fn harmonic(a: f64, b: f64) -> f64 {
    if a + b == 0.0 { 0.0 } else { 2.0 * a * b / (a + b) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_published_row_has_its_f1() {
        // 64.7 and 88.1 make 74.6.
        assert!((harmonic(64.7, 88.1) - 74.6).abs() < 0.05);
        assert_eq!(harmonic(0.0, 0.0), 0.0);
    }

    #[test]
    fn what_cannot_be_read_is_wrong_and_counted() {
        let unread = Located { predicted: None, truth: None };
        let found = scores(&[unread, Located { predicted: Some(None), truth: None }]);
        assert_eq!((found.undecided, found.acc_cor, found.accuracy), (1, Some(0.5), Some(0.5)));
        assert_eq!((found.acc_err, found.f1), (None, None));
        assert_eq!(scores(&[]), ProcessScores::default());
    }

    #[test]
    fn the_best_threshold_separates() {
        let samples: [(Option<&[f64]>, Option<usize>); 3] =
            [(Some(&[0.9, 0.3]), Some(1)), (Some(&[0.8, 0.7]), None), (Some(&[0.2, 0.9]), Some(0))];
        let swept = sweep(&samples, &[0.75, 0.5, 0.4, 0.1]);
        let best = best(&swept).unwrap();
        assert_eq!((best.threshold, best.scores.f1), (0.4, Some(1.0)));
        assert_eq!(swept[3].scores.acc_err, Some(0.0));
    }

    #[test]
    fn a_score_that_is_no_number_is_no_pass() {
        assert_eq!(first_error(&[0.9, f64::NAN], 0.5), Some(1));
    }
    #[test]
    fn no_subset_no_average() {
        assert_eq!(average(&[]), None);
    }

    #[test]
    fn samples_without_scores_stay_in_a_sweep() {
        let samples: [(Option<&[f64]>, Option<usize>); 3] =
            [(Some(&[0.9, 0.3]), Some(1)), (Some(&[0.8]), None), (None, Some(0))];
        for at in sweep(&samples, &thresholds()) {
            assert_eq!((at.scores.undecided, at.scores.erroneous), (1, 2));
            assert!(at.scores.acc_err <= Some(0.5));
        }
    }

    proptest! {
        #[test]
        fn a_confusion_holds_every_sample_once(
            samples in prop::collection::vec(
                (prop::option::of(prop::option::of(0usize..9)), prop::option::of(0usize..9)),
                0..60,
            ),
            positions in 0usize..10,
        ) {
            let samples: Vec<Located> =
                samples.into_iter().map(|(predicted, truth)| Located { predicted, truth }).collect();
            let (found, numbers) = (confusion(&samples, positions), scores(&samples));
            prop_assert_eq!(found.counts.iter().flatten().sum::<usize>(), samples.len());
            prop_assert_eq!(found.counts[positions + 1].iter().sum::<usize>(), numbers.error_free);
            prop_assert_eq!(found.counts.iter().map(|row| row[positions + 2]).sum::<usize>(), numbers.undecided);
            let diagonal: usize = (0..positions + 2).map(|place| found.counts[place][place]).sum();
            let hits = samples.iter().filter(|sample| sample.predicted == Some(sample.truth)).count();
            // With a row for every step only what is right is on the diagonal.
            prop_assert!(diagonal == hits || (positions < 9 && diagonal > hits));
        }
    }
}
