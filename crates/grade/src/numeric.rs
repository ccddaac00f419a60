//! Numeric values with an error bound: complex double precision, each operation widening the bound.
//!
//! Used for what the finite field cannot hold: roots of sums, logarithms, trigonometry, symbolic exponents. Two values
//! whose distance exceeds their bounds differ for certain. Variables get pseudo-random positive values, since textbook
//! identities such as √(x²y) = x√y are meant for those; whole numbers where a factorial or floor asks for them, and
//! values of all sizes and both signs where a root, a floor or an absolute value may behave differently there.

use super::exact;
use super::expr::{Expr, Function, Sign};

/// The inverse of a larger number has no digits left.
const MAX_SIZE: f64 = 1e300;
const EPS: f64 = 4.0 * f64::EPSILON;

/// A complex number and a bound on the distance to the true value.
#[derive(Debug, Clone, Copy)]
pub(super) struct Approx {
    pub(super) re: f64,
    pub(super) im: f64,
    pub(super) err: f64,
}

/// Where an expression is evaluated.
#[derive(Debug, Clone, Copy)]
pub(super) struct SamplePoint<'a> {
    /// Number of the pseudo-random point.
    pub(super) round: u64,
    pub(super) points: Points,
    /// One variable with a value of its own.
    pub(super) fixed: Option<(&'a str, f64)>,
    /// Roots and logarithms of negative numbers have no value.
    pub(super) real: bool,
}

/// What kind of value variables get.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Points {
    /// Positive reals.
    Positive,
    /// Positive reals of many sizes, to tell √((x - 9)²) from 9 - x.
    Wide,
    /// The same of either sign, to tell |x| from x.
    Signed,
    /// Positive reals near zero, to tell tanh 1000x from 1.
    Small,
    /// Natural numbers.
    Natural,
    /// Whole numbers of either sign.
    Integer,
    /// Natural numbers up to some thousands.
    LargeNatural,
}

impl Approx {
    fn real(re: f64) -> Self {
        Self { re, im: 0.0, err: re.abs() * EPS }
    }

    fn new(re: f64, im: f64, err: f64) -> Option<Self> {
        let value = Self { re, im, err: err + re.hypot(im) * EPS };
        (!re.is_nan() && !im.is_nan() && !value.err.is_nan()).then_some(value)
    }

    pub(super) fn abs(self) -> f64 {
        self.re.hypot(self.im)
    }

    fn add(self, other: Self) -> Option<Self> {
        Self::new(self.re + other.re, self.im + other.im, self.err + other.err)
    }

    fn neg(self) -> Self {
        Self { re: -self.re, im: -self.im, err: self.err }
    }

    pub(super) fn sub(self, other: Self) -> Option<Self> {
        self.add(other.neg())
    }

    pub(super) fn mul(self, other: Self) -> Option<Self> {
        let err = self.abs() * other.err + other.abs() * self.err + self.err * other.err;
        if self.im == 0.0 && other.im == 0.0 {
            return Self::new(self.re * other.re, 0.0, err);
        }
        Self::new(self.re * other.re - self.im * other.im, self.re * other.im + self.im * other.re, err)
    }

    fn inverse(self) -> Option<Self> {
        let size = self.abs();
        // Too near zero to say on which side it lies.
        if size <= self.err * 2.0 || size == 0.0 || size > MAX_SIZE {
            return None;
        }
        Self::new(self.re / size / size, -self.im / size / size, self.err / size / (size - self.err))
    }

    /// A function with the size of its derivative at the point.
    fn map(self, value: (f64, f64), derivative: f64) -> Option<Self> {
        Self::new(value.0, value.1, self.err * derivative.abs() * 2.0)
    }

    fn ln(self) -> Option<Self> {
        let size = self.abs();
        if size <= self.err * 2.0 {
            return None;
        }
        self.map((size.ln(), self.im.atan2(self.re)), 1.0 / size)
    }

    fn exp(self) -> Option<Self> {
        let size = self.re.exp();
        // What is too small to be told from zero has no value here.
        if size < f64::MIN_POSITIVE {
            return None;
        }
        self.map((size * self.im.cos(), if self.im == 0.0 { 0.0 } else { size * self.im.sin() }), size)
    }

    fn real_only(self) -> Option<f64> {
        (self.im == 0.0).then_some(self.re)
    }
}

/// The value of `expr` at the pseudo-random point number `round`.
pub(super) fn value(expr: &Expr, round: u64, points: Points) -> Option<Approx> {
    value_at(expr, SamplePoint { round, points, fixed: None, real: false })
}

