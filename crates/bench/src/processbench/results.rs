//! ProcessBench measured: first errors found, by subset and generator, with baselines and a threshold sweep.

use gradus_core::FirstError;
use gradus_core::metrics::bootstrap::Settings;
use gradus_core::metrics::process::{self, Confusion, Located, ProcessScores};
use gradus_core::select::DecisionRule;
use gradus_grade::checks::examine;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::estimate::{MetricEstimate, estimates};
use crate::fact::{self, Fact, Observation};
use crate::judge::{Judged, Opinion};
use crate::sample::{PROCESSBENCH_SUBSETS, Sample, subset_of_id};
use crate::step_scores::{self, StepScores};

/// Step positions that have a row of their own in the confusion table.
const POSITIONS: usize = 10;

/// The numbers of one part of the data.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GroupResults {
    /// A subset or a generator.
    pub name: String,
    /// Counts and numbers.
    pub scores: ProcessScores,
    /// Share of erroneous solutions whose first error was found exactly.
    pub acc_err: MetricEstimate,
    /// Share of error-free solutions that were left alone.
    pub acc_cor: MetricEstimate,
    /// Their harmonic mean.
    pub f1: MetricEstimate,
    /// Share of all solutions that were judged right.
    pub accuracy: MetricEstimate,
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

/// A prior of the posterior rule, and what it gives.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PriorPoint {
    /// Factor on the odds of an error.
    pub prior: f64,
    /// F1 of each subset, in the order of the parts.
    pub f1: Vec<Option<f64>>,
    /// Their mean.
    pub average: Option<f64>,
}

/// The rule that did not decide, beside the one that did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OtherRule {
    /// The rule, with its usual number.
    pub decision: DecisionRule,
    /// F1 of each subset, in the order of the parts.
    pub f1: Vec<MetricEstimate>,
    /// Their mean.
    pub average: MetricEstimate,
}

/// A judge without a model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Baseline {
    /// What it does.
    pub name: String,
    /// F1 of each subset, in the order of the parts.
    pub f1: Vec<MetricEstimate>,
    /// Their mean.
    pub average: MetricEstimate,
}

/// The numbers of this benchmark.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProcessBenchResults {
    /// The rule by which scores become a first error.
    #[serde(default)]
    pub decision: DecisionRule,
    /// The threshold, of a rule that has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threshold: Option<f64>,
    /// Whether arithmetic that is proved wrong counts as an error, whatever the scores say.
    #[serde(default)]
    pub exact_checks: bool,
    /// By subset.
    pub subsets: Vec<GroupResults>,
    /// Mean F1 over subsets.
    pub average_f1: MetricEstimate,
    /// Mean accuracy over subsets.
    pub average_accuracy: MetricEstimate,
    /// By the model that wrote the solutions.
    pub generators: Vec<GroupResults>,
    /// Judges without a model.
    pub baselines: Vec<Baseline>,
    /// The other rule on the same scores; none for a judge without scores.
    #[serde(default)]
    pub other_rule: Option<OtherRule>,
    /// The same rule on the scores alone, where exact checks decide, too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub without_checks: Option<OtherRule>,
    /// F1 at other thresholds, with exact checks where they decide; empty for a judge without scores.
    pub sweep: Vec<SweepPoint>,
    /// F1 of the posterior rule with other priors, with exact checks where they decide; empty for a judge without scores.
    #[serde(default)]
    pub prior_sweep: Vec<PriorPoint>,
    /// Where errors are and where they were said to be.
    pub confusion: Confusion,
    /// Quality of the scores themselves.
    pub steps: Option<StepScores>,
}

/// How a first error is decided.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Decider {
    /// The rule by which scores become a first error.
    pub rule: DecisionRule,
    /// Whether arithmetic that is proved wrong counts as an error, whatever the scores say.
    pub exact_checks: bool,
}

