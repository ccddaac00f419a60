//! ProcessBench: is the first wrong step found, and is a right solution left alone? (Zheng et al., 2024)
//!
//! A solution's predicted first error is the first step whose score is below the threshold, or what a critic says. F1 is
//! the harmonic mean of the accuracies on solutions with and without an error; the average is the plain mean over
//! subsets. An undecided solution is wrong in every number. Any data with first errors will do; the official subsets are
//! told apart by their ids, other data by file.
//!
//! The table has three judges without a model beside ours: 'always right', 'always the first step', and a coin for each
//! step at the rate that is best for it on this very data.

mod page;

pub use page::sections;

use gradus_core::data::FirstError;
use gradus_core::metrics::bootstrap::Settings;
use gradus_core::metrics::process::{self, Confusion, Located, ProcessScores};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::fact::{self, Fact, Seen};
use crate::figure::Figure;
use crate::judge::{Judged, Opinion};
use crate::sample::Sample;
use crate::step_scores::{self, StepScores};

/// The benchmark's own subsets.
pub(crate) const SUBSETS: [&str; 4] = ["gsm8k", "math", "olympiadbench", "omnimath"];
/// Step positions that have a row of their own in the confusion table.
const POSITIONS: usize = 10;
/// The numbers of one part of the data.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Part {
    /// A subset or a generator.
    pub name: String,
    /// Counts and numbers.
    pub scores: ProcessScores,
    /// Share of erroneous solutions whose first error was found exactly.
    pub acc_err: Figure,
    /// Share of error-free solutions that were left alone.
    pub acc_cor: Figure,
    /// Their harmonic mean.
    pub f1: Figure,
    /// Share of all solutions that were judged right.
    pub accuracy: Figure,
}

/// A threshold of the sweep.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SweepPoint {
    /// Scores below it are errors.
    pub threshold: f64,
    /// F1 of each subset, in the order of the parts.
    pub f1: Vec<Option<f64>>,
    /// Their mean.
    pub average: Option<f64>,
}

/// A judge without a model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Baseline {
    /// What it does.
    pub name: String,
    /// F1 of each subset, in the order of the parts.
    pub f1: Vec<Option<f64>>,
    /// Their mean.
    pub average: Option<f64>,
}

/// The numbers of this benchmark.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Numbers {
    /// Scores below it are errors; a score equal to it is not.
    pub threshold: f64,
    /// By subset.
    pub subsets: Vec<Part>,
    /// Mean F1 over subsets.
    pub average_f1: Figure,
    /// Mean accuracy over subsets.
    pub average_accuracy: Figure,
    /// By the model that wrote the solutions.
    pub generators: Vec<Part>,
    /// Judges without a model.
    pub baselines: Vec<Baseline>,
    /// F1 at other thresholds; empty for a judge without scores.
    pub sweep: Vec<SweepPoint>,
    /// Where errors are and where they were said to be.
    pub confusion: Confusion,
    /// Quality of the scores themselves.
    pub steps: Option<StepScores>,
}

/// The numbers, and each sample's part of them. Every sample must have a known first error.
pub fn measure(
    samples: &[Sample],
    judged: &[Judged],
    threshold: f64,
    settings: &Settings,
) -> Result<(Numbers, Vec<Fact>)> {
    let facts: Vec<Fact> = samples
        .iter()
        .zip(judged)
        .map(|(sample, judged)| Fact {
            id: sample.solution.id.clone(),
            group: sample.subset.clone(),
            seen: Seen::Located {
                truth: sample.first_error(),
                predicted: predicted(&judged.opinion, threshold),
            },
        })
        .collect();
    if facts.is_empty() {
        return Err(Error::Data(
            "no solution has a known first error: this benchmark needs one for each".to_owned(),
        ));
    }
    let subsets = parts(&facts, settings);
    let headline = fact::headline(&facts, settings);
    let by_generator: Vec<Fact> = facts
        .iter()
        .zip(samples)
        .map(|(fact, sample)| Fact { group: sample.generator().to_owned(), ..fact.clone() })
        .collect();
    let mut generators = parts(&by_generator, settings);
    generators.sort_by(|a, b| a.name.cmp(&b.name));
    let located: Vec<Located> = facts.iter().filter_map(|fact| fact::as_located(&fact.seen)).collect();
    let names: Vec<&str> = subsets.iter().map(|part| part.name.as_str()).collect();
    let numbers = Numbers {
        threshold,
        average_f1: headline["all/f1"],
        average_accuracy: headline["all/accuracy"],
        generators,
        baselines: baselines(samples, &names),
        sweep: sweep(samples, judged, &names),
        confusion: process::confusion(&located, POSITIONS),
        steps: step_scores::measure(&step_scores::scored_steps(samples, judged, false)),
        subsets,
    };
    Ok((numbers, facts))
}

