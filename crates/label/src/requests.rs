//! What the service is asked and what it answers. A server turns bodies into these and back, and adds nothing.
//!
//! | route | request | answer |
//! |---|---|---|
//! | `POST /v1/label/next` | [`NextRequest`] | [`NextResponse`] |
//! | `POST /v1/label/save` | [`SaveRequest`] | [`SaveResponse`] |
//! | `POST /v1/label/undo` | [`PersonRequest`] | [`NextResponse`]: the item whose save was taken back |
//! | `POST /v1/label/suggestions` | [`ItemRequest`] | [`Suggestions`] |
//! | `POST /v1/label/heartbeat` | [`ItemRequest`] | [`Held`] |
//! | `POST /v1/label/release` | [`ItemRequest`] | [`Held`] |
//! | `GET /v1/label/overview` | | [`Overview`](crate::agreement::Overview) |
//! | `GET /v1/label/export?format=F&combine=C` | [`ExportFormat`](crate::ExportFormat), [`Combine`](crate::Combine) | JSON Lines |
//!
//! Items and steps are counted from 0.

use std::collections::BTreeMap;

use gradus_core::{FirstError, Mark};
use serde::{Deserialize, Serialize};

use crate::SolutionLabel;

/// Asks for an item to label.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NextRequest {
    /// Who asks.
    pub annotator: String,
    /// Leaves this item for later: the next one after it in the queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<usize>,
    /// Asks for this very item, such as one that the person has finished.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub item: Option<usize>,
}

impl NextRequest {
    /// The next item for a person.
    pub fn of(annotator: &str) -> Self {
        Self { annotator: annotator.to_owned(), ..Self::default() }
    }
}

/// Asks for what needs only to know who asks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PersonRequest {
    /// Who asks.
    pub annotator: String,
}

/// Asks about one item.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ItemRequest {
    /// Who asks.
    pub annotator: String,
    /// The item.
    pub item: usize,
}

/// Text to show: plain, and as HTML where the server renders it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shown {
    /// Plain text.
    pub text: String,
    /// Safe HTML that the server made of it, with mathematics as MathML.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub html: Option<String>,
}

/// An item to label.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Task {
    /// The item.
    pub item: usize,
    /// The id of its problem.
    pub problem_id: String,
    /// The id of the solution.
    pub solution_id: String,
    /// The problem, with its context.
    pub problem: Shown,
    /// The steps.
    pub steps: Vec<Shown>,
    /// What the person has said of it so far.
    pub label: SolutionLabel,
    /// Whether the person has finished it.
    pub finished: bool,
    /// Counts the person's changes of this item; a save names the one that it is based on.
    pub revision: u64,
    /// For how long the item is this person's without a heartbeat.
    pub lease_seconds: u64,
    /// Whether the person has seen its suggestions.
    pub suggestions_seen: bool,
}

impl Task {
    /// A save of these marks over what the task has.
    pub fn save(&self, annotator: &str, marks: Vec<Option<Mark>>) -> SaveRequest {
        SaveRequest {
            annotator: annotator.to_owned(),
            item: self.item,
            revision: self.revision,
            request: String::new(),
            label: SolutionLabel { marks, first_error: FirstError::Unknown, ..self.label.clone() },
            finished: false,
        }
    }
}

/// How far everybody, and this person, is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// Items.
    pub items: usize,
    /// Items that enough people have finished.
    pub done: usize,
    /// Items that this person has finished.
    pub mine: usize,
}

/// The next item.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NextResponse {
    /// The item; none where there is none for this person now.
    pub task: Option<Task>,
    /// Why there is none, in a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nothing: Option<String>,
    /// How far it is.
    pub progress: Progress,
}

/// Saves a label.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SaveRequest {
    /// Who labels.
    pub annotator: String,
    /// The item.
    pub item: usize,
    /// The revision that the label is based on.
    pub revision: u64,
    /// An id of the caller's choice: a request that is sent again is answered, not saved, again. May be empty.
    #[serde(default)]
    pub request: String,
    /// The whole label.
    pub label: SolutionLabel,
    /// Whether the person has finished the item. Every step up to the first error needs a mark.
    #[serde(default)]
    pub finished: bool,
}

/// A label is saved: it is on disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SaveResponse {
    /// The item.
    pub item: usize,
    /// Its revision now.
    pub revision: u64,
    /// How far it is.
    pub progress: Progress,
}

/// Whether the person holds the item, and for how long.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// The item.
    pub item: usize,
    /// Whether the person holds it.
    pub held: bool,
    /// For how long without another heartbeat.
    pub lease_seconds: u64,
}

/// What models and datasets say about an item. Nothing that people say in this project is in it, so that they stay
/// independent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Suggestions {
    /// The item.
    pub item: usize,
    /// Scores of reward models by name, one per step.
    pub scores: BTreeMap<String, Vec<f64>>,
    /// Below this a score suggests an error.
    pub threshold: f64,
    /// Labels that the records came with.
    pub labels: Vec<SuggestedLabel>,
    /// The right final answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
    /// A reference solution.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reference: Vec<Shown>,
}

/// What one annotator says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SuggestedLabel {
    /// The annotator, such as `judge Qwen2.5-72B`.
    pub annotator: String,
    /// Its verdicts.
    pub marks: Vec<Option<Mark>>,
    /// Where it sees the first error.
    pub first_error: FirstError,
    /// Its explanations; an empty text is none.
    pub explanations: Vec<String>,
}