impl Decider {
    /// Where the first error is said to be, as by [`Opinion::first_error`].
    pub(super) fn first_error(self, sample: &Sample, opinion: &Opinion) -> Option<Option<usize>> {
        match opinion {
            Opinion::Scores(scores) if self.exact_checks => {
                Some(self.rule.decide(scores, proven(sample)).first_error)
            }
            other => other.first_error(self.rule),
        }
    }
}

/// The first step with arithmetic that is proved wrong.
fn proven(sample: &Sample) -> Option<usize> {
    examine(&sample.problem.text, &sample.solution.steps).wrong.first().map(|proof| proof.step)
}

/// The numbers, and each sample's part of them. Every sample must have a known first error.
pub fn measure(
    samples: &[Sample],
    judged: &[Judged],
    decider: Decider,
    settings: &Settings,
) -> Result<(ProcessBenchResults, Vec<Fact>)> {
    let decision = decider.rule;
    let facts = facts(samples, judged, decider);
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
    let located: Vec<Located> = facts.iter().filter_map(|fact| fact::as_located(&fact.observation)).collect();
    let names: Vec<&str> = subsets.iter().map(|part| part.name.as_str()).collect();
    let swept = has_scores(judged).then(|| scored(samples, judged, decider.exact_checks, &names));
    let numbers = ProcessBenchResults {
        decision,
        threshold: decision.threshold(),
        exact_checks: decider.exact_checks,
        average_f1: headline["all/f1"],
        average_accuracy: headline["all/accuracy"],
        generators,
        baselines: baselines(samples, &names, settings),
        other_rule: other_rule(samples, judged, Decider { rule: decision.other(), ..decider }, settings),
        without_checks: decider
            .exact_checks
            .then(|| other_rule(samples, judged, Decider { exact_checks: false, ..decider }, settings))
            .flatten(),
        sweep: swept.as_deref().map(sweep).unwrap_or_default(),
        prior_sweep: swept.as_deref().map(prior_sweep).unwrap_or_default(),
        confusion: process::confusion(&located, POSITIONS),
        steps: step_scores::measure(&step_scores::scored_steps(samples, judged, false)),
        subsets,
    };
    Ok((numbers, facts))
}

/// Each sample's truth and prediction.
fn facts(samples: &[Sample], judged: &[Judged], decider: Decider) -> Vec<Fact> {
    let fact = |(sample, judged): (&Sample, &Judged)| Fact {
        id: sample.solution.id.clone(),
        group: sample.subset.clone(),
        observation: Observation::Located {
            truth: sample.first_error(),
            predicted: predicted(decider.first_error(sample, &judged.opinion)),
        },
    };
    samples.iter().zip(judged).map(fact).collect()
}

fn predicted(first_error: Option<Option<usize>>) -> FirstError {
    match first_error {
        None => FirstError::Unknown,
        Some(None) => FirstError::None,
        Some(Some(step)) => FirstError::At(step),
    }
}

fn parts(facts: &[Fact], settings: &Settings) -> Vec<GroupResults> {
    let headline = fact::headline(facts, settings);
    let strata = fact::strata(facts);
    let part = |(name, members): (String, Vec<&Observation>)| {
        let located: Vec<Located> =
            members.iter().filter_map(|observation| fact::as_located(observation)).collect();
        let estimate = |number: &str| headline.get(&format!("{name}/{number}")).copied().unwrap_or_default();
        GroupResults {
            scores: process::scores(&located),
            acc_err: estimate("acc_err"),
            acc_cor: estimate("acc_cor"),
            f1: estimate("f1"),
            accuracy: estimate("accuracy"),
            name,
        }
    };
    strata.into_iter().map(part).collect()
}

/// Samples of each subset: whether there is an error, and how probably it is judged right.
type Chances = Vec<Vec<(bool, f64)>>;

