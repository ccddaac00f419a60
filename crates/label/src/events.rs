//! What people do, as it is kept in the journal. A save has the whole label, so that a damaged line costs one save.
//!
//! ```json
//! {"event":"saved","annotator":"Ann","item":3,"time":"2026-03-01T12:00:00Z","request":"k3x…",
//!  "label":{"marks":["correct",null],"first_error":"unknown"},"finished":false,"suggestions_seen":false}
//! ```

use serde::{Deserialize, Serialize};

use crate::SolutionLabel;

/// One event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Event {
    /// A label was saved.
    Saved(Box<Saved>),
    /// A save was taken back.
    Undone {
        /// Who did.
        annotator: String,
        /// The number of the event that was taken back.
        save: u64,
        /// When.
        time: String,
    },
    /// The suggestions of an item were shown.
    SuggestionsShown {
        /// To whom.
        annotator: String,
        /// The item.
        item: usize,
        /// When.
        time: String,
    },
    /// An item was given to somebody, whose earlier one is free again.
    Given {
        /// To whom.
        annotator: String,
        /// The item.
        item: usize,
        /// When.
        time: String,
    },
    /// An item was given back.
    Released {
        /// By whom.
        annotator: String,
        /// The item.
        item: usize,
        /// When.
        time: String,
    },
}

/// A save.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Saved {
    /// Who labeled.
    pub(crate) annotator: String,
    /// The item.
    pub(crate) item: usize,
    /// When.
    pub(crate) time: String,
    /// The request's own id: the same request again is answered, not done, again.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) request: String,
    /// The whole label.
    pub(crate) label: SolutionLabel,
    /// Whether the person has finished the item.
    pub(crate) finished: bool,
    /// Whether the person had seen the suggestions before.
    pub(crate) suggestions_seen: bool,
}

impl Event {
    /// Of whom it tells, for those who read the journal.
    pub(crate) fn annotator(&self) -> &str {
        match self {
            Self::Saved(saved) => &saved.annotator,
            Self::Undone { annotator, .. }
            | Self::SuggestionsShown { annotator, .. }
            | Self::Given { annotator, .. }
            | Self::Released { annotator, .. } => annotator,
        }
    }
}
