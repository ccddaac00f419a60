//! PRMBench (Song et al., 2025): is every single step judged right, for nine classes of errors?
//!
//! 'Positive' is 'correct'. Steps are counted over all samples of a class; F1 is of the correct steps, negative F1
//! of the wrong ones. PRMScore = (F1 + negative F1)/2; of MS, which has no wrong steps, it is F1 alone. A group is the
//! plain mean of its classes; the overall number is of the counts of all nine classes together, neither the mean of
//! classes nor of groups. Solutions of class [`Class::Correct`], the originals, are in no group and not in the overall
//! number.
//!
//! [`ours`] counts a result that is missing, or has another number of scores than there are steps, as the wrong
//! prediction for each step, so that silence never pays. [`official()`] does what the benchmark's code does.

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};

pub use self::class::{Class, Group};
pub use self::official::official;
use super::share;

mod class;
mod official;

/// What a scorer made of a sample.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Outcome<'a> {
    /// A score for each step.
    Scores(&'a [f64]),
    /// Something that could not be read.
    Invalid,
    /// Nothing.
    Absent,
}

/// One sample.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sample<'a> {
    /// What was done to it.
    pub class: Class,
    /// `idx` of the dataset: one original and what was made of it share it.
    pub id: &'a str,
    /// How many steps it has.
    pub steps: usize,
    /// Its wrong steps, 0-based (the dataset counts from 1). Some records name steps past the end: those are
    /// ignored, and where there are no others, the sample has no labels.
    pub error_steps: &'a [usize],
    /// What the scorer made of it.
    pub outcome: Outcome<'a>,
}

/// Steps by truth and prediction; positive is 'correct'.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Correct steps predicted correct.
    pub tp: usize,
    /// Wrong steps predicted correct.
    pub fp: usize,
    /// Wrong steps predicted wrong.
    pub tn: usize,
    /// Correct steps predicted wrong.
    pub fn_: usize,
}

/// The numbers of one class or of all, as shares of 1.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct ClassMetrics {
    /// What they are made of.
    pub counts: Counts,
    /// Of correct steps.
    pub precision: Option<f64>,
    /// Of correct steps.
    pub recall: Option<f64>,
    /// Of correct steps.
    pub f1: Option<f64>,
    /// Of wrong steps.
    pub negative_precision: Option<f64>,
    /// Of wrong steps.
    pub negative_recall: Option<f64>,
    /// Of wrong steps.
    pub negative_f1: Option<f64>,
    /// Share of steps predicted right.
    pub accuracy: Option<f64>,
    /// Share of samples with errors whose first one was predicted wrong.
    pub first_error_acc: Option<f64>,
    /// Mean distance of the share of steps predicted correct from that of the original. The paper prints 1 − it.
    pub similarity: Option<f64>,
    /// (F1 + negative F1)/2, of MS F1; none for originals.
    pub prm_score: Option<f64>,
}

/// The numbers of a scorer.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PrmBenchMetrics {
    /// By class, of those that have samples.
    pub classes: BTreeMap<Class, ClassMetrics>,
    /// Mean PRMScore of each group; none where a class has no PRMScore.
    pub groups: BTreeMap<Group, Option<f64>>,
    /// Over all steps of the nine classes; none without any.
    pub overall: Option<ClassMetrics>,
    /// Samples without a usable result.
    pub missing: usize,
    /// Samples that were left out because their labels are not known.
    #[serde(alias = "unlabelled")]
    pub unlabeled: usize,
    /// Share of tested samples with a result, as the official code has it; none by our rules.
    pub validity: Option<f64>,
}

/// The numbers by our rules: scores below `threshold` are errors, and nothing is dropped but samples without labels.
///
/// ```
/// use gradus_core::metrics::prmbench::{Class, Outcome, Sample, ours};
/// let class = Class::NonCircularLogic;
/// let scored = Sample { class, id: "a", steps: 2, error_steps: &[1], outcome: Outcome::Scores(&[0.9, 0.1]) };
/// let silent = Sample { id: "b", outcome: Outcome::Absent, ..scored };
/// assert_eq!(ours(&[scored], 0.5).overall.unwrap().prm_score, Some(1.0));
/// let both = ours(&[scored, silent], 0.5);
/// assert_eq!((both.overall.unwrap().prm_score, both.missing), (Some(0.5), 1));
/// ```
pub fn ours(samples: &[Sample], threshold: f64) -> PrmBenchMetrics {
    let passes = |score: f64| score >= threshold;
    let accepted = |sample: &Sample| {
        let scores = usable(sample)?;
        share(scores.iter().filter(|score| passes(**score)).count(), sample.steps)
    };
    let originals: HashMap<&str, f64> = samples
        .iter()
        .filter(|sample| sample.class == Class::Correct)
        .filter_map(|sample| Some((sample.id, accepted(sample)?)))
        .collect();
    let mut report = PrmBenchMetrics::default();
    let mut sums = Sums::default();
    for sample in samples {
        if unlabeled(sample) {
            report.unlabeled += 1;
            continue;
        }
        report.missing += usize::from(usable(sample).is_none());
        let said = |step: usize| usable(sample).map(|scores| passes(scores[step]));
        let first = sample.error_steps.iter().copied().filter(|step| *step < sample.steps).min();
        let found = Sum {
            counts: count(sample.error_steps, sample.steps, said),
            firsts: first.map(|step| said(step) == Some(false)).into_iter().collect(),
            distances: distance(sample, accepted(sample), &originals),
        };
        sums.add(sample.class, &found);
    }
    for (place, sum) in &sums.0 {
        let numbers = sum.numbers(f1);
        let score = match place {
            Some(Class::MultiSolution) => numbers.f1,
            Some(Class::Correct) => None,
            _ => sum.counts.prm_score(),
        };
        report.put(*place, ClassMetrics { prm_score: score, ..numbers });
    }
    report.with_groups()
}

