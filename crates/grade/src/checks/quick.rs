//! Values of ordinary size: fractions of two machine words, hundreds of times more frequent than all others.

use dashu_ratio::RBig;

use crate::expr::{Expr, Sign};

/// A fraction in lowest terms with a positive denominator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Fraction {
    top: i64,
    bottom: i64,
}

impl Fraction {
    fn new(top: i128, bottom: i128) -> Option<Self> {
        let shared = if bottom == 1 { 1 } else { gcd(top.unsigned_abs(), bottom.unsigned_abs()) as i128 };
        let sign = if bottom < 0 { -1 } else { 1 };
        let divided = |part: i128| i64::try_from(sign * (part / shared.max(1))).ok();
        Some(Self { top: divided(top)?, bottom: divided(bottom)? }).filter(|fraction| fraction.bottom != 0)
    }

    fn plus(self, other: Self, sign: i128) -> Option<Self> {
        let [a, b, c, d] = [self.top, self.bottom, other.top, other.bottom].map(i128::from);
        let top = (a * d).checked_add(sign * c * b)?;
        Self::new(top, b * d)
    }

    fn times(self, other: Self) -> Option<Self> {
        let [a, b, c, d] = [self.top, self.bottom, other.top, other.bottom].map(i128::from);
        Self::new(a * c, b * d)
    }

    fn inverse(self) -> Option<Self> {
        (self.top != 0).then(|| Self::new(i128::from(self.bottom), i128::from(self.top)))?
    }
}

fn gcd(mut a: u128, mut b: u128) -> u128 {
    while b > u128::from(u64::MAX) || a > u128::from(u64::MAX) {
        if b == 0 {
            return a;
        }
        (a, b) = (b, a % b);
    }
    let (mut a, mut b) = (a as u64, b as u64);
    while b != 0 {
        (a, b) = (b, a % b);
    }
    u128::from(a)
}

/// The value of sums, products and small powers; `None` for anything else.
pub(super) fn value(expr: &Expr) -> Option<Fraction> {
    match expr {
        Expr::Number { value, .. } => number(value),
        Expr::Sum(terms) => terms.iter().try_fold(Fraction { top: 0, bottom: 1 }, |total, (sign, term)| {
            let sign = match sign {
                Sign::Plus => 1,
                Sign::Minus => -1,
                Sign::PlusMinus | Sign::MinusPlus => return None,
            };
            total.plus(value(term)?, sign)
        }),
        Expr::Product(factors) => {
            factors.iter().try_fold(Fraction { top: 1, bottom: 1 }, |total, (divides, factor)| {
                let factor = value(factor)?;
                total.times(if *divides { factor.inverse()? } else { factor })
            })
        }
        Expr::Percent(inner) => value(inner)?.times(Fraction { top: 1, bottom: 100 }),
        Expr::Power(base, exponent) => {
            let exponent = value(exponent)?;
            let base = value(base)?;
            let small = exponent.bottom == 1 && (1..=16).contains(&exponent.top);
            let one = Fraction { top: 1, bottom: 1 };
            if small { (0..exponent.top).try_fold(one, |power, _| power.times(base)) } else { None }
        }
        _ => None,
    }
}

fn number(value: &RBig) -> Option<Fraction> {
    let top = i64::try_from(value.numerator()).ok()?;
    Some(Fraction { top, bottom: i64::try_from(value.denominator()).ok()? })
}