fn predicted(opinion: &Opinion, threshold: f64) -> FirstError {
    match opinion.first_error(threshold) {
        None => FirstError::Unknown,
        Some(None) => FirstError::None,
        Some(Some(step)) => FirstError::At(step),
    }
}

fn parts(facts: &[Fact], settings: &Settings) -> Vec<Part> {
    let headline = fact::headline(facts, settings);
    let strata = fact::strata(facts);
    let part = |(name, members): (String, Vec<&Seen>)| {
        let located: Vec<Located> = members.iter().filter_map(|seen| fact::as_located(seen)).collect();
        let figure = |number: &str| headline.get(&format!("{name}/{number}")).copied().unwrap_or_default();
        Part {
            scores: process::scores(&located),
            acc_err: figure("acc_err"),
            acc_cor: figure("acc_cor"),
            f1: figure("f1"),
            accuracy: figure("accuracy"),
            name,
        }
    };
    strata.into_iter().map(part).collect()
}

/// F1 per subset, from each sample's probability of being judged right.
fn expected_f1(
    samples: &[Sample],
    subset: &str,
    right: impl Fn(&Sample, Option<usize>) -> f64,
) -> Option<f64> {
    let mut sums = [(0.0, 0usize); 2];
    for sample in samples.iter().filter(|sample| sample.subset == subset) {
        let truth = truth_of(sample);
        let (sum, count) = &mut sums[usize::from(truth.is_some())];
        *sum += right(sample, truth);
        *count += 1;
    }
    let share = |(sum, count): (f64, usize)| (count > 0).then(|| sum / count as f64);
    let (cor, err) = (share(sums[0])?, share(sums[1])?);
    Some(if cor + err == 0.0 { 0.0 } else { 2.0 * cor * err / (cor + err) })
}

fn baselines(samples: &[Sample], subsets: &[&str]) -> Vec<Baseline> {
    let baseline = |name: String, right: &dyn Fn(&Sample, Option<usize>) -> f64| {
        let f1: Vec<Option<f64>> = subsets.iter().map(|subset| expected_f1(samples, subset, right)).collect();
        Baseline { name, average: fact::mean(f1.iter().copied()), f1 }
    };
    // A coin that says 'wrong' at each step with this probability, up to its first 'wrong'.
    let coin = |rate: f64| {
        move |sample: &Sample, truth: Option<usize>| match truth {
            Some(step) => (1.0 - rate).powi(step as i32) * rate,
            None => (1.0 - rate).powi(sample.solution.steps.len() as i32),
        }
    };
    let rates = (1..100).map(|percent| f64::from(percent) / 100.0);
    let coins = rates.map(|rate| baseline(format!("a coin at each step, wrong with {rate:.2}"), &coin(rate)));
    let best = coins.max_by(|a, b| a.average.unwrap_or(-1.0).total_cmp(&b.average.unwrap_or(-1.0)));
    [
        baseline("always 'no error'".to_owned(), &|_, truth| f64::from(u8::from(truth.is_none()))),
        baseline("always the first step".to_owned(), &|_, truth| f64::from(u8::from(truth == Some(0)))),
    ]
    .into_iter()
    .chain(best)
    .collect()
}

fn sweep(samples: &[Sample], judged: &[Judged], subsets: &[&str]) -> Vec<SweepPoint> {
    if judged.iter().all(|judged| judged.opinion.scores().is_none()) {
        return Vec::new();
    }
    let of_subset = |subset: &&str| {
        let own = samples.iter().zip(judged).filter(|(sample, _)| sample.subset == **subset);
        let scored: Vec<(Option<&[f64]>, Option<usize>)> =
            own.map(|(sample, judged)| (judged.opinion.scores(), truth_of(sample))).collect();
        process::sweep(&scored, &process::thresholds())
    };
    let swept: Vec<Vec<process::AtThreshold>> = subsets.iter().map(of_subset).collect();
    let point = |(index, threshold): (usize, f64)| {
        let f1: Vec<Option<f64>> = swept.iter().map(|subset| subset[index].scores.f1).collect();
        SweepPoint { threshold, average: process::average(&f1), f1 }
    };
    process::thresholds().into_iter().enumerate().map(point).collect()
}

/// The first wrong step of a sample whose truth is known.
fn truth_of(sample: &Sample) -> Option<usize> {
    match sample.first_error() {
        FirstError::At(step) => Some(step),
        _ => None,
    }
}

impl Numbers {
    /// Whether this is ProcessBench itself, so that published numbers can stand beside ours.
    pub fn is_official(&self) -> bool {
        self.subsets.iter().any(|part| SUBSETS.contains(&part.name.as_str()))
    }

    /// The threshold of the sweep with the highest average. It was chosen on the very data it is measured on.
    pub fn best_threshold(&self) -> Option<&SweepPoint> {
        let known = self.sweep.iter().filter(|point| point.average.is_some());
        known.rev().max_by(|a, b| a.average.unwrap_or(-1.0).total_cmp(&b.average.unwrap_or(-1.0)))
    }
}
