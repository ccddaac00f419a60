//! Critics: what they are asked, how their answer is read, what it is worth, and what they learn from.
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
pub use curate::{CRITIC_SCHEMA, Counts, CriticExample, Curation, Dropped, TruthSource, curate};
pub use file::read;
pub use prompt::prompt;
pub use reward::{Reward, reward, text_f1};

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
