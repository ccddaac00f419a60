//! What may explain a difference besides an error: running totals, and what is said of things and not of numbers.

use dashu_ratio::RBig;

use super::decide::is_irrational;
use super::read::Side;
use crate::exact;
use crate::expr::{Expr, Sign};
use crate::units::{self, Conversion};

/// Most different words in the units of one equality that are compared.
const MAX_NAMES: usize = 12;
/// Words for coins and cents.
const COINS: &[&str] = &["cent", "penn", "dime", "quarter", "nickel"];

/// `1/2 cup = 4 ounces`, `8 batches = 5.5 × 8`, `7 knicks / 2 knacks = 1`: said of things, not of their numbers.
pub(super) fn names_value(named: &Side, other: &Side) -> bool {
    let is_one = matches!(&other.expr, Expr::Number { value, .. } if *value == RBig::ONE);
    !named.units.is_empty() && (named.literal || is_fraction(&named.expr) || is_one)
}

fn is_fraction(expr: &Expr) -> bool {
    matches!(expr, Expr::Product(factors)
        if matches!(factors.as_slice(), [(false, Expr::Number { .. }), (true, Expr::Number { .. })]))
}

/// `5 + 3 = 8 + 2 = 10`: the right side goes on with the value of the left one.
pub(super) fn is_running(left: &Expr, right: &Expr) -> bool {
    let Some(first) = first_number(right) else { return false };
    exact::value(left).is_some_and(|value| value == first)
}

fn first_number(expr: &Expr) -> Option<RBig> {
    match expr {
        Expr::Number { value, .. } => Some(value.clone()),
        Expr::Sum(terms) => match terms.first()? {
            (Sign::Plus, term) => first_number(term),
            (_, term) => first_number(term).map(|value| -value),
        },
        Expr::Product(factors) => first_number(&factors.first()?.1),
        Expr::Power(base, _) => first_number(base),
        Expr::Percent(inner) => first_number(inner).map(|value| value / RBig::from(100)),
        _ => None,
    }
}

/// Units that convert into each other: what is added up, or the factor between the sides, may be a conversion.
pub(super) fn units_differ(l: &Side, r: &Side) -> bool {
    let units: Vec<&str> = l.units.iter().chain(&r.units).map(String::as_str).collect();
    if units.is_empty() {
        return false;
    }
    if units.contains(&"degrees") && (is_irrational(&l.expr) || is_irrational(&r.expr)) {
        return true;
    }
    let ratio = match (exact::value(&l.expr), exact::value(&r.expr)) {
        (Some(a), Some(b)) if !a.is_zero() && !b.is_zero() => Some(a / b),
        _ => None,
    };
    let adds = |expr: &Expr| expr.any(&|node| matches!(node, Expr::Sum(terms) if terms.len() > 1));
    let has_coins = units.iter().any(|unit| COINS.iter().any(|coin| unit.contains(coin)));
    if has_coins && (adds(&l.expr) || adds(&r.expr) || ratio.as_ref().is_some_and(is_power_of_hundred)) {
        return true;
    }
    let mut names: Vec<&str> = units
        .iter()
        .flat_map(|unit| unit.split([' ', '/', '-']))
        .filter(|word| units::is_known(word))
        .collect();
    names.sort_unstable();
    names.dedup();
    names.truncate(MAX_NAMES);
    let sums = adds(&l.expr) || adds(&r.expr);
    let pairs = names
        .iter()
        .enumerate()
        .flat_map(|(at, first)| names[at + 1..].iter().map(move |second| (first, second)));
    pairs.into_iter().any(|(first, second)| {
        units::conversions(first, second).iter().any(|conversion| match conversion {
            Conversion::Factor(factor) if *factor == RBig::ONE => false,
            Conversion::Factor(factor) => sums || ratio.as_ref().is_none_or(|ratio| is_power(ratio, factor)),
            Conversion::Nearly(_) | Conversion::Affine(..) => true,
            Conversion::Impossible | Conversion::Unknown => false,
        })
    })
}

fn is_power_of_hundred(ratio: &RBig) -> bool {
    is_power(ratio, &RBig::from(100)) || is_power(ratio, &RBig::from(5)) || is_power(ratio, &RBig::from(25))
}

/// The ratio is the factor, its square or cube, or the inverse of one.
fn is_power(ratio: &RBig, factor: &RBig) -> bool {
    (1..=3).any(|exponent| {
        let power = factor.clone().pow(exponent);
        *ratio == power || ratio.clone() * power == RBig::ONE
    })
}
