//! Constants to 256 bits, to confirm an equality that double precision only suggests.
//!
//! Real numbers only; `None` where a value is complex, undefined or outside the safe range of a function.

use dashu_base::{Abs, Signed};
use dashu_float::FBig;
use dashu_float::round::mode::HalfEven;
use dashu_int::IBig;
use dashu_ratio::RBig;

use super::expr::{Expr, Function, Sign};
use super::{Reason, Verdict, exact};

type Real = FBig<HalfEven, 2>;

const BITS: usize = 256;
/// Places of a decimal that can be checked.
const MAX_PLACES: u32 = 50;
/// Largest argument of exp and of the trigonometric functions, and of a power.
const MAX_ARGUMENT: i64 = 2_000;

/// Whether two constants agree: equal to about 48 digits, different from about 42 digits on, undecided between. `None`
/// when one cannot be evaluated.
pub(super) fn agree(a: &Expr, b: &Expr) -> Option<Verdict> {
    let (a, b) = (value(a)?, value(b)?);
    let size = (a.clone().abs() + b.clone().abs()).max(Real::ONE);
    let distance = (a - b).abs();
    let scaled = |shift: usize| size.clone() / Real::from(IBig::ONE << shift);
    Some(if distance <= scaled(160) {
        Verdict::Equal
    } else if distance >= scaled(140) {
        Verdict::Different
    } else {
        Verdict::Undecided(Reason::Inconclusive)
    })
}

/// True when `number`, a decimal of so many places, is the constant rounded or cut off there. `None` when the constant
/// cannot be evaluated or the decimal is longer than our precision.
pub(super) fn is_rounding(number: &RBig, places: u32, constant: &Expr) -> Option<bool> {
    let value = value(constant)?;
    let written = from_rational(number);
    // Digits before the point count too.
    if places > MAX_PLACES || value.clone().abs() >= Real::from(IBig::from(10).pow(15)) {
        return None;
    }
    let unit = from_rational(&RBig::ONE) / Real::from(IBig::from(10).pow(places as usize));
    let is_cut = written.clone().abs() < value.clone().abs() && written.is_negative() == value.is_negative();
    let distance = (written - value).abs();
    Some(if is_cut { distance < unit } else { distance * Real::from(2) <= unit })
}

fn from_rational(value: &RBig) -> Real {
    fixed(value.to_float::<HalfEven, 2>(BITS).value())
}

/// The same value with our precision. A function's exact result, such as e^0, comes without one, and then the next
/// function has nothing to compute to.
fn fixed(value: Real) -> Real {
    value.with_precision(BITS).value()
}

fn bounded(value: Real, limit: i64) -> Option<Real> {
    (value.clone().abs() <= Real::from(limit)).then_some(value)
}

fn value(expr: &Expr) -> Option<Real> {
    evaluate(expr).map(fixed)
}

fn evaluate(expr: &Expr) -> Option<Real> {
    if let Some(rational) = exact::value(expr) {
        return Some(from_rational(&rational));
    }
    match expr {
        Expr::Pi => Some(Real::pi(BITS)),
        Expr::Euler => Some(Real::e(BITS)),
        Expr::Sum(terms) => {
            let mut total = from_rational(&RBig::ZERO);
            for (sign, term) in terms {
                match sign {
                    Sign::Plus => total += value(term)?,
                    Sign::Minus => total -= value(term)?,
                    Sign::PlusMinus | Sign::MinusPlus => return None,
                }
            }
            Some(total)
        }
        Expr::Product(factors) => {
            let mut total = from_rational(&RBig::ONE);
            for (divides, factor) in factors {
                let factor = value(factor)?;
                if !divides {
                    total *= factor;
                } else if factor.clone().abs() <= tiny() {
                    return None;
                } else {
                    total /= factor;
                }
            }
            Some(total)
        }
        Expr::Power(base, exponent) => {
            if let Some(exponent) = exact::value(exponent).as_ref().and_then(exact::integer) {
                let base = value(base)?;
                if exponent.abs() > MAX_ARGUMENT || (exponent <= 0 && base.clone().abs() <= tiny()) {
                    return None;
                }
                return Some(base.powi(IBig::from(exponent)));
            }
            let base = positive(value(base)?)?;
            let exponent = bounded(value(exponent)?, MAX_ARGUMENT)?;
            Some(fixed(bounded(fixed(base.ln()) * exponent, MAX_ARGUMENT)?).exp())
        }
        Expr::Root(index, inner) => {
            let index = exact::integer(&exact::value(index)?).filter(|n| (2..=64).contains(n))?;
            let inner = value(inner)?;
            if inner.is_negative() && index % 2 == 0 {
                return None;
            }
            if inner.clone().abs() <= tiny() {
                return None;
            }
            Some(if index == 2 { inner.sqrt() } else { inner.nth_root(index as usize) })
        }
        Expr::Call(function, arguments) => call(*function, arguments),
        Expr::Percent(inner) => Some(value(inner)? / Real::from(100)),
        Expr::Degrees(inner) => Some(value(inner)? * Real::pi(BITS) / Real::from(180)),
        _ => None,
    }
}

/// Below this a value may be zero in truth.
fn tiny() -> Real {
    fixed(Real::ONE) / Real::from(IBig::ONE << 150)
}

fn positive(value: Real) -> Option<Real> {
    (value > tiny()).then_some(value)
}

fn call(function: Function, arguments: &[Expr]) -> Option<Real> {
    let first = value(arguments.first()?)?;
    let one = || from_rational(&RBig::ONE);
    let angle = || bounded(first.clone(), MAX_ARGUMENT);
    let divided =
        |top: Real, bottom: Real| (bottom.clone().abs() > tiny()).then(|| fixed(top) / fixed(bottom));
    match function {
        Function::Sin => Some(angle()?.sin()),
        Function::Cos => Some(angle()?.cos()),
        Function::Tan => divided(angle()?.sin(), angle()?.cos()),
        Function::Cot => divided(angle()?.cos(), angle()?.sin()),
        Function::Sec => divided(one(), angle()?.cos()),
        Function::Csc => divided(one(), angle()?.sin()),
        Function::Arcsin => Some(bounded(first, 1)?.asin()),
        Function::Arccos => Some(bounded(first, 1)?.acos()),
        Function::Arctan => Some(first.atan()),
        Function::Ln => Some(positive(first)?.ln()),
        Function::Exp => Some(angle()?.exp()),
        Function::Abs => Some(first.abs()),
        Function::Log => {
            let base = positive(first)?.ln();
            divided(positive(value(arguments.get(1)?)?)?.ln(), base)
        }
        _ => None,
    }
}