/// The value of `expr` at a place.
pub(super) fn value_at(expr: &Expr, place: SamplePoint<'_>) -> Option<Approx> {
    let at = |inner: &Expr| value_at(inner, place);
    match expr {
        Expr::Number { value, .. } => Some(Approx::real(value.to_f64().value())),
        Expr::BaseNumber { .. } => Some(Approx::real(exact::value(expr)?.to_f64().value())),
        Expr::Variable(name) => Some(Approx::real(match place.fixed {
            Some((fixed, value)) if fixed == name => value,
            _ => point(name, place.round, place.points),
        })),
        Expr::Pi => Some(Approx::real(std::f64::consts::PI)),
        Expr::Euler => Some(Approx::real(std::f64::consts::E)),
        Expr::Imaginary => Some(Approx { re: 0.0, im: 1.0, err: 0.0 }),
        Expr::Sum(terms) => {
            let mut total = Approx { re: 0.0, im: 0.0, err: 0.0 };
            for (sign, term) in terms {
                let term = at(term)?;
                total = match sign {
                    Sign::Plus => total.add(term)?,
                    Sign::Minus => total.sub(term)?,
                    Sign::PlusMinus | Sign::MinusPlus => return None,
                };
            }
            Some(total)
        }
        Expr::Product(factors) => {
            let mut total = Approx::real(1.0);
            for (divides, factor) in factors {
                let factor = at(factor)?;
                total = total.mul(if *divides { factor.inverse()? } else { factor })?;
            }
            Some(total)
        }
        Expr::Power(base, exponent) => {
            let base = at(base)?;
            // A negative number has real odd roots, and a textbook means those.
            if base.im == 0.0
                && base.re < 0.0
                && let Some(exponent) = exact::value(exponent).filter(|exponent| !exponent.is_int())
                && let Some(index) = i64::try_from(exponent.denominator().clone()).ok()
                && index % 2 == 1
            {
                return power(nth_root(base, index)?, Approx::real(exponent.numerator().to_f64().value()));
            }
            if place.real && base.re < 0.0 && !is_whole(exponent, place) {
                return None;
            }
            power(base, at(exponent)?)
        }
        Expr::Root(index, inner) => {
            let index = exact::integer(&exact::value(index)?).filter(|n| (2..=64).contains(n))?;
            let inner = at(inner)?;
            if place.real && index % 2 == 0 && inner.re < 0.0 {
                return None;
            }
            nth_root(inner, index)
        }
        Expr::Call(function, arguments) => call(*function, arguments, place),
        Expr::Applied(name, argument) => unknown_function(name, at(argument)?),
        Expr::Percent(inner) => at(inner)?.mul(Approx::real(0.01)),
        Expr::Degrees(inner) => at(inner)?.mul(Approx::real(std::f64::consts::PI / 180.0)),
        _ => None,
    }
}

fn is_whole(exponent: &Expr, place: SamplePoint<'_>) -> bool {
    value_at(exponent, place).is_some_and(|value| value.im == 0.0 && value.re.fract() == 0.0)
}

fn power(base: Approx, exponent: Approx) -> Option<Approx> {
    if let (Some(_), Some(n)) = (base.real_only(), exponent.real_only())
        && n.fract() == 0.0
        && n.abs() <= 1024.0
        && exponent.err <= EPS * 4.0 * n.abs()
    {
        let size = base.re.powi(n as i32);
        let derivative = n * base.re.powi(n as i32 - 1);
        let vanishes = size == 0.0 && base.re != 0.0;
        return if size.is_finite() && derivative.is_finite() && !vanishes {
            base.map((size, 0.0), derivative)
        } else {
            None
        };
    }
    if base.abs() == 0.0 {
        return (exponent.re > 0.0).then(|| Approx::real(0.0));
    }
    base.ln()?.mul(exponent)?.exp()
}

fn nth_root(inner: Approx, index: i64) -> Option<Approx> {
    if inner.abs() == 0.0 {
        return Some(inner);
    }
    let odd_real = inner.im == 0.0 && (inner.re > 0.0 || index % 2 == 1);
    if odd_real {
        let root = inner.re.abs().powf(1.0 / index as f64).copysign(inner.re);
        return inner.map((root, 0.0), root / (index as f64 * inner.re));
    }
    inner.ln()?.mul(Approx::real(1.0 / index as f64))?.exp()
}

