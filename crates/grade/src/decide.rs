//! Are two scalar expressions equal? Exactly where that is feasible, else by a guarded numeric test.
//!
//! 1. Rational numbers are compared exactly.
//! 2. What the finite field holds is compared there ([`super::field`]).
//! 3. The rest is evaluated numerically with error bounds; an agreement of constants is confirmed to 256 bits, one of
//!    functions on all sides of their branch points ([`super::branches`]).
//!
//! A decimal of six or more places counts as a rounding of the exact value when it is that value rounded or cut off.

use dashu_base::{Abs, Signed};
use dashu_int::IBig;
use dashu_ratio::RBig;

use super::expr::Expr;
use super::numeric::{Approx, Points};
use super::{Reason, Verdict, branches, curves, exact, field, numeric, precise};

/// Decimals with at least this many places are taken as roundings.
const ROUNDED_PLACES: u32 = 6;
/// A rounding has at least this many units in its last place, so five digits: 0.000001 rounds nothing.
const ROUNDED_UNITS: u32 = 10_000;
const FIELD_ROUNDS: u64 = 3;
const NUMERIC_ROUNDS: u64 = 12;
/// Numeric points that must agree.
const NEEDED_POINTS: usize = 3;

/// Decides whether `a` and `b` have the same value for all values of their variables.
pub(super) fn scalars(a: &Expr, b: &Expr) -> Verdict {
    if a == b {
        return Verdict::Equal;
    }
    if let Some(verdict) = infinite(a, b) {
        return verdict;
    }
    match (exact::value(a), exact::value(b)) {
        (Some(x), Some(y)) => {
            let equal = x == y || is_rounding(a, &x, &y) || is_rounding(b, &y, &x) || same_digits(a, b);
            return if equal { Verdict::Equal } else { Verdict::Different };
        }
        (Some(x), None) if decimals(a) >= ROUNDED_PLACES && is_constant(b) => return rounded(a, &x, b),
        (None, Some(y)) if decimals(b) >= ROUNDED_PLACES && is_constant(a) => return rounded(b, &y, a),
        _ => {}
    }
    if let Some(equal) = by_field(a, b) {
        return if equal { Verdict::Equal } else { Verdict::Different };
    }
    by_numbers(a, b)
}

/// Decides whether `a = 0` and `b = 0` are the same equation: one is a constant multiple of the other, or they have the
/// same solutions where such are found.
pub(super) fn equations(a: &Expr, b: &Expr) -> Verdict {
    match proportional(a, b) {
        Verdict::Equal => Verdict::Equal,
        verdict => curves::same_solutions(a, b).unwrap_or(verdict),
    }
}

/// Whether `a` is a positive or a negative constant multiple of `b`; `None` when it is none, or that is not known.
pub(super) fn positive_multiple(a: &Expr, b: &Expr) -> Option<bool> {
    if proportional(a, b) != Verdict::Equal {
        return None;
    }
    (0..NUMERIC_ROUNDS).find_map(|round| {
        let (x, y) =
            (numeric::value(a, round, Points::Positive)?, numeric::value(b, round, Points::Positive)?);
        let sure = |value: Approx| value.im == 0.0 && value.re.abs() > value.err * 8.0;
        (sure(x) && sure(y)).then_some((x.re > 0.0) == (y.re > 0.0))
    })
}

fn proportional(a: &Expr, b: &Expr) -> Verdict {
    let field_points: Option<Vec<_>> =
        (0..=FIELD_ROUNDS).map(|round| Some((field::value(a, round)?, field::value(b, round)?))).collect();
    if let Some(points) = field_points {
        let (first_a, first_b) = points[0];
        if first_a == field::Element::ZERO || first_b == field::Element::ZERO {
            return if points.iter().all(|(a, b)| a == b) { Verdict::Equal } else { Verdict::Different };
        }
        let same = points[1..].iter().all(|(a, b)| a.mul(first_b) == b.mul(first_a));
        return if same { Verdict::Equal } else { Verdict::Different };
    }
    let kind = branches::points_for(a, b);
    let branching = branches::may_branch(a) || branches::may_branch(b);
    let mut points: Vec<(Approx, Approx)> = (0..NUMERIC_ROUNDS)
        .filter_map(|round| Some((numeric::value(a, round, kind)?, numeric::value(b, round, kind)?)))
        .take(NEEDED_POINTS + 1)
        .collect();
    if branching {
        points.extend(branches::values(a, b));
    }
    if points.len() <= NEEDED_POINTS {
        return Verdict::Undecided(Reason::Inconclusive);
    }
    let (first_a, first_b) = points[0];
    // Identically zero on one side: everything would be proportional to it.
    if first_a.abs() <= first_a.err * 8.0 || first_b.abs() <= first_b.err * 8.0 {
        return Verdict::Undecided(Reason::Inconclusive);
    }
    let mut equal = true;
    for (a, b) in &points[1..] {
        match (a.mul(first_b), b.mul(first_a)) {
            (Some(left), Some(right)) => equal &= close(left, right) == Some(true),
            _ => return Verdict::Undecided(Reason::Inconclusive),
        }
    }
    match equal {
        true if branching && branches::has_steps(a, b) => Verdict::Undecided(Reason::Inconclusive),
        true => Verdict::Equal,
        false => Verdict::Different,
    }
}

pub(super) fn is_constant(expr: &Expr) -> bool {
    !expr.any(&|node| matches!(node, Expr::Variable(_)))
}