/// The counts of one sample by our rules, to be summed over a resample; none when its labels are not known.
///
/// ```
/// use gradus_core::metrics::prmbench::{Class, Counts, Outcome, Sample, counts};
/// let class = Class::DeceptionResistance;
/// let sample = Sample { class, id: "a", steps: 3, error_steps: &[1], outcome: Outcome::Scores(&[0.9, 0.7, 0.2]) };
/// assert_eq!(counts(&sample, 0.5), Some(Counts { tp: 1, fp: 1, tn: 0, fn_: 1 }));
/// ```
pub fn counts(sample: &Sample, threshold: f64) -> Option<Counts> {
    let said = |step: usize| usable(sample).map(|scores| scores[step] >= threshold);
    (!unlabeled(sample)).then(|| count(sample.error_steps, sample.steps, said))
}

impl PrmBenchMetrics {
    fn put(&mut self, place: Option<Class>, numbers: ClassMetrics) {
        match place {
            Some(class) => _ = self.classes.insert(class, numbers),
            None => self.overall = Some(numbers),
        }
    }

    fn with_groups(mut self) -> Self {
        for group in [Group::Simplicity, Group::Soundness, Group::Sensitivity] {
            let of_group = Class::TESTED.into_iter().filter(|class| class.group() == Some(group));
            let scores: Option<Vec<f64>> =
                of_group.map(|class| self.classes.get(&class)?.prm_score).collect();
            let mean = scores.map(|scores| scores.iter().sum::<f64>() / scores.len() as f64);
            self.groups.insert(group, mean);
        }
        self
    }
}

/// By class; without one, over the nine.
#[derive(Default)]
struct Sums(BTreeMap<Option<Class>, Sum>);

impl Sums {
    fn add(&mut self, class: Class, found: &Sum) {
        self.0.entry(Some(class)).or_default().add(found);
        if class != Class::Correct {
            self.0.entry(None).or_default().add(found);
        }
    }
}

#[derive(Default)]
struct Sum {
    counts: Counts,
    firsts: Vec<bool>,
    distances: Vec<f64>,
}

impl Sum {
    fn add(&mut self, other: &Self) {
        self.counts += other.counts;
        self.firsts.extend(&other.firsts);
        self.distances.extend(&other.distances);
    }

    /// `f1` takes hits, wrong claims and misses. Leaves out PRMScore.
    fn numbers(&self, f1: impl Fn(usize, usize, usize) -> Option<f64>) -> ClassMetrics {
        let Counts { tp, fp, tn, fn_ } = self.counts;
        let found = self.firsts.iter().filter(|found| **found).count();
        let distances = &self.distances;
        ClassMetrics {
            counts: self.counts,
            precision: share(tp, tp + fp),
            recall: share(tp, tp + fn_),
            f1: f1(tp, fp, fn_),
            negative_precision: share(tn, tn + fn_),
            negative_recall: share(tn, tn + fp),
            negative_f1: f1(tn, fn_, fp),
            accuracy: share(tp + tn, tp + fp + tn + fn_),
            first_error_acc: share(found, self.firsts.len()),
            similarity: (!distances.is_empty())
                .then(|| distances.iter().sum::<f64>() / distances.len() as f64),
            prm_score: None,
        }
    }
}

impl Counts {
    /// F1 of correct steps.
    pub fn f1(self) -> Option<f64> {
        f1(self.tp, self.fp, self.fn_)
    }

    /// F1 of wrong steps.
    pub fn negative_f1(self) -> Option<f64> {
        f1(self.tn, self.fn_, self.fp)
    }

    /// PRMScore of the counts by our rules, except of MS; none without correct and wrong steps or claims.
    pub fn prm_score(self) -> Option<f64> {
        self.f1().zip(self.negative_f1()).map(|(f1, negative)| (f1 + negative) / 2.0)
    }
}

