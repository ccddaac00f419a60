//! Consensus: a solution is kept when annotators agree on where its first error is (Qwen's lessons, 2025).

use gradus_core::{Annotation, FirstError, LabelSource};
use serde::{Deserialize, Serialize};

/// An annotator's first error: `Some(None)` is 'no error', `None` is undecided.
pub type FirstErrorVote = Option<Option<usize>>;

/// An annotation's vote on the first error.
pub(crate) fn first_error_vote(annotation: &Annotation) -> FirstErrorVote {
    match annotation.first_error {
        FirstError::Unknown => None,
        FirstError::None => Some(None),
        FirstError::At(step) => Some(Some(step)),
    }
}

/// Why a solution is not kept, or that it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Agreed {
    /// All say the same.
    Kept(Option<usize>),
    /// Two say different things.
    Disagree,
    /// Somebody did not decide.
    Undecided,
}

/// Whether all agree; nobody at all is undecided.
///
/// ```
/// use gradus_annotate::consensus::{Agreed, agree};
/// assert_eq!(agree(&[Some(Some(2)), Some(Some(2))]), Agreed::Kept(Some(2)));
/// assert_eq!(agree(&[Some(None), Some(Some(2))]), Agreed::Disagree);
/// assert_eq!(agree(&[Some(None), None]), Agreed::Undecided);
/// ```
pub fn agree(votes: &[FirstErrorVote]) -> Agreed {
    let Some(first) = votes.first().copied().flatten() else { return Agreed::Undecided };
    if votes.contains(&None) {
        Agreed::Undecided
    } else if votes.iter().all(|vote| *vote == Some(first)) {
        Agreed::Kept(first)
    } else {
        Agreed::Disagree
    }
}

/// The labels of a solution on which `names` agree. A label is also soft where those who agree have soft ones: the mean of
/// theirs. With Monte Carlo and a judge that is Monte Carlo's share, filtered by the judge, as in Qwen's experiment.
pub fn annotation(
    steps: usize,
    first_error: Option<usize>,
    names: &[String],
    agreeing: &[Option<Annotation>],
) -> Annotation {
    let source = LabelSource::Consensus { of: names.to_vec() };
    let mut found = Annotation::from_first_error(steps, first_error, &source);
    for (step, label) in found.labels.iter_mut().enumerate() {
        let Some(label) = label else { continue };
        let own = |annotation: &Annotation| annotation.labels.get(step)?.as_ref()?.value;
        let values: Vec<f64> = agreeing.iter().flatten().filter_map(own).collect();
        if !values.is_empty() {
            label.value = Some(values.iter().sum::<f64>() / values.len() as f64);
        }
    }
    found
}

/// How two annotators go together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PairCounts {
    /// Solutions that both decided.
    pub both: usize,
    /// Both say that there is no error.
    pub no_error: usize,
    /// Both say the same first error.
    pub same_error: usize,
    /// Both see an error, in different places.
    pub other_error: usize,
    /// Only the first sees one.
    pub first_only: usize,
    /// Only the second sees one.
    pub second_only: usize,
}

impl PairCounts {
    /// Counts one solution.
    pub fn count(&mut self, first: FirstErrorVote, second: FirstErrorVote) {
        let (Some(first), Some(second)) = (first, second) else { return };
        self.both += 1;
        match (first, second) {
            (None, None) => self.no_error += 1,
            (Some(a), Some(b)) if a == b => self.same_error += 1,
            (Some(_), Some(_)) => self.other_error += 1,
            (Some(_), None) => self.first_only += 1,
            (None, Some(_)) => self.second_only += 1,
        }
    }

    /// Solutions that a consensus of the two keeps.
    pub fn kept(self) -> usize {
        self.no_error + self.same_error
    }

    /// Of the solutions in which either sees an error, the share in which both see the same first one.
    pub(crate) fn overlap(self) -> Option<f64> {
        let either = self.same_error + self.other_error + self.first_only + self.second_only;
        (either > 0).then(|| self.same_error as f64 / either as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gradus_core::{Mark, StepLabel};

    #[test]
    fn pairs_add_up() {
        let mut pair = PairCounts::default();
        let cases = [
            (Some(None), Some(None)),
            (Some(Some(1)), Some(Some(1))),
            (Some(Some(1)), Some(Some(2))),
            (Some(Some(0)), Some(None)),
            (Some(None), Some(Some(0))),
            (None, Some(None)),
        ];
        for (first, second) in cases {
            pair.count(first, second);
        }
        assert_eq!(
            pair,
            PairCounts { both: 5, no_error: 1, same_error: 1, other_error: 1, first_only: 1, second_only: 1 }
        );
        assert_eq!((pair.kept(), pair.overlap()), (2, Some(0.25)));
    }

    #[test]
    fn consensus_labels_stop_at_the_error() {
        let labels = annotation(3, Some(1), &["a".into(), "b".into()], &[]);
        assert_eq!((labels.labels[2].clone(), first_error_vote(&labels)), (None, Some(Some(1))));
        assert_eq!(agree(&[]), Agreed::Undecided);
    }

    #[test]
    fn soft_values_are_kept() {
        let counted = |successes| {
            let source = LabelSource::MonteCarlo { model: "m".into(), successes, samples: 4 };
            Some(StepLabel::soft(f64::from(successes) / 4.0, source))
        };
        let monte_carlo = Annotation::from_labels(vec![counted(3), counted(1)]);
        let judge = LabelSource::Judge { model: "m".into(), agreeing: 1, votes: 1 };
        let judged = Annotation::from_first_error(2, Some(1), &judge);
        let names = ["monte-carlo m".to_owned(), "judge m".to_owned()];
        let found = annotation(2, Some(1), &names, &[Some(monte_carlo), Some(judged)]);
        let values: Vec<_> = found.labels.iter().flatten().map(|label| (label.mark, label.value)).collect();
        assert_eq!(values, [(Mark::Correct, Some(0.75)), (Mark::Incorrect, Some(0.25))]);
    }
}
