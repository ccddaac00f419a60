//! Why an equality is wrong, in one line: `48/2 = 24, not 26`.

use dashu_base::{Abs, BitTest};
use dashu_int::{IBig, UBig};
use dashu_ratio::RBig;

use super::decide::Decision;
use super::read::Side;
use crate::exact;
use crate::expr::Expr;
use crate::numeric::{self, Points};

/// Longest side that is repeated.
const MAX_SHOWN: usize = 80;
/// Bits of the longest number that is written out.
const MAX_BITS: usize = 100;
/// Most places of a decimal that is written out.
const MAX_PLACES: usize = 6;

/// The line for a decision of *different*.
pub(super) fn proof(left: &str, right: &str, decision: &Decision) -> String {
    let (l, r) = (tidy(left), tidy(right));
    match (&decision.left, &decision.right) {
        (computed, Side { literal: true, .. }) => format!("{}, not {r}", with_value(&l, &computed.expr)),
        (Side { literal: true, .. }, computed) => format!("{}, not {l}", with_value(&r, &computed.expr)),
        (one, other) => format!("{}, but {}", with_value(&l, &one.expr), with_value(&r, &other.expr)),
    }
}

fn with_value(side: &str, expr: &Expr) -> String {
    format!("{side} {}", value(expr))
}

/// A side as it is written, on one line; a long one without its middle.
fn tidy(side: &str) -> String {
    let mut words = side.split_whitespace().collect::<Vec<_>>().join(" ");
    words.retain(|c| !matches!(c, '$' | '&'));
    let count = words.chars().count();
    if count <= MAX_SHOWN {
        return words;
    }
    let head: String = words.chars().take(MAX_SHOWN / 2).collect();
    let tail: String = words.chars().skip(count - MAX_SHOWN / 2).collect();
    format!("{head}…{tail}")
}

/// `= 24`, `= 10/3` or `≈ 2.8284`.
fn value(expr: &Expr) -> String {
    match exact::value(expr) {
        Some(value) => rational(&value),
        None => match numeric::value(expr, 0, Points::Positive) {
            Some(value) if value.re.abs() < 1e15 => format!("≈ {:.4}", value.re),
            Some(value) => format!("≈ {:.4e}", value.re),
            None => "is another value".to_owned(),
        },
    }
}

fn rational(value: &RBig) -> String {
    if value.numerator().bit_len() + value.denominator().bit_len() > MAX_BITS {
        return format!("≈ {:.6e}", value.to_f64().value());
    }
    if value.is_int() {
        return format!("= {}", value.numerator());
    }
    match decimal(value) {
        Some(digits) => format!("= {digits}"),
        None => format!("= {}/{}", value.numerator(), value.denominator()),
    }
}

/// A decimal that ends after a few places.
fn decimal(value: &RBig) -> Option<String> {
    let places = (1..=MAX_PLACES).find(|places| (value * RBig::from(ten(*places))).is_int())?;
    let scaled = (value * RBig::from(ten(places))).abs();
    let digits = format!("{:0>width$}", scaled.numerator(), width = places + 1);
    let (whole, fraction) = digits.split_at(digits.len() - places);
    let sign = if *value.numerator() < IBig::ZERO { "-" } else { "" };
    Some(format!("{sign}{whole}.{fraction}"))
}

fn ten(places: usize) -> UBig {
    UBig::from(10u8).pow(places)
}