/// F1 of each subset and their mean, from each sample's probability of being judged right.
fn expected_f1(subsets: &[Vec<(bool, f64)>]) -> Vec<Option<f64>> {
    let of_subset = |subset: &Vec<(bool, f64)>| {
        let mean = |wrong: bool| {
            fact::mean(subset.iter().filter(|(error, _)| *error == wrong).map(|(_, right)| Some(*right)))
        };
        let (cor, err) = (mean(false)?, mean(true)?);
        Some(if cor + err == 0.0 { 0.0 } else { 2.0 * cor * err / (cor + err) })
    };
    let f1: Vec<Option<f64>> = subsets.iter().map(of_subset).collect();
    let average = fact::mean(f1.iter().copied());
    f1.into_iter().chain([average]).collect()
}

fn baselines(samples: &[Sample], subsets: &[&str], settings: &Settings) -> Vec<Baseline> {
    let chances = |right: &dyn Fn(&Sample, Option<usize>) -> f64| -> Chances {
        let chance = |sample: &Sample| {
            let truth = truth_of(sample);
            (truth.is_some(), right(sample, truth))
        };
        let of_subset =
            |subset: &&str| samples.iter().filter(|sample| sample.subset == **subset).map(chance).collect();
        subsets.iter().map(of_subset).collect()
    };
    // A coin that says 'wrong' at each step with this probability, up to its first 'wrong'.
    let coin = |rate: f64| {
        let right = move |sample: &Sample, truth: Option<usize>| match truth {
            Some(step) => (1.0 - rate).powi(step as i32) * rate,
            None => (1.0 - rate).powi(sample.solution.steps.len() as i32),
        };
        (format!("a coin at each step, wrong with {rate:.2}"), chances(&right))
    };
    let longer = |most: usize| {
        let right = move |sample: &Sample, truth: Option<usize>| {
            let said = sample.solution.steps.iter().position(|step| step.chars().count() > most);
            f64::from(u8::from(said == truth))
        };
        (format!("length alone, wrong with over {most} characters"), chances(&right))
    };
    let average = |found: &(String, Chances)| expected_f1(&found.1).pop().flatten().unwrap_or(-1.0);
    let best = |all: &mut dyn Iterator<Item = (String, Chances)>| {
        all.max_by(|one, other| average(one).total_cmp(&average(other)))
    };
    [
        ("always 'no error'".to_owned(), chances(&|_, truth| f64::from(u8::from(truth.is_none())))),
        ("always the first step".to_owned(), chances(&|_, truth| f64::from(u8::from(truth == Some(0))))),
    ]
    .into_iter()
    .chain(best(&mut (1..100).map(|percent| coin(f64::from(percent) / 100.0))))
    .chain(best(&mut (1..=100).map(|tens| longer(10 * tens))))
    .map(|(name, chances)| {
        let mut f1 = estimates(&chances, settings, expected_f1);
        let average = f1.pop().unwrap_or_default();
        Baseline { name, f1, average }
    })
    .collect()
}

fn has_scores(judged: &[Judged]) -> bool {
    judged.iter().any(|judged| judged.opinion.scores().is_some())
}

/// What deciding in another way gives on the same scores.
fn other_rule(
    samples: &[Sample],
    judged: &[Judged],
    decider: Decider,
    settings: &Settings,
) -> Option<OtherRule> {
    if !has_scores(judged) {
        return None;
    }
    let facts = facts(samples, judged, decider);
    let f1 = parts(&facts, settings).into_iter().map(|part| part.f1).collect();
    Some(OtherRule { decision: decider.rule, f1, average: fact::headline(&facts, settings)["all/f1"] })
}

/// A sample of a sweep: its scores, none where there are none, the step that is proved wrong, and the first error.
struct Scored<'a> {
    scores: Option<&'a [f64]>,
    proven: Option<usize>,
    truth: Option<usize>,
}

