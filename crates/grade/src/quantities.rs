//! Values with units, percent and degrees, against each other and against plain values.

use dashu_ratio::RBig;

use super::expr::{Expr, Sign};
use super::numeric::{self, Points};
use super::units::{self, Conversion};
use super::{Reason, Verdict, decide, equal};

const UNDECIDED: Verdict = Verdict::Undecided(Reason::Inconclusive);
/// How far months and years are from a fixed number of days.
const CALENDAR_TOLERANCE: f64 = 0.1;

/// Compares two answers of which at least one has a unit, a percent or a degree sign; `None` when neither has.
pub(super) fn compare(gold: &Expr, answer: &Expr) -> Option<Verdict> {
    use Expr::{Degrees, Percent, Quantity};
    Some(match (gold, answer) {
        (Quantity(a, unit_a), Quantity(b, unit_b)) => quantities(a, unit_a, b, unit_b),
        // 20° may be an angle or a temperature.
        (Degrees(a), Quantity(b, unit)) => quantities(a, "degrees", b, unit),
        (Quantity(a, unit), Degrees(b)) => quantities(a, unit, b, "degrees"),
        (Percent(_), Degrees(_)) | (Degrees(_), Percent(_)) => Verdict::Different,
        (Percent(_), Quantity(_, unit)) | (Quantity(_, unit), Percent(_)) => {
            if units::is_known(unit) {
                Verdict::Different
            } else {
                UNDECIDED
            }
        }
        (Quantity(a, unit), b) => with_unit(a, unit, b),
        (a, Quantity(b, unit)) => with_unit(b, unit, a),
        (Degrees(a), Degrees(b)) | (Percent(a), Percent(b)) => equal::same(a, b),
        (Degrees(inner), other) | (other, Degrees(inner)) => angle(inner, other),
        (Percent(inner), other) | (other, Percent(inner)) => percent(inner, other),
        _ => return None,
    })
}

fn is_degree(unit: &str) -> bool {
    matches!(unit, "degree" | "degrees" | "deg")
}

fn is_radian(unit: &str) -> bool {
    matches!(unit, "radian" | "radians" | "rad" | "rads")
}

/// A quantity and a value without a unit, which the question may have named.
fn with_unit(value: &Expr, unit: &str, plain: &Expr) -> Verdict {
    if is_degree(unit) {
        return angle(value, plain);
    }
    // 2 hours 30 minutes may be written 2:30.
    if matches!(plain, Expr::Ratio(_)) && units::is_part_of("seconds", unit).is_some() {
        return UNDECIDED;
    }
    let verdict = equal::same(value, plain);
    if units::says_more(unit) {
        return UNDECIDED;
    }
    // `2 thirds` are 2/3, or 2 where the question asks for thirds.
    if let Some(parts) = units::share(unit) {
        return match equal::same(&quotient(value, &Expr::integer(parts)), plain) {
            Verdict::Different if verdict == Verdict::Equal => UNDECIDED,
            verdict => verdict,
        };
    }
    // `x ≡ 3 (mod 7)` is not `x = 3`.
    if unit.starts_with("modulo") && verdict == Verdict::Equal {
        return UNDECIDED;
    }
    // 50 cents may be the 0.50 that the question wants in dollars.
    let in_dollars = || quotient(value, &Expr::integer(100));
    match verdict {
        Verdict::Different
            if matches!(unit, "cent" | "cents" | "¢")
                && equal::same(&in_dollars(), plain) == Verdict::Equal =>
        {
            UNDECIDED
        }
        verdict => verdict,
    }
}

/// 60° is 60 where the question says degrees, and π/3.
fn angle(inner: &Expr, other: &Expr) -> Verdict {
    match equal::same(inner, other) {
        Verdict::Equal => Verdict::Equal,
        _ => decide::scalars(&Expr::Degrees(Box::new(inner.clone())), other),
    }
}

fn quantities(a: &Expr, unit_a: &str, b: &Expr, unit_b: &str) -> Verdict {
    if unit_a == unit_b {
        return equal::same(a, b);
    }
    if units::says_more(unit_a) || units::says_more(unit_b) || units::contradict(unit_a, unit_b) {
        return UNDECIDED;
    }
    let degrees = |inner: &Expr| Expr::Degrees(Box::new(inner.clone()));
    match (is_radian(unit_a), is_radian(unit_b)) {
        (true, false) if is_degree(unit_b) => return decide::scalars(a, &degrees(b)),
        (false, true) if is_degree(unit_a) => return decide::scalars(&degrees(a), b),
        _ => {}
    }
    // `325% cents` is 325 or 3.25 of them; converted it would be one or the other by chance.
    let has_sign = |value: &Expr| matches!(value, Expr::Percent(_) | Expr::Degrees(_) | Expr::Quantity(..));
    if has_sign(a) || has_sign(b) {
        return UNDECIDED;
    }
    let conversions = units::conversions(unit_a, unit_b);
    // `square units` are whatever the other side says.
    if conversions.is_empty() {
        return equal::same(a, b);
    }
    let mut result = Verdict::Different;
    for conversion in conversions {
        match converted(a, b, &conversion) {
            Verdict::Equal => return Verdict::Equal,
            Verdict::Different => {}
            undecided => result = undecided,
        }
    }
    result
}

