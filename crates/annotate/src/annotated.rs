//! An annotator's result for one solution: labels, or why there are none, and the cost.

use std::collections::BTreeMap;

use gradus_core::{Annotation, Cost, Solution};
use serde::{Deserialize, Serialize};

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
    pub(crate) fn undecided(reason: &str, said: Vec<String>, cost: Cost) -> Self {
        let undecided = Some(Undecided { reason: reason.to_owned(), said });
        Self { annotation: None, undecided, cost, notes: BTreeMap::new() }
    }
}

/// Undecided at no cost where the solution lacks what its annotator needs: what `missing` says, or steps.
pub(crate) fn refused(missing: Option<&str>, solution: &Solution) -> Option<Annotated> {
    let without_steps = solution.steps.is_empty().then_some("the solution has no steps");
    missing.or(without_steps).map(|reason| Annotated::undecided(reason, Vec::new(), Cost::default()))
}
