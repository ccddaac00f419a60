//! One side's tokens to the grader's tree, by recursive descent; `None` means that it is no closed arithmetic.
//!
//! ```text
//! sum     = sign? product (sign product)*
//! product = power (("×" | "/" | nothing) power)*
//! power   = sign? value ("!" | "%" | "°" | unit)* ("^" exponent)?
//! value   = number | "(" sum ")" | \frac{sum}{sum} | \sqrt[sum]{sum} | π
//! ```
//!
//! Writers do not agree on everything: `6/2(3)`, `-3^2`, `2\frac{1}{2}`, `10%`. A [`Reading`] other than the usual one
//! takes these the other way. A side that is false in one reading only is not proved false.

use super::lex::{Kind, Token};
use super::operands::{Line, Operand, ends_value};
use super::values::number;
use crate::expr::{Expr, Function, Sign};

/// Brackets, fractions, roots and exponents that may be nested.
const MAX_DEPTH: usize = 24;

/// What is read the other way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reading {
    Usual,
    /// `6/2(3)` is 6/(2·3).
    TightProducts,
    /// `-3^2` is 9.
    SignedBases,
    /// `2\frac{1}{2}` is a product.
    NoMixed,
    /// `10%` is 10.
    PlainPercent,
    /// `24!` ends a sentence.
    NoFactorial,
    /// From left to right, as a pocket calculator does it.
    Calculator,
    /// The dash before a line's first number is its sign.
    Signed,
    /// `100 + 20%` is 120.
    RelativePercent,
    /// `3 / 1/4` is 12.
    FractionBelow,
    /// `42/5` is 8.
    WholeQuotients,
    /// `2^34` is 2³·4, as LaTeX sets it.
    ShortExponents,
    /// `3 / 4 * π` is 3/(4π).
    ProductsBelow,
}

impl Reading {
    pub(super) const OTHERS: [Self; 12] = [
        Self::TightProducts,
        Self::SignedBases,
        Self::NoMixed,
        Self::PlainPercent,
        Self::NoFactorial,
        Self::Calculator,
        Self::Signed,
        Self::RelativePercent,
        Self::FractionBelow,
        Self::WholeQuotients,
        Self::ShortExponents,
        Self::ProductsBelow,
    ];
}

/// A side that was read.
#[derive(Debug)]
pub(super) struct Side {
    pub(super) expr: Expr,
    /// It is one number as it was written, with no operator but a sign.
    pub(super) literal: bool,
    /// Its units, in the order of the text and in lower case.
    pub(super) units: Vec<String>,
}

/// Reads a side.
pub(super) fn read(line: Line<'_>, operand: &Operand, reading: Reading) -> Option<Side> {
    let mut reader = Reader {
        line,
        at: operand.tokens.start,
        end: operand.tokens.end,
        depth: 0,
        reading,
        operators: 0,
        units: Vec::new(),
        in_function: false,
        in_degrees: false,
        factor_after: None,
    };
    reader.skip_layout();
    let expr = if reading == Reading::Calculator { reader.left_to_right()? } else { reader.sum()? };
    if reader.at != reader.end {
        return None;
    }
    let expr = if operand.bullet && reading == Reading::Signed { negative(expr) } else { expr };
    Some(Side { expr, literal: reader.operators == 0, units: reader.units })
}

pub(super) struct Reader<'a> {
    pub(super) line: Line<'a>,
    pub(super) at: usize,
    pub(super) end: usize,
    depth: usize,
    pub(super) reading: Reading,
    pub(super) operators: usize,
    pub(super) units: Vec<String>,
    /// Inside an angle: `°` is part of the value, and not a unit.
    pub(super) in_function: bool,
    in_degrees: bool,
    /// What [`Reading::ShortExponents`] took out of an exponent.
    factor_after: Option<Expr>,
}

