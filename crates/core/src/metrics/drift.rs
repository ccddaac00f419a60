//! Is a process reward model an outcome model in disguise? (Zhang et al., 2025, "The Lessons of Developing PRMs")
//!
//! Such a model waits for the answer: on solutions with a wrong answer its lowest score is at the last step, and
//! solutions that reach the right answer by a wrong way pass. Among equal minima the earliest counts. A score that is
//! not a number is no verdict: it counts as the lowest and as below every threshold, as in [`super::process`].

use serde::{Deserialize, Serialize};

use super::share;
use crate::select::DecisionRule;

/// Bars of the histogram of positions.
pub const BINS: usize = 10;

/// One scored solution.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scored<'a> {
    /// Its step scores; none when it could not be scored.
    pub scores: Option<&'a [f64]>,
    /// Whether its final answer is right.
    pub right_answer: bool,
    /// Its first wrong step, the inner none for a right process; none when the process is not labelled.
    pub first_error: Option<Option<usize>>,
}

/// Where the lowest score lies. Solutions of one step say nothing about that and are left out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Minimum {
    /// Scored solutions of two steps or more.
    pub solutions: usize,
    /// Share of them whose lowest score is at the last step.
    pub at_last: Option<f64>,
    /// What that share would be if the lowest score could be anywhere: the mean of 1/steps.
    pub by_chance: Option<f64>,
    /// Solutions by the relative position of the lowest score, step / (steps − 1), in ten bars of equal width; the
    /// last one holds the last step.
    pub positions: [usize; BINS],
}

/// Solutions in which a first error is seen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Flagged {
    /// Solutions, those that could not be scored too.
    pub solutions: usize,
    /// Share of them with a first error by the rule; what could not be scored is not flagged.
    pub share: Option<f64>,
}

/// How much a process reward model looks at the outcome.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Drift {
    /// Solutions that could not be scored.
    pub undecided: usize,
    /// On solutions with a wrong answer.
    pub wrong_answer: Minimum,
    /// On solutions with a right answer.
    pub right_answer: Minimum,
    /// Of solutions with a right answer but a wrong process: detected.
    pub detected: Flagged,
    /// Of solutions with a right answer and a right process: false alarms.
    pub false_alarms: Flagged,
}

/// The numbers over `solutions`, with first errors by `rule`.
///
/// ```
/// use gradus_core::metrics::drift::{Scored, drift};
/// use gradus_core::select::DecisionRule;
/// let wrong = Scored { scores: Some(&[0.9, 0.8, 0.1]), right_answer: false, first_error: None };
/// let lucky = Scored { scores: Some(&[0.9, 0.7, 0.9]), right_answer: true, first_error: Some(Some(1)) };
/// let found = drift(&[wrong, lucky], DecisionRule::default());
/// assert_eq!((found.wrong_answer.at_last, found.wrong_answer.by_chance), (Some(1.0), Some(1.0 / 3.0)));
/// assert_eq!((found.detected.share, found.false_alarms.share), (Some(0.0), None));
/// ```
pub fn drift(solutions: &[Scored], rule: DecisionRule) -> Drift {
    let flagged = |process_right: bool| {
        let of_kind = |solution: &&Scored| {
            solution.right_answer
                && solution.first_error.is_some_and(|error| error.is_none() == process_right)
        };
        let found =
            |solution: &Scored| solution.scores.is_some_and(|scores| rule.first_error(scores).is_some());
        let count = solutions.iter().filter(of_kind).count();
        let below = solutions.iter().filter(of_kind).filter(|solution| found(solution)).count();
        Flagged { solutions: count, share: share(below, count) }
    };
    let with_answer = |right: bool| {
        let of_kind = solutions.iter().filter(move |solution| solution.right_answer == right);
        of_kind.filter_map(|solution| solution.scores)
    };
    Drift {
        undecided: solutions.iter().filter(|solution| solution.scores.is_none_or(<[f64]>::is_empty)).count(),
        wrong_answer: minimum(with_answer(false)),
        right_answer: minimum(with_answer(true)),
        detected: flagged(false),
        false_alarms: flagged(true),
    }
}

