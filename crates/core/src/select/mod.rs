//! Chooses an answer among several solutions of one problem, and the first error of a solution.
//!
//! - [`aggregate`]: one number from the scores of a solution's steps
//! - [`vote`]: solutions with equivalent answers, and which answer wins
//! - [`best_of_n`]: how good a choice among N is, on problems whose answer is known
//! - [`decision`]: where a solution first goes wrong, from the scores of its steps
//! - [`search`]: solutions found step by step, a reward model choosing which to follow
//!
//! Among equals the earliest candidate wins, everywhere, so a choice depends on nothing but its input.

pub mod aggregate;
pub mod best_of_n;
pub mod decision;
pub mod search;
pub mod vote;

pub use aggregate::Aggregation;
pub use decision::{Decision, DecisionChoice, DecisionRule, Posterior, RuleKind};
