//! Rounded numbers: which exact values the digits that are written may stand for.
//!
//! Inside a side each decimal stands for an interval of half a unit of its last digit. A result stands for a whole unit to
//! either side, since many are cut off. Where the intervals of two sides meet, rounding may explain their difference.

use dashu_base::Abs;
use dashu_ratio::RBig;

use super::decide::Agreement;
use crate::exact;
use crate::expr::{Expr, Function, Sign};
use crate::numeric::{self, Points};

/// How far two sides of `≈` may lie apart, as a share of them.
const APPROX_SLACK: f64 = 0.03;
/// Whole numbers with at least so many zeros at their end may be rounded to them.
const ROUND_ZEROS: usize = 3;

/// Two rational sides of different values: a rounding, or different.
pub(super) fn rational(left: &Expr, a: &RBig, right: &Expr, b: &RBig, approx: bool) -> Agreement {
    for (literal, other) in [(right, a), (left, b)] {
        let Some((value, decimals)) = literal_of(literal) else { continue };
        let distance = (value.clone() - other).abs() * power_of_ten(decimals);
        if (decimals > 0 || approx) && distance.clone() * RBig::from(2) <= RBig::ONE {
            return Agreement::Rounded;
        }
        // Cut off, or rounded to a whole number without saying so.
        if distance < RBig::ONE && (decimals > 0 || (value.is_int() && !other.is_int())) {
            return Agreement::Unsure;
        }
    }
    // Whole numbers of any size differ when their last digits do.
    if !approx && is_whole(left) && is_whole(right) {
        return Agreement::Different;
    }
    if meet(left, right, approx) == Some(false) { Agreement::Different } else { Agreement::Unsure }
}

/// Nothing in a side can have been rounded: it has no decimals, and its result is not written to whole thousands.
fn is_whole(side: &Expr) -> bool {
    let is_rounded = |part: &Expr| matches!(part, Expr::Number { decimals, .. } if *decimals > 0);
    let zeros = literal_of(side).map_or(0, |(value, _)| trailing_zeros(&value));
    zeros < ROUND_ZEROS && !side.any(&is_rounded)
}

/// One side is a literal, and the other's value rounds to it.
pub(super) fn is_rounding(left: &Expr, right: &Expr, (a, b): (f64, f64), approx: bool) -> bool {
    [(right, a), (left, b)].into_iter().any(|(literal, value)| {
        literal_of(literal).is_some_and(|(written, decimals)| {
            let half = 0.5 * 10f64.powi(-(decimals as i32)) + value.abs() * f64::EPSILON;
            (decimals > 0 || approx) && (written.to_f64().value() - value).abs() <= half
        })
    })
}

/// A number as it is written, and its decimals.
fn literal_of(expr: &Expr) -> Option<(RBig, u32)> {
    match expr {
        Expr::Number { value, decimals } => Some((value.clone(), *decimals)),
        Expr::Percent(inner) => {
            let (value, decimals) = literal_of(inner)?;
            Some((value / RBig::from(100), decimals + 2))
        }
        Expr::Sum(terms) => match terms.as_slice() {
            [(Sign::Minus, term)] => literal_of(term).map(|(value, decimals)| (-value, decimals)),
            _ => None,
        },
        _ => None,
    }
}

fn power_of_ten(exponent: u32) -> RBig {
    RBig::from(10).pow(exponent.min(400) as isize)
}

/// Whether what was rounded in both sides may explain their difference.
pub(super) fn meet(left: &Expr, right: &Expr, approx: bool) -> Option<bool> {
    let (a, b) = (result_range(left, approx)?, result_range(right, approx)?);
    let slack = 1e-9 * (a.1.abs().max(b.1.abs()).max(a.0.abs()).max(b.0.abs()));
    Some(a.0 <= b.1 + slack && b.0 <= a.1 + slack)
}

