//! Per-sample facts of a run, and the metrics computed from them.
//!
//! `facts.jsonl` in a run's folder has one a line:
//!
//! ```json
//! {"id": "gsm8k-12", "group": "gsm8k", "located": {"truth": 2, "predicted": "none"}}
//! ```
//!
//! Reports draw their intervals from facts and `compare` pairs the facts of two runs, so that both compute a number in
//! the same way.

use std::collections::BTreeMap;
use std::path::Path;

use gradus_core::FirstError;
use gradus_core::metrics::bias::{Judgment, bias};
use gradus_core::metrics::bootstrap::Settings;
use gradus_core::metrics::prmbench::Counts;
use gradus_core::metrics::process::{self, Located};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::estimate::{MetricEstimate, estimates};

/// One sample's contribution to a benchmark's metrics.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Fact {
    /// The sample.
    pub id: String,
    /// Its subset, class or generator.
    pub group: String,
    /// The observation.
    #[serde(flatten)]
    pub observation: Observation,
}

/// The observation of one sample.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Observation {
    /// ProcessBench: where the first error is and where it was said to be; 'unknown' is undecided.
    Located {
        /// Where it is.
        truth: FirstError,
        /// Where it was said to be.
        predicted: FirstError,
    },
    /// A verdict about a whole solution.
    Judged {
        /// Whether it is correct.
        correct: bool,
        /// Whether it was said to be.
        judged: Option<bool>,
        /// Its perplexity, where known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        perplexity: Option<f64>,
    },
    /// Best-of-N: how often each strategy chose right.
    Hits(BTreeMap<String, f64>),
    /// PRMBench, and labels against labels: steps that are right or wrong, and were said to be.
    Steps {
        /// Right steps said to be right.
        right_as_right: usize,
        /// Wrong steps said to be right.
        wrong_as_right: usize,
        /// Wrong steps said to be wrong.
        wrong_as_wrong: usize,
        /// Right steps said to be wrong.
        right_as_wrong: usize,
    },
}

/// Facts by group, in the order in which groups appear.
pub(crate) fn strata(facts: &[Fact]) -> Vec<(String, Vec<&Observation>)> {
    let mut strata: Vec<(String, Vec<&Observation>)> = Vec::new();
    for fact in facts {
        match strata.iter_mut().find(|(group, _)| *group == fact.group) {
            Some((_, members)) => members.push(&fact.observation),
            None => strata.push((fact.group.clone(), vec![&fact.observation])),
        }
    }
    strata
}

/// A benchmark's metrics by name, each with its interval.
pub(crate) fn headline(facts: &[Fact], settings: &Settings) -> BTreeMap<String, MetricEstimate> {
    let (names, strata): (Vec<String>, Vec<Vec<&Observation>>) = strata(facts).into_iter().unzip();
    let labels = labels(&names, &strata);
    labels.into_iter().zip(estimates(&strata, settings, |strata| values(strata))).collect()
}

/// What [`values`] are called.
pub(crate) fn labels(groups: &[String], strata: &[Vec<&Observation>]) -> Vec<String> {
    let each = |numbers: &[&str]| -> Vec<String> {
        groups
            .iter()
            .flat_map(|group| numbers.iter().map(move |number| format!("{group}/{number}")))
            .collect()
    };
    let (per_group, over_all): (&[&str], &[&str]) = match strata.iter().flatten().next() {
        Some(Observation::Located { .. }) => (&["acc_err", "acc_cor", "f1", "accuracy"], &["f1", "accuracy"]),
        Some(Observation::Judged { .. }) => {
            (&["fpr", "fnr", "bi", "accuracy"], &["mean_absolute_bi", "accuracy"])
        }
        Some(Observation::Steps { .. }) => (&["f1", "negative_f1", "score"], &["score"]),
        Some(Observation::Hits(hits)) => {
            return hits.keys().cloned().collect();
        }
        None => (&[], &[]),
    };
    each(per_group).into_iter().chain(over_all.iter().map(|number| format!("all/{number}"))).collect()
}