fn call(function: Function, arguments: &[Expr], place: SamplePoint<'_>) -> Option<Approx> {
    let first = value_at(arguments.first()?, place)?;
    let no_value = |value: Approx| place.real && value.re < 0.0;
    if matches!(function, Function::Log | Function::Binomial | Function::Mod) {
        let second = value_at(arguments.get(1)?, place)?;
        return match function {
            Function::Mod => modulo(first, second),
            Function::Log if no_value(first) || no_value(second) => None,
            Function::Log => second.ln()?.mul(first.ln()?.inverse()?),
            _ => binomial(first.real_only()?, second.real_only()?),
        };
    }
    match function {
        Function::Ln => return if no_value(first) { None } else { first.ln() },
        Function::Exp => return first.exp(),
        Function::Abs => return Approx::new(first.abs(), 0.0, first.err),
        _ => {}
    }
    let x = first.real_only()?;
    let real = |value: f64, derivative: f64| {
        if value.is_finite() && derivative.is_finite() { first.map((value, 0.0), derivative) } else { None }
    };
    match function {
        Function::Sin => real(x.sin(), 1.0),
        Function::Cos => real(x.cos(), 1.0),
        Function::Tan => real(x.tan(), 1.0 / x.cos().powi(2)),
        Function::Cot => real(1.0 / x.tan(), 1.0 / x.sin().powi(2)),
        Function::Sec => real(1.0 / x.cos(), x.sin() / x.cos().powi(2)),
        Function::Csc => real(1.0 / x.sin(), x.cos() / x.sin().powi(2)),
        Function::Arcsin | Function::Arccos => {
            if x.abs() > 1.0 + first.err {
                return None;
            }
            let x = x.clamp(-1.0, 1.0);
            let angle = if function == Function::Arcsin { x.asin() } else { x.acos() };
            // The slope is infinite at ±1, but over a width of err the angle changes by less than 2√err.
            let slope = 1.0 / (1.0 - x * x).sqrt();
            Approx::new(angle, 0.0, (2.0 * slope * first.err).min(2.0 * first.err.sqrt()))
        }
        Function::Arctan => real(x.atan(), 1.0),
        Function::Sinh => real(x.sinh(), x.cosh()),
        Function::Cosh => real(x.cosh(), x.sinh()),
        Function::Tanh => real(x.tanh(), 1.0),
        Function::Floor | Function::Ceil => {
            // On the edge of a step the bound cannot tell the side, except for whole numbers that are exact.
            let nearest = x.round();
            if (x - nearest).abs() <= first.err && first.err > 1e-9 {
                return None;
            }
            // At a sample point that close to an edge, another way to write the same would fall on the other side.
            let is_whole = matches!(place.points, Points::Natural | Points::Integer | Points::LargeNatural);
            let is_sample = !is_whole && !arguments[0].variables().is_empty();
            if is_sample && x != nearest && (x - nearest).abs() <= 64.0 * first.err {
                return None;
            }
            let snapped = if (x - nearest).abs() <= first.err { nearest } else { x };
            Some(Approx::real(if function == Function::Floor { snapped.floor() } else { snapped.ceil() }))
        }
        Function::Factorial => factorial(x),
        _ => None,
    }
}

/// The remainder from 0 up to the modulus, of whole numbers.
fn modulo(a: Approx, n: Approx) -> Option<Approx> {
    let (a, n) = (a.real_only()?, n.real_only()?);
    let whole = a.fract() == 0.0 && n.fract() == 0.0 && a.abs() < 1e15 && n >= 1.0;
    whole.then(|| Approx { re: a.rem_euclid(n), im: 0.0, err: 0.0 })
}

fn factorial(x: f64) -> Option<Approx> {
    let natural = x.round();
    if (x - natural).abs() > 1e-9 || !(0.0..=170.0).contains(&natural) {
        return None;
    }
    let product = (1..=natural as u32).map(f64::from).product::<f64>();
    Some(Approx { re: product, im: 0.0, err: product * EPS * natural.max(1.0) })
}

fn binomial(n: f64, k: f64) -> Option<Approx> {
    if n < k {
        return (k >= 0.0).then(|| Approx::real(0.0));
    }
    factorial(n)?.mul(factorial(k)?.inverse()?)?.mul(factorial(n - k)?.inverse()?)
}

/// A function of which only the name is known: equal names and arguments give equal values, and nothing else is likely to.
fn unknown_function(name: &str, argument: Approx) -> Option<Approx> {
    let x = argument.real_only()?;
    let (scale, shift) = (point(name, 101, Points::Positive), point(name, 102, Points::Positive));
    let value = (scale * x + shift).sin() + 0.3 * scale * x * x;
    argument.map((value, 0.0), scale + 0.6 * scale * x.abs())
}

/// A pseudo-random value for a name.
fn point(name: &str, round: u64, points: Points) -> f64 {
    let mut hash = 0x9e37_79b9_7f4a_7c15 ^ round.wrapping_mul(0xd134_2543_de82_ef95);
    for byte in name.bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        hash ^= hash >> 29;
    }
    hash = hash.wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash ^= hash >> 32;
    let unit = (hash >> 11) as f64 / (1u64 << 53) as f64;
    match points {
        Points::Positive => 0.3 + 2.4 * unit,
        // The lowest bits, which `unit` leaves out, choose the sign.
        Points::Signed => (18.0 * unit - 3.0).exp2().copysign(if hash & 1 == 0 { 1.0 } else { -1.0 }),
        Points::Wide => (18.0 * unit - 3.0).exp2(),
        Points::Small => (30.0 * unit - 32.0).exp2(),
        Points::Natural => (1.0 + 16.0 * unit).floor(),
        Points::Integer => (41.0 * unit).floor() - 16.0,
        Points::LargeNatural => (12.0 * unit).exp2().floor(),
    }
}
