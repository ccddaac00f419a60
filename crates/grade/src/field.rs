//! Exact identity testing by evaluation in a finite field.
//!
//! Polynomials and rational functions with rational coefficients, π, e, i and square roots of rationals are mapped to
//! the field with p² elements, p = 2⁶¹ − 1, by a ring homomorphism: variables, π and e go to pseudo-random elements, i
//! to the generator with i² = −1, √q to the product of fixed roots of q's prime factors. Values that differ prove that
//! the expressions differ; values that agree at several points prove equality up to a chance below 2⁻⁵⁰
//! (Schwartz–Zippel). Expressions outside this fragment give `None`.

use dashu_base::{BitTest, Signed, UnsignedAbs};
use dashu_int::UBig;
use dashu_ratio::RBig;

use super::exact;
use super::expr::{Expr, Sign};

const P: u64 = (1 << 61) - 1;
/// Trial division goes up to this, so cofactors below its square are prime.
const MAX_FACTOR: u64 = 1 << 16;

/// An element a + b·i.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Element(u64, u64);

fn mul_mod(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    let folded = (product & u128::from(P)) as u64 + (product >> 61) as u64;
    if folded >= P { folded - P } else { folded }
}

fn add_mod(a: u64, b: u64) -> u64 {
    let sum = a + b;
    if sum >= P { sum - P } else { sum }
}

fn neg_mod(a: u64) -> u64 {
    if a == 0 { 0 } else { P - a }
}

fn pow_mod(mut base: u64, mut exponent: u64) -> u64 {
    let mut result = 1;
    while exponent > 0 {
        if exponent & 1 == 1 {
            result = mul_mod(result, base);
        }
        base = mul_mod(base, base);
        exponent >>= 1;
    }
    result
}

impl Element {
    pub(super) const ZERO: Self = Self(0, 0);
    const ONE: Self = Self(1, 0);

    fn add(self, other: Self) -> Self {
        Self(add_mod(self.0, other.0), add_mod(self.1, other.1))
    }

    fn neg(self) -> Self {
        Self(neg_mod(self.0), neg_mod(self.1))
    }

    pub(super) fn sub(self, other: Self) -> Self {
        self.add(other.neg())
    }

    pub(super) fn mul(self, other: Self) -> Self {
        let real = add_mod(mul_mod(self.0, other.0), neg_mod(mul_mod(self.1, other.1)));
        let imaginary = add_mod(mul_mod(self.0, other.1), mul_mod(self.1, other.0));
        Self(real, imaginary)
    }

    fn inverse(self) -> Option<Self> {
        // p ≡ 3 mod 4, so a² + b² = 0 only for a = b = 0.
        let norm = add_mod(mul_mod(self.0, self.0), mul_mod(self.1, self.1));
        if norm == 0 {
            return None;
        }
        let inverse = pow_mod(norm, P - 2);
        Some(Self(mul_mod(self.0, inverse), mul_mod(neg_mod(self.1), inverse)))
    }

    fn pow(self, exponent: &UBig) -> Self {
        let mut result = Self::ONE;
        for bit in (0..exponent.bit_len()).rev() {
            result = result.mul(result);
            if exponent.bit(bit) {
                result = result.mul(self);
            }
        }
        result
    }
}

