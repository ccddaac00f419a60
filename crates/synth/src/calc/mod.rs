//! Reasoning that is a calculation: known quantities, and steps that each derive one more from earlier ones.
//!
//! The last step derives the answer. `errors` spoils a calculation; this file evaluates and words it, spoiled or not.

mod errors;

use super::dice::Dice;
use super::number::Number;
use super::plan::{Draft, Piece, Recall};
use super::unit::Unit;

/// An operation, applied from left to right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Op {
    Add,
    Sub,
    Mul,
    Div,
}

impl Op {
    fn apply(self, values: &[Number]) -> Option<Number> {
        let (first, rest) = values.split_first()?;
        rest.iter().try_fold(*first, |left, &right| match self {
            Self::Add => left.add(right),
            Self::Sub => left.sub(right),
            Self::Mul => left.mul(right),
            Self::Div => left.div(right),
        })
    }

    fn symbol(self) -> &'static str {
        match self {
            Self::Add => " + ",
            Self::Sub => " - ",
            Self::Mul => " * ",
            Self::Div => " / ",
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Add => " plus ",
            Self::Sub => " minus ",
            Self::Mul => " times ",
            Self::Div => " divided by ",
        }
    }
}

/// A handle on a quantity of a [`Calc`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Q(usize);

struct Quantity {
    value: Number,
    unit: Unit,
    origin: Origin,
}

enum Origin {
    /// The problem says it.
    Given,
    /// Everybody knows it: 60 minutes, 100 per cent.
    Constant,
    Step(Step),
}

struct Step {
    op: Op,
    terms: Vec<Q>,
    /// A noun phrase: `the cost of the apples`.
    what: String,
    /// A clause with `{}` for the amount: `the apples cost {}`.
    claim: String,
}

/// A calculation.
#[derive(Default)]
pub(super) struct Calc {
    quantities: Vec<Quantity>,
}

/// A number as it is shown in a step.
#[derive(Debug, Clone, Copy)]
struct Shown {
    value: Number,
    unit: Unit,
}

/// How one step differs from the right one.
struct Edit {
    at: Q,
    op: Op,
    terms: Vec<Shown>,
    result: Number,
    unit: Unit,
    /// The step left out because its value is taken for granted.
    skipped: Option<Q>,
    /// What the writer now believes a quantity to be; later steps share the belief if the error propagates.
    belief: Option<(Q, Number)>,
    /// Whether that belief is stated as an earlier result.
    recalled: bool,
}

impl Calc {
    fn push(&mut self, value: Number, unit: Unit, origin: Origin) -> Q {
        self.quantities.push(Quantity { value, unit, origin });
        Q(self.quantities.len() - 1)
    }

    /// A quantity the problem states.
    pub(super) fn given(&mut self, value: impl Into<Number>, unit: Unit) -> Q {
        self.push(value.into(), unit, Origin::Given)
    }

    /// A quantity everybody knows.
    pub(super) fn constant(&mut self, value: i64) -> Q {
        self.push(value.into(), super::unit::BARE, Origin::Constant)
    }

    /// A step: `what` is a noun phrase, `claim` a clause with `{}` for the amount.
    pub(super) fn step(
        &mut self,
        (op, terms): (Op, &[Q]),
        unit: Unit,
        what: impl Into<String>,
        claim: impl Into<String>,
    ) -> Q {
        let values: Vec<_> = terms.iter().map(|&term| self.value(term)).collect();
        let value = op.apply(&values).expect("a family keeps its numbers small and divides by no zero");
        let step = Step { op, terms: terms.to_vec(), what: what.into(), claim: claim.into() };
        self.push(value, unit, Origin::Step(step))
    }

    /// The true value.
    pub(super) fn value(&self, quantity: Q) -> Number {
        self.quantities[quantity.0].value
    }

    fn unit(&self, quantity: Q) -> Unit {
        self.quantities[quantity.0].unit
    }

    fn step_of(&self, quantity: Q) -> Option<&Step> {
        match &self.quantities[quantity.0].origin {
            Origin::Step(step) => Some(step),
            Origin::Given | Origin::Constant => None,
        }
    }

    fn steps(&self) -> impl Iterator<Item = (Q, &Step)> {
        (0..self.quantities.len()).filter_map(|index| Some((Q(index), self.step_of(Q(index))?)))
    }

