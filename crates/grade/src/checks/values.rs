//! What a side is made of: numbers, fractions, roots, angles, and the units after them.

use dashu_ratio::RBig;

use super::lex::Kind;
use super::read::{Reader, Reading, floor, quotient, raised};
use super::words;
use crate::expr::{Expr, Function, Sign};
use crate::lex::parse_number;

/// Digits of a number.
const MAX_DIGITS: usize = 120;

impl Reader<'_> {
    pub(super) fn value(&mut self) -> Option<Expr> {
        while self.peek() == Some(Kind::Money) {
            self.units.push("money".to_owned());
            self.advance();
        }
        match self.peek()? {
            Kind::Number => self.number(),
            Kind::Vulgar => self.vulgar(),
            Kind::Pi => {
                self.advance();
                self.operators += 1;
                Some(Expr::Pi)
            }
            Kind::Open => self.group(),
            Kind::Frac => {
                self.operators += 1;
                self.fraction()
            }
            Kind::Sqrt => {
                self.operators += 1;
                self.root()
            }
            Kind::Binom => {
                self.operators += 1;
                self.advance();
                let arguments = vec![self.argument()?, self.argument()?];
                Some(Expr::Call(Function::Binomial, arguments))
            }
            Kind::Function => {
                self.operators += 1;
                self.function()
            }
            _ => None,
        }
    }

    fn number(&mut self) -> Option<Expr> {
        let whole = number(&self.line.text[self.token().range()])?;
        let before = self.token().range().end;
        self.advance();
        if self.reading == Reading::NoMixed || !matches!(whole, Expr::Number { decimals: 0, .. }) {
            return Some(whole);
        }
        // `2\frac{1}{2}`, `2½`, `2 1/2`.
        let part = match self.peek() {
            Some(Kind::Vulgar) => self.vulgar()?,
            Some(Kind::Frac) => {
                let start = self.at;
                let part = self.fraction()?;
                if !is_proper(&part) {
                    self.at = start;
                    return Some(whole);
                }
                part
            }
            Some(Kind::Number) if self.token().start as usize > before => {
                let top = number(&self.line.text[self.token().range()])?;
                self.advance();
                if self.peek() != Some(Kind::Divide) {
                    return None;
                }
                self.advance();
                if self.peek() != Some(Kind::Number) {
                    return None;
                }
                let bottom = number(&self.line.text[self.token().range()])?;
                self.advance();
                let part = quotient(top, bottom);
                is_proper(&part).then_some(part)?
            }
            _ => return Some(whole),
        };
        Some(Expr::Sum(vec![(Sign::Plus, whole), (Sign::Plus, part)]))
    }

    pub(super) fn vulgar(&mut self) -> Option<Expr> {
        let sign = self.line.text[self.token().range()].chars().next()?;
        let (top, bottom) = vulgar_fraction(sign)?;
        self.advance();
        Some(quotient(Expr::integer(top), Expr::integer(bottom)))
    }

    fn group(&mut self) -> Option<Expr> {
        let closer = match self.opener() {
            b'(' => b')',
            b'[' => b']',
            _ => b'}',
        };
        self.advance();
        let inner = self.deeper(|reader| {
            if reader.reading == Reading::Calculator { reader.left_to_right() } else { reader.sum() }
        })?;
        if self.peek() != Some(Kind::Close) || self.opener() != closer {
            return None;
        }
        self.advance();
        Some(inner)
    }

    /// `\frac{a}{b}`, `\frac12`.
    fn fraction(&mut self) -> Option<Expr> {
        self.advance();
        if self.peek() == Some(Kind::Number) {
            let text = &self.line.text[self.token().range()];
            let (top, bottom) = (text.as_bytes()[0], text.as_bytes().get(1));
            if let (Some(bottom), 2) = (bottom, text.len()) {
                self.advance();
                let digit = |byte: u8| Expr::integer(i64::from(byte.wrapping_sub(b'0')));
                return Some(quotient(digit(top), digit(*bottom)));
            }
            if text.len() != 1 {
                return None;
            }
        }
        let top = self.argument()?;
        let bottom = self.argument()?;
        let quotient = quotient(top, bottom);
        Some(if self.reading == Reading::WholeQuotients { floor(quotient) } else { quotient })
    }

    fn argument(&mut self) -> Option<Expr> {
        match self.peek()? {
            Kind::Open if self.opener() == b'{' => self.group(),
            Kind::Number if self.token().range().len() == 1 => {
                let value = number(&self.line.text[self.token().range()]);
                self.advance();
                value
            }
            _ => None,
        }
    }

    /// `\sqrt{a}`, `\sqrt[3]{a}`, `√16`, `√(16)`.
    fn root(&mut self) -> Option<Expr> {
        let latex = self.line.text.as_bytes()[self.token().range().start] == b'\\';
        self.advance();
        let mut index = Expr::integer(2);
        if latex && self.peek() == Some(Kind::Open) && self.opener() == b'[' {
            index = self.group()?;
        }
        let inner = match self.peek()? {
            Kind::Open => self.group()?,
            // `\sqrt16` is √1·6 to LaTeX.
            Kind::Number if !latex || self.token().range().len() == 1 => self.number()?,
            _ => return None,
        };
        Some(Expr::Root(Box::new(index), Box::new(inner)))
    }

    /// `\sin 30^\circ`, `\cos^2(60^\circ)`, `\tan\frac{\pi}{4}`: angles are in degrees or have a π.
    fn function(&mut self) -> Option<Expr> {
        let function = match &self.line.text[self.token().range()] {
            "\\sin" => Function::Sin,
            "\\cos" => Function::Cos,
            _ => Function::Tan,
        };
        self.advance();
        let power = if self.peek() == Some(Kind::Caret) { self.exponent()? } else { None };
        let outer = std::mem::replace(&mut self.in_function, true);
        let angle = match self.peek()? {
            Kind::Number | Kind::Open | Kind::Frac | Kind::Pi => self.deeper(Self::power)?,
            _ => return None,
        };
        self.in_function = outer;
        if !angle.any(&|node| matches!(node, Expr::Pi | Expr::Degrees(_)))
            || matches!(self.peek(), Some(Kind::Pi | Kind::Frac))
        {
            return None;
        }
        let value = Expr::Call(function, vec![angle]);
        Some(match power {
            Some(Expr::Number { value: power, .. }) if power < RBig::ZERO => return None,
            Some(power) => raised(value, power),
            None => value,
        })
    }

    /// The words after a number.
    pub(super) fn unit(&mut self) -> Option<()> {
        let mut unit = String::new();
        let run = self.line.tokens[self.at..self.end].iter();
        let length = run.take_while(|token| matches!(token.kind, Kind::Word | Kind::Text)).count();
        if !words::is_unit(self.line.text, &self.line.tokens[self.at..self.at + length]) {
            return None;
        }
        while let Some(kind @ (Kind::Word | Kind::Text)) = self.peek() {
            let word = &self.line.text[self.token().range()];
            let word = if kind == Kind::Text { words::content(word) } else { word };
            if !unit.is_empty() {
                unit.push(' ');
            }
            unit.push_str(&word.to_lowercase());
            self.advance();
            while matches!(self.peek(), Some(Kind::Caret | Kind::Raised(_))) {
                self.exponent()??;
                unit.push_str("^n");
            }
            if self.peek() == Some(Kind::Divide)
                && matches!(self.kind_at(self.at + 1), Some(Kind::Word | Kind::Text))
            {
                unit.push_str(" /");
                self.advance();
            }
        }
        self.units.push(unit);
        Some(())
    }
}

