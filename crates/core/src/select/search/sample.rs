//! Whole solutions, drawn independently and scored once: best-of-N, majority and weighted votes, greedy decoding.
//!
//! A solution is cut into steps at the separator and ends with the step that states the answer; what a model without an end
//! token babbles after its answer is dropped. Otherwise it is complete if the model ended it, which no stop text can be
//! mistaken for here. Equal samples are kept: in a vote each of them counts.

use serde::{Deserialize, Serialize};

use super::budget::Budget;
use super::outcome::{Found, SearchOutcome, StopReason, conclude};
use super::run::{Order, Run};
use super::{Ask, Question, Settings, check};
use crate::contracts::{CallError, Choice, FinishReason, Generate, ScoreSteps};

/// Independent solutions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SampleConfig {
    /// How many solutions.
    pub n: usize,
    /// Most tokens of a solution.
    pub max_tokens: usize,
    /// What every kind of search needs to know.
    pub settings: Settings,
}

impl Default for SampleConfig {
    fn default() -> Self {
        Self { n: 16, max_tokens: 2048, settings: Settings::default() }
    }
}

/// Draws solutions and chooses one of them. Sample `i` has the seed `settings.seed + i`.
///
/// # Errors
///
/// The configuration cannot work, or the generator failed before anything was found.
///
/// ```
/// use gradus_core::contracts::{CallError, Generate, Sampling, ScoreSteps};
/// use gradus_core::select::search::{Question, SampleConfig, Settings, sample};
/// async fn greedy(policy: &dyn Generate, prm: &dyn ScoreSteps) -> Result<Option<String>, CallError> {
///     let sampling = Sampling { temperature: 0.0, ..Sampling::default() };
///     let config = SampleConfig { n: 1, settings: Settings { sampling, ..Settings::default() }, ..SampleConfig::default() };
///     Ok(sample(policy, prm, Question::plain("What is 3 + 4?"), &config).await?.answer().map(str::to_owned))
/// }
/// ```
pub async fn sample(
    generate: &dyn Generate,
    score: &dyn ScoreSteps,
    question: Question<'_>,
    config: &SampleConfig,
) -> Result<SearchOutcome, CallError> {
    let SampleConfig { n, max_tokens, settings } = config;
    check(settings, &[("n", *n), ("max_tokens", *max_tokens)])?;
    let mut run = Run::new(generate, score, question, settings, Budget::new(settings.budget));
    let order = Order {
        begun: String::new(),
        samples: settings.samples(*n),
        max_tokens: *max_tokens,
        stop: Vec::new(),
        seed: settings.seed,
    };
    let drawn: Vec<Choice> = run.draw(std::slice::from_ref(&order)).await.into_iter().flatten().collect();
    let mut solutions = Vec::new();
    for choice in &drawn {
        let found = read(question.ask, choice, &settings.separator);
        run.usage.cut += u64::from(!found.complete);
        if found.steps.is_empty() {
            run.usage.empty += u64::from(found.complete);
        } else {
            solutions.push(found);
        }
    }
    run.judge(&mut solutions).await;
    let stopped = if run.has_failed() {
        StopReason::Failed
    } else if drawn.len() >= order.samples {
        StopReason::Enough
    } else if run.budget.is_spent() {
        StopReason::Budget
    } else {
        StopReason::NoneLeft
    };
    conclude(vec![run.end(solutions, stopped)], settings)
}

/// A sample as steps, up to the one that states the answer.
fn read(ask: &dyn Ask, choice: &Choice, separator: &str) -> Found {
    let steps = choice.text.split(separator).map(str::trim).filter(|step| !step.is_empty());
    let mut steps: Vec<String> = steps.map(str::to_owned).collect();
    let cut = choice.finish == FinishReason::Length;
    // The last step of a cut sample may state half an answer.
    let whole = steps.len() - usize::from(cut && !steps.is_empty());
    let stated = (1..=whole).find(|count| ask.states_answer(&steps[..*count].join(separator)));
    if let Some(count) = stated {
        steps.truncate(count);
    }
    Found::new(steps, stated.is_some() || !cut, separator)
}

#[cfg(test)]
mod tests {
    use super::super::Plain;
    use super::*;

    fn choice(text: &str, finish: FinishReason) -> Choice {
        Choice { text: text.to_owned(), finish, logprobs: Vec::new(), tokens: Vec::new() }
    }

    #[test]
    fn a_solution_ends_with_its_answer() {
        let babble = choice("2 + 2 = 4\n\nThe answer is 4.\n\nQuestion: what is 5 + 5", FinishReason::Length);
        let found = read(&Plain, &babble, "\n\n");
        assert_eq!(found.steps, ["2 + 2 = 4", "The answer is 4."]);
        assert_eq!((found.complete, found.answer.as_deref()), (true, Some("4")));
    }

    #[test]
    fn a_cut_answer_is_none() {
        let found = read(&Plain, &choice("6 * 2 = 12\n\nThe answer is 1", FinishReason::Length), "\n\n");
        assert_eq!((found.complete, found.answer, found.steps.len()), (false, None, 2));
        let found = read(&Plain, &choice("6 * 2 = 12", FinishReason::Stop), "\n\n");
        assert_eq!((found.complete, found.answer.as_deref()), (true, Some("12")));
        assert!(read(&Plain, &choice(" \n\n ", FinishReason::Length), "\n\n").steps.is_empty());
    }
}