fn decimals(expr: &Expr) -> u32 {
    match expr {
        Expr::Number { decimals, .. } => *decimals,
        _ => 0,
    }
}

/// `2516` for `2516_8`: the base stands in the question.
fn same_digits(a: &Expr, b: &Expr) -> bool {
    let digits = |expr: &Expr| match expr {
        Expr::BaseNumber { digits, .. } => digits.parse::<IBig>().ok().map(RBig::from),
        _ => None,
    };
    match (digits(a), digits(b)) {
        (Some(x), None) => exact::value(b) == Some(x),
        (None, Some(y)) => exact::value(a) == Some(y),
        _ => false,
    }
}

/// True when `written`, a decimal of enough places and digits, is `value` rounded or cut off there.
fn is_rounding(written: &Expr, number: &RBig, value: &RBig) -> bool {
    let places = decimals(written);
    if places < ROUNDED_PLACES {
        return false;
    }
    let unit = RBig::ONE / RBig::from(IBig::from(10).pow(places as usize));
    let error = number - value;
    let cut = error.is_negative() == value.is_positive() && error.clone().abs() < unit;
    let rounded = error.abs() * RBig::from(2) <= unit;
    (cut || rounded) && number.clone().abs() >= unit * RBig::from(ROUNDED_UNITS)
}

/// A long decimal against an irrational constant.
fn rounded(written: &Expr, number: &RBig, constant: &Expr) -> Verdict {
    let places = decimals(written);
    let agree = |equal: bool| if equal { Verdict::Equal } else { Verdict::Different };
    let unit = RBig::ONE / RBig::from(IBig::from(10).pow(places as usize));
    if number.clone().abs() < unit * RBig::from(ROUNDED_UNITS) {
        return Verdict::Different;
    }
    if let Some(rounds) = precise::is_rounding(number, places, constant) {
        return agree(rounds);
    }
    let Some(value) = numeric::value(constant, 0, Points::Positive) else {
        return Verdict::Undecided(Reason::Inconclusive);
    };
    let number = number.to_f64().value();
    let distance = (value.re - number).hypot(value.im);
    // Double precision shows a difference, but not that the thirteenth digit is right.
    let unit = 10f64.powi(-(places.min(12) as i32));
    let allowed = if number.abs() < value.re.abs() { unit } else { unit / 2.0 } + value.err;
    match distance <= allowed {
        true if places > 12 => Verdict::Undecided(Reason::Inconclusive),
        within => agree(within),
    }
}

fn infinite(a: &Expr, b: &Expr) -> Option<Verdict> {
    let sign = |expr: &Expr| match expr {
        Expr::Infinity => Some(true),
        Expr::Sum(terms) => match terms.as_slice() {
            [(super::expr::Sign::Minus, Expr::Infinity)] => Some(false),
            [(super::expr::Sign::Plus, Expr::Infinity)] => Some(true),
            _ => None,
        },
        _ => None,
    };
    match (sign(a), sign(b)) {
        (None, None) => None,
        (x, y) => Some(if x == y { Verdict::Equal } else { Verdict::Different }),
    }
}

pub(super) fn by_field(a: &Expr, b: &Expr) -> Option<bool> {
    for round in 0..FIELD_ROUNDS {
        if field::value(a, round)? != field::value(b, round)? {
            return Some(false);
        }
    }
    Some(true)
}

/// Whether two values agree within their bounds; `None` when the bounds are too wide to tell.
pub(super) fn close(a: Approx, b: Approx) -> Option<bool> {
    if a.re.is_infinite() || b.re.is_infinite() {
        return None;
    }
    let distance = (a.re - b.re).hypot(a.im - b.im);
    let bound = a.err + b.err;
    let size = a.abs().max(b.abs());
    if distance > bound * 4.0 && distance > size * 1e-13 {
        Some(false)
    } else if bound <= size * 1e-8 || size <= 1e-9 {
        Some(true)
    } else {
        None
    }
}

fn by_numbers(a: &Expr, b: &Expr) -> Verdict {
    if is_constant(a) && is_constant(b) {
        let values = (numeric::value(a, 0, Points::Positive), numeric::value(b, 0, Points::Positive));
        let (Some(x), Some(y)) = values else { return Verdict::Undecided(Reason::Inconclusive) };
        return match close(x, y) {
            Some(false) => Verdict::Different,
            // Complex and undefined cases stay with double precision, in which numbers of modest size do not nearly agree.
            Some(true) => precise::agree(a, b).unwrap_or(if is_modest(a) && is_modest(b) {
                Verdict::Equal
            } else {
                Verdict::Undecided(Reason::Inconclusive)
            }),
            None => precise::agree(a, b).unwrap_or(Verdict::Undecided(Reason::Inconclusive)),
        };
    }
    branches::functions(a, b)
}

/// True when all numbers are of modest size.
fn is_modest(expr: &Expr) -> bool {
    let limit = RBig::from(1_000_000);
    let is_large = |node: &Expr| match node {
        Expr::Number { value, .. } => {
            value.clone().abs() > limit || RBig::from(value.denominator().clone()) > limit
        }
        Expr::Power(_, exponent) => {
            exact::value(exponent).is_some_and(|exponent| exponent.abs() > RBig::from(12))
        }
        Expr::BaseNumber { .. } => true,
        _ => false,
    };
    !expr.any(&is_large)
}