impl std::ops::AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.tp += other.tp;
        self.fp += other.fp;
        self.tn += other.tn;
        self.fn_ += other.fn_;
    }
}

/// Steps without a prediction count as predicted wrongly.
fn count(errors: &[usize], steps: usize, said: impl Fn(usize) -> Option<bool>) -> Counts {
    let mut counts = Counts::default();
    for step in 0..steps {
        let correct = !errors.contains(&step);
        *match (correct, said(step).unwrap_or(!correct)) {
            (true, true) => &mut counts.tp,
            (true, false) => &mut counts.fn_,
            (false, true) => &mut counts.fp,
            (false, false) => &mut counts.tn,
        } += 1;
    }
    counts
}

fn distance(sample: &Sample, accepted: Option<f64>, originals: &HashMap<&str, f64>) -> Vec<f64> {
    let original = originals.get(sample.id).filter(|_| sample.class != Class::Correct);
    accepted.zip(original).map(|(accepted, original)| (accepted - original).abs()).into_iter().collect()
}

/// 2pr/(p + r), which is 0 when nothing is found; none when there is nothing to find or to claim.
fn f1(hits: usize, claimed: usize, missed: usize) -> Option<f64> {
    share(2 * hits, 2 * hits + claimed + missed)
}

fn unlabeled(sample: &Sample) -> bool {
    !sample.error_steps.is_empty() && sample.error_steps.iter().all(|step| *step >= sample.steps)
}

fn scores<'a>(sample: &Sample<'a>) -> Option<&'a [f64]> {
    match sample.outcome {
        Outcome::Scores(scores) => Some(scores),
        Outcome::Invalid | Outcome::Absent => None,
    }
}

fn usable<'a>(sample: &Sample<'a>) -> Option<&'a [f64]> {
    scores(sample).filter(|scores| scores.len() == sample.steps)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn no_samples_no_numbers() {
        let found = ours(&[], 0.5);
        let written = serde_json::to_string(&found).unwrap();
        assert!(written.contains("\"unlabeled\""));
        let old: PrmBenchMetrics = serde_json::from_str(&written.replace("unlabeled", "unlabelled")).unwrap();
        assert_eq!(old, found, "reports of version 0.1 are read");
        assert_eq!((found.overall, found.groups[&Group::Simplicity]), (None, None));
        assert!(found.classes.is_empty());
    }

    #[test]
    fn a_score_that_is_no_number_is_no_pass() {
        let class = Class::MultiSolution;
        let outcome = Outcome::Scores(&[f64::NAN, 0.9]);
        let found = ours(&[Sample { class, id: "a", steps: 2, error_steps: &[], outcome }], 0.5);
        assert_eq!(
            found.overall.map(|numbers| numbers.counts),
            Some(Counts { tp: 1, fn_: 1, ..Counts::default() })
        );
    }

    proptest! {
        #[test]
        fn the_overall_number_is_of_all_counts(
            made in prop::collection::vec(
                (0usize..9, prop::collection::vec(0.0..1.0f64, 1..6), 0usize..7, 0u8..8),
                0..30,
            )
        ) {
            let errors: Vec<[usize; 1]> = made.iter().map(|made| [made.2]).collect();
            let samples: Vec<Sample> = made
                .iter()
                .zip(&errors)
                .map(|((class, scores, _, outcome), errors)| Sample {
                    class: Class::TESTED[*class],
                    id: "a",
                    steps: scores.len(),
                    error_steps: errors,
                    outcome: match outcome {
                        0 => Outcome::Invalid,
                        1 => Outcome::Absent,
                        2 => Outcome::Scores(&scores[1..]),
                        _ => Outcome::Scores(scores),
                    },
                })
                .collect();
            let found = ours(&samples, 0.5);
            let mut sum = Counts::default();
            let counted: Vec<Counts> = samples.iter().filter_map(|sample| counts(sample, 0.5)).collect();
            counted.iter().for_each(|counts| sum += *counts);
            prop_assert_eq!(found.unlabeled, samples.len() - counted.len());
            prop_assert_eq!(found.overall.map_or(Counts::default(), |numbers| numbers.counts), sum);
            prop_assert_eq!(found.overall.and_then(|numbers| numbers.prm_score), sum.prm_score());
            let steps = |counts: Counts| counts.tp + counts.fp + counts.tn + counts.fn_;
            let by_class: usize = found.classes.values().map(|class| steps(class.counts)).sum();
            prop_assert_eq!(by_class, steps(sum));
            // With a usable result for each sample nothing that counts as a miss is left to win.
            let full: Vec<Sample> = samples
                .iter()
                .zip(&made)
                .map(|(sample, made)| Sample { outcome: Outcome::Scores(&made.1), ..*sample })
                .collect();
            let accuracy = |report: &PrmBenchMetrics| report.overall.and_then(|numbers| numbers.accuracy);
            prop_assert!(accuracy(&ours(&full, 0.5)) >= accuracy(&found));
        }
    }
}