fn converted(a: &Expr, b: &Expr, conversion: &Conversion) -> Verdict {
    let times = |factor: &RBig| {
        let factor = Expr::Number { value: factor.clone(), decimals: 0 };
        Expr::Product(vec![(false, a.clone()), (false, factor)])
    };
    match conversion {
        Conversion::Factor(factor) if *factor == RBig::ONE => equal::same(a, b),
        Conversion::Factor(factor) => equal::same(&times(factor), b),
        Conversion::Affine(factor, shift) => {
            let shift = Expr::Number { value: shift.clone(), decimals: 0 };
            let moved = Expr::Sum(vec![(Sign::Plus, times(factor)), (Sign::Plus, shift)]);
            match equal::same(&moved, b) {
                // 5 °C and 9 °F are the same difference of temperatures.
                Verdict::Different
                    if *a != Expr::integer(0) && equal::same(&times(factor), b) == Verdict::Equal =>
                {
                    UNDECIDED
                }
                verdict => verdict,
            }
        }
        Conversion::Nearly(factor) => {
            let value = |expr: &Expr| numeric::value(expr, 0, Points::Positive).map(|value| value.re);
            match (value(&times(factor)), value(b)) {
                (Some(a), Some(b)) if (a - b).abs() > CALENDAR_TOLERANCE * a.abs().max(b.abs()) => {
                    Verdict::Different
                }
                _ => UNDECIDED,
            }
        }
        Conversion::Impossible => Verdict::Different,
        Conversion::Unknown => UNDECIDED,
    }
}

/// `50%` is 50 or 0.5, as the question wants it.
fn percent(inner: &Expr, other: &Expr) -> Verdict {
    let hundredth = match inner {
        Expr::Number { value, decimals } if *decimals > 0 => {
            Expr::Number { value: value.clone() / RBig::from(100), decimals: decimals + 2 }
        }
        inner => quotient(inner, &Expr::integer(100)),
    };
    match equal::same(inner, other) {
        Verdict::Equal => Verdict::Equal,
        verdict => match equal::same(&hundredth, other) {
            Verdict::Equal => Verdict::Equal,
            _ => verdict,
        },
    }
}

pub(super) fn quotient(top: &Expr, bottom: &Expr) -> Expr {
    Expr::Product(vec![(false, top.clone()), (true, bottom.clone())])
}

/// `5 m` and `5 men` may be quantities or products. Against a value without variables they are not products.
pub(super) fn letters_as_unit(product: &Expr, other: &Expr) -> Option<Verdict> {
    let Expr::Product(factors) = product else { return None };
    let [value @ .., (false, letters)] = factors.as_slice() else { return None };
    let unit = match letters {
        Expr::Variable(name) if units::is_letter(name) => Some(name.to_lowercase()),
        Expr::Variable(name) if let Some(unit) = units::capital(name) => Some(unit.to_owned()),
        Expr::Power(base, power) => match (&**base, &**power) {
            (Expr::Variable(name), Expr::Number { value, .. })
                if units::is_letter(name) && value.is_int() =>
            {
                Some(format!("{}^{}", name.to_lowercase(), value.numerator()))
            }
            _ => return None,
        },
        Expr::Product(letters) if letters.iter().all(|(divides, letter)| !divides && is_letter(letter)) => {
            None
        }
        Expr::Variable(name) if matches!(name.as_str(), "k" | "M" | "B") => None,
        _ => return None,
    };
    let is_value = |expr: &Expr| {
        matches!(expr, Expr::Number { .. } | Expr::Quantity(..) | Expr::Product(_) | Expr::Power(..))
    };
    let constant = |expr: &Expr| !expr.any(&|node| matches!(node, Expr::Variable(_) | Expr::Imaginary));
    if value.is_empty()
        || !is_value(other)
        || !constant(other)
        || !value.iter().all(|(_, factor)| constant(factor))
    {
        return None;
    }
    let value = Expr::Product(value.to_vec());
    if let (Some(unit), Expr::Quantity(amount, other_unit)) = (unit, other) {
        return Some(quantities(&value, &unit, amount, other_unit));
    }
    // `20k` may be 20,000.
    let thousands = match letters {
        Expr::Variable(name) => match name.as_str() {
            "k" | "K" => 1_000,
            "M" => 1_000_000,
            "B" => 1_000_000_000,
            _ => 1,
        },
        _ => 1,
    };
    let scaled = Expr::Product(vec![(false, value.clone()), (false, Expr::integer(thousands))]);
    let may_be = |value: &Expr| equal::same(value, other) == Verdict::Equal;
    (may_be(&value) || (thousands > 1 && may_be(&scaled))).then_some(UNDECIDED)
}

/// A factor of a word that was read as a product.
fn is_letter(expr: &Expr) -> bool {
    matches!(expr, Expr::Variable(_) | Expr::Euler | Expr::Imaginary)
}