/// The range of a side; a result that is one number may be cut off, or rounded to hundreds.
fn result_range(expr: &Expr, approx: bool) -> Option<(f64, f64)> {
    let Some((value, decimals)) = literal_of(expr) else { return range(expr) };
    let middle = value.to_f64().value();
    let zeros = if decimals == 0 { trailing_zeros(&value) } else { 0 };
    let width = match (decimals, approx) {
        (0, true) => 10f64.powi(zeros as i32),
        // `12,345 × 678 = 8,370,000`.
        (0, false) if zeros >= ROUND_ZEROS => 10f64.powi(zeros as i32) / 2.0,
        (0, false) => 0.0,
        (decimals, _) => 10f64.powi(-(decimals as i32)),
    };
    let slack = if approx { middle.abs() * APPROX_SLACK } else { 0.0 };
    let width = width.max(slack);
    middle.is_finite().then_some((middle - width, middle + width))
}

fn trailing_zeros(value: &RBig) -> usize {
    let digits = value.numerator().to_string();
    if digits.len() > 40 { 0 } else { digits.len() - digits.trim_end_matches('0').len() }
}

/// The range of values when every decimal was rounded.
fn range(expr: &Expr) -> Option<(f64, f64)> {
    let (low, high) = match expr {
        Expr::Number { value, decimals } => {
            let middle = value.to_f64().value();
            let half = if *decimals > 0 { 0.5 * 10f64.powi(-(*decimals as i32)) } else { 0.0 };
            (middle - half, middle + half)
        }
        // π is taken as 3.14 and as 22/7.
        Expr::Pi => (314.0 / 100.0, 22.0 / 7.0),
        Expr::Percent(inner) => {
            let (low, high) = range(inner)?;
            (low / 100.0, high / 100.0)
        }
        Expr::Sum(terms) => {
            let mut total = (0.0, 0.0);
            for (sign, term) in terms {
                let (low, high) = range(term)?;
                total = match sign {
                    Sign::Plus => (total.0 + low, total.1 + high),
                    Sign::Minus => (total.0 - high, total.1 - low),
                    Sign::PlusMinus | Sign::MinusPlus => return None,
                };
            }
            total
        }
        Expr::Product(factors) => {
            let mut total = (1.0, 1.0);
            for (divides, factor) in factors {
                let (low, high) = range(factor)?;
                let factor = match divides {
                    true if low <= 0.0 && high >= 0.0 => return None,
                    true => (1.0 / high, 1.0 / low),
                    false => (low, high),
                };
                total =
                    hull(&[total.0 * factor.0, total.0 * factor.1, total.1 * factor.0, total.1 * factor.1]);
            }
            total
        }
        Expr::Power(base, exponent) => {
            let (low, high) = range(base)?;
            let exponent = exact::value(exponent)?.to_f64().value();
            let crosses = low < 0.0 && high > 0.0;
            if exponent.fract() != 0.0 && low < 0.0
                || exponent < 0.0 && (crosses || low == 0.0 || high == 0.0)
            {
                return None;
            }
            let (a, b) = (low.powf(exponent), high.powf(exponent));
            if crosses { (a.min(b).min(0.0), a.max(b)) } else { hull(&[a, b]) }
        }
        Expr::Root(index, inner) => {
            let (low, high) = range(inner)?;
            let index = exact::value(index)?.to_f64().value();
            if low < 0.0 || index < 1.0 {
                return None;
            }
            (low.powf(1.0 / index), high.powf(1.0 / index))
        }
        Expr::Call(Function::Sin | Function::Cos | Function::Tan, _) => {
            let value = numeric::value(expr, 0, Points::Positive)?;
            let width = value.err + 1e-12;
            (value.re - width, value.re + width)
        }
        Expr::Call(..) => {
            let value = exact::value(expr)?.to_f64().value();
            (value, value)
        }
        _ => return None,
    };
    (low.is_finite() && high.is_finite()).then_some((low, high))
}

fn hull(values: &[f64]) -> (f64, f64) {
    let fold = |by: fn(f64, f64) -> f64| values.iter().copied().reduce(by).unwrap_or(f64::NAN);
    (fold(f64::min), fold(f64::max))
}
