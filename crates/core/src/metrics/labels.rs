//! An annotator's step labels against human ones.
//!
//! A step that the annotator did not decide is not right: it stays in accuracy and in the recall of its class, and is
//! counted apart. It claims nothing, so precision leaves it out. F1 = 2·hits / (2·hits + wrong claims + missed), where
//! an undecided step is missed.

use serde::{Deserialize, Serialize};

use super::process::{Located, ProcessScores, scores};
use super::share;

/// One step: is it right?
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// According to a human.
    pub human: bool,
    /// According to the annotator; none when it did not decide.
    pub annotator: Option<bool>,
}

/// What the annotator made of the steps of one class.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VerdictCounts {
    /// 'Right'.
    pub right: usize,
    /// 'Wrong'.
    pub wrong: usize,
    /// Nothing.
    pub undecided: usize,
}

/// The numbers of one class, as shares of 1.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct ClassScores {
    /// Steps of the class, according to humans.
    pub steps: usize,
    /// Share of the annotator's claims of this class that humans share.
    pub precision: Option<f64>,
    /// Share of the class that the annotator found.
    pub recall: Option<f64>,
    /// Their harmonic mean; 0 when nothing was found, none when there was nothing to find or to claim.
    pub f1: Option<f64>,
}

/// An annotator's agreement with humans, as shares of 1.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Agreement {
    /// Steps.
    pub steps: usize,
    /// Steps that the annotator did not decide.
    pub undecided: usize,
    /// What was said of right steps.
    pub said_of_right: VerdictCounts,
    /// What was said of wrong steps.
    pub said_of_wrong: VerdictCounts,
    /// Share of steps with the human label.
    pub accuracy: Option<f64>,
    /// Mean of the two recalls: does not reward always saying the commoner label.
    pub balanced_accuracy: Option<f64>,
    /// With 'right' as the class sought.
    pub right: ClassScores,
    /// With 'wrong' as the class sought.
    pub wrong: ClassScores,
}

/// The agreement over `steps`.
///
/// ```
/// use gradus_core::metrics::labels::{Step, agreement};
/// let step = |human, annotator| Step { human, annotator };
/// let right = [step(true, Some(true)), step(true, None)];
/// let wrong = [step(false, Some(false)), step(false, Some(true))];
/// let found = agreement(&[right, wrong].concat());
/// assert_eq!((found.accuracy, found.undecided), (Some(0.5), 1));
/// assert_eq!((found.wrong.precision, found.wrong.recall), (Some(1.0), Some(0.5)));
/// ```
pub fn agreement(steps: &[Step]) -> Agreement {
    let mut counts = AgreementCounts::default();
    steps.iter().for_each(|step| counts.add(*step));
    counts.agreement()
}

/// What an annotator made of right and of wrong steps: enough for an [`Agreement`], step by step and without keeping them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AgreementCounts {
    /// What was said of right steps.
    pub said_of_right: VerdictCounts,
    /// What was said of wrong steps.
    pub said_of_wrong: VerdictCounts,
}

impl AgreementCounts {
    /// Counts a step.
    pub fn add(&mut self, step: Step) {
        let said = if step.human { &mut self.said_of_right } else { &mut self.said_of_wrong };
        *match step.annotator {
            Some(true) => &mut said.right,
            Some(false) => &mut said.wrong,
            None => &mut said.undecided,
        } += 1;
    }

    /// The agreement over the steps so far.
    pub fn agreement(self) -> Agreement {
        let Self { said_of_right: of_right, said_of_wrong: of_wrong } = self;
        let right = class(of_right.right, of_right.wrong + of_right.undecided, of_wrong.right);
        let wrong = class(of_wrong.wrong, of_wrong.right + of_wrong.undecided, of_right.wrong);
        let steps = right.steps + wrong.steps;
        Agreement {
            steps,
            undecided: of_right.undecided + of_wrong.undecided,
            said_of_right: of_right,
            said_of_wrong: of_wrong,
            accuracy: share(of_right.right + of_wrong.wrong, steps),
            balanced_accuracy: right.recall.zip(wrong.recall).map(|(right, wrong)| (right + wrong) / 2.0),
            right,
            wrong,
        }
    }
}

