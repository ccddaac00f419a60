//! Critics: their prompt, how their answer is parsed and rewarded, and their training data.
//!
//! A critic maps a problem and a solution to a critique, a verdict and the first wrong step. Its answer is
//!
//! ```text
//! <critique>…</critique>
//! <verdict>correct</verdict>
//! ```
//!
//! or, with a 0-based index, `<verdict>wrong</verdict>` and `<step>2</step>`.

mod answer;
mod curate;
mod file;
mod prompt;
mod reward;

pub use answer::{Answer, Parsed, Problem, format, parse};
pub use curate::{Balance, CriticExample, Curation, CurationCounts, DropReason, TruthSource, curate};
pub(crate) use file::read;
pub use prompt::prompt;
pub(crate) use reward::{Reward, reward};

use serde::{Deserialize, Serialize};

/// Whether a solution has no wrong step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Every step is right.
    Correct,
    /// At least one step is wrong.
    Wrong,
}

impl Verdict {
    /// The verdict that a first error, or its absence, amounts to.
    pub fn from_first_error(first_error: Option<usize>) -> Self {
        if first_error.is_some() { Self::Wrong } else { Self::Correct }
    }
}