/// Less than one, of whole numbers.
fn is_proper(part: &Expr) -> bool {
    let Expr::Product(factors) = part else { return false };
    match factors.as_slice() {
        [
            (false, Expr::Number { value: top, decimals: 0 }),
            (true, Expr::Number { value: bottom, decimals: 0 }),
        ] => *top < *bottom && *top > RBig::ZERO,
        _ => false,
    }
}

/// The value of a number's token.
pub(super) fn number(text: &str) -> Option<Expr> {
    // `0730` is a time or a code.
    let zero = text.len() > 1 && text.starts_with('0') && text.as_bytes()[1].is_ascii_digit();
    if text.len() > MAX_DIGITS || zero {
        return None;
    }
    if let Some(plain) = plain_number(text) {
        return Some(plain);
    }
    let (text, repeating) = match text
        .split_once('\\')
        .filter(|(_, tail)| tail.starts_with("overline") || tail.starts_with("bar"))
    {
        Some((head, tail)) => (head, tail.split_once('{')?.1.trim_end_matches('}')),
        None => (text, ""),
    };
    let text = text.split_once("...").map_or(text, |(head, _)| head);
    let plain: String = text.chars().filter(|c| c.is_ascii_digit() || *c == '.').collect();
    let decimals = plain.split_once('.').map_or(0, |(_, fraction)| fraction.len() as u32);
    let decimals = if repeating.is_empty() { decimals } else { 0 };
    Some(Expr::Number { value: parse_number(&plain, repeating, 0)?, decimals })
}

/// A number of up to 18 digits with at most a point and commas between them.
fn plain_number(text: &str) -> Option<Expr> {
    let (mut digits, mut count, mut decimals) = (0i64, 0, None);
    for byte in text.bytes() {
        match byte {
            b'0'..=b'9' => {
                digits = digits.checked_mul(10)?.checked_add(i64::from(byte - b'0'))?;
                count += 1;
                decimals = decimals.map(|decimals| decimals + 1);
            }
            b'.' if decimals.is_none() => decimals = Some(0),
            b',' if decimals.is_none() => {}
            _ => return None,
        }
        if count > 18 {
            return None;
        }
    }
    let decimals = decimals.unwrap_or(0);
    let value = match decimals {
        0 => RBig::from(digits),
        decimals => RBig::from_parts(digits.into(), 10u64.pow(decimals).into()),
    };
    Some(Expr::Number { value, decimals })
}

fn vulgar_fraction(sign: char) -> Option<(i64, i64)> {
    Some(match sign {
        '½' => (1, 2),
        '⅓' => (1, 3),
        '⅔' => (2, 3),
        '¼' => (1, 4),
        '¾' => (3, 4),
        '⅕' => (1, 5),
        '⅖' => (2, 5),
        '⅗' => (3, 5),
        '⅘' => (4, 5),
        '⅙' => (1, 6),
        '⅚' => (5, 6),
        '⅛' => (1, 8),
        '⅜' => (3, 8),
        '⅝' => (5, 8),
        '⅞' => (7, 8),
        _ => return None,
    })
}
