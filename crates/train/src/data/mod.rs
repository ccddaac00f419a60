//! From records to examples, for each objective. What cannot be used is counted by reason, never dropped in silence.
//!
//! - `steps`, `outcomes`: solutions with targets at their steps, for reward models
//! - `chat`: conversations, for supervised fine-tuning; `prompt` is what they ask
//! - `pairs`: a preferred and a rejected solution, for ORPO

mod chat;
mod config;
mod left_out;
mod outcomes;
mod pairs;
mod prompt;
mod solutions;
mod source;
mod steps;

pub(crate) use chat::{Conversation, read_conversations};
pub(crate) use config::DataConfig;
#[cfg(test)]
pub(crate) use config::{NeutralLabels, StepLabels};
pub(crate) use left_out::Examples;
pub use left_out::LeftOut;
pub(crate) use outcomes::last_steps;
pub(crate) use pairs::{Pair, PairRule, pairs};
pub(crate) use prompt::{SOLVE, SolvePrompt};
pub(crate) use solutions::SolutionPrompts;
pub(crate) use source::DataSource;
pub(crate) use steps::labeled_steps;

#[cfg(test)]
mod tests;
