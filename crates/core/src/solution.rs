//! One attempt at a problem, cut into steps, with the labels and scores it has received.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Annotation, Metadata, References};

/// Whether the final answer is right. Says nothing about the steps.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The final answer is right.
    Correct,
    /// The final answer is wrong.
    Wrong,
    /// Nobody has said.
    #[default]
    Unknown,
}

impl Outcome {
    /// From a source's yes or no.
    pub fn from_correct(correct: bool) -> Self {
        if correct { Self::Correct } else { Self::Wrong }
    }

    /// As yes, no, or unknown.
    pub fn is_correct(self) -> Option<bool> {
        match self {
            Self::Correct => Some(true),
            Self::Wrong => Some(false),
            Self::Unknown => None,
        }
    }

    pub(crate) fn is_unknown(&self) -> bool {
        *self == Self::Unknown
    }
}

/// A solution.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Solution {
    /// Unique within a dataset; a content hash where the source has none.
    pub id: String,
    /// The problem it tries to solve.
    pub problem_id: String,
    /// Who wrote it: a model's name, `human`, a program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generator: Option<String>,
    /// The steps, in order. Empty when only the whole text is known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<String>,
    /// The text as it was generated, where the steps do not give it back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The final answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
    /// Whether the final answer is right.
    #[serde(default, skip_serializing_if = "Outcome::is_unknown")]
    pub outcome: Outcome,
    /// What annotators say about the steps; several may disagree.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub annotations: Vec<Annotation>,
    /// Scores of reward models by name, one per step. They are model outputs, not truth.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub scores: BTreeMap<String, Vec<f64>>,
    /// What a retrieval-augmented reward model sees beside it (`gradus pool examples --as records`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub references: Option<Box<References>>,
    /// Fields of the source that the model has no name for.
    #[serde(default, skip_serializing_if = "Metadata::is_empty")]
    pub metadata: Metadata,
}

impl Solution {
    /// The whole solution as text: as it was generated, or else the steps on lines of their own.
    pub fn full_text(&self) -> String {
        self.text.clone().unwrap_or_else(|| self.steps.join("\n"))
    }

    /// Whether two solutions say the same, word for word: what is asked about one is known of the other.
    pub(crate) fn has_same_text(&self, other: &Self) -> bool {
        self.steps == other.steps && self.text == other.text && self.answer == other.answer
    }
}