/// The value of `expr` at the pseudo-random point number `round`.
pub(super) fn value(expr: &Expr, round: u64) -> Option<Element> {
    match expr {
        Expr::Number { value, .. } => rational(value),
        Expr::Variable(name) => Some(Element(point(name, round), 0)),
        Expr::Pi => Some(Element(point("\u{3c0}", round), 0)),
        Expr::Euler => Some(Element(point("\u{212f}", round), 0)),
        Expr::Imaginary => Some(Element(0, 1)),
        Expr::Sum(terms) => {
            let mut total = Element::ZERO;
            for (sign, term) in terms {
                let term = value(term, round)?;
                total = match sign {
                    Sign::Plus => total.add(term),
                    Sign::Minus => total.sub(term),
                    Sign::PlusMinus | Sign::MinusPlus => return None,
                };
            }
            Some(total)
        }
        Expr::Product(factors) => {
            let mut total = Element::ONE;
            for (divides, factor) in factors {
                let factor = value(factor, round)?;
                total = total.mul(if *divides { factor.inverse()? } else { factor });
            }
            Some(total)
        }
        Expr::Power(base, exponent) => {
            let exponent = exact::value(exponent)?;
            if !exponent.is_int() {
                let half = exponent.clone() * RBig::from(2);
                let rooted = square_root(&exact::value(base)?)?;
                return if half.is_int() { signed_power(rooted, &half) } else { None };
            }
            signed_power(value(base, round)?, &exponent)
        }
        Expr::Root(index, inner) => {
            let inner = exact::value(inner)?;
            match exact::integer(&exact::value(index)?)? {
                2 => square_root(&inner),
                _ => rational(&exact::value(expr)?),
            }
        }
        Expr::Applied(name, argument) => {
            let Element(real, imaginary) = value(argument, round)?;
            Some(Element(point(&format!("{name} {real} {imaginary}"), round), 0))
        }
        Expr::Percent(inner) => Some(value(inner, round)?.mul(rational(&RBig::from(100))?.inverse()?)),
        Expr::BaseNumber { .. } | Expr::Call(..) => rational(&exact::value(expr)?),
        _ => None,
    }
}

fn signed_power(base: Element, exponent: &RBig) -> Option<Element> {
    let magnitude = exponent.numerator().clone().unsigned_abs();
    if magnitude.bit_len() > 512 {
        return None;
    }
    let raised = base.pow(&magnitude);
    if exponent.is_negative() { raised.inverse() } else { Some(raised) }
}

fn rational(value: &RBig) -> Option<Element> {
    let top = value.numerator().clone().unsigned_abs() % P;
    let bottom = value.denominator() % P;
    let quotient = Element(top, 0).mul(Element(bottom, 0).inverse()?);
    Some(if value.is_negative() { quotient.neg() } else { quotient })
}

/// A pseudo-random element for a name: FNV-1a, then a finaliser.
fn point(name: &str, round: u64) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325 ^ round.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    for byte in name.bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    hash ^= hash >> 33;
    hash = hash.wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash ^= hash >> 33;
    hash % P
}

/// A fixed square root of a rational number: multiplicative, because it goes over prime factors.
fn square_root(value: &RBig) -> Option<Element> {
    if value.is_zero() {
        return Some(Element::ZERO);
    }
    let top = u64::try_from(value.numerator().clone().unsigned_abs()).ok()?;
    let bottom = u64::try_from(value.denominator().clone()).ok()?;
    let root = root_of_integer(top)?.mul(root_of_integer(bottom)?.inverse()?);
    Some(if value.is_negative() { root.mul(Element(0, 1)) } else { root })
}

fn root_of_integer(mut n: u64) -> Option<Element> {
    let mut result = Element::ONE;
    let mut factor = 2;
    while factor <= MAX_FACTOR && factor * factor <= n {
        let mut count = 0u32;
        while n.is_multiple_of(factor) {
            n /= factor;
            count += 1;
        }
        for _ in 0..count / 2 {
            result = result.mul(Element(factor, 0));
        }
        if count % 2 == 1 {
            result = result.mul(root_of_prime(factor));
        }
        factor += if factor == 2 { 1 } else { 2 };
    }
    if n == 1 {
        return Some(result);
    }
    // What is left is prime when it is below the square of the last factor tried.
    (n < MAX_FACTOR * MAX_FACTOR).then(|| result.mul(root_of_prime(n)))
}

fn root_of_prime(prime: u64) -> Element {
    let candidate = pow_mod(prime, P.div_ceil(4));
    if mul_mod(candidate, candidate) == prime {
        return Element(candidate, 0);
    }
    // −prime is then a square; its root times i is a root of prime.
    Element(0, candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roots_square_back_and_multiply() {
        for n in [2u64, 3, 5, 6, 12, 51, 97, 65_521, 1_000_003] {
            let root = root_of_integer(n).expect("small numbers factor");
            assert_eq!(root.mul(root), Element(n, 0), "{n}");
        }
        let product = root_of_integer(6).unwrap();
        assert_eq!(product, root_of_integer(2).unwrap().mul(root_of_integer(3).unwrap()));
    }

    #[test]
    fn inverse_is_inverse() {
        let element = Element(123_456_789, 987_654_321);
        assert_eq!(element.mul(element.inverse().unwrap()), Element::ONE);
    }
}
