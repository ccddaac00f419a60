//! The numbers of PRMBench as its own code computes them, for comparison with published ones. It differs from
//! [`super::ours`]:
//!
//! - a score on the threshold is wrong
//! - missing results are dropped, and five absent ones are refused; steps are those that have scores
//! - of samples of one class with equal ids only the first is kept
//! - a sample whose error steps are all past its end counts as free of errors
//! - F1 is undefined when nothing is found while something was claimed and something missed; an undefined F1 enters
//!   PRMScore as −1, and a PRMScore below 0 is 0
//! - similarity leaves out originals of which no step was accepted

use std::collections::{BTreeSet, HashMap};

use super::{
    Class, ClassMetrics, Outcome, PrmBenchMetrics, Sample, Sum, Sums, count, distance, scores, share,
};

/// The numbers as the official code computes them; none where it fails: with five absent results or more. What it
/// writes as −1 is none.
///
/// Samples of one class with equal ids count once, so resamples of the samples have fewer of them than there
/// are: intervals are for [`super::ours`].
///
/// ```
/// use gradus_core::metrics::prmbench::{Class, Outcome, Sample, official};
/// let class = Class::NonCircularLogic;
/// let scored = Sample { class, id: "a", steps: 2, error_steps: &[1], outcome: Outcome::Scores(&[0.9, 0.1]) };
/// let silent = Sample { id: "b", outcome: Outcome::Absent, ..scored };
/// let both = official(&[scored, silent], 0.5).unwrap();
/// assert_eq!((both.overall.unwrap().prm_score, both.validity), (Some(1.0), Some(0.5)));
/// ```
pub fn official(samples: &[Sample], threshold: f64) -> Option<PrmBenchMetrics> {
    let mut seen = BTreeSet::new();
    let kept: Vec<&Sample> = samples.iter().filter(|sample| seen.insert((sample.class, sample.id))).collect();
    if kept.iter().filter(|sample| sample.outcome == Outcome::Absent).count() >= 5 {
        return None;
    }
    let passes = |score: f64| score > threshold;
    let accepted = |sample: &Sample| {
        let scores = scores(sample)?;
        share(scores.iter().filter(|score| passes(**score)).count(), scores.len())
    };
    let originals: HashMap<&str, f64> = kept
        .iter()
        .filter(|sample| sample.class == Class::Correct)
        .filter_map(|sample| Some((sample.id, accepted(sample).filter(|share| *share > 0.0)?)))
        .collect();
    let mut report = PrmBenchMetrics::default();
    let mut sums = Sums::default();
    sums.0.entry(None).or_default();
    let (mut valid, mut original_results) = (0, 0);
    for sample in kept.iter().copied() {
        sums.0.entry(Some(sample.class)).or_default();
        original_results += usize::from(sample.class == Class::Correct && sample.outcome != Outcome::Absent);
        let Some(scores) = scores(sample) else {
            report.missing += 1;
            continue;
        };
        valid += usize::from(sample.class != Class::Correct);
        let first = sample.error_steps.iter().min().and_then(|step| scores.get(*step));
        let found = Sum {
            counts: count(sample.error_steps, scores.len(), |step| Some(passes(scores[step]))),
            firsts: first.map(|score| !passes(*score)).into_iter().collect(),
            distances: distance(sample, accepted(sample), &originals),
        };
        sums.add(sample.class, &found);
    }
    for (place, sum) in &sums.0 {
        let numbers = sum.numbers(official_f1);
        let (f1, negative) = (numbers.f1.unwrap_or(-1.0), numbers.negative_f1.unwrap_or(-1.0));
        let score = match place {
            Some(Class::MultiSolution) => Some(f1.max(0.0)),
            Some(Class::Correct) => None,
            _ => Some((f1 * 0.5 + negative * 0.5).max(0.0)),
        };
        report.put(*place, ClassMetrics { prm_score: score, ..numbers });
    }
    report.validity = share(valid, kept.len() - original_results);
    Some(report.with_groups())
}

/// 2pr/(p + r) with −1 for an undefined p or r; none where p + r is 0 or both are undefined.
fn official_f1(hits: usize, claimed: usize, missed: usize) -> Option<f64> {
    let precision = share(hits, hits + claimed).unwrap_or(-1.0);
    let recall = share(hits, hits + missed).unwrap_or(-1.0);
    let f1 = 2.0 * precision * recall / (precision + recall);
    (f1 >= 0.0).then_some(f1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claiming_nothing_is_zero_and_finding_nothing_is_undefined() {
        assert_eq!(official_f1(0, 0, 3), Some(0.0));
        assert_eq!(official_f1(0, 3, 0), Some(0.0));
        assert_eq!(official_f1(0, 3, 3), None);
        assert_eq!(official_f1(0, 0, 0), None);
        assert_eq!(official_f1(2, 0, 0), Some(1.0));
    }

    #[test]
    fn no_samples_have_a_score_of_zero() {
        let found = official(&[], 0.5).unwrap();
        assert_eq!(found.overall.and_then(|numbers| numbers.prm_score), Some(0.0));
        assert_eq!((found.validity, found.overall.and_then(|numbers| numbers.f1)), (None, None));
    }
}
