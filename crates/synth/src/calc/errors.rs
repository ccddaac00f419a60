//! Spoils one step of a calculation.
//!
//! Every kind proposes edits for every step where it makes sense; one of them is drawn. An edit stands only if the
//! step then claims a value (or unit) that its quantity does not have: `2 + 2` for `2 * 2` is no error.

use super::super::dice::Dice;
use super::super::kinds::ErrorKind;
use super::super::number::Number;
use super::super::plan::{Draft, RECALL};
use super::{Calc, Edit, Op, Q, Shown, Step};

/// Wrong results with more decimals than this look like no slip a person makes.
const DECIMALS: usize = 3;

impl Calc {
    /// A solution with one error of this kind at a random step.
    pub(in super::super) fn spoil(&self, kind: ErrorKind, propagate: bool, dice: &mut Dice) -> Option<Draft> {
        let mut places: Vec<Option<Q>> = self.steps().map(|(q, _)| Some(q)).collect();
        places.push(None);
        dice.shuffle(&mut places);
        places.into_iter().find_map(|place| match place {
            Some(q) => {
                let mut edits = self.edits(kind, q, dice);
                dice.shuffle(&mut edits);
                // A negative count gives the error away; take one only where nothing else is on offer.
                edits.sort_by_key(|edit| edit.result.is_negative() && !self.value(q).is_negative());
                edits.iter().find_map(|edit| self.draft(Some(edit), propagate, dice, RECALL))
            }
            None => self.spoil_answer(kind, dice),
        })
    }

    /// An error in the last line, which states the answer.
    fn spoil_answer(&self, kind: ErrorKind, dice: &mut Dice) -> Option<Draft> {
        let last = self.last();
        let right = self.value(last);
        let mut draft = self.solve(dice, RECALL);
        let wrong = match kind {
            ErrorKind::Contradiction => slip(right, &[], dice)?,
            ErrorKind::SkippedStep => {
                draft.pieces.pop();
                let taken = self.step_of(last)?.terms.iter().find(|&&term| self.step_of(term).is_some())?;
                self.value(*taken)
            }
            _ => return None,
        };
        if wrong == right {
            return None;
        }
        draft.first_error = Some(draft.pieces.len());
        draft.answer = self.answer(wrong);
        draft.right = false;
        Some(draft)
    }

    fn edits(&self, kind: ErrorKind, q: Q, dice: &mut Dice) -> Vec<Edit> {
        let Some(step) = self.step_of(q) else { return Vec::new() };
        let proposed = match kind {
            ErrorKind::ArithmeticSlip => self.slips(q, step, dice),
            ErrorKind::WrongOperator => self.wrong_operators(q, step),
            ErrorKind::MisreadGiven => self.misreadings(q, step, dice),
            ErrorKind::WrongOperand => self.wrong_operands(q, step),
            ErrorKind::SkippedStep => self.omissions(q, step),
            ErrorKind::SignUnit => self.signs_and_units(q, step),
            ErrorKind::Contradiction => self.contradictions(q, step, dice),
        };
        let is_error = |edit: &Edit| {
            (edit.result != self.value(q) || edit.unit != self.unit(q))
                && edit.result.decimals().is_some_and(|places| places <= DECIMALS)
        };
        proposed.into_iter().filter(is_error).collect()
    }

    fn shown(&self, step: &Step) -> Vec<Shown> {
        step.terms.iter().map(|&term| Shown { value: self.value(term), unit: self.unit(term) }).collect()
    }

    /// The step as it is, to be changed.
    fn unchanged(&self, q: Q, step: &Step) -> Edit {
        Edit {
            at: q,
            op: step.op,
            terms: self.shown(step),
            result: self.value(q),
            unit: self.unit(q),
            skipped: None,
            belief: None,
            recalled: false,
        }
    }

    /// The step with another operation or other terms, its result computed from them.
    fn recomputed(&self, q: Q, step: &Step, op: Op, terms: Vec<Shown>) -> Option<Edit> {
        let values: Vec<_> = terms.iter().map(|term| term.value).collect();
        let result = op.apply(&values)?;
        Some(Edit { op, terms, result, ..self.unchanged(q, step) })
    }

    fn slips(&self, q: Q, step: &Step, dice: &mut Dice) -> Vec<Edit> {
        let values: Vec<_> = self.shown(step).iter().map(|term| term.value).collect();
        let neighbours = if step.op == Op::Mul { values.as_slice() } else { &[] };
        slip(self.value(q), neighbours, dice)
            .map(|result| Edit { result, ..self.unchanged(q, step) })
            .into_iter()
            .collect()
    }

    fn wrong_operators(&self, q: Q, step: &Step) -> Vec<Edit> {
        let instead: &[Op] = match step.op {
            // A product of many summands is too large for anybody to believe.
            Op::Add if step.terms.len() > 2 => &[Op::Sub],
            Op::Add => &[Op::Sub, Op::Mul],
            Op::Sub => &[Op::Add],
            Op::Mul => &[Op::Add, Op::Div],
            Op::Div => &[Op::Mul, Op::Sub],
        };
        instead.iter().filter_map(|&op| self.recomputed(q, step, op, self.shown(step))).collect()
    }

