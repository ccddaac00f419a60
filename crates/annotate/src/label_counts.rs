//! Counts over an annotator's labels, solution by solution: what it decided, and how that agrees with true labels.

use gradus_core::metrics::labels::{Agreement, AgreementCounts, Step};
use gradus_core::metrics::process::{Located, ProcessCounts, ProcessScores};
use gradus_core::{Annotation, Mark};

use crate::consensus::first_error_vote;

/// Counts so far. They take the same room however many solutions there are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LabelCounts {
    /// Solutions that were decided.
    pub decided: usize,
    /// Steps with a label.
    pub labels: usize,
    /// Solutions with an error.
    pub errors: usize,
    steps: AgreementCounts,
    first_errors: ProcessCounts,
}

impl LabelCounts {
    /// Counts a solution: its true labels, where they are known, and what the annotator says, where it decided.
    pub fn add(&mut self, truth: Option<&Annotation>, found: Option<&Annotation>) {
        let vote = found.and_then(first_error_vote);
        self.decided += usize::from(vote.is_some());
        self.errors += usize::from(vote.flatten().is_some());
        self.labels += found.map_or(0, |found| found.labels.iter().flatten().count());
        let Some(truth) = truth else { return };
        steps_with_truth(truth, found).for_each(|step| self.steps.add(step));
        if let Some(truth) = first_error_vote(truth) {
            self.first_errors.add(Located { predicted: vote, truth });
        }
    }

    /// Agreement with true labels, step by step; none where there are none.
    pub fn agreement(&self) -> Option<Agreement> {
        Some(self.steps.agreement()).filter(|found| found.steps > 0)
    }

    /// Agreement with true labels about the first error; none where there are none.
    pub fn first_errors(&self) -> Option<ProcessScores> {
        Some(self.first_errors.scores()).filter(|found| found.erroneous + found.error_free > 0)
    }
}

/// The steps that have a true label, also after the first error, with what the annotator says of them.
pub(crate) fn steps_with_truth<'a>(
    truth: &'a Annotation,
    found: Option<&'a Annotation>,
) -> impl Iterator<Item = Step> + 'a {
    let right = |mark: Mark| mark != Mark::Incorrect;
    let known = truth.labels.iter().enumerate().filter_map(|(step, label)| Some((step, label.as_ref()?)));
    known.map(move |(step, label)| Step {
        human: right(label.mark),
        annotator: found.and_then(|found| found.labels.get(step)?.as_ref()).map(|label| right(label.mark)),
    })
}
