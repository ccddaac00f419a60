//! Exact rational values. `None` for anything irrational, symbolic, undefined or too large.

use dashu_base::{BitTest, Signed, UnsignedAbs};
use dashu_int::{IBig, UBig};
use dashu_ratio::RBig;

use super::expr::{Expr, Function, Sign};

/// Numbers of more bits are left to the modular test.
const MAX_BITS: usize = 8_192;
/// Largest factorial computed.
const MAX_FACTORIAL: u64 = 500;

/// The rational value of `expr`.
pub(super) fn value(expr: &Expr) -> Option<RBig> {
    let result = match expr {
        Expr::Number { value, .. } => value.clone(),
        Expr::BaseNumber { digits, base } => in_base(digits, *base)?,
        Expr::Sum(terms) => {
            let mut total = RBig::ZERO;
            for (sign, term) in terms {
                match sign {
                    Sign::Plus => total += value(term)?,
                    Sign::Minus => total -= value(term)?,
                    Sign::PlusMinus | Sign::MinusPlus => return None,
                }
            }
            total
        }
        Expr::Product(factors) => {
            let mut total = RBig::ONE;
            for (divides, factor) in factors {
                let factor = value(factor)?;
                if !divides {
                    total *= factor;
                } else if factor.is_zero() {
                    return None;
                } else {
                    total /= factor;
                }
                if bits(&total) > MAX_BITS {
                    return None;
                }
            }
            total
        }
        Expr::Power(base, exponent) => power(&value(base)?, &value(exponent)?)?,
        Expr::Root(index, inner) => root(integer(&value(index)?)?, &value(inner)?)?,
        Expr::Percent(inner) => value(inner)? / RBig::from(100),
        Expr::Call(function, arguments) => call(*function, arguments)?,
        _ => return None,
    };
    (bits(&result) <= MAX_BITS).then_some(result)
}

/// A whole number that fits `i64`.
pub(super) fn integer(value: &RBig) -> Option<i64> {
    if value.is_int() { i64::try_from(value.numerator().clone()).ok() } else { None }
}

fn bits(value: &RBig) -> usize {
    value.numerator().bit_len() + value.denominator().bit_len()
}

fn in_base(digits: &str, base: u32) -> Option<RBig> {
    if !(2..=36).contains(&base) {
        return None;
    }
    UBig::from_str_radix(digits, base).ok().map(RBig::from)
}

fn power(base: &RBig, exponent: &RBig) -> Option<RBig> {
    if exponent.is_int() {
        let exponent = integer(exponent)?;
        let size = usize::try_from(exponent.unsigned_abs()).ok()?;
        if base.is_zero() {
            return (exponent > 0).then_some(RBig::ZERO);
        }
        if bits(base).saturating_sub(2).checked_mul(size)? > MAX_BITS && *base != RBig::ONE {
            return None;
        }
        return Some(base.pow(isize::try_from(exponent).ok()?));
    }
    // A rational exponent is exact only when the root is.
    let index = i64::try_from(exponent.denominator().clone()).ok()?;
    let rooted = root(index, base)?;
    power(&rooted, &RBig::from(exponent.numerator().clone()))
}

/// The real n-th root, when it is rational.
fn root(index: i64, inner: &RBig) -> Option<RBig> {
    let index = usize::try_from(index).ok().filter(|n| (1..=64).contains(n))?;
    let negative = inner.is_negative();
    if negative && index % 2 == 0 {
        return None;
    }
    let exact_root = |value: UBig| {
        let candidate = value.nth_root(index);
        (candidate.pow(index) == value).then_some(candidate)
    };
    let numerator = exact_root(inner.numerator().clone().unsigned_abs())?;
    let denominator = exact_root(inner.denominator().clone())?;
    let rooted = RBig::from_parts(IBig::from(numerator), denominator);
    Some(if negative { -rooted } else { rooted })
}

fn call(function: Function, arguments: &[Expr]) -> Option<RBig> {
    let first = value(arguments.first()?)?;
    match function {
        Function::Abs => Some(if first.is_negative() { -first } else { first }),
        Function::Floor => Some(RBig::from(first.floor())),
        Function::Ceil => Some(RBig::from(first.ceil())),
        Function::Factorial => {
            let n = u64::try_from(integer(&first)?).ok().filter(|n| *n <= MAX_FACTORIAL)?;
            Some(RBig::from((1..=n).fold(UBig::ONE, |product, k| product * UBig::from(k))))
        }
        Function::Binomial => {
            let n = u64::try_from(integer(&first)?).ok().filter(|n| *n <= MAX_FACTORIAL)?;
            let k = u64::try_from(integer(&value(arguments.get(1)?)?)?).ok()?;
            if k > n {
                return Some(RBig::ZERO);
            }
            let top = (0..k).fold(UBig::ONE, |product, j| product * UBig::from(n - j));
            let bottom = (1..=k).fold(UBig::ONE, |product, j| product * UBig::from(j));
            Some(RBig::from(top / bottom))
        }
        Function::Mod => {
            let modulus = value(arguments.get(1)?)?;
            if !first.is_int() || !modulus.is_int() || modulus <= RBig::ZERO {
                return None;
            }
            let quotient = RBig::from((first.clone() / modulus.clone()).floor());
            Some(first - quotient * modulus)
        }
        Function::Log => {
            // log_b(x) is rational where b^p = x^q for small p, q; whole p is what answers use.
            let argument = value(arguments.get(1)?)?;
            if first <= RBig::ONE || argument <= RBig::ZERO {
                return None;
            }
            let goal = if argument < RBig::ONE { RBig::ONE / argument.clone() } else { argument.clone() };
            let mut product = RBig::ONE;
            let mut exponent = 0i64;
            while product < goal && exponent < 64 {
                product *= first.clone();
                exponent += 1;
            }
            (product == goal).then(|| RBig::from(if argument < RBig::ONE { -exponent } else { exponent }))
        }
        _ => None,
    }
}
