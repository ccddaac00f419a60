//! The smallest parts of an answer: numbers, names, words, and everything in brackets.

use dashu_ratio::RBig;

use super::super::expr::{Bracket, Expr, Function};
use super::super::lex::Token;
use super::super::symbols::{FUNCTIONS, GREEK};
use super::super::units;
use super::{Parser, series};

impl Parser {
    pub(super) fn primary(&mut self) -> Option<Expr> {
        let token = self.peek()?.clone();
        self.at += 1;
        match token {
            Token::Number { value, decimals, digits } => {
                if self.peek_symbol() == Some('_') && decimals == 0 {
                    self.at += 1;
                    let base = series::base(&self.subscript()?)?;
                    return Some(Expr::BaseNumber { digits, base });
                }
                if decimals == 0
                    && let Some((base, length)) = series::named_base(&self.tokens[self.at..])
                {
                    self.at += length;
                    return Some(Expr::BaseNumber { digits, base });
                }
                Some(Expr::Number { value, decimals })
            }
            Token::Word(word) => self.word(&word),
            Token::Text(text) => self.text(&text),
            Token::Command(name) => self.command(&name),
            Token::Symbol(open @ ('(' | '[')) => self.brackets(open),
            Token::Symbol('{') => {
                let items = self.enclosed(|token| *token == Token::Symbol('}'))?;
                Some(if items.len() == 1 { items.into_iter().next()? } else { Expr::Set(items) })
            }
            Token::SetOpen => self.set(),
            Token::Symbol('|') => {
                self.bars += 1;
                let inner = self.deeper(Self::sum);
                self.bars -= 1;
                let inner = inner?;
                self.eat('|').then_some(())?;
                match inner {
                    // The bars of a matrix are its determinant.
                    Expr::Matrix(rows) => series::determinant(&rows),
                    inner => Some(Expr::Call(Function::Abs, vec![inner])),
                }
            }
            Token::Symbol('∞') => Some(Expr::Infinity),
            Token::Symbol('√') => {
                let inner = self.deeper(Self::primary)?;
                Some(Expr::Root(Box::new(Expr::integer(2)), Box::new(inner)))
            }
            _ => None,
        }
    }

    /// Items up to a closing token, which is consumed.
    pub(super) fn enclosed(&mut self, closes: impl Fn(&Token) -> bool) -> Option<Vec<Expr>> {
        let (bars, in_set) = (std::mem::take(&mut self.bars), std::mem::take(&mut self.in_set));
        let items = self.deeper(Self::items);
        (self.bars, self.in_set) = (bars, in_set);
        let items = items?;
        let closed = self.peek().is_some_and(closes);
        self.at += usize::from(closed);
        closed.then_some(items)
    }

    pub(super) fn brackets(&mut self, open: char) -> Option<Expr> {
        let mut items = self.enclosed(|token| matches!(token, Token::Symbol(')' | ']')))?;
        let close = match self.tokens.get(self.at - 1) {
            Some(Token::Symbol(']')) => Bracket::Square,
            _ => Bracket::Round,
        };
        let open = if open == '[' { Bracket::Square } else { Bracket::Round };
        if items.len() == 1 && open == close {
            return Some(items.swap_remove(0));
        }
        Some(Expr::Tuple(open, items, close))
    }

    pub(super) fn set(&mut self) -> Option<Expr> {
        if matches!(self.peek(), Some(Token::SetClose)) {
            self.at += 1;
            return Some(Expr::empty_set());
        }
        let outer = std::mem::replace(&mut self.in_set, true);
        let items = self.deeper(Self::items);
        self.in_set = outer;
        let items = items?;
        if matches!(self.peek_symbol(), Some('|' | ':')) {
            self.at += 1;
            let conditions = self.enclosed(|token| matches!(token, Token::SetClose))?;
            let condition =
                if conditions.len() == 1 { conditions.into_iter().next()? } else { Expr::List(conditions) };
            let head = if items.len() == 1 { items.into_iter().next()? } else { return None };
            return Some(Expr::Builder(Box::new(head), Box::new(condition)));
        }
        let closed = matches!(self.peek(), Some(Token::SetClose));
        self.at += usize::from(closed);
        closed.then_some(Expr::Set(items))
    }

