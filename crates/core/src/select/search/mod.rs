//! Guided search: a generator proposes steps, a process reward model says which to follow.
//!
//! - [`sample()`]: N whole solutions at once, for best-of-N, votes, and greedy decoding (N = 1 at temperature 0)
//! - [`beam()`]: step by step, the best few partial solutions go on
//! - [`tree()`]: several searches of width 1 that know nothing of each other, and a choice among their solutions; the
//!   diverse verifier tree search (DVTS) of Hugging Face's search-and-learn
//!
//! All three see only [`Generate`](crate::contracts::Generate) and [`ScoreSteps`](crate::contracts::ScoreSteps), keep
//! one token budget to the token (`budget`), and give the same [`SearchOutcome`]. The same seed gives the same
//! outcome, if the models keep their promise. Left out: lookahead rollouts and values that are backed up a tree (MCTS).
//!
//! When is a solution complete? Only the model knows when it has ended, and `FinishReason::Stop` does not tell its end
//! from a separator. So a step-by-step solution is complete when
//! 1. it states its answer ([`Ask::states_answer`]);
//! 2. or the model is known to have ended it ([`Ask::is_end`]: whoever asks may know the model's end tokens);
//! 3. or nothing follows: the next sample ends without a text. The solution is then complete as it stands.
//!
//! A step that the token limit cut is no step. It is counted and dropped.

mod ask;
mod beam;
mod budget;
mod outcome;
mod run;
mod sample;
mod tree;

use serde::{Deserialize, Serialize};

use super::Aggregation;
use super::vote::Power;
use crate::Fault;
use crate::contracts::{CallError, Sampling};

pub use ask::{Ask, Plain, Question, states_answer};
pub use beam::{BeamConfig, beam};
pub use outcome::{Choose, Found, SearchOutcome, SearchUsage, StopReason};
pub use sample::{SampleConfig, sample};
pub use tree::{TreeConfig, tree};

/// What every kind of search needs to know.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// What stands between two steps; it ends the generation of a step.
    pub separator: String,
    /// How tokens are drawn. At temperature 0 all samples are the same, so only one is asked for.
    pub sampling: Sampling,
    /// Seeds of all requests are derived from it.
    pub seed: u64,
    /// Most tokens to generate for one question, all proposals together; none is no limit.
    pub budget: Option<u64>,
    /// How the scores of a solution's steps become one.
    pub aggregation: Aggregation,
    /// How one of the solutions is chosen.
    pub choose: Choose,
    /// How far a weighted vote trusts the aggregates.
    pub vote_power: Power,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            separator: "\n\n".to_owned(),
            sampling: Sampling { temperature: 0.8, ..Sampling::default() },
            seed: 0,
            budget: None,
            aggregation: Aggregation::Last,
            choose: Choose::Best,
            vote_power: Power::ONE,
        }
    }
}

impl Settings {
    fn check(&self) -> Result<(), Fault> {
        if self.separator.is_empty() {
            return Err(Fault::new("settings.separator", "is empty: expected the text between two steps"));
        }
        Ok(())
    }

    /// How many samples to ask for where `wanted` different ones would be welcome.
    fn samples(&self, wanted: usize) -> usize {
        if self.sampling.temperature == 0.0 { 1 } else { wanted }
    }
}

/// Refuses a configuration in which a number that must be positive is 0.
fn check(settings: &Settings, positive: &[(&str, usize)]) -> Result<(), CallError> {
    let zero = positive.iter().find(|(_, number)| *number == 0);
    let zero = zero.map_or(Ok(()), |(field, _)| Err(Fault::new(*field, "is 0: expected at least 1")));
    zero.and_then(|()| settings.check()).map_err(|fault| CallError::Invalid(fault.to_string()))
}
