//! Values with units: `15 cm^2`, `70 miles per hour`, `5 ft 6 in`, `20°C`, `5°30'`.

use super::super::expr::{Expr, Sign};
use super::super::lex::Token;
use super::super::symbols::{FUNCTIONS, GREEK};
use super::super::{exact, units};
use super::{Parser, is_conjunction};

impl Parser {
    /// True when the next token is a unit after a value: `\text{…}`, or a word that no product of variables would be.
    pub(super) fn at_unit(&self) -> bool {
        // `55 m/s` as a whole answer.
        if let [Token::Number { .. }, Token::Word(_), Token::Symbol('/'), Token::Word(_), rest @ ..] =
            self.tokens.as_slice()
            && (rest.is_empty() || matches!(rest, [Token::Symbol('^'), Token::Number { .. }]))
        {
            return true;
        }
        // `\frac{5}{9} m/s` at the end of one.
        if let [Token::Word(top), Token::Symbol('/'), Token::Word(bottom), rest @ ..] =
            &self.tokens[self.at..]
            && (rest.is_empty() || matches!(rest, [Token::Symbol('^'), Token::Number { .. }]))
            && units::is_known(&top.to_lowercase())
            && units::is_known(&bottom.to_lowercase())
            && !self.tokens[..self.at].iter().any(|token| matches!(token, Token::Word(_)))
        {
            return true;
        }
        match self.peek() {
            Some(Token::Text(_)) => true,
            Some(Token::Word(word)) => {
                // `in` and `mi` may be products; at the end they are inches and miles.
                let last = matches!(self.tokens.get(self.at + 1), None | Some(Token::Symbol('^' | ',')));
                !FUNCTIONS.contains(&word.as_str())
                    && !GREEK.contains(&word.as_str())
                    && !matches!(word.as_str(), "infinity" | "infty")
                    && (units::is_abbreviation(word)
                        || word.len() >= 4
                        || (last && units::is_last_abbreviation(word))
                        || (units::is_letter(word) && self.goes_on_smaller()))
            }
            _ => false,
        }
    }

    /// `1 h 30 min`: after the letter a number and another unit.
    fn goes_on_smaller(&self) -> bool {
        matches!(self.tokens.get(self.at + 1), Some(Token::Number { .. }))
            && match self.tokens.get(self.at + 2) {
                Some(Token::Word(word) | Token::Text(word)) => units::is_known(word),
                _ => false,
            }
    }

    /// A value whose unit comes next, and the smaller units after it.
    pub(super) fn quantity(&mut self, value: Expr) -> Option<Expr> {
        // `5 squared`; `25 squared units` are meant to be square units.
        if let [Token::Text(word) | Token::Word(word)] = &self.tokens[self.at..]
            && let Some(power) = match word.trim() {
                "squared" => Some(2),
                "cubed" => Some(3),
                _ => None,
            }
        {
            self.at += 1;
            return Some(Expr::Power(Box::new(value), Box::new(Expr::integer(power))));
        }
        let unit = self.unit();
        if unit.is_empty() {
            return Some(value);
        }
        // `$2 per pound` has its unit on both sides.
        let (value, unit) = match value {
            Expr::Quantity(value, currency) => (*value, format!("{currency} {unit}")),
            value => (value, unit),
        };
        let first = Expr::Quantity(Box::new(value), unit);
        if !matches!(self.peek(), Some(Token::Number { .. })) {
            return Some(first);
        }
        let next = self.deeper(Self::product)?;
        added(&[first, next])
    }

    /// Reads a unit such as `cm^2`, `miles per hour` or `m/s`.
    fn unit(&mut self) -> String {
        let mut unit = String::new();
        loop {
            match self.peek() {
                Some(Token::Text(word) | Token::Word(word))
                    if !is_conjunction(word) && !matches!(word.as_str(), "where" | "if" | "when") =>
                {
                    if !unit.is_empty() {
                        unit.push(' ');
                    }
                    unit.push_str(&units::lowercase(word));
                    self.at += 1;
                }
                Some(Token::Symbol('^')) if !unit.is_empty() => {
                    self.at += 1;
                    let braced = self.eat('{');
                    if let Some(Token::Number { digits, .. }) = self.peek() {
                        unit.push('^');
                        unit.push_str(&digits.clone());
                        self.at += 1;
                    }
                    if braced {
                        self.eat('}');
                    }
                }
                // `kg·m/s`.
                Some(Token::Symbol('*')) if matches!(self.tokens.get(self.at + 1), Some(Token::Word(word)) if units::is_known(word)) =>
                {
                    self.at += 1;
                }
                Some(Token::Symbol('/'))
                    if matches!(self.tokens.get(self.at + 1), Some(Token::Text(_) | Token::Word(_))) =>
                {
                    self.at += 1;
                    unit.push_str(" /");
                }
                _ => return unit.trim().trim_end_matches('.').to_owned(),
            }
        }
    }

    /// An angle, with minutes and seconds, or a temperature when a `C` or `F` follows.
    pub(super) fn degrees(&mut self, value: Expr) -> Option<Expr> {
        if let Some(Token::Word(word) | Token::Text(word)) = self.peek()
            && matches!(word.as_str(), "C" | "F" | "Celsius" | "Fahrenheit")
        {
            let unit = word.to_lowercase();
            self.at += 1;
            return Some(Expr::Quantity(Box::new(value), unit));
        }
        let mut terms = vec![(Sign::Plus, value)];
        for (mark, parts) in [("arcmin", 60), ("arcsec", 3_600)] {
            if let (Some(Token::Number { value, decimals, .. }), Some(Token::Text(text))) =
                (self.peek(), self.tokens.get(self.at + 1))
                && text == mark
            {
                let part = Expr::Number { value: value.clone(), decimals: *decimals };
                terms.push((Sign::Plus, super::quotient(part, Expr::integer(parts))));
                self.at += 2;
            }
        }
        let whole = if terms.len() == 1 { terms.swap_remove(0).1 } else { Expr::Sum(terms) };
        Some(Expr::Degrees(Box::new(whole)))
    }
}

/// `5 ft 6 in` as feet: the parts of a quantity in smaller and smaller units, each less than one of the unit before.
pub(super) fn added(items: &[Expr]) -> Option<Expr> {
    let [Expr::Quantity(first, unit), rest @ ..] = items else { return None };
    exact::value(first)?;
    let mut terms = vec![(Sign::Plus, (**first).clone())];
    let mut last = unit;
    for item in rest {
        let Expr::Quantity(value, smaller) = item else { return None };
        let of_last = units::is_part_of(smaller, last)?;
        let in_first = units::is_part_of(smaller, unit)?;
        let amount = exact::value(value)?;
        if amount.clone() * of_last >= dashu_ratio::RBig::ONE {
            return None;
        }
        terms.push((Sign::Plus, Expr::Number { value: amount * in_first, decimals: 0 }));
        last = smaller;
    }
    Some(Expr::Quantity(Box::new(Expr::Sum(terms)), unit.clone()))
}