    /// What follows `_`, as text.
    pub(super) fn subscript(&mut self) -> Option<String> {
        if !self.eat('{') {
            let token = self.peek()?.clone();
            self.at += 1;
            return plain(&token);
        }
        let mut name = String::new();
        while !self.eat('}') {
            name.push_str(&plain(self.peek()?)?);
            self.at += 1;
        }
        Some(name)
    }

    pub(super) fn with_subscript(&mut self, name: &str) -> Option<Expr> {
        if self.eat('_') {
            let subscript = self.subscript()?;
            return Some(Expr::Variable(format!("{name}_{subscript}")));
        }
        Some(Expr::Variable(name.to_owned()))
    }

    /// `f(2)`: a letter applied to a number is a value of its own, not a product.
    pub(super) fn applied(&mut self, letter: &str) -> Option<Expr> {
        let end = (self.at + 4).min(self.tokens.len());
        let inner = match &self.tokens[self.at..end] {
            [Token::Symbol('('), Token::Symbol('-'), Token::Number { digits, .. }, Token::Symbol(')')] => {
                self.at += 4;
                format!("-{digits}")
            }
            [Token::Symbol('('), Token::Number { digits, .. }, Token::Symbol(')'), ..] => {
                self.at += 3;
                digits.clone()
            }
            _ => return None,
        };
        self.doubtful = true;
        Some(Expr::Variable(format!("{letter}({inner})")))
    }

    /// `f(x + 1)`, read as a value of f; a product is what is read otherwise.
    fn function_argument(&mut self, letter: &str) -> Option<Expr> {
        let is_function = matches!(letter, "f" | "g" | "F" | "G");
        let is_plain = matches!(self.tokens.get(self.at + 2), Some(Token::Symbol(')')));
        if !is_function || self.peek_symbol() != Some('(') || is_plain {
            return None;
        }
        self.applies = true;
        if !self.functions {
            return None;
        }
        let start = self.at;
        self.at += 1;
        let argument = self.deeper(|parser| parser.brackets('('));
        if argument.is_none() {
            self.at = start;
        }
        argument.map(|argument| Expr::Applied(letter.to_owned(), Box::new(argument)))
    }

    pub(super) fn word(&mut self, word: &str) -> Option<Expr> {
        if FUNCTIONS.contains(&word) {
            return self.call(word);
        }
        match word {
            "pi" | "Pi" => return Some(Expr::Pi),
            "infinity" | "infty" | "inf" | "oo" => return Some(Expr::Infinity),
            "e" if self.peek_symbol() != Some('_') => return Some(Expr::Euler),
            "i" if self.peek_symbol() != Some('_') => return Some(Expr::Imaginary),
            _ => {}
        }
        let letters: Vec<String> = word.chars().map(String::from).collect();
        match letters.as_slice() {
            [letter]
                if !self.unusual
                    && let Some(applied) = self.applied(letter) =>
            {
                Some(applied)
            }
            [letter] if let Some(argument) = self.function_argument(letter) => Some(argument),
            [letter] => self.with_subscript(letter),
            _ if letters.len() >= 3 && GREEK.contains(&word) => self.with_subscript(word),
            [before @ .., last] if letters.len() <= 3 => {
                let mut factors: Vec<_> = before.iter().map(|letter| (false, letter_value(letter))).collect();
                let last = match self.peek_symbol() {
                    Some('_') => self.with_subscript(last)?,
                    _ => letter_value(last),
                };
                // In `xy^2` the exponent belongs to the last letter.
                let last = if self.eat('^') { self.raise(last)? } else { last };
                factors.push((false, last));
                Some(Expr::Product(factors))
            }
            _ if matches!(self.peek(), Some(Token::Relation(_))) => Some(Expr::Variable(word.to_owned())),
            _ => None,
        }
    }

