//! Whether the two sides of an equality have the same value: exactly, as a rounding, or not.
//!
//! Rational values are compared exactly, others by the grader's proofs. A difference counts as proved only when rounding
//! cannot explain it, and when no other usual reading of the notation, no conversion of units and no running total
//! (`5 + 3 = 8 + 2 = 10`) makes the sides equal.

use dashu_base::{Abs, BitTest};

use super::operands::{Line, Operand};
use super::read::{Reading, Side, read};
use super::{excuses, quick, rounding};
use crate::expr::{Expr, Function};
use crate::numeric::{self, Points};
use crate::{Verdict as Grade, equal, exact};

/// Sides that may need more bits are not decided.
const MAX_BITS: u64 = 2_048;
/// Irrational values that agree up to this share of them are equal.
const PRECISION: f64 = 1e-9;

/// How two sides compare.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Agreement {
    /// The same value.
    Equal,
    /// One is the other, rounded to the digits that are written.
    Rounded,
    /// It cannot be told, or something may explain the difference.
    Unsure,
    Different,
}

/// Two sides that were read, and what became of them.
pub(super) struct Decision {
    pub(super) agreement: Agreement,
    pub(super) left: Side,
    pub(super) right: Side,
}

/// Compares two sides; `None` when one is not closed, or when neither computes anything.
pub(super) fn decide(line: Line<'_>, left: &Operand, right: &Operand, approx: bool) -> Option<Decision> {
    let (l, mut r) = (read(line, left, Reading::Usual)?, read(line, right, Reading::Usual)?);
    let names = left.after_word && l.literal;
    if (l.literal && r.literal) || names {
        return None;
    }
    let mut agreement = compare(&l.expr, &r.expr, approx);
    if agreement == Agreement::Different {
        r.units.extend(line.unit_after(right.tokens.end));
        if is_excused(line, left, right, (&l, &r), approx) {
            agreement = Agreement::Unsure;
        }
    }
    Some(Decision { agreement, left: l, right: r })
}

fn is_excused(line: Line<'_>, left: &Operand, right: &Operand, sides: (&Side, &Side), approx: bool) -> bool {
    let (l, r) = sides;
    let is_range = |operand: &Operand| line.is_range(operand.tokens.start, operand.tokens.end);
    left.doubt
        || right.doubt
        || line.is_list(left.tokens.start, right.tokens.end)
        || (is_range(left) && is_range(right))
        || excuses::is_running(&l.expr, &r.expr)
        || excuses::units_differ(l, r)
        || excuses::names_value(l, r)
        || Reading::OTHERS.iter().any(|reading| reads_equal(line, (left, right), sides, *reading, approx))
}

/// Another reading of one side or both makes them equal.
fn reads_equal(
    line: Line<'_>,
    operands: (&Operand, &Operand),
    (l, r): (&Side, &Side),
    reading: Reading,
    approx: bool,
) -> bool {
    // Whole quotients are compared with what was not divided.
    if reading == Reading::WholeQuotients && has_quotient(&l.expr) == has_quotient(&r.expr) {
        return false;
    }
    let other = |operand: &Operand, usual: &Side| {
        read(line, operand, reading).map(|side| side.expr).filter(|expr| *expr != usual.expr)
    };
    let (other_l, other_r) = (other(operands.0, l), other(operands.1, r));
    let same = |a: &Expr, b: &Expr| match compare(a, b, approx) {
        Agreement::Equal | Agreement::Rounded => true,
        // `898/1300 × 100 = 69%`.
        Agreement::Unsure => reading == Reading::PlainPercent,
        Agreement::Different => false,
    };
    other_l.as_ref().is_some_and(|a| same(a, &r.expr))
        || other_r.as_ref().is_some_and(|b| same(&l.expr, b))
        || matches!((&other_l, &other_r), (Some(a), Some(b)) if same(a, b))
}

