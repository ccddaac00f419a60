//! What every family builds, whatever its reasoning looks like inside: a problem, and a body that can be written
//! out as steps, rightly or with one error.

use super::calc::Calc;
use super::dice::Dice;
use super::grid::Grid;
use super::kinds::ErrorKind;
use super::lookup::Hops;
use gradus_core::Domain;

/// A problem and the reasoning that solves it.
pub(super) struct Plan {
    /// Sentences the answer comes from.
    pub(super) context: Vec<String>,
    /// The whole problem; it says everything that the context says.
    pub(super) text: String,
    pub(super) domain: Domain,
    pub(super) body: PlanBody,
}

/// The reasoning.
pub(super) enum PlanBody {
    Calc(Calc),
    Hops(Hops),
    Grid(Grid),
}

/// A step before a style gives it its wording.
#[derive(Debug, Clone, Default)]
pub(super) struct Piece {
    /// What is found: `the cost of the apples`.
    pub(super) what: String,
    /// How, as a formula: `3 * 4 = 12 dollars`.
    pub(super) formula: String,
    /// How, as it stands in a numbered list: after a heading, and before `so` and the claim.
    pub(super) listed: String,
    pub(super) reason: String,
    /// How, in words and without the unit: `3 times 4 is 12`.
    pub(super) words: String,
    /// The result as a clause: `the apples cost $12`.
    pub(super) claim: String,
    /// An earlier result that the step repeats before using it.
    pub(super) recall: Option<Recall>,
}

/// An earlier result, repeated.
#[derive(Debug, Clone)]
pub(super) struct Recall {
    pub(super) what: String,
    pub(super) value: String,
    pub(super) claim: String,
}

/// A solution before a style gives it its wording.
#[derive(Debug)]
pub(super) struct Draft {
    pub(super) pieces: Vec<Piece>,
    /// The answer that the last step states.
    pub(super) answer: String,
    /// Whether that is the right answer.
    pub(super) right: bool,
    /// Index of the first wrong step; the one after the last piece is the answer's.
    pub(super) first_error: Option<usize>,
    /// Whether later steps build on the error.
    pub(super) propagated: bool,
}

/// How often a step repeats an earlier result that it uses. Right steps must do so too, or repeating one would
/// give the contradictions away.
pub(super) const RECALL: f64 = 0.2;

impl Plan {
    /// A word problem. All sentences are context, the question too.
    pub(super) fn story(mut sentences: Vec<String>, question: impl Into<String>, calc: Calc) -> Self {
        sentences.push(question.into());
        Self {
            text: sentences.join(" "),
            context: sentences,
            domain: Domain::Math,
            body: PlanBody::Calc(calc),
        }
    }

    /// The right solution.
    pub(super) fn solve(&self, dice: &mut Dice, recall: f64) -> Draft {
        match &self.body {
            PlanBody::Calc(calc) => calc.solve(dice, recall),
            PlanBody::Hops(hops) => hops.solve(dice, recall),
            PlanBody::Grid(grid) => grid.solve(dice, recall),
        }
    }

    /// A solution with one error of this kind at a random place, or `None` where the plan offers no place for it.
    pub(super) fn spoil(&self, kind: ErrorKind, propagate: bool, dice: &mut Dice) -> Option<Draft> {
        match &self.body {
            PlanBody::Calc(calc) => calc.spoil(kind, propagate, dice),
            PlanBody::Hops(hops) => hops.spoil(kind, propagate, dice),
            PlanBody::Grid(grid) => grid.spoil(kind, propagate, dice),
        }
    }
}
