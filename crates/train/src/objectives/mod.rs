//! What can be learnt, one file each, with its loop in sight.

mod answers;
pub mod grpo;
pub mod orm;
pub mod orpo;
pub mod prm;
pub mod sft;
mod verdict;
