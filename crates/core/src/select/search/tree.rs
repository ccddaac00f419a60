//! Diverse verifier tree search (DVTS; Beeching et al., Hugging Face's search-and-learn, 2024).
//!
//! A beam collapses: with a large budget its solutions all descend from one early step. Here `trees` searches of width 1
//! run side by side, each with its own seeds and an equal share of the budget, so a wrong turn of one is not a wrong
//! turn of all. Each gives one solution, and the choice is made among those. A share that is not used up is not handed
//! on.

use futures_util::future::join_all;
use serde::{Deserialize, Serialize};

use super::beam::{BeamConfig, grow};
use super::budget::Budget;
use super::outcome::{SearchOutcome, conclude};
use super::run::Run;
use super::{Question, Settings, check};
use crate::contracts::{CallError, Generate, ScoreSteps};

/// A diverse tree search.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TreeConfig {
    /// Independent searches.
    pub trees: usize,
    /// Proposals for each next step, of which the best is taken.
    pub expansions: usize,
    /// Most steps of a solution.
    pub max_steps: usize,
    /// Most tokens of a step.
    pub step_tokens: usize,
    /// What every kind of search needs to know.
    pub settings: Settings,
}

impl Default for TreeConfig {
    fn default() -> Self {
        Self { trees: 4, expansions: 4, max_steps: 40, step_tokens: 512, settings: Settings::default() }
    }
}

/// Searches for several solutions that owe nothing to each other, and chooses among them.
///
/// # Errors
///
/// The configuration cannot work, or the generator failed before anything was found.
///
/// ```
/// use gradus_core::contracts::{CallError, Generate, ScoreSteps};
/// use gradus_core::select::search::{Choose, Question, Settings, TreeConfig, tree};
/// async fn solve(policy: &dyn Generate, prm: &dyn ScoreSteps) -> Result<Option<String>, CallError> {
///     let settings = Settings { choose: Choose::WeightedVote, ..Settings::default() };
///     let config = TreeConfig { trees: 8, settings, ..TreeConfig::default() };
///     let outcome = tree(policy, prm, Question::plain("What is 3 + 4?"), &config).await?;
///     assert!(outcome.solutions.len() <= 8);
///     Ok(outcome.answer().map(str::to_owned))
/// }
/// ```
pub async fn tree(
    generate: &dyn Generate,
    score: &dyn ScoreSteps,
    question: Question<'_>,
    config: &TreeConfig,
) -> Result<SearchOutcome, CallError> {
    let TreeConfig { trees, expansions, max_steps, step_tokens, settings } = config;
    let positive = [
        ("trees", *trees),
        ("expansions", *expansions),
        ("max_steps", *max_steps),
        ("step_tokens", *step_tokens),
    ];
    check(settings, &positive)?;
    let each = BeamConfig {
        width: 1,
        expansions: *expansions,
        max_steps: *max_steps,
        step_tokens: *step_tokens,
        stop_after: 1,
        settings: settings.clone(),
    };
    let grown = Budget::shares(settings.budget, *trees).zip(0..).map(|(share, lane)| {
        let run = Run::new(generate, score, question, settings, share);
        grow(run, &each, lane)
    });
    conclude(join_all(grown).await, settings)
}