    /// Words in the place of a value: a name before a relation, a currency before a number, or plain text.
    pub(super) fn text(&mut self, text: &str) -> Option<Expr> {
        let text = text.trim().to_lowercase();
        match self.peek() {
            Some(Token::Relation(_)) if !text.is_empty() => Some(Expr::Variable(text)),
            Some(Token::Number { .. } | Token::Command(_) | Token::Symbol('(' | '-')) => {
                // A currency comes first; any other word may say `not` or `at least`.
                let value = self.deeper(Self::factor)?;
                let word = text.trim_end_matches(['.', ':', ',']);
                match word {
                    "" | "about" | "approximately" | "approx" | "roughly" | "exactly" | "is" | "answer" => {
                        Some(value)
                    }
                    _ => units::is_currency(word).then(|| Expr::Quantity(Box::new(value), word.to_owned())),
                }
            }
            _ => (!text.is_empty()).then_some(Expr::Text(text)),
        }
    }

    pub(super) fn group(&mut self) -> Option<Expr> {
        if self.eat('{') {
            let mut items = self.enclosed(|token| *token == Token::Symbol('}'))?;
            return (items.len() == 1).then(|| items.swap_remove(0));
        }
        // `\frac12`: LaTeX takes one digit for each argument.
        if let Some(Token::Number { digits, decimals: 0, .. }) = self.peek()
            && digits.len() > 1
        {
            let digits = digits.clone();
            let (first, rest) = digits.split_at(1);
            let number = |text: &str| text.parse::<i64>().ok();
            let first = number(first)?;
            self.tokens[self.at] = Token::Number {
                value: RBig::from(rest.parse::<dashu_int::IBig>().ok()?),
                decimals: 0,
                digits: rest.to_owned(),
            };
            return Some(Expr::integer(first));
        }
        self.deeper(Self::primary)
    }

    pub(super) fn matrix(&mut self) -> Option<Expr> {
        let environment = self.environment()?;
        match environment.as_str() {
            "array" => {
                // The column specification.
                self.eat('{').then_some(())?;
                while !self.eat('}') {
                    self.peek()?;
                    self.at += 1;
                }
            }
            "cases" => return self.cases(),
            "pmatrix" | "bmatrix" | "matrix" | "vmatrix" | "Bmatrix" | "smallmatrix" => {}
            _ => return None,
        }
        let mut rows = vec![Vec::new()];
        while !self.ends_environment()? {
            match self.peek()? {
                Token::Symbol('\\') => {
                    self.at += 1;
                    rows.push(Vec::new());
                }
                Token::Symbol('&') => self.at += 1,
                Token::Command(name) if name == "hline" => self.at += 1,
                _ => {
                    let cell = self.deeper(Self::item)?;
                    rows.last_mut()?.push(cell);
                }
            }
        }
        rows.retain(|row| !row.is_empty());
        if rows.is_empty() {
            return None;
        }
        if environment == "vmatrix" { series::determinant(&rows) } else { Some(Expr::Matrix(rows)) }
    }

    /// Whether the environment ends here; reads the `\end{name}`.
    pub(super) fn ends_environment(&mut self) -> Option<bool> {
        let ends = matches!(self.peek()?, Token::Command(name) if name == "end");
        if ends {
            self.at += 1;
            self.environment()?;
        }
        Some(ends)
    }

    /// `{name}` after `\begin` or `\end`.
    pub(super) fn environment(&mut self) -> Option<String> {
        self.eat('{').then_some(())?;
        let Some(Token::Word(name)) = self.peek().cloned() else { return None };
        self.at += 1;
        self.eat('}').then_some(name)
    }
}

fn letter_value(letter: &str) -> Expr {
    match letter {
        "e" => Expr::Euler,
        "i" => Expr::Imaginary,
        other => Expr::Variable(other.to_owned()),
    }
}

/// The text of a token in a subscript.
fn plain(token: &Token) -> Option<String> {
    match token {
        Token::Number { digits, .. } => Some(digits.clone()),
        Token::Word(word) | Token::Text(word) | Token::Command(word) => Some(word.clone()),
        Token::Symbol(symbol @ ('+' | '-' | ',' | '*')) => Some(symbol.to_string()),
        Token::Symbol('\'') => Some("'".into()),
        _ => None,
    }
}