/// Compares two values.
fn compare(left: &Expr, right: &Expr, approx: bool) -> Agreement {
    if let (Some(a), Some(b)) = (quick::value(left), quick::value(right))
        && a == b
    {
        return Agreement::Equal;
    }
    if size(left) > MAX_BITS || size(right) > MAX_BITS {
        return match equal::same(left, right) {
            Grade::Equal => Agreement::Equal,
            Grade::Different => Agreement::Different,
            Grade::Undecided(_) => Agreement::Unsure,
        };
    }
    match (exact::value(left), exact::value(right)) {
        (Some(a), Some(b)) if a == b => Agreement::Equal,
        (Some(a), Some(b)) => rounding::rational(left, &a, right, &b, approx),
        // A division by zero or a root of a negative number.
        _ if !is_irrational(left) && !is_irrational(right) => Agreement::Unsure,
        _ => irrational(left, right, approx),
    }
}

/// Values that double precision tells apart are compared by the grader's proofs as well; those that it does not tell
/// apart agree in all of their digits that it has.
fn irrational(left: &Expr, right: &Expr, approx: bool) -> Agreement {
    let value = |expr: &Expr| numeric::value(expr, 0, Points::Positive).filter(|value| value.im == 0.0);
    let (Some(a), Some(b)) = (value(left), value(right)) else { return Agreement::Unsure };
    let distance = (a.re - b.re).abs();
    if distance <= a.err + b.err {
        let certain = a.err + b.err <= PRECISION * a.abs().max(b.abs());
        return if certain { Agreement::Equal } else { Agreement::Unsure };
    }
    if rounding::is_rounding(left, right, (a.re, b.re), approx) {
        return Agreement::Rounded;
    }
    let differ = || equal::same(left, right) == Grade::Different;
    if rounding::meet(left, right, approx) == Some(false) && differ() {
        Agreement::Different
    } else {
        Agreement::Unsure
    }
}

/// At most so many bits are needed for the exact value.
fn size(expr: &Expr) -> u64 {
    match expr {
        Expr::Number { value, .. } => (value.numerator().bit_len() + value.denominator().bit_len()) as u64,
        Expr::Sum(terms) => terms.iter().fold(0, |total, (_, term)| total + size(term)),
        Expr::Product(factors) => factors.iter().fold(0, |total, (_, factor)| total + size(factor)),
        Expr::Percent(inner) => size(inner) + 7,
        Expr::Root(index, inner) => size(index) + size(inner),
        Expr::Power(base, exponent) => {
            let times = if size(exponent) > 40 { None } else { exact::value(exponent) };
            let times = times.map(|times| times.abs().ceil()).and_then(|times| u64::try_from(times).ok());
            times.map_or(MAX_BITS + 1, |times| (size(base) * times.max(1)).min(MAX_BITS + 1))
        }
        Expr::Call(Function::Sin | Function::Cos | Function::Tan, _) => 2,
        Expr::Call(Function::Floor, arguments) => arguments.first().map_or(0, size),
        Expr::Call(_, arguments) => match arguments.first() {
            // n! has fewer than n·log₂ n bits.
            Some(Expr::Number { value, .. }) => exact::integer(value)
                .and_then(|n| u64::try_from(n).ok())
                .map_or(MAX_BITS + 1, |n| n.min(MAX_BITS) * u64::from(64 - n.leading_zeros())),
            _ => MAX_BITS + 1,
        },
        _ => 2,
    }
}

fn has_quotient(expr: &Expr) -> bool {
    expr.any(&|node| matches!(node, Expr::Product(factors) if factors.iter().any(|(divides, _)| *divides)))
}

/// True when a part may have no rational value.
pub(super) fn is_irrational(expr: &Expr) -> bool {
    expr.any(&|node| matches!(node, Expr::Pi | Expr::Root(..) | Expr::Call(Function::Sin | Function::Cos | Function::Tan, _)))
        || expr.any(&|node| matches!(node, Expr::Power(_, exponent) if exact::value(exponent).is_some_and(|e| !e.is_int())))
}