    /// The quantity asked for. Later quantities, if any, are distractors.
    fn last(&self) -> Q {
        self.steps().last().expect("a calculation has steps").0
    }

    fn answer(&self, value: Number) -> String {
        self.unit(self.last()).digits(value)
    }

    /// The right solution.
    pub(super) fn solve(&self, dice: &mut Dice, recall: f64) -> Draft {
        self.draft(None, false, dice, recall).expect("the true values were computed before")
    }

    /// Evaluates and words every step. `None` where a wrong value makes a later step impossible.
    fn draft(&self, edit: Option<&Edit>, propagate: bool, dice: &mut Dice, recall: f64) -> Option<Draft> {
        let mut values: Vec<Number> = self.quantities.iter().map(|quantity| quantity.value).collect();
        let mut units: Vec<Unit> = self.quantities.iter().map(|quantity| quantity.unit).collect();
        let mut pieces = Vec::new();
        let mut first_error = None;
        for (q, step) in self.steps() {
            if edit.is_some_and(|edit| edit.skipped == Some(q)) {
                continue;
            }
            let mut recalled = None;
            let (op, terms, shown) = match edit {
                Some(edit) if edit.at == q => {
                    first_error = Some(pieces.len());
                    recalled = edit.belief.filter(|_| edit.recalled);
                    if propagate {
                        if let Some((believed, value)) = edit.belief {
                            values[believed.0] = value;
                        }
                        values[q.0] = edit.result;
                        let wrong_unit = |unit: &mut Unit| {
                            if *unit == self.unit(q) {
                                *unit = edit.unit;
                            }
                        };
                        units[q.0..].iter_mut().for_each(wrong_unit);
                    }
                    (edit.op, edit.terms.clone(), Shown { value: edit.result, unit: edit.unit })
                }
                _ => {
                    let show = |term: &Q| Shown { value: values[term.0], unit: units[term.0] };
                    let terms: Vec<_> = step.terms.iter().map(show).collect();
                    let numbers: Vec<_> = terms.iter().map(|term| term.value).collect();
                    values[q.0] = step.op.apply(&numbers)?;
                    (step.op, terms, Shown { value: values[q.0], unit: units[q.0] })
                }
            };
            if recalled.is_none() && dice.chance(recall) {
                let repeatable = |term: &&Q| {
                    self.step_of(**term).is_some()
                        && edit.is_none_or(|edit| edit.skipped != Some(**term))
                        && terms.iter().any(|shown| shown.value == values[term.0])
                };
                recalled = step.terms.iter().find(repeatable).map(|term| (*term, values[term.0]));
            }
            let mut piece = word(step, op, &terms, shown);
            piece.recall = recalled.and_then(|(q, value)| {
                let amount = units[q.0].amount(value);
                let earlier = self.step_of(q)?;
                let claim = earlier.claim.replace("{}", &amount);
                Some(Recall { what: earlier.what.clone(), value: amount, claim })
            });
            pieces.push(piece);
        }
        let last = self.last();
        let propagated = propagate && first_error.is_some();
        let right = values[last.0] == self.value(last);
        Some(Draft { pieces, answer: self.answer(values[last.0]), right, first_error, propagated })
    }
}

fn word(step: &Step, op: Op, terms: &[Shown], result: Shown) -> Piece {
    let digits: Vec<_> = terms.iter().map(|term| term.unit.digits(term.value)).collect();
    // A subtracted negative number needs parentheses in a formula, not in words.
    let bracketed: Vec<_> = digits
        .iter()
        .enumerate()
        .map(
            |(i, number)| {
                if i > 0 && number.starts_with('-') { format!("({number})") } else { number.clone() }
            },
        )
        .collect();
    let value = result.unit.digits(result.value);
    let formula = format!("{} = {value}{}", bracketed.join(op.symbol()), result.unit.suffix(result.value));
    Piece {
        what: step.what.clone(),
        listed: formula.clone(),
        reason: formula.clone(),
        formula,
        words: format!("{} is {value}", digits.join(op.word())),
        claim: step.claim.replace("{}", &result.unit.amount(result.value)),
        recall: None,
    }
}
