//! What was found for each target, where it is from, and what the guard kept out.

use gradus_core::References;
use serde::{Deserialize, Serialize};

/// References of several targets.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Found {
    /// One per target, in order.
    pub targets: Vec<Retrieved>,
    /// Texts that were embedded: those of all targets, each once.
    pub embedded: usize,
    /// Texts that were longer than the encoder's limit, and cut there.
    pub truncated: usize,
    /// Tokens that went through the encoder.
    pub tokens: u64,
}

impl Found {
    /// What the guard kept out, and from how many targets it kept something.
    pub fn excluded(&self) -> (Excluded, usize) {
        let mut all = Excluded::default();
        for Excluded { exact, near, cosine, own } in self.targets.iter().map(|target| target.seen.excluded) {
            all.exact += exact;
            all.near += near;
            all.cosine += cosine;
            all.own += own;
        }
        (all, self.targets.iter().filter(|target| target.seen.excluded != Excluded::default()).count())
    }
}

/// References of a target.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Retrieved {
    /// The target's id.
    pub id: String,
    /// The texts; fewer than asked for where the pool has no more.
    pub references: References,
    /// Where they are from.
    #[serde(flatten)]
    pub seen: Seen,
}

/// Which references a solution and its steps saw, without their texts.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Seen {
    /// Where each reference question is from.
    pub questions: Vec<Neighbor>,
    /// Where each step's reference steps are from.
    pub steps: Vec<Vec<Neighbor>>,
    /// Cosine similarity of the nearest question that the guard lets pass: a low one says that the pool knows nothing
    /// like it. None where references are random.
    pub nearest: Option<f32>,
    /// What the guard kept out.
    pub excluded: Excluded,
}

/// Where something is in the pool, and how near.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Neighbor {
    /// The problem's id.
    pub question: String,
    /// The solution's id.
    pub solution: String,
    /// The step's number in it, where it is a step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<usize>,
    /// Similarity by the strategy that found it: of vectors, or of words for TF-IDF; none for a random one.
    pub similarity: Option<f32>,
}

/// What the leak guard kept out: questions, each by the first reason that holds, and solutions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Excluded {
    /// Questions equal after normalization.
    pub exact: usize,
    /// Questions with enough word shingles in common.
    pub near: usize,
    /// Questions whose vector is too near.
    pub cosine: usize,
    /// Solutions that are the target's own.
    pub own: usize,
}
