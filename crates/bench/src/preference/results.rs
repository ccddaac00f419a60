//! Preference measured: FPR, FNR, BI and accuracy of each generator's solutions.

use gradus_core::metrics::bias::{Bias, Judgment, bias};
use gradus_core::metrics::bootstrap::Settings;
use gradus_core::select::DecisionRule;
use serde::{Deserialize, Serialize};

use super::perplexity_bias::{PerplexityBias, perplexity_bias};
use crate::error::{Error, Result};
use crate::estimate::MetricEstimate;
use crate::fact::{self, Fact, Observation};
use crate::judge::Judged;
use crate::sample::Sample;

/// One generator's solutions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GeneratorResults {
    /// Its name.
    pub name: String,
    /// Counts and numbers.
    pub bias: Bias,
    /// Share of wrong solutions judged correct.
    pub fpr: MetricEstimate,
    /// Share of correct solutions judged wrong.
    pub fnr: MetricEstimate,
    /// FPR − FNR.
    pub bi: MetricEstimate,
    /// Share of solutions judged right.
    pub accuracy: MetricEstimate,
    /// Of its solutions, where known.
    pub median_perplexity: Option<f64>,
}

/// The numbers of this benchmark.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PreferenceResults {
    /// A solution in which it sees a first error counts as judged wrong.
    #[serde(default)]
    pub decision: DecisionRule,
    /// The threshold, of a rule that has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threshold: Option<f64>,
    /// By generator.
    pub generators: Vec<GeneratorResults>,
    /// Mean of |BI|.
    pub mean_absolute_bi: MetricEstimate,
    /// Mean accuracy.
    pub accuracy: MetricEstimate,
    /// Bias over perplexity, where perplexities are known.
    pub perplexity: Option<PerplexityBias>,
}

/// The numbers over samples whose outcome is known, and each sample's part of them.
pub fn measure(
    samples: &[Sample],
    judged: &[Judged],
    decision: DecisionRule,
    settings: &Settings,
) -> Result<(PreferenceResults, Vec<Fact>)> {
    let judgements: Vec<Judgment> = samples
        .iter()
        .zip(judged)
        .filter_map(|(sample, judged)| {
            let correct = sample.solution.outcome.is_correct()?;
            Some(Judgment { correct, judged: judged.opinion.is_correct(decision) })
        })
        .collect();
    if judgements.len() != samples.len() || samples.is_empty() {
        return Err(Error::Data("this benchmark needs the outcome of every solution".to_owned()));
    }
    let facts: Vec<Fact> = samples
        .iter()
        .zip(&judgements)
        .map(|(sample, judgement)| Fact {
            id: sample.solution.id.clone(),
            group: sample.generator().to_owned(),
            observation: Observation::Judged {
                correct: judgement.correct,
                judged: judgement.judged,
                perplexity: sample.perplexity(),
            },
        })
        .collect();
    let headline = fact::headline(&facts, settings);
    let mut names: Vec<&str> = samples.iter().map(Sample::generator).collect();
    names.sort_unstable();
    names.dedup();
    let generator = |name: &&str| {
        let own = || samples.iter().zip(&judgements).filter(|(sample, _)| sample.generator() == *name);
        let of = |number: &str| headline.get(&format!("{name}/{number}")).copied().unwrap_or_default();
        let mut perplexities: Vec<f64> = own().filter_map(|(sample, _)| sample.perplexity()).collect();
        perplexities.sort_by(f64::total_cmp);
        GeneratorResults {
            name: (*name).to_owned(),
            bias: bias(&own().map(|(_, judgement)| *judgement).collect::<Vec<_>>()),
            fpr: of("fpr"),
            fnr: of("fnr"),
            bi: of("bi"),
            accuracy: of("accuracy"),
            median_perplexity: perplexities.get(perplexities.len() / 2).copied(),
        }
    };
    let with_perplexity: Vec<(Option<f64>, Judgment)> =
        samples.iter().map(Sample::perplexity).zip(judgements.iter().copied()).collect();
    let numbers = PreferenceResults {
        decision,
        threshold: decision.threshold(),
        generators: names.iter().map(generator).collect(),
        mean_absolute_bi: headline["all/mean_absolute_bi"],
        accuracy: headline["all/accuracy"],
        perplexity: perplexity_bias(&with_perplexity),
    };
    Ok((numbers, facts))
}
