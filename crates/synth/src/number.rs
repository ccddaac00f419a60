//! Exact rational numbers, written as decimals wherever a decimal is exact.

use std::cmp::Ordering;
use std::fmt;

/// `numerator / denominator` in lowest terms, the denominator positive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Number {
    numerator: i64,
    denominator: i64,
}

impl Number {
    /// `None` where the denominator is zero or the result does not fit.
    pub(super) fn ratio(numerator: i128, denominator: i128) -> Option<Self> {
        let divisor = gcd(numerator.unsigned_abs(), denominator.unsigned_abs());
        let divisor = i128::try_from(divisor).ok().filter(|_| denominator != 0)? * denominator.signum();
        Some(Self {
            numerator: i64::try_from(numerator / divisor).ok()?,
            denominator: i64::try_from(denominator / divisor).ok()?,
        })
    }

    /// So many hundredths.
    pub(super) fn cents(count: i64) -> Self {
        Self::ratio(count.into(), 100).expect("a hundredth of an i64 fits")
    }

    fn parts(self) -> (i128, i128) {
        (self.numerator.into(), self.denominator.into())
    }

    pub(super) fn add(self, other: Self) -> Option<Self> {
        let ((a, b), (c, d)) = (self.parts(), other.parts());
        Self::ratio(a * d + c * b, b * d)
    }

    pub(super) fn sub(self, other: Self) -> Option<Self> {
        self.add(other.negated())
    }

    pub(super) fn mul(self, other: Self) -> Option<Self> {
        let ((a, b), (c, d)) = (self.parts(), other.parts());
        Self::ratio(a * c, b * d)
    }

    pub(super) fn div(self, other: Self) -> Option<Self> {
        let ((a, b), (c, d)) = (self.parts(), other.parts());
        Self::ratio(a * d, b * c)
    }

    pub(super) fn negated(self) -> Self {
        Self { numerator: -self.numerator, denominator: self.denominator }
    }

    pub(super) fn is_negative(self) -> bool {
        self.numerator < 0
    }

    pub(super) fn is_zero(self) -> bool {
        self.numerator == 0
    }

    /// Its value, if it is whole.
    pub(super) fn whole(self) -> Option<i64> {
        (self.denominator == 1).then_some(self.numerator)
    }

    /// How many decimals write it exactly, up to nine.
    pub(super) fn decimals(self) -> Option<usize> {
        (0..=9).find(|&places| 10i128.pow(places) % i128::from(self.denominator) == 0).map(|n| n as usize)
    }

    /// As a decimal with at least `places` decimals, or as a fraction where no decimal is exact.
    pub(super) fn with_decimals(self, places: usize) -> String {
        let Some(needed) = self.decimals() else {
            return format!("{}/{}", self.numerator, self.denominator);
        };
        let places = needed.max(places);
        let scale = 10i128.pow(places as u32);
        let scaled = i128::from(self.numerator) * (scale / i128::from(self.denominator));
        let sign = if scaled < 0 { "-" } else { "" };
        let (whole, rest) = (scaled.abs() / scale, scaled.abs() % scale);
        if places == 0 { format!("{sign}{whole}") } else { format!("{sign}{whole}.{rest:0places$}") }
    }
}

fn gcd(a: u128, b: u128) -> u128 {
    if b == 0 { a.max(1) } else { gcd(b, a % b) }
}

impl From<i64> for Number {
    fn from(value: i64) -> Self {
        Self { numerator: value, denominator: 1 }
    }
}

impl PartialOrd for Number {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        let ((a, b), (c, d)) = (self.parts(), other.parts());
        Some((a * d).cmp(&(c * b)))
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.with_decimals(0))
    }
}

#[cfg(test)]
mod tests {
    use super::Number;

    #[test]
    fn decimals_are_exact_and_fractions_are_the_fallback() {
        let show = |n: i128, d: i128| Number::ratio(n, d).unwrap().to_string();
        assert_eq!(show(5, 2), "2.5");
        assert_eq!(show(-1, 8), "-0.125");
        assert_eq!(show(22, -7), "-22/7");
        assert_eq!(show(0, -3), "0");
        assert_eq!(Number::cents(450).with_decimals(2), "4.50");
        assert_eq!(Number::ratio(1, 0), None);
    }

    #[test]
    fn arithmetic_is_exact() {
        let third = Number::ratio(1, 3).unwrap();
        assert_eq!(third.add(third).unwrap().add(third), Some(Number::from(1)));
        assert_eq!(third.div(Number::from(0)), None);
        assert_eq!(Number::from(i64::MAX).mul(Number::from(2)), None);
        assert!(third < Number::cents(34));
    }
}
