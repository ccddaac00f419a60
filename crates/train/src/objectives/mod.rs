//! Training objectives, a file or a folder each, with the whole training loop in it. ORM runs PRM's loop on final
//! answers.
//!
//! Every `train` takes a prepared recipe, reads its examples, and runs the loop in a session:
//! next batch → forward → loss → backward → optimizer step → evaluate → save.

mod exact_match;
pub(crate) mod grpo;
pub(crate) mod orm;
pub(crate) mod orpo;
pub(crate) mod prm;
pub(crate) mod sft;
mod verdict;

#[cfg(test)]
pub(crate) use verdict::Readout;
pub(crate) use verdict::{OrmConfig, PrmConfig, Verdict};