    /// The step with one term replaced.
    fn replaced(&self, q: Q, step: &Step, place: usize, by: Shown) -> Option<Edit> {
        let mut terms = self.shown(step);
        terms[place] = by;
        self.recomputed(q, step, step.op, terms)
    }

    fn misreadings(&self, q: Q, step: &Step, dice: &mut Dice) -> Vec<Edit> {
        let mut edits = Vec::new();
        for (place, &term) in step.terms.iter().enumerate() {
            if !matches!(self.quantities[term.0].origin, super::Origin::Given) {
                continue;
            }
            let Some(value) = slip(self.value(term), &[], dice) else { continue };
            // A number that is known from elsewhere would be a wrong operand, not a misreading.
            if self
                .quantities
                .iter()
                .any(|quantity| quantity.value == value || quantity.value == value.negated())
            {
                continue;
            }
            if let Some(edit) = self.replaced(q, step, place, Shown { value, unit: self.unit(term) }) {
                edits.push(Edit { belief: Some((term, value)), ..edit });
            }
        }
        edits
    }

    fn wrong_operands(&self, q: Q, step: &Step) -> Vec<Edit> {
        let known = |other: &usize| {
            !matches!(self.quantities[*other].origin, super::Origin::Constant)
                && !step.terms.contains(&Q(*other))
        };
        let mut edits = Vec::new();
        for other in (0..q.0).filter(known) {
            let by = Shown { value: self.value(Q(other)), unit: self.unit(Q(other)) };
            for (place, &term) in step.terms.iter().enumerate() {
                let constant = matches!(self.quantities[term.0].origin, super::Origin::Constant);
                if !constant && by.value != self.value(term) {
                    edits.extend(self.replaced(q, step, place, by));
                }
            }
        }
        edits
    }

    fn omissions(&self, q: Q, step: &Step) -> Vec<Edit> {
        let mut edits = Vec::new();
        if step.terms.len() > 2 {
            for dropped in 0..step.terms.len() {
                let mut terms = self.shown(step);
                terms.remove(dropped);
                edits.extend(self.recomputed(q, step, step.op, terms));
            }
        }
        for (place, &term) in step.terms.iter().enumerate() {
            let Some(skipped) = self.step_of(term) else { continue };
            // Only the first user of a left-out value is the first error.
            if self.steps().any(|(earlier, other)| earlier < q && other.terms.contains(&term)) {
                continue;
            }
            for &part in &skipped.terms {
                if matches!(self.quantities[part.0].origin, super::Origin::Constant) {
                    continue;
                }
                let value = self.value(part);
                if let Some(edit) = self.replaced(q, step, place, Shown { value, unit: self.unit(part) }) {
                    edits.push(Edit { skipped: Some(term), belief: Some((term, value)), ..edit });
                }
            }
        }
        edits
    }

    fn signs_and_units(&self, q: Q, step: &Step) -> Vec<Edit> {
        let mut edits = Vec::new();
        let value = self.value(q);
        let signed = self.shown(step).iter().any(|term| term.value.is_negative());
        if !value.is_zero() && (step.op == Op::Sub || value.is_negative() || signed) {
            edits.push(Edit { result: value.negated(), ..self.unchanged(q, step) });
        }
        if let Some(unit) = self.unit(q).swapped() {
            edits.push(Edit { unit, ..self.unchanged(q, step) });
        }
        edits
    }

    fn contradictions(&self, q: Q, step: &Step, dice: &mut Dice) -> Vec<Edit> {
        let mut edits = Vec::new();
        for (place, &term) in step.terms.iter().enumerate() {
            if self.step_of(term).is_none() {
                continue;
            }
            let Some(value) = slip(self.value(term), &[], dice) else { continue };
            if let Some(edit) = self.replaced(q, step, place, Shown { value, unit: self.unit(term) }) {
                edits.push(Edit { belief: Some((term, value)), recalled: true, ..edit });
            }
        }
        edits
    }
}

/// A wrong number near the right one, of the same sign: off by a little, by a carried ten, by one of the factors
/// of a product, or with two digits swapped.
fn slip(right: Number, factors: &[Number], dice: &mut Dice) -> Option<Number> {
    let unit = Number::ratio(1, 10i128.pow(right.decimals()? as u32))?;
    let mut wrong = Vec::new();
    for count in [1, 2, 3, 10, 20, 100] {
        let offset = unit.mul(Number::from(count))?;
        // An offset as large as the number itself is no slip.
        if count <= 2
            || offset.mul(Number::from(3))? < if right.is_negative() { right.negated() } else { right }
        {
            wrong.extend([right.add(offset), right.sub(offset)]);
        }
    }
    for &factor in factors {
        wrong.extend([right.add(factor), right.sub(factor)]);
    }
    if let Some(whole) = right.whole().filter(|whole| (10..100).contains(whole) && whole % 10 != 0) {
        wrong.push(Some(Number::from(whole % 10 * 10 + whole / 10)));
    }
    let plausible = |number: &Number| {
        *number != right
            && (number.is_negative() == right.is_negative())
            && (!number.is_zero() || right.is_zero())
    };
    let wrong: Vec<_> = wrong.into_iter().flatten().filter(plausible).collect();
    (!wrong.is_empty()).then(|| dice.pick(&wrong))
}
