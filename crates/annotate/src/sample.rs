//! Draws solutions to a problem: N independent samples, cut into steps, their answers found and graded.
//!
//! Every sample is a solution with an id of its own, also where its text came before: a vote counts draws, not texts.
//! A solution that was cut off at the token limit is kept and says so: it has no final answer unless it stated one
//! before.

use gradus_core::contracts::{CallError, FinishReason, Generate, GenerateRequest, Sampling};
use gradus_core::select::search::Ask;
use gradus_core::{Cost, Metadata, Outcome, Problem, Solution};
use gradus_core::{id, steps};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::metered_model::MeteredModel;
use crate::seed::seed_of;

/// How solutions are drawn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SampleConfig {
    /// Solutions per problem.
    pub solutions: usize,
    /// Maximum tokens per solution.
    pub max_tokens: usize,
    /// Sampling parameters.
    pub sampling: Sampling,
    /// Stop sequences.
    pub stop: Vec<String>,
    /// How solutions are cut into steps.
    pub steps: steps::SplitConfig,
    /// Random seed.
    pub seed: u64,
}

impl Default for SampleConfig {
    fn default() -> Self {
        Self {
            solutions: 8,
            max_tokens: 1024,
            sampling: Sampling { temperature: 0.8, ..Sampling::default() },
            stop: Vec::new(),
            steps: steps::SplitConfig::default(),
            seed: 0,
        }
    }
}

impl SampleConfig {
    /// Validates the settings.
    pub fn check(&self) -> Result<()> {
        let refuse = |field, message: &str| Err(Error::Setting { field, message: message.to_owned() });
        if self.solutions == 0 {
            return refuse("solutions", "is 0: expected at least 1");
        }
        if self.solutions > 1 && self.sampling.temperature == 0.0 {
            return refuse("temperature", "is 0: all solutions would be the same");
        }
        Ok(())
    }
}

/// What was drawn for one problem.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sampled {
    /// The solutions, in the order in which they came.
    pub solutions: Vec<Solution>,
    /// Solutions that repeat an earlier one word for word.
    pub repeated: usize,
    /// Samples without a word.
    pub empty: usize,
    /// Solutions that were cut off at the token limit.
    pub cut: usize,
    /// Solutions without a final answer.
    pub unanswered: usize,
    /// What it cost.
    pub cost: Cost,
}

/// Draws solutions to one problem; `generator` is what the model is called.
pub async fn sample(
    model: &dyn Generate,
    generator: &str,
    ask: &dyn Ask,
    problem: &Problem,
    config: &SampleConfig,
) -> std::result::Result<Sampled, CallError> {
    config.check().map_err(|error| CallError::Invalid(error.to_string()))?;
    let mut model = MeteredModel::new(model);
    let answer = model
        .generate(GenerateRequest {
            n: config.solutions,
            sampling: config.sampling.clone(),
            stop: config.stop.clone(),
            seed: seed_of(config.seed, &[&problem.id]),
            ..GenerateRequest::new(ask.prompt(&problem.question(), ""), config.max_tokens)
        })
        .await?;
    let mut sampled = Sampled { cost: model.cost, ..Sampled::default() };
    for (index, choice) in answer.choices.into_iter().enumerate() {
        let text = choice.text.trim().to_owned();
        if text.is_empty() {
            sampled.empty += 1;
            continue;
        }
        let repeats = sampled.solutions.iter().any(|known| known.text.as_deref() == Some(text.as_str()));
        sampled.repeated += usize::from(repeats);
        let cut = choice.finish == FinishReason::Length;
        sampled.cut += usize::from(cut);
        let found = problem.final_answer(&text).filter(|_| !cut || ask.states_answer(&text));
        sampled.unanswered += usize::from(found.is_none());
        let answer = found.map(|found| found.answer);
        let right = answer.as_deref().and_then(|answer| problem.accepts(answer));
        let mut metadata = Metadata::new();
        if cut {
            metadata.insert("cut".to_owned(), true.into());
        }
        sampled.solutions.push(Solution {
            id: id::sample(&problem.id, generator, index, config.seed, &text),
            problem_id: problem.id.clone(),
            generator: Some(generator.to_owned()),
            steps: steps::split(&text, &config.steps).steps().map(str::to_owned).collect(),
            text: Some(text),
            answer,
            outcome: right.map_or(Outcome::Unknown, Outcome::from_correct),
            metadata,
            ..Solution::default()
        });
    }
    Ok(sampled)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gradus_core::select::search::Plain;
    use gradus_llm::Scripted;

    #[tokio::test]
    async fn samples_are_cut_graded_and_counted() {
        let problem = Problem {
            id: "p".into(),
            text: "What is 2 + 3?".into(),
            answer: Some("5".into()),
            ..Problem::default()
        };
        let model = Scripted::new()
            .then("Add them.\n\n2 + 3 = 5\n\nThe answer is \\boxed{5}.")
            .then("The answer is \\boxed{6}.")
            .then(" ")
            .then("The answer is \\boxed{6}.")
            .then("one two three four five six seven eight nine ten eleven twelve");
        let config = SampleConfig { solutions: 5, max_tokens: 11, ..SampleConfig::default() };
        let sampled = sample(&model, "m", &Plain, &problem, &config).await.unwrap();
        let outcomes: Vec<Outcome> = sampled.solutions.iter().map(|solution| solution.outcome).collect();
        assert_eq!(outcomes, [Outcome::Correct, Outcome::Wrong, Outcome::Wrong, Outcome::Unknown]);
        assert_eq!(sampled.solutions[0].steps.len(), 3);
        assert_eq!((sampled.repeated, sampled.empty, sampled.cut, sampled.unanswered), (1, 1, 1, 1));
        let ids: Vec<&str> = sampled.solutions.iter().map(|solution| &*solution.id).collect();
        for (id, begin) in ids.iter().zip(["p/m/0-", "p/m/1-", "p/m/3-", "p/m/4-"]) {
            assert!(id.starts_with(begin), "{ids:?}");
        }
        let record = gradus_core::Record::new(problem, sampled.solutions.clone());
        assert_eq!(record.earliest_equal(), [0, 1, 1, 3]);
        assert_eq!((sampled.cost.requests, sampled.cost.completion_tokens), (1, 11 + 4 + 4 + 11));
    }
}
