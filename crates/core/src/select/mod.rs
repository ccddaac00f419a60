//! Chooses an answer among several solutions of one problem.
//!
//! - [`aggregate`]: one number from the scores of a solution's steps
//! - [`vote`]: solutions with equivalent answers, and which answer wins
//! - [`best_of_n`]: how good a choice among N is, on problems whose answer is known
//! - [`search`]: solutions found step by step, a reward model choosing which to follow
//!
//! Among equals the earliest candidate wins, everywhere, so a choice depends on nothing but its input.

pub mod aggregate;
pub mod best_of_n;
pub mod search;
pub mod vote;

pub use aggregate::Aggregation;
