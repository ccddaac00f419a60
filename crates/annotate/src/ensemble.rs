//! Ensembles: one first error from several annotators, of which some may see too much and others too little.
//!
//! With e_i the first error of annotator i (infinity for none) and y_j 'steps 0..=j are all right', step j is wrong
//! - by *union* if anyone says so: the first error is min e_i;
//! - by *intersection* if all say so: it is max e_i;
//! - by *majority* if more than half say so: it is the median, the later one of an even number;
//! - by *Dawid–Skene* if that is more probable than not, each annotator weighed by how reliable it is; see
//!   [`crate::dawid_skene`].
//!
//! Annotators that did not decide have no say; with none left the solution is undecided.

use serde::{Deserialize, Serialize};

use crate::consensus::FirstErrorVote;

/// How opinions become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rule {
    /// Wrong if all say so.
    Intersection,
    /// Wrong if anyone says so.
    Union,
    /// Wrong if more than half say so.
    Majority,
}

impl Rule {
    /// All of them.
    pub(crate) const ALL: [Self; 3] = [Self::Intersection, Self::Union, Self::Majority];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Intersection => "intersection",
            Self::Union => "union",
            Self::Majority => "majority",
        }
    }
}

/// Where the first error is, by `rule`.
///
/// ```
/// use gradus_annotate::ensemble::{Rule, combine};
/// let votes = [Some(Some(3)), Some(None), Some(Some(1))];
/// assert_eq!(combine(Rule::Union, &votes), Some(Some(1)));
/// assert_eq!(combine(Rule::Majority, &votes), Some(Some(3)));
/// assert_eq!(combine(Rule::Intersection, &votes), Some(None));
/// assert_eq!(combine(Rule::Union, &[None]), None);
/// ```
pub fn combine(rule: Rule, votes: &[FirstErrorVote]) -> FirstErrorVote {
    let mut errors: Vec<usize> = votes.iter().flatten().map(|error| error.unwrap_or(usize::MAX)).collect();
    errors.sort_unstable();
    let rank = match rule {
        Rule::Union => 0,
        Rule::Intersection => errors.len().checked_sub(1)?,
        Rule::Majority => errors.len() / 2,
    };
    errors.get(rank).map(|error| (*error != usize::MAX).then_some(*error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// By the definition: the first step that enough annotators call wrong.
    fn by_steps(rule: Rule, votes: &[FirstErrorVote], steps: usize) -> FirstErrorVote {
        let known: Vec<Option<usize>> = votes.iter().flatten().copied().collect();
        if known.is_empty() {
            return None;
        }
        Some((0..steps).find(|step| {
            let wrong = known.iter().filter(|error| error.is_some_and(|error| error <= *step)).count();
            match rule {
                Rule::Union => wrong > 0,
                Rule::Intersection => wrong == known.len(),
                Rule::Majority => 2 * wrong > known.len(),
            }
        }))
    }

    proptest! {
        #[test]
        fn as_defined(votes in prop::collection::vec(prop::option::of(prop::option::of(0usize..5)), 0..7)) {
            for rule in Rule::ALL {
                prop_assert_eq!(combine(rule, &votes), by_steps(rule, &votes, 5));
            }
        }
    }
}