/// Where the first error of a solution is, for humans and for the annotator. An undecided step before the first that
/// the annotator called wrong leaves open where its first error is.
///
/// ```
/// use gradus_core::metrics::labels::{Step, first_error};
/// let step = |human, annotator| Step { human, annotator };
/// let solution = [step(true, Some(true)), step(false, Some(false)), step(false, None)];
/// assert_eq!((first_error(&solution).truth, first_error(&solution).predicted), (Some(1), Some(Some(1))));
/// ```
pub fn first_error(solution: &[Step]) -> Located {
    let stop = solution.iter().position(|step| step.annotator != Some(true));
    Located {
        predicted: match stop {
            Some(step) if solution[step].annotator.is_none() => None,
            found => Some(found),
        },
        truth: solution.iter().position(|step| !step.human),
    }
}

/// Agreement on the first error of each solution, with the numbers of ProcessBench.
pub fn first_errors<S: AsRef<[Step]>>(solutions: &[S]) -> ProcessScores {
    let located: Vec<Located> = solutions.iter().map(|solution| first_error(solution.as_ref())).collect();
    scores(&located)
}

fn class(hits: usize, missed: usize, wrong_claims: usize) -> ClassScores {
    ClassScores {
        steps: hits + missed,
        precision: share(hits, hits + wrong_claims),
        recall: share(hits, hits + missed),
        f1: share(2 * hits, 2 * hits + missed + wrong_claims),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn steps(labels: &[(bool, Option<bool>)]) -> Vec<Step> {
        labels.iter().map(|&(human, annotator)| Step { human, annotator }).collect()
    }

    #[test]
    fn no_steps_no_numbers() {
        assert_eq!(agreement(&[]), Agreement::default());
        assert_eq!(first_errors::<Vec<Step>>(&[]), ProcessScores::default());
    }

    #[test]
    fn always_saying_right_is_accurate_but_not_balanced() {
        let mut labels = vec![(true, Some(true)); 9];
        labels.push((false, Some(true)));
        let found = agreement(&steps(&labels));
        assert_eq!((found.accuracy, found.balanced_accuracy), (Some(0.9), Some(0.5)));
        assert_eq!((found.wrong.precision, found.wrong.recall, found.wrong.f1), (None, Some(0.0), Some(0.0)));
        assert_eq!((found.right.precision, found.right.recall), (Some(0.9), Some(1.0)));
    }

    #[test]
    fn an_undecided_step_hides_what_comes_after() {
        let located = |labels: &[(bool, Option<bool>)]| first_error(&steps(labels)).predicted;
        assert_eq!(located(&[(true, Some(true)), (true, Some(true))]), Some(None));
        assert_eq!(located(&[(true, None), (false, Some(false))]), None);
        assert_eq!(located(&[(false, Some(false)), (true, None)]), Some(Some(0)));
        let found =
            first_errors(&[steps(&[(true, None), (false, Some(false))]), steps(&[(true, Some(true))])]);
        assert_eq!((found.undecided, found.acc_err, found.acc_cor), (1, Some(0.0), Some(1.0)));
    }

    proptest! {
        #[test]
        fn every_step_is_counted_once(
            labels in prop::collection::vec((any::<bool>(), prop::option::of(any::<bool>())), 0..60)
        ) {
            let found = agreement(&steps(&labels));
            let total = |said: VerdictCounts| said.right + said.wrong + said.undecided;
            prop_assert_eq!(total(found.said_of_right) + total(found.said_of_wrong), labels.len());
            prop_assert_eq!(total(found.said_of_right), found.right.steps);
            prop_assert_eq!(total(found.said_of_wrong), found.wrong.steps);
            let class = found.wrong;
            if let (Some(precision), Some(recall), Some(f1)) = (class.precision, class.recall, class.f1) {
                prop_assert!((f1 * (precision + recall) - 2.0 * precision * recall).abs() < 1e-12);
            }
            // The same labels with right and wrong exchanged have the classes exchanged.
            let turned: Vec<_> = labels.iter().map(|&(human, said)| (!human, said.map(|said| !said))).collect();
            let turned = agreement(&steps(&turned));
            prop_assert_eq!((turned.right, turned.wrong, turned.accuracy), (found.wrong, found.right, found.accuracy));
        }
    }
}