/// The samples of each subset. What is proved does not depend on the rule, so that it is found once.
fn scored<'a>(
    samples: &[Sample],
    judged: &'a [Judged],
    exact_checks: bool,
    subsets: &[&str],
) -> Vec<Vec<Scored<'a>>> {
    let of_sample = |(sample, judged): (&Sample, &'a Judged)| Scored {
        scores: judged.opinion.scores(),
        proven: exact_checks.then(|| proven(sample)).flatten(),
        truth: truth_of(sample),
    };
    let of_subset = |subset: &&str| {
        let own = samples.iter().zip(judged).filter(|(sample, _)| sample.subset == **subset);
        own.map(of_sample).collect()
    };
    subsets.iter().map(of_subset).collect()
}

/// F1 of each subset by a rule, and their mean.
fn f1_by(rule: DecisionRule, subsets: &[Vec<Scored<'_>>]) -> (Vec<Option<f64>>, Option<f64>) {
    let located = |sample: &Scored<'_>| Located {
        predicted: sample.scores.map(|scores| rule.decide(scores, sample.proven).first_error),
        truth: sample.truth,
    };
    let of_subset =
        |subset: &Vec<Scored<'_>>| process::scores(&subset.iter().map(located).collect::<Vec<_>>()).f1;
    let f1: Vec<Option<f64>> = subsets.iter().map(of_subset).collect();
    let average = process::average(&f1);
    (f1, average)
}

fn prior_sweep(subsets: &[Vec<Scored<'_>>]) -> Vec<PriorPoint> {
    let point = |prior: f64| {
        let (f1, average) = f1_by(DecisionRule::Posterior { prior }, subsets);
        PriorPoint { prior, f1, average }
    };
    process::priors().into_iter().map(point).collect()
}

fn sweep(subsets: &[Vec<Scored<'_>>]) -> Vec<SweepPoint> {
    let point = |threshold: f64| {
        let (f1, average) = f1_by(DecisionRule::Threshold { threshold }, subsets);
        SweepPoint { threshold, f1, average }
    };
    process::thresholds().into_iter().map(point).collect()
}

/// Whether there are samples of ProcessBench itself, by their ids: a file of other data may have a subset's name.
pub fn is_official(samples: &[Sample]) -> bool {
    samples.iter().any(|sample| subset_of_id(&sample.solution.id).is_some())
}

/// The first wrong step of a sample whose truth is known.
pub(super) fn truth_of(sample: &Sample) -> Option<usize> {
    match sample.first_error() {
        FirstError::At(step) => Some(step),
        _ => None,
    }
}

impl ProcessBenchResults {
    /// Whether this is ProcessBench itself, so that published numbers can stand beside ours.
    pub fn is_official(&self) -> bool {
        self.subsets.iter().any(|part| PROCESSBENCH_SUBSETS.contains(&part.name.as_str()))
    }

    /// The threshold of the sweep with the highest average. It was chosen on the very data it is measured on.
    pub fn best_threshold(&self) -> Option<&SweepPoint> {
        let known = self.sweep.iter().filter(|point| point.average.is_some());
        known.rev().max_by(|a, b| a.average.unwrap_or(-1.0).total_cmp(&b.average.unwrap_or(-1.0)))
    }

    /// The prior of the sweep with the highest average, the one nearest to 1 among equals; as optimistic as the threshold.
    pub fn best_prior(&self) -> Option<&PriorPoint> {
        let known = self.prior_sweep.iter().filter(|point| point.average.is_some());
        known.max_by(|a, b| {
            let distance = |point: &PriorPoint| point.prior.ln().abs();
            let better = a.average.unwrap_or(-1.0).total_cmp(&b.average.unwrap_or(-1.0));
            better.then(distance(b).total_cmp(&distance(a)))
        })
    }

    /// The rule in force with the number that is best on this data.
    pub fn fitted(&self) -> Option<DecisionRule> {
        Some(match self.decision {
            DecisionRule::Threshold { .. } => {
                DecisionRule::Threshold { threshold: self.best_threshold()?.threshold }
            }
            DecisionRule::Posterior { .. } => DecisionRule::Posterior { prior: self.best_prior()?.prior },
        })
    }
}