/// The numbers of each stratum one after another, then those over all.
pub(crate) fn values(strata: &[Vec<&Observation>]) -> Vec<Option<f64>> {
    match strata.iter().flatten().next() {
        Some(Observation::Located { .. }) => located(strata),
        Some(Observation::Judged { .. }) => judged(strata),
        Some(Observation::Steps { .. }) => steps(strata),
        Some(Observation::Hits(_)) => hits(strata),
        None => Vec::new(),
    }
}

fn located(strata: &[Vec<&Observation>]) -> Vec<Option<f64>> {
    let scores: Vec<process::ProcessScores> = strata
        .iter()
        .map(|members| {
            let located: Vec<Located> =
                members.iter().filter_map(|observation| as_located(observation)).collect();
            process::scores(&located)
        })
        .collect();
    let mut values: Vec<Option<f64>> =
        scores.iter().flat_map(|found| [found.acc_err, found.acc_cor, found.f1, found.accuracy]).collect();
    values.push(mean(scores.iter().map(|found| found.f1)));
    values.push(mean(scores.iter().map(|found| found.accuracy)));
    values
}

/// The sample as the metric wants it.
pub(crate) fn as_located(observation: &Observation) -> Option<Located> {
    let Observation::Located { truth, predicted } = observation else { return None };
    let place = |first: FirstError| match first {
        FirstError::Unknown => None,
        FirstError::None => Some(None),
        FirstError::At(step) => Some(Some(step)),
    };
    Some(Located { predicted: place(*predicted), truth: place(*truth)? })
}

fn judged(strata: &[Vec<&Observation>]) -> Vec<Option<f64>> {
    let found: Vec<_> = strata
        .iter()
        .map(|members| {
            let judgement = |observation: &&Observation| match observation {
                Observation::Judged { correct, judged, .. } => {
                    Some(Judgment { correct: *correct, judged: *judged })
                }
                _ => None,
            };
            bias(&members.iter().filter_map(judgement).collect::<Vec<_>>())
        })
        .collect();
    let mut values: Vec<Option<f64>> =
        found.iter().flat_map(|bias| [bias.fpr, bias.fnr, bias.bi, bias.accuracy]).collect();
    values.push(mean(found.iter().map(|bias| bias.bi.map(f64::abs))));
    values.push(mean(found.iter().map(|bias| bias.accuracy)));
    values
}

fn steps(strata: &[Vec<&Observation>]) -> Vec<Option<f64>> {
    let mut pooled = Counts::default();
    let mut values = Vec::new();
    for members in strata {
        let mut counts = Counts::default();
        for observation in members {
            if let Observation::Steps { right_as_right, wrong_as_right, wrong_as_wrong, right_as_wrong } =
                observation
            {
                counts += Counts {
                    tp: *right_as_right,
                    fp: *wrong_as_right,
                    tn: *wrong_as_wrong,
                    fn_: *right_as_wrong,
                };
            }
        }
        pooled += counts;
        values.extend([counts.f1(), counts.negative_f1(), class_score(counts)]);
    }
    values.push(class_score(pooled));
    values
}

/// PRMScore; F1 alone where no step is wrong, as in PRMBench's class of several right solutions.
fn class_score(counts: Counts) -> Option<f64> {
    if counts.fp + counts.tn == 0 { counts.f1() } else { counts.prm_score() }
}

fn hits(strata: &[Vec<&Observation>]) -> Vec<Option<f64>> {
    let members: Vec<&BTreeMap<String, f64>> = strata
        .iter()
        .flatten()
        .filter_map(|observation| match observation {
            Observation::Hits(hits) => Some(hits),
            _ => None,
        })
        .collect();
    let Some(first) = members.first() else { return Vec::new() };
    let column = |name: &String| {
        let sum: f64 = members.iter().map(|hits| hits.get(name).copied().unwrap_or_default()).sum();
        Some(sum / members.len() as f64)
    };
    first.keys().map(column).collect()
}

