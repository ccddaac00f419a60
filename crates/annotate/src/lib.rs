//! Step labels: who says which step of a solution is wrong, and what it cost to find out.
//!
//! | annotator | what it asks | needs |
//! |---|---|---|
//! | [`monte_carlo`] | do completions of this prefix still reach the right answer? | the right answer |
//! | [`judge`] | where is the first error? | a model that can tell |
//! | [`mod@reference`] | how does each step compare with a reference solution (SPARE)? | a reference solution |
//! | [`consensus`] | do several annotators agree on the first error? | their labels |
//! | [`ensemble`] | what do several annotators say together? | their labels |
//!
//! The first three are plain async functions over `gradus_core::contracts::Generate`, so a server, the local engine and a
//! script are interchangeable; the others only count. [`sample()`] draws the solutions that are to be labelled.
//! What cannot be used is [`Undecided`] with a reason and the words themselves, never a guess, and every token is counted.

pub mod consensus;
pub mod dawid_skene;
pub mod ensemble;
mod error;
pub mod judge;
pub mod monte_carlo;
pub mod prompt;
pub mod reference;
pub mod report;
pub mod sample;
mod spent;

use std::collections::BTreeMap;

use gradus_core::{Annotation, Cost};
use serde::{Deserialize, Serialize};

pub use error::{Error, Result};
pub use sample::sample;

/// What an annotator says about one solution, and what that took.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Annotated {
    /// The labels; none where it could not decide.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotation: Option<Annotation>,
    /// Why there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undecided: Option<Undecided>,
    /// Requests and tokens, those that led nowhere included.
    #[serde(default)]
    pub cost: Cost,
    /// Odd things, counted by what they are.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub notes: BTreeMap<String, u64>,
}

/// Nothing that could be used.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Undecided {
    /// Why, in few words: reasons are counted.
    pub reason: String,
    /// What the model said, to be looked at.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub said: Vec<String>,
}

impl Annotated {
    fn undecided(reason: &str, said: Vec<String>, cost: Cost) -> Self {
        let undecided = Some(Undecided { reason: reason.to_owned(), said });
        Self { annotation: None, undecided, cost, notes: BTreeMap::new() }
    }
}

/// A seed of its own for each part of the work, so that the order in which parts are done does not matter.
pub(crate) fn seed_of(seed: u64, parts: &[&str]) -> u64 {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&seed.to_le_bytes());
    for part in parts {
        hasher.update(&(part.len() as u64).to_le_bytes()).update(part.as_bytes());
    }
    // Servers read a signed number, and samples add their own numbers to it.
    u64::from_le_bytes(hasher.finalize().as_bytes()[..8].try_into().expect("eight bytes")) >> 2
}