/// The step with the lowest score, the earliest among equals; none without steps.
fn lowest(scores: &[f64]) -> Option<usize> {
    let rank = |score: f64| if score.is_nan() { f64::NEG_INFINITY } else { score };
    let mut lowest: Option<usize> = None;
    for (step, &score) in scores.iter().enumerate() {
        if lowest.is_none_or(|other| rank(score) < rank(scores[other])) {
            lowest = Some(step);
        }
    }
    lowest
}

fn minimum<'a>(solutions: impl Iterator<Item = &'a [f64]>) -> Minimum {
    let mut found = Minimum::default();
    let (mut at_last, mut chances) = (0, 0.0);
    for scores in solutions.filter(|scores| scores.len() > 1) {
        let (Some(step), last) = (lowest(scores), scores.len() - 1) else { continue };
        found.solutions += 1;
        found.positions[(BINS * step / last).min(BINS - 1)] += 1;
        at_last += usize::from(step == last);
        chances += 1.0 / scores.len() as f64;
    }
    found.at_last = share(at_last, found.solutions);
    found.by_chance = (found.solutions > 0).then(|| chances / found.solutions as f64);
    found
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const RULE: DecisionRule = DecisionRule::Threshold { threshold: 0.5 };

    fn scored(scores: &[f64], right_answer: bool, first_error: Option<Option<usize>>) -> Scored<'_> {
        Scored { scores: Some(scores), right_answer, first_error }
    }

    #[test]
    fn no_solutions_no_numbers() {
        assert_eq!(drift(&[], RULE), Drift::default());
    }

    #[test]
    fn ties_go_to_the_earliest_and_single_steps_say_nothing() {
        let found = drift(&[scored(&[0.1, 0.9, 0.1], false, None), scored(&[0.1], false, None)], RULE);
        assert_eq!((found.wrong_answer.solutions, found.wrong_answer.at_last), (1, Some(0.0)));
        assert_eq!(found.wrong_answer.positions, [1, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!((found.right_answer.solutions, found.right_answer.at_last), (0, None));
        assert_eq!(lowest(&[0.5, f64::NAN, 0.1]), Some(1));
        assert_eq!(lowest(&[0.9, 0.2, 0.2]), Some(1));
        assert_eq!(lowest(&[]), None);
    }

    #[test]
    fn what_is_not_scored_is_not_detected() {
        let unscored = Scored { scores: None, right_answer: true, first_error: Some(Some(0)) };
        let found = drift(&[unscored, scored(&[0.9, 0.2], true, Some(Some(0)))], RULE);
        assert_eq!((found.undecided, found.detected.solutions, found.detected.share), (1, 2, Some(0.5)));
        // Any step below counts, also where it is not the first error.
        assert_eq!(found.false_alarms, Flagged::default());
    }

    #[test]
    fn answer_and_process_are_told_apart() {
        let low: &[f64] = &[0.9, 0.2];
        let found = drift(
            &[
                scored(low, true, Some(None)),
                scored(&[0.9, 0.9], true, Some(None)),
                scored(low, true, None),
                scored(low, false, Some(Some(1))),
                scored(low, false, Some(None)),
            ],
            RULE,
        );
        assert_eq!((found.false_alarms.solutions, found.false_alarms.share), (2, Some(0.5)));
        assert_eq!((found.detected.solutions, found.detected.share), (0, None));
        assert_eq!((found.right_answer.solutions, found.wrong_answer.solutions), (3, 2));
    }

    proptest! {
        #[test]
        fn the_last_bar_holds_the_last_step(
            solutions in prop::collection::vec(prop::collection::vec(0.0..1.0f64, 0..15), 0..30)
        ) {
            let scored: Vec<Scored> = solutions.iter().map(|scores| scored(scores, false, None)).collect();
            let found = drift(&scored, RULE);
            prop_assert_eq!(found.wrong_answer.positions.iter().sum::<usize>(), found.wrong_answer.solutions);
            let at_last = found.wrong_answer.at_last.unwrap_or(0.0) * found.wrong_answer.solutions as f64;
            prop_assert!(at_last <= found.wrong_answer.positions[BINS - 1] as f64 + 1e-9);
            prop_assert_eq!(found.undecided, solutions.iter().filter(|scores| scores.is_empty()).count());
        }
    }
}
