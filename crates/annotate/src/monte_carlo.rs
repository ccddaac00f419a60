//! Monte-Carlo labels: a prefix is good if completions of it reach the right answer (Math-Shepherd, 2023).
//!
//! For steps 0..=j, K completions are sampled and graded; c_j of them are right. Hard label: correct if c_j > t. Soft label:
//! c_j / K beside the hard one. Nothing after the first incorrect step is sampled: it is no training target.
//!
//! Samples are independent, each with a seed of its own that depends only on the solution, the step and its number. So what
//! is not sampled changes nothing: stopping when the hard label is certain gives the same hard labels as K samples.
//! Bisection assumes that labels are monotone (right up to some step, wrong from there on); steps that it did not look
//! at have labels with 0 of 0 samples.
//!
//! The last step of a solution that states its answer needs no completion: it counts as one sample.

use std::collections::BTreeMap;

use gradus_core::contracts::{CallError, FinishReason, Generate, GenerateRequest, Sampling};
use gradus_core::select::search::Ask;
use gradus_core::{Annotation, LabelSource, Mark, Problem, Solution, StepLabel};
use serde::{Deserialize, Serialize};

use crate::annotated::{Annotated, refused};
use crate::error::{Error, Result};
use crate::metered_model::MeteredModel;
use crate::seed::seed_of;

/// Kind of labels.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Labels {
    /// Correct or not.
    #[default]
    Hard,
    /// The share of right completions, and correct or not.
    Soft,
}

/// Order in which steps are searched.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Search {
    /// From the first step on, up to the first incorrect one.
    #[default]
    Linear,
    /// Halving: fewer steps, if labels are monotone.
    Binary,
}

/// How completions are drawn and counted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MonteCarloConfig {
    /// Completions per prefix, K.
    pub samples: u32,
    /// A prefix is correct if more completions than this are right, t.
    pub threshold: u32,
    /// Kind of labels.
    pub labels: Labels,
    /// Order in which steps are searched.
    pub search: Search,
    /// Hard labels: stop sampling a prefix when its label is certain.
    pub early_stop: bool,
    /// Maximum tokens per completion.
    pub max_tokens: usize,
    /// Sampling parameters.
    pub sampling: Sampling,
    /// Separator between steps.
    pub separator: String,
    /// Random seed.
    pub seed: u64,
}

impl Default for MonteCarloConfig {
    fn default() -> Self {
        Self {
            samples: 8,
            threshold: 0,
            labels: Labels::Hard,
            search: Search::Linear,
            early_stop: true,
            max_tokens: 1024,
            sampling: Sampling { temperature: 0.8, ..Sampling::default() },
            separator: "\n\n".to_owned(),
            seed: 0,
        }
    }
}

impl MonteCarloConfig {
    /// Validates the settings.
    pub fn check(&self) -> Result<()> {
        let refuse = |field, message: String| Err(Error::Setting { field, message });
        if self.samples == 0 {
            return refuse("samples", "is 0: expected at least 1".to_owned());
        }
        if self.threshold >= self.samples {
            let (found, most) = (self.threshold, self.samples - 1);
            return refuse(
                "threshold",
                format!(
                    "is {found}: more than that many of {} samples can never be right; expected 0 to {most}",
                    self.samples
                ),
            );
        }
        if self.labels == Labels::Soft && self.search == Search::Binary {
            return refuse("search", "is binary: soft labels need every step; expected linear".to_owned());
        }
        if self.samples > 1 && self.sampling.temperature == 0.0 {
            return refuse("temperature", "is 0: all samples would be the same".to_owned());
        }
        Ok(())
    }

    /// Whether what is known of a prefix settles its label.
    fn is_settled(&self, counts: Counts) -> bool {
        let left = self.samples.saturating_sub(counts.samples);
        let certain = counts.right > self.threshold || counts.right + left <= self.threshold;
        left == 0 || counts.stated || (self.labels == Labels::Hard && self.early_stop && certain)
    }
}

/// Who completes, and how prefixes are put: the model's name stands in the labels.
#[derive(Clone, Copy)]
pub struct Completer<'a> {
    /// The model.
    pub model: &'a dyn Generate,
    /// Its name.
    pub name: &'a str,
    /// How it is asked to complete a prefix.
    pub ask: &'a dyn Ask,
}

/// What is known of a prefix.
#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    right: u32,
    samples: u32,
    /// The solution itself states its answer.
    stated: bool,
}