/// The plain mean; none if one of them is, or without any.
pub(crate) fn mean(values: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    process::average(&values.collect::<Vec<_>>())
}

/// Writes a run's facts.
pub fn write(folder: &Path, facts: &[Fact]) -> Result<()> {
    let mut text = String::new();
    for fact in facts {
        text += &serde_json::to_string(fact).unwrap_or_default();
        text.push('\n');
    }
    Ok(gradus_durable::replace_plain_file(&folder.join("facts.jsonl"), text.as_bytes())?)
}

/// Reads a run's facts.
pub(crate) fn read(folder: &Path) -> Result<Vec<Fact>> {
    let path = folder.join("facts.jsonl");
    let bytes = gradus_durable::read_plain(&path, u64::MAX)?;
    let text = String::from_utf8_lossy(&bytes);
    let line = |(number, line): (usize, &str)| {
        serde_json::from_str(line).map_err(|error| Error::run(&path, format!("line {}: {error}", number + 1)))
    };
    text.lines().enumerate().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fact(id: usize, group: &str, observation: Observation) -> Fact {
        Fact { id: id.to_string(), group: group.to_owned(), observation }
    }

    #[test]
    fn facts_are_read_back() {
        let folder = tempfile::tempdir().unwrap();
        let facts = [
            fact(0, "a", Observation::Located { truth: FirstError::At(2), predicted: FirstError::Unknown }),
            fact(1, "a", Observation::Judged { correct: true, judged: None, perplexity: Some(2.5) }),
            fact(2, "b", Observation::Hits(BTreeMap::from([("min/best@4".to_owned(), 0.25)]))),
        ];
        write(folder.path(), &facts).unwrap();
        assert_eq!(read(folder.path()).unwrap(), facts);
    }

    #[test]
    fn undecided_is_wrong_in_every_number() {
        let observation = |truth, predicted| Observation::Located { truth, predicted };
        let facts = [
            fact(0, "a", observation(FirstError::None, FirstError::None)),
            fact(1, "a", observation(FirstError::None, FirstError::Unknown)),
            fact(2, "a", observation(FirstError::At(1), FirstError::At(1))),
        ];
        let found = headline(&facts, &Settings::default());
        assert_eq!(found["a/acc_cor"].value, Some(0.5));
        assert_eq!(found["all/f1"].value, found["a/f1"].value);
        assert!((found["all/accuracy"].value.unwrap() - 2.0 / 3.0).abs() < 1e-12);
    }

    #[test]
    fn opposite_leanings_do_not_cancel() {
        let observation =
            |correct, judged| Observation::Judged { correct, judged: Some(judged), perplexity: None };
        let facts = [
            fact(0, "lenient", observation(true, true)),
            fact(1, "lenient", observation(false, true)),
            fact(2, "harsh", observation(true, false)),
            fact(3, "harsh", observation(false, false)),
        ];
        let found = headline(&facts, &Settings { resamples: 0, ..Settings::default() });
        assert_eq!(found["lenient/bi"].value, Some(1.0));
        assert_eq!(
            (found["all/mean_absolute_bi"].value, found["all/accuracy"].value),
            (Some(1.0), Some(0.5))
        );
    }

    #[test]
    fn the_score_of_steps_pools_its_counts() {
        let steps = |counts: [usize; 4]| Observation::Steps {
            right_as_right: counts[0],
            wrong_as_right: counts[1],
            wrong_as_wrong: counts[2],
            right_as_wrong: counts[3],
        };
        let facts = [fact(0, "ES", steps([8, 1, 1, 0])), fact(1, "MS", steps([9, 0, 0, 1]))];
        let found = headline(&facts, &Settings { resamples: 0, ..Settings::default() });
        assert_eq!(found["MS/score"].value, Some(18.0 / 19.0));
        assert_eq!(found["ES/score"].value, Some((16.0 / 17.0 + 2.0 / 3.0) / 2.0));
        assert_eq!(found["all/score"].value, Some((34.0 / 36.0 + 2.0 / 4.0) / 2.0));
    }
}
