//! Are two scalar expressions equal? Exactly where that is feasible, else by a guarded numeric test.
//!
//! 1. Rational numbers are compared exactly.
//! 2. What the finite field holds is compared there ([`super::field`]).
//! 3. The rest is evaluated numerically with error bounds; an agreement of constants is confirmed to 256 bits.
//!
//! A decimal of six or more places counts as a rounding of the exact value when it agrees in all its places.

use dashu_base::Abs;
use dashu_int::IBig;
use dashu_ratio::RBig;

use super::expr::{Expr, Function};
use super::numeric::{Approx, Points};
use super::{Reason, Verdict, exact, field, numeric, precise};

/// Decimals with at least this many places are taken as roundings.
const ROUNDED_PLACES: u32 = 6;
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

/// Decides whether `a = 0` and `b = 0` are the same equation: one is a constant multiple of the other.
pub(super) fn proportional(a: &Expr, b: &Expr) -> Verdict {
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
    let kind = points_for(a, b);
    let points: Vec<(Approx, Approx)> = (0..NUMERIC_ROUNDS)
        .filter_map(|round| Some((numeric::value(a, round, kind)?, numeric::value(b, round, kind)?)))
        .take(NEEDED_POINTS + 1)
        .collect();
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
    if equal { Verdict::Equal } else { Verdict::Different }
}

fn is_constant(expr: &Expr) -> bool {
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

/// True when `written`, a decimal of enough places, is `value` rounded or cut off there.
fn is_rounding(written: &Expr, number: &RBig, value: &RBig) -> bool {
    let places = decimals(written);
    places >= ROUNDED_PLACES
        && (number - value).abs() * RBig::from(IBig::from(10).pow(places as usize)) < RBig::ONE
}

/// A long decimal against an irrational constant.
fn rounded(written: &Expr, number: &RBig, constant: &Expr) -> Verdict {
    let Some(value) = numeric::value(constant, 0, Points::Positive) else {
        return Verdict::Undecided(Reason::Inconclusive);
    };
    let unit = 10f64.powi(-(decimals(written).min(12) as i32));
    let distance = (value.re - number.to_f64().value()).hypot(value.im);
    if distance <= unit + value.err { Verdict::Equal } else { Verdict::Different }
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

fn by_field(a: &Expr, b: &Expr) -> Option<bool> {
    for round in 0..FIELD_ROUNDS {
        if field::value(a, round)? != field::value(b, round)? {
            return Some(false);
        }
    }
    Some(true)
}

/// Whether two values agree within their bounds; `None` when the bounds are too wide to tell.
fn close(a: Approx, b: Approx) -> Option<bool> {
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

fn points_for(a: &Expr, b: &Expr) -> Points {
    let steps = |expr: &Expr| {
        expr.any(&|node| {
            matches!(
                node,
                Expr::Call(Function::Factorial | Function::Binomial | Function::Floor | Function::Ceil, arguments)
                    if arguments.iter().any(|argument| !is_constant(argument))
            )
        })
    };
    if steps(a) || steps(b) { Points::Natural } else { Points::Positive }
}

fn by_numbers(a: &Expr, b: &Expr) -> Verdict {
    if is_constant(a) && is_constant(b) {
        let values = (numeric::value(a, 0, Points::Positive), numeric::value(b, 0, Points::Positive));
        let (Some(x), Some(y)) = values else { return Verdict::Undecided(Reason::Inconclusive) };
        return match close(x, y) {
            Some(false) => Verdict::Different,
            // Complex and undefined cases stay with double precision.
            Some(true) => match precise::agree(a, b) {
                Some(true) | None => Verdict::Equal,
                Some(false) => Verdict::Different,
            },
            None => match precise::agree(a, b) {
                Some(true) => Verdict::Equal,
                Some(false) => Verdict::Different,
                None => Verdict::Undecided(Reason::Inconclusive),
            },
        };
    }
    let first = agree_at(a, b, points_for(a, b));
    let has_abs = |expr: &Expr| expr.any(&|node| matches!(node, Expr::Call(Function::Abs, _)));
    if first == Verdict::Equal && has_abs(a) != has_abs(b) {
        return agree_at(a, b, Points::Signed);
    }
    first
}

fn agree_at(a: &Expr, b: &Expr, points: Points) -> Verdict {
    let mut agreed = 0;
    for round in 0..NUMERIC_ROUNDS {
        let (Some(x), Some(y)) = (numeric::value(a, round, points), numeric::value(b, round, points)) else {
            continue;
        };
        match close(x, y) {
            Some(false) => return Verdict::Different,
            Some(true) => agreed += 1,
            None => {}
        }
        if agreed == NEEDED_POINTS {
            return Verdict::Equal;
        }
    }
    Verdict::Undecided(Reason::Inconclusive)
}
