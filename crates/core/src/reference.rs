//! Solved problems and steps that a retrieval-augmented reward model sees beside the target.

use serde::{Deserialize, Serialize};

use super::Mark;

/// A solved problem that resembles the target's.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReferenceProblem {
    /// The question.
    pub question: String,
    /// Its steps, each right or wrong.
    pub steps: Vec<(String, Mark)>,
}

/// A step of another solution that resembles a target step.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReferenceStep {
    /// The step.
    pub text: String,
    /// Right or wrong.
    pub mark: Mark,
}

/// The references of one solution.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct References {
    /// Solved problems, the nearest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub questions: Vec<ReferenceProblem>,
    /// For each step of the solution the steps that resemble it; empty, or one entry per step.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<Vec<ReferenceStep>>,
}
