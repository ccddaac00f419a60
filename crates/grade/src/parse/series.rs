//! What is written out when it is read: sums and products with few terms, determinants; and piecewise definitions.

use dashu_base::Signed;

use super::super::exact;
use super::super::expr::{Expr, Sign};
use super::super::lex::Token;
use super::{Parser, is_conjunction, is_where};

/// Terms of a sum or product that is written out, and nodes of the result.
const MAX_TERMS: i64 = 400;
const MAX_NODES: usize = 20_000;
/// Rows of a determinant that is written out.
const MAX_ROWS: usize = 4;

impl Parser {
    /// `\sum_{k=1}^{5} k^2` and `\prod`, written out. `None` for one without end or with a symbol for a bound.
    pub(super) fn series(&mut self, is_sum: bool) -> Option<Expr> {
        let mut range = None;
        let mut high = None;
        for _ in 0..2 {
            if self.eat('_') {
                self.eat('{').then_some(())?;
                let items = self.enclosed(|token| *token == Token::Symbol('}'))?;
                let [Expr::Chain(members, _)] = items.as_slice() else { return None };
                let [name, low] = members.as_slice() else { return None };
                let name = match name {
                    Expr::Variable(name) => name.clone(),
                    Expr::Imaginary => "i".to_owned(),
                    _ => return None,
                };
                range = Some((name, exact::integer(&exact::value(low)?)?));
            } else if self.eat('^') {
                let top = self.deeper(Self::group)?;
                high = Some(exact::integer(&exact::value(&top)?)?);
            }
        }
        let ((name, low), high) = (range?, high?);
        let body = self.deeper(Self::product)?;
        let count = high.checked_sub(low)?.checked_add(1)?;
        if !(0..=MAX_TERMS).contains(&count) || body.size().checked_mul(count as usize)? > MAX_NODES {
            return None;
        }
        let terms = (low..=high).map(|index| body.substitute(&name, &Expr::integer(index)));
        Some(match (count, is_sum) {
            (0, true) => Expr::integer(0),
            (0, false) => Expr::integer(1),
            (_, true) => Expr::Sum(terms.map(|term| (Sign::Plus, term)).collect()),
            (_, false) => Expr::Product(terms.map(|term| (false, term)).collect()),
        })
    }

    /// The rows of `\begin{cases}`: a value and its condition.
    pub(super) fn cases(&mut self) -> Option<Expr> {
        let mut branches = Vec::new();
        while !self.ends_environment()? {
            match self.peek()? {
                Token::Symbol('\\' | ',' | ';') => self.at += 1,
                _ => {
                    let value = self.deeper(Self::sum)?;
                    while self.eat(',') || self.eat('&') {}
                    branches.push((value, self.condition()?));
                }
            }
        }
        (!branches.is_empty()).then_some(Expr::Cases(branches))
    }

    /// `if x > 0`, `otherwise`, or nothing.
    fn condition(&mut self) -> Option<Option<Expr>> {
        while let Some(Token::Text(word) | Token::Word(word)) = self.peek() {
            let word = word.trim().trim_matches(',').trim().to_lowercase();
            if matches!(word.as_str(), "otherwise" | "else" | "elsewhere") {
                self.at += 1;
                return Some(None);
            }
            if !is_where(&word) {
                break;
            }
            self.at += 1;
        }
        let mut all = vec![self.deeper(Self::item)?];
        while let Some(Token::Text(word) | Token::Word(word)) = self.peek() {
            // Either of two conditions is not one interval.
            if !is_conjunction(word) || word.trim() == "or" {
                return None;
            }
            self.at += 1;
            all.push(self.deeper(Self::item)?);
        }
        while self.eat(',') || self.eat(';') {}
        Some(Some(if all.len() == 1 { all.swap_remove(0) } else { Expr::List(all) }))
    }
}

/// The determinant of a square matrix, written out along its first row.
pub(super) fn determinant(rows: &[Vec<Expr>]) -> Option<Expr> {
    if rows.len() > MAX_ROWS || rows.iter().any(|row| row.len() != rows.len()) {
        return None;
    }
    if let [only] = rows {
        return only.first().cloned();
    }
    let mut terms = Vec::new();
    for (column, cell) in rows[0].iter().enumerate() {
        let minor: Vec<Vec<Expr>> = rows[1..]
            .iter()
            .map(|row| {
                let others = row.iter().enumerate().filter(|(index, _)| *index != column);
                others.map(|(_, cell)| cell.clone()).collect()
            })
            .collect();
        let sign = if column % 2 == 0 { Sign::Plus } else { Sign::Minus };
        terms.push((sign, Expr::Product(vec![(false, cell.clone()), (false, determinant(&minor)?)])));
    }
    Some(Expr::Sum(terms))
}

/// The base that a subscript names: `2`, `two`, `base 2`.
pub(super) fn base(subscript: &str) -> Option<u32> {
    const NAMES: [&str; 15] = [
        "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
        "thirteen", "fourteen", "fifteen", "sixteen",
    ];
    let name = subscript.trim_start_matches("base").trim();
    match NAMES.iter().position(|word| *word == name) {
        Some(index) => u32::try_from(index + 2).ok(),
        None => name.parse().ok(),
    }
}

/// `1010 base 2`, `1010 (base 2)`, `1010 in base 2`: the base and how many tokens name it.
pub(super) fn named_base(tokens: &[Token]) -> Option<(u32, usize)> {
    let is = |token: Option<&Token>, text: &str| matches!(token, Some(Token::Word(word) | Token::Text(word)) if word == text);
    let start = usize::from(tokens.first() == Some(&Token::Symbol('(')) || is(tokens.first(), "in"));
    let (name, length) = if is(tokens.get(start), "base") { (start + 1, start + 2) } else { return None };
    let base = match tokens.get(name)? {
        Token::Number { value, .. } if value.is_positive() => u32::try_from(exact::integer(value)?).ok()?,
        Token::Word(word) | Token::Text(word) => base(word)?,
        _ => return None,
    };
    let bracketed = tokens.first() == Some(&Token::Symbol('('));
    if bracketed && tokens.get(length) != Some(&Token::Symbol(')')) {
        return None;
    }
    Some((base, length + usize::from(bracketed)))
}