/// Labels the steps of one solution.
pub async fn annotate(
    completer: Completer<'_>,
    problem: &Problem,
    solution: &Solution,
    config: &MonteCarloConfig,
) -> std::result::Result<Annotated, CallError> {
    config.check().map_err(|error| CallError::Invalid(error.to_string()))?;
    let missing = problem.answer.is_none().then_some("the problem has no answer to grade by");
    if let Some(refused) = refused(missing, solution) {
        return Ok(refused);
    }
    let mut sampler = RolloutSampler {
        model: MeteredModel::new(completer.model),
        ask: completer.ask,
        problem,
        question: problem.question(),
        solution,
        config,
        notes: BTreeMap::new(),
    };
    let steps = solution.steps.len();
    let mut seen: Vec<Option<Counts>> = vec![None; steps];
    let first = match config.search {
        Search::Linear => sampler.linear_search(&mut seen).await?,
        Search::Binary => sampler.binary_search(&mut seen).await?,
    };
    let label = |step: usize, mark: Mark| {
        let counts = seen[step].unwrap_or_default();
        let source = LabelSource::MonteCarlo {
            model: completer.name.to_owned(),
            successes: counts.right,
            samples: counts.samples,
        };
        let soft = config.labels == Labels::Soft && counts.samples > 0;
        let value = soft.then(|| f64::from(counts.right) / f64::from(counts.samples));
        StepLabel { value, ..StepLabel::hard(mark, source) }
    };
    let labels = (0..steps).map(|step| match first {
        Some(error) if step > error => None,
        Some(error) if step == error => Some(label(step, Mark::Incorrect)),
        _ => Some(label(step, Mark::Correct)),
    });
    let mut annotation = Annotation::from_labels(labels.collect());
    annotation.cost = Some(sampler.model.cost.clone());
    Ok(Annotated {
        annotation: Some(annotation),
        undecided: None,
        cost: sampler.model.cost,
        notes: sampler.notes,
    })
}

struct RolloutSampler<'a> {
    model: MeteredModel<'a>,
    ask: &'a dyn Ask,
    problem: &'a Problem,
    question: String,
    solution: &'a Solution,
    config: &'a MonteCarloConfig,
    notes: BTreeMap<String, u64>,
}

impl RolloutSampler<'_> {
    /// Every step up to the first incorrect one.
    async fn linear_search(
        &mut self,
        seen: &mut [Option<Counts>],
    ) -> std::result::Result<Option<usize>, CallError> {
        for step in 0..seen.len() {
            if !self.is_correct(step, seen).await? {
                return Ok(Some(step));
            }
        }
        Ok(None)
    }

    /// The first incorrect step, by halving what it can be.
    async fn binary_search(
        &mut self,
        seen: &mut [Option<Counts>],
    ) -> std::result::Result<Option<usize>, CallError> {
        let last = seen.len() - 1;
        if self.is_correct(last, seen).await? {
            return Ok(None);
        }
        let (mut low, mut high) = (0, last);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.is_correct(middle, seen).await? {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok(Some(high))
    }

    async fn is_correct(
        &mut self,
        step: usize,
        seen: &mut [Option<Counts>],
    ) -> std::result::Result<bool, CallError> {
        let counts = self.count(step).await?;
        seen[step] = Some(counts);
        Ok(counts.right > if counts.stated { 0 } else { self.config.threshold })
    }

    /// Draws completions after a step until its label is settled: one, one more, two more, four more …, or all at once
    /// where all are wanted.
    async fn count(&mut self, step: usize) -> std::result::Result<Counts, CallError> {
        let config = self.config;
        if let Some(counts) = self.stated(step) {
            return Ok(counts);
        }
        let begun: String =
            self.solution.steps[..=step].iter().map(|step| step.clone() + &config.separator).collect();
        let seed = seed_of(config.seed, &[&self.problem.id, &self.solution.id, &step.to_string()]);
        let in_rounds = config.labels == Labels::Hard && config.early_stop;
        let mut counts = Counts::default();
        while !config.is_settled(counts) {
            let round = if in_rounds { counts.samples.max(1) } else { config.samples };
            let request = GenerateRequest {
                n: round.min(config.samples - counts.samples) as usize,
                sampling: config.sampling.clone(),
                seed: seed.wrapping_add(u64::from(counts.samples)),
                ..GenerateRequest::new(self.ask.prompt(&self.question, &begun), config.max_tokens)
            };
            let asked = request.n;
            let answer = self.model.generate(request).await?;
            if answer.choices.len() != asked {
                let found = answer.choices.len();
                return Err(CallError::Failed(format!(
                    "{asked} samples were requested, {found} were returned"
                )));
            }
            for choice in &answer.choices {
                let cut = choice.finish == FinishReason::Length;
                counts.right += u32::from(self.is_right(&choice.text, cut));
                counts.samples += 1;
            }
        }
        Ok(counts)
    }

    /// The last step of a solution that states its answer.
    fn stated(&self, step: usize) -> Option<Counts> {
        let is_last = step + 1 == self.solution.steps.len();
        let whole = || self.solution.steps.join(&self.config.separator);
        if !is_last || !self.ask.states_answer(&whole()) {
            return None;
        }
        let answer = self.problem.final_answer(&whole())?.answer;
        let right = self.problem.accepts(&answer)?;
        Some(Counts { right: u32::from(right), samples: 1, stated: true })
    }

    /// Whether a completion reaches the right answer. One that cannot be graded, or was cut off, does not; both are counted.
    fn is_right(&mut self, text: &str, cut: bool) -> bool {
        let mut note = |what: &str| *self.notes.entry(what.to_owned()).or_default() += 1;
        let verdict = self.problem.final_answer(text).map(|found| self.problem.accepts(&found.answer));
        match verdict {
            Some(Some(right)) => {
                // An answer that was stated before the limit counts; a number that happened to be last does not.
                let counts = !cut || self.ask.states_answer(text);
                if !counts {
                    note("completions cut off at the token limit");
                }
                right && counts
            }
            _ if cut => {
                note("completions cut off at the token limit");
                false
            }
            Some(None) => {
                note("completions whose answer cannot be graded");
                false
            }
            None => {
                note("completions without an answer");
                false
            }
        }
    }
}

#[cfg(test)]
mod tests;