impl Reader<'_> {
    pub(super) fn kind_at(&self, at: usize) -> Option<Kind> {
        (at < self.end).then(|| self.line.tokens[at].kind)
    }

    pub(super) fn peek(&self) -> Option<Kind> {
        self.kind_at(self.at)
    }

    pub(super) fn token(&self) -> Token {
        self.line.tokens[self.at]
    }

    pub(super) fn advance(&mut self) {
        self.at += 1;
        self.skip_layout();
    }

    fn skip_layout(&mut self) {
        while matches!(self.peek(), Some(Kind::Dollar | Kind::Mark | Kind::Align)) {
            self.at += 1;
        }
    }

    pub(super) fn opener(&self) -> u8 {
        self.line.text.as_bytes()[self.token().range().end - 1]
    }

    pub(super) fn deeper<T>(&mut self, inner: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        if self.depth >= MAX_DEPTH {
            return None;
        }
        self.depth += 1;
        let result = inner(self);
        self.depth -= 1;
        result
    }

    fn sign(&mut self) -> Option<Sign> {
        let sign = match self.peek()? {
            Kind::Plus => Sign::Plus,
            Kind::Minus => Sign::Minus,
            _ => return None,
        };
        self.advance();
        Some(sign)
    }

    pub(super) fn sum(&mut self) -> Option<Expr> {
        let first = self.sign().unwrap_or(Sign::Plus);
        let product = self.product()?;
        if first == Sign::Plus && !matches!(self.peek(), Some(Kind::Plus | Kind::Minus)) {
            return Some(product);
        }
        let mut terms = vec![(first, product)];
        while let Some(sign) = self.sign() {
            self.operators += 1;
            let term = self.product()?;
            let term = match term {
                // Only of one term, so that the tree does not double with every percentage.
                Expr::Percent(share) if self.reading == Reading::RelativePercent && terms.len() == 1 => {
                    let whole = Expr::Sum(terms.clone());
                    Expr::Product(vec![(false, whole), (false, Expr::Percent(share))])
                }
                term => term,
            };
            terms.push((sign, term));
        }
        Some(match terms.as_mut_slice() {
            [(Sign::Plus, _)] => terms.swap_remove(0).1,
            [(_, term)] => negative(std::mem::replace(term, Expr::Pi)),
            _ => Expr::Sum(terms),
        })
    }

    fn product(&mut self) -> Option<Expr> {
        let power = self.power()?;
        if !matches!(self.peek(), Some(Kind::Times | Kind::Divide)) && !self.at_implicit() {
            return Some(power);
        }
        let mut factors = vec![(false, power)];
        loop {
            match self.peek() {
                Some(Kind::Times) => {
                    self.operators += 1;
                    self.advance();
                    factors.push((false, self.power()?));
                }
                Some(Kind::Divide) => {
                    self.operators += 1;
                    let spaced = self.token().spaced;
                    self.advance();
                    let mut below = self.power()?;
                    while self.reading == Reading::ProductsBelow
                        && (self.peek() == Some(Kind::Times) || self.at_implicit())
                    {
                        if self.peek() == Some(Kind::Times) {
                            self.advance();
                        }
                        below = Expr::Product(vec![(false, below), (false, self.power()?)]);
                        self.bound()?;
                    }
                    while self.reading == Reading::TightProducts && self.at_implicit() {
                        below = Expr::Product(vec![(false, below), (false, self.power()?)]);
                        self.bound()?;
                    }
                    // `11/4 / 15/4`.
                    let tighter = self.peek() == Some(Kind::Divide) && (spaced || !self.token().spaced);
                    if self.reading == Reading::FractionBelow && tighter {
                        self.advance();
                        below = quotient(below, self.power()?);
                    }
                    factors.push((true, below));
                }
                Some(_) if self.at_implicit() => {
                    self.operators += 1;
                    factors.push((false, self.power()?));
                }
                _ => break,
            }
        }
        let divides = factors.iter().any(|(divides, _)| *divides);
        let product = if factors.len() == 1 { factors.swap_remove(0).1 } else { Expr::Product(factors) };
        Some(if divides && self.reading == Reading::WholeQuotients { floor(product) } else { product })
    }

    /// `3 + 4 × 2` is 14.
    pub(super) fn left_to_right(&mut self) -> Option<Expr> {
        let mut total = match self.sign() {
            Some(Sign::Minus) => negative(self.power()?),
            _ => self.power()?,
        };
        while let Some(kind) = self.peek() {
            self.operators += 1;
            if matches!(kind, Kind::Plus | Kind::Minus | Kind::Times | Kind::Divide) {
                self.advance();
            } else if !self.at_implicit() {
                break;
            }
            let next = self.power()?;
            total = match kind {
                Kind::Plus => Expr::Sum(vec![(Sign::Plus, total), (Sign::Plus, next)]),
                Kind::Minus => Expr::Sum(vec![(Sign::Plus, total), (Sign::Minus, next)]),
                kind => Expr::Product(vec![(false, total), (kind == Kind::Divide, next)]),
            };
            // The tree grows with every operator, and what walks it recurses.
            if self.operators > MAX_DEPTH {
                return None;
            }
        }
        Some(total)
    }

    /// A factor without a sign before it: `2(3)`, `2\sqrt{3}`, `(2)(3)`.
    fn at_implicit(&self) -> bool {
        match self.peek() {
            Some(Kind::Open) => self.opener() != b'{' && !(self.token().spaced && self.at_remark()),
            Some(Kind::Sqrt | Kind::Pi | Kind::Frac | Kind::Binom | Kind::Function) => true,
            // `(3)4` and `3!4!`, not `3 4`.
            Some(Kind::Number) => {
                let before = self.at.checked_sub(1).map(|at| self.line.tokens[at].kind);
                matches!(before, Some(Kind::Close | Kind::Bang)) && !self.token().spaced
            }
            _ => false,
        }
    }

    /// Words in brackets: `510 × 5 (5 Sundays)`.
    fn at_remark(&self) -> bool {
        let rest = self.line.tokens[self.at..self.end].iter();
        rest.take_while(|token| token.kind != Kind::Close)
            .any(|token| matches!(token.kind, Kind::Word | Kind::Text))
    }

    /// A tree that nests with every operator stays small: what walks it recurses.
    fn bound(&mut self) -> Option<()> {
        self.operators += 1;
        (self.operators <= MAX_DEPTH).then_some(())
    }

    pub(super) fn power(&mut self) -> Option<Expr> {
        if self.peek() == Some(Kind::Minus) {
            self.advance();
            return self.deeper(Self::power).map(negative);
        }
        let before = |back: usize| self.at.checked_sub(back).map(|at| self.line.tokens[at].kind);
        let negative_before =
            before(1) == Some(Kind::Minus) && !before(2).is_some_and(|kind| ends_value(kind) && self.at > 1);
        let mut base = self.value()?;
        for _ in 0..4 {
            match self.peek() {
                Some(Kind::Bang) => {
                    self.advance();
                    self.operators += 1;
                    if self.reading != Reading::NoFactorial {
                        base = Expr::Call(Function::Factorial, vec![base]);
                    }
                }
                Some(Kind::Percent) => {
                    self.advance();
                    if self.reading != Reading::PlainPercent {
                        base = Expr::Percent(Box::new(base));
                    }
                }
                Some(Kind::Degree) if self.in_function => {
                    self.advance();
                    base = Expr::Degrees(Box::new(base));
                }
                Some(Kind::Degree | Kind::Money) => {
                    let name = if self.peek() == Some(Kind::Degree) { "degrees" } else { "money" };
                    self.units.push(name.to_owned());
                    self.advance();
                }
                Some(Kind::Word | Kind::Text) => self.unit()?,
                Some(Kind::Caret | Kind::Raised(_)) => {
                    let Some(exponent) = self.exponent()? else {
                        if std::mem::take(&mut self.in_degrees) {
                            base = Expr::Degrees(Box::new(base));
                        }
                        continue;
                    };
                    base = if self.reading == Reading::SignedBases && negative_before {
                        // The minus before has been taken by then: -(-(3²)) is (-3)² for even exponents.
                        negative(raised(negative(base), exponent))
                    } else {
                        raised(base, exponent)
                    };
                    if let Some(rest) = self.factor_after.take() {
                        base = Expr::Product(vec![(false, base), (false, rest)]);
                    }
                    self.operators += 1;
                }
                _ => break,
            }
        }
        Some(base)
    }

    /// `^2`, `^{2}`, `²`, `^\circ`.
    pub(super) fn exponent(&mut self) -> Option<Option<Expr>> {
        if let Some(Kind::Raised(digit)) = self.peek() {
            self.advance();
            return Some(Some(Expr::integer(i64::from(digit))));
        }
        self.advance();
        let braced_degree = self.peek() == Some(Kind::Open)
            && self.kind_at(self.at + 1) == Some(Kind::Degree)
            && self.kind_at(self.at + 2) == Some(Kind::Close);
        if self.peek() == Some(Kind::Degree) || braced_degree {
            for _ in 0..if braced_degree { 3 } else { 1 } {
                self.advance();
            }
            if self.in_function {
                self.in_degrees = true;
            } else {
                self.units.push("degrees".to_owned());
            }
            return Some(None);
        }
        let exponent = match self.peek()? {
            Kind::Minus => {
                self.advance();
                negative(self.deeper(Self::value)?)
            }
            Kind::Number if self.reading == Reading::ShortExponents && self.token().range().len() > 1 => {
                return self.short_exponent().map(Some);
            }
            Kind::Number => {
                let exponent = number(&self.line.text[self.token().range()])?;
                self.advance();
                exponent
            }
            Kind::Open | Kind::Frac => self.deeper(Self::value)?,
            _ => return None,
        };
        // `2^3^2` is read in two ways.
        if matches!(self.peek(), Some(Kind::Caret)) { None } else { Some(Some(exponent)) }
    }

    /// `^34` as LaTeX sets it: the 3 is the exponent, the 4 a factor.
    fn short_exponent(&mut self) -> Option<Expr> {
        let text = &self.line.text[self.token().range()];
        let (exponent, rest) = (number(text.get(..1)?)?, number(text.get(1..)?)?);
        self.advance();
        self.factor_after = Some(rest);
        Some(exponent)
    }
}

pub(super) fn floor(inner: Expr) -> Expr {
    Expr::Call(Function::Floor, vec![inner])
}

pub(super) fn raised(base: Expr, exponent: Expr) -> Expr {
    Expr::Power(Box::new(base), Box::new(exponent))
}

pub(super) fn quotient(top: Expr, bottom: Expr) -> Expr {
    Expr::Product(vec![(false, top), (true, bottom)])
}

pub(super) fn negative(inner: Expr) -> Expr {
    match inner {
        Expr::Number { value, decimals } => Expr::Number { value: -value, decimals },
        Expr::Percent(share) => Expr::Percent(Box::new(negative(*share))),
        inner => Expr::Sum(vec![(Sign::Minus, inner)]),
    }
}
