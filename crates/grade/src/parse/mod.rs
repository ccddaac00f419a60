//! Tokens to a tree, by recursive descent. `None` means: not mathematics that we read, compare it as text.
//!
//! ```text
//! list     = item (("," | ";" | "and" | "or") item)*
//! item     = union (relation union)* | union "∈" union
//! union    = ratio ("∪" ratio)*          ratio = sum (":" sum)*
//! sum      = sign? product (sign product)*
//! product  = factor (("*" | "/" | nothing) factor)*
//! factor   = sign? primary postfix*      postfix = "^" exponent | "!" | "%" | "°"
//! ```
//!
//! Recursion is bounded by [`MAX_DEPTH`]; the length of the input is bounded by the lexer.

mod atoms;
mod commands;
mod quantities;
mod series;

use dashu_base::Signed;
use dashu_ratio::RBig;

use super::expr::{Expr, Function, Relation, Sign};
use super::lex::{Lexed, Reading, Token, lex};
use super::{exact, units};

/// Brackets, exponents and function arguments that may be nested.
const MAX_DEPTH: usize = 40;
/// Postfix operators on one factor.
const MAX_POSTFIX: usize = 6;

/// A parsed answer.
#[derive(Debug)]
pub(super) struct Parsed {
    pub(super) expr: Expr,
    /// [`Reading::OtherCommas`] could differ.
    pub(super) ambiguous: bool,
    /// [`Reading::Unusual`] could differ.
    pub(super) doubtful: bool,
    /// [`Reading::Functions`] could differ.
    pub(super) applies: bool,
}

/// Reads an answer.
pub(super) fn parse(text: &str, reading: Reading) -> Option<Parsed> {
    let Lexed { tokens, ambiguous, doubtful } = lex(text, reading)?;
    let (unusual, functions) = (reading == Reading::Unusual, reading == Reading::Functions);
    let mut parser = Parser {
        tokens,
        at: 0,
        depth: 0,
        bars: 0,
        in_set: false,
        unusual,
        doubtful,
        functions,
        applies: false,
        has_remainder: false,
    };
    let expr = parser.list()?;
    let Parser { at, doubtful, applies, tokens, .. } = parser;
    (at == tokens.len()).then_some(Parsed { expr, ambiguous, doubtful, applies })
}

struct Parser {
    tokens: Vec<Token>,
    at: usize,
    depth: usize,
    /// Open `|…|`.
    bars: usize,
    /// Directly inside `\{ … \}`, where `|` and `:` introduce a condition.
    in_set: bool,
    /// Reads as [`Reading::Unusual`] says.
    unusual: bool,
    /// Something was read that can be read so.
    doubtful: bool,
    /// Reads as [`Reading::Functions`] says.
    functions: bool,
    /// Something was read that can be read so.
    applies: bool,
    /// A `mod` outside of brackets was read in this sum.
    has_remainder: bool,
}

impl Parser {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at)
    }

    fn peek_symbol(&self) -> Option<char> {
        match self.peek() {
            Some(Token::Symbol(symbol)) => Some(*symbol),
            _ => None,
        }
    }

    fn eat(&mut self, symbol: char) -> bool {
        let found = self.peek_symbol() == Some(symbol);
        self.at += usize::from(found);
        found
    }

    /// Runs `inner` one level deeper, or gives up.
    fn deeper<T>(&mut self, inner: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        if self.depth >= MAX_DEPTH {
            return None;
        }
        self.depth += 1;
        let result = inner(self);
        self.depth -= 1;
        result
    }

    fn at_separator(&self) -> bool {
        match self.peek() {
            Some(Token::Symbol(',' | ';')) => true,
            Some(Token::Word(word) | Token::Text(word)) => is_conjunction(word),
            _ => false,
        }
    }

    fn list(&mut self) -> Option<Expr> {
        let start = self.at;
        let mut items = self.items()?;
        // `x < 1 or x > 2` is a union; with a comma or `and` it may be an intersection.
        let is_or =
            |token: &Token| matches!(token, Token::Word(word) | Token::Text(word) if word.trim() == "or");
        let either = self.tokens[start..self.at].iter().any(is_or) && items.iter().all(is_inequality);
        Some(match items.len() {
            1 => items.swap_remove(0),
            _ if let Some(whole) = quantities::added(&items) => whole,
            _ if either => Expr::Union(items),
            _ => Expr::List(items),
        })
    }

    fn items(&mut self) -> Option<Vec<Expr>> {
        let mut items = vec![self.item()?];
        loop {
            let before = self.at;
            while self.at_separator() {
                self.at += 1;
            }
            // `1, 2, where k is whole` goes on with a condition.
            while matches!(self.peek(), Some(Token::Word(word) | Token::Text(word)) if is_where(word)) {
                self.at += 1;
            }
            // A trailing separator is harmless: `1, 2,`.
            if self.at == before || self.at == self.tokens.len() {
                return Some(items);
            }
            items.push(self.item()?);
        }
    }

    fn item(&mut self) -> Option<Expr> {
        let first = self.union()?;
        if self.eat('∈') {
            return Some(Expr::Member(Box::new(first), Box::new(self.union()?)));
        }
        let mut members = vec![first];
        let mut relations = Vec::new();
        while let Some(Token::Relation(relation)) = self.peek() {
            relations.push(*relation);
            self.at += 1;
            members.push(self.union()?);
        }
        if relations.is_empty() {
            return Some(members.swap_remove(0));
        }
        if let Some(modulus) = self.modulus()? {
            let last = members.pop()?;
            let unit = format!("modulo {modulus}");
            let rest = Expr::Call(Function::Mod, vec![last, Expr::Number { value: modulus, decimals: 0 }]);
            members.push(Expr::Quantity(Box::new(rest), unit));
        }
        Some(Expr::Chain(members, relations))
    }

    fn union(&mut self) -> Option<Expr> {
        let mut parts = vec![self.ratio()?];
        while self.eat('∪') {
            parts.push(self.ratio()?);
        }
        Some(if parts.len() == 1 { parts.swap_remove(0) } else { Expr::Union(parts) })
    }

    fn ratio(&mut self) -> Option<Expr> {
        let mut parts = vec![self.sum()?];
        while !self.in_set && (self.peek_symbol() == Some(':') || self.at_to()) {
            self.at += 1;
            parts.push(self.sum()?);
        }
        if parts.len() == 1 {
            let part = parts.swap_remove(0);
            return Some(if self.eat_out_of() { quotient(part, self.sum()?) } else { part });
        }
        // `1:03 PM`: the unit belongs to the whole.
        if let Some(Expr::Quantity(value, unit)) = parts.last().cloned() {
            *parts.last_mut()? = *value;
            return Some(Expr::Quantity(Box::new(Expr::Ratio(parts)), unit));
        }
        Some(Expr::Ratio(parts))
    }

    /// `3 to 2`.
    fn at_to(&self) -> bool {
        matches!(self.peek(), Some(Token::Word(word) | Token::Text(word)) if word == "to")
    }

    /// `3 out of 4`.
    fn eat_out_of(&mut self) -> bool {
        let is = |token: Option<&Token>, text: &str| matches!(token, Some(Token::Word(word) | Token::Text(word)) if word == text);
        let length = match (self.peek(), self.tokens.get(self.at + 1)) {
            (first, _) if is(first, "out of") => 1,
            (first, second) if is(first, "out") && is(second, "of") => 2,
            _ => 0,
        };
        self.at += length;
        length > 0
    }

    /// `\pmod{7}` or `(mod 7)` after a congruence; `None` when the modulus is not a positive whole number.
    fn modulus(&mut self) -> Option<Option<RBig>> {
        let braced = match self.peek() {
            Some(Token::Command(name)) if name == "pmod" => {
                self.at += 1;
                self.deeper(Self::group)?
            }
            Some(Token::Symbol('(')) if self.at_modulus() => {
                self.at += 2;
                let modulus = self.sum()?;
                self.eat(')').then_some(modulus)?
            }
            _ => return Some(None),
        };
        exact::value(&braced).filter(|modulus| modulus.is_int() && modulus.is_positive()).map(Some)
    }

    /// At `(mod`.
    fn at_modulus(&self) -> bool {
        self.peek_symbol() == Some('(')
            && match self.tokens.get(self.at + 1) {
                Some(Token::Word(word) | Token::Text(word) | Token::Command(word)) => {
                    matches!(word.as_str(), "mod" | "bmod")
                }
                _ => false,
            }
    }

    fn sign(&mut self) -> Option<Sign> {
        let sign = match self.peek_symbol()? {
            '+' => Sign::Plus,
            '-' => Sign::Minus,
            '±' => Sign::PlusMinus,
            '∓' => Sign::MinusPlus,
            _ => return None,
        };
        self.at += 1;
        Some(sign)
    }

    fn sum(&mut self) -> Option<Expr> {
        let first_sign = self.sign().unwrap_or(Sign::Plus);
        let outer = std::mem::take(&mut self.has_remainder);
        let mut terms = vec![(first_sign, self.product()?)];
        while let Some(sign) = self.sign() {
            terms.push((sign, self.product()?));
        }
        let has_remainder = std::mem::replace(&mut self.has_remainder, outer);
        // `-1 mod 7` is 6; of `a + b mod 7` nobody can say what is divided.
        if has_remainder && terms.len() > 1 {
            return None;
        }
        if let [(Sign::Minus, Expr::Call(Function::Mod, arguments))] = terms.as_slice()
            && has_remainder
        {
            let negative = signed(Sign::Minus, arguments[0].clone());
            return Some(Expr::Call(Function::Mod, vec![negative, arguments[1].clone()]));
        }
        // `-5%`, `-30°` and `-5 feet` are percent, degrees and feet.
        if terms.len() == 1 && first_sign != Sign::Plus {
            let (sign, term) = terms.swap_remove(0);
            return Some(match term {
                Expr::Percent(inner) => Expr::Percent(Box::new(signed(sign, *inner))),
                Expr::Degrees(inner) => Expr::Degrees(Box::new(signed(sign, *inner))),
                Expr::Quantity(inner, unit) => Expr::Quantity(Box::new(signed(sign, *inner)), unit),
                other => signed(sign, other),
            });
        }
        // `2 + 3√2 feet`: the unit belongs to the whole.
        if terms.len() > 1
            && let Some((_, Expr::Quantity(_, unit))) = terms.last().cloned()
        {
            for (_, term) in &mut terms {
                if let Expr::Quantity(value, _) = term {
                    *term = (**value).clone();
                }
            }
            return Some(Expr::Quantity(Box::new(Expr::Sum(terms)), unit));
        }
        Some(if terms.len() == 1 { terms.swap_remove(0).1 } else { Expr::Sum(terms) })
    }

    fn product(&mut self) -> Option<Expr> {
        let mut factors = vec![(false, self.factor()?)];
        while let Some(token) = self.peek() {
            match token {
                Token::Symbol(sign @ ('*' | '×')) => {
                    let is_cross = *sign == '×';
                    self.at += 1;
                    let next = self.factor()?;
                    // A product of vectors with a cross is not one with a dot.
                    if is_cross && factors.iter().any(|(_, factor)| is_vector(factor)) && is_vector(&next) {
                        return None;
                    }
                    factors.push((false, next));
                }
                Token::Symbol('/') => {
                    self.at += 1;
                    let word_next = matches!(self.peek(), Some(Token::Word(_)));
                    match self.factor()? {
                        // `a/bc` is a/(bc), or ac/b to a computer.
                        Expr::Product(letters) if word_next => {
                            self.doubtful = true;
                            let below = |index: usize| index == 0 || !self.unusual;
                            factors.extend(
                                letters.into_iter().enumerate().map(|(i, (_, letter))| (below(i), letter)),
                            );
                        }
                        below => factors.push((true, below)),
                    }
                }
                Token::Text(text) | Token::Word(text)
                    if is_conjunction(text)
                        || is_where(text)
                        || matches!(text.as_str(), "to" | "out" | "out of") =>
                {
                    break;
                }
                Token::Command(name) | Token::Word(name) if matches!(name.as_str(), "bmod" | "mod") => {
                    self.at += 1;
                    let modulus = self.factor()?;
                    self.has_remainder = true;
                    factors = vec![(false, Expr::Call(Function::Mod, vec![collapse(factors), modulus]))];
                }
                Token::Text(word) | Token::Word(word) if let Some(scale) = units::scale(word) => {
                    self.at += 1;
                    let scale = (false, Expr::integer(scale));
                    match factors.last_mut() {
                        // `$5 million`.
                        Some((false, Expr::Quantity(value, _))) => {
                            **value = Expr::Product(vec![(false, (**value).clone()), scale]);
                        }
                        _ => factors.push(scale),
                    }
                }
                Token::Text(_) | Token::Word(_) if self.at_unit() => {
                    return self.quantity(collapse(factors));
                }
                _ if self.starts_factor() => {
                    let number_before = matches!(self.tokens.get(self.at - 1), Some(Token::Number { .. }));
                    let number_next = matches!(self.peek(), Some(Token::Number { .. }));
                    let fraction_next = matches!(self.peek(), Some(Token::Command(name)) if name == "frac");
                    let next = self.factor()?;
                    match factors.last_mut() {
                        // `3 \frac{1}{2}` and `3 1/2` are mixed numbers, `3(1/2)` is a product.
                        Some((_, whole))
                            if number_before && fraction_next && mixed(whole, &next).is_some() =>
                        {
                            *whole = mixed(whole, &next)?;
                        }
                        Some((false, whole)) if number_before && number_next => {
                            let part = match self.eat('/').then(|| self.factor()).flatten()? {
                                Expr::Percent(bottom) => Expr::Percent(Box::new(quotient(next, *bottom))),
                                bottom => quotient(next, bottom),
                            };
                            *whole = mixed(whole, &part)?;
                        }
                        // `1/2x` is x/2 to some and 1/(2x) to others.
                        Some((true, _)) => {
                            self.doubtful = true;
                            factors.push((self.unusual, next));
                        }
                        _ => factors.push((false, next)),
                    }
                }
                _ => break,
            }
        }
        Some(collapse(factors))
    }

    /// True when the next token can begin a factor that is multiplied without a sign.
    fn starts_factor(&self) -> bool {
        match self.peek() {
            Some(Token::Number { .. } | Token::SetOpen) => true,
            Some(Token::Word(word)) => {
                !is_conjunction(word) && !is_where(word) && !matches!(word.as_str(), "to" | "out" | "mod")
            }
            Some(Token::Command(name)) => {
                !matches!(name.as_str(), "end" | "rfloor" | "rceil" | "bmod" | "pmod" | "setminus")
            }
            Some(Token::Symbol('(')) if self.at_modulus() => false,
            Some(Token::Symbol(symbol)) => match symbol {
                '(' | '[' | '{' | '∞' | '√' => true,
                '|' => self.bars == 0 && !self.in_set,
                _ => false,
            },
            _ => false,
        }
    }

    fn factor(&mut self) -> Option<Expr> {
        if let Some(sign) = self.sign() {
            let inner = self.deeper(Self::factor)?;
            return Some(Expr::Sum(vec![(sign, inner)]));
        }
        let mut value = self.deeper(Self::primary)?;
        for _ in 0..MAX_POSTFIX {
            match self.peek() {
                Some(Token::Symbol('^')) => {
                    self.at += 1;
                    value = self.raise(value)?;
                }
                Some(Token::Symbol('!')) => {
                    self.at += 1;
                    // A double factorial is something else.
                    if self.peek_symbol() == Some('!') {
                        return None;
                    }
                    value = Expr::Call(Function::Factorial, vec![value]);
                }
                Some(Token::Symbol('%')) => {
                    self.at += 1;
                    value = Expr::Percent(Box::new(value));
                }
                Some(Token::Symbol('°')) => {
                    self.at += 1;
                    value = self.degrees(value)?;
                }
                Some(Token::Symbol('\'')) => {
                    self.at += 1;
                    value = primed(value)?;
                }
                Some(Token::Word(word)) if is_ordinal(word) && matches!(value, Expr::Number { .. }) => {
                    self.at += 1;
                }
                _ => return Some(value),
            }
        }
        None
    }

    /// What follows `^`: a degree sign, a prime, `th`, or an exponent.
    fn raise(&mut self, base: Expr) -> Option<Expr> {
        let braced = self.peek_symbol() == Some('{');
        if let Some(Token::Word(word) | Token::Text(word)) = self.tokens.get(self.at + usize::from(braced))
            && is_ordinal(word)
        {
            self.at += 1 + usize::from(braced);
            return if braced && !self.eat('}') { None } else { Some(base) };
        }
        if let Some(Token::Symbol(mark @ ('°' | '\''))) = self.tokens.get(self.at + usize::from(braced)) {
            let mark = *mark;
            self.at += 1 + usize::from(braced);
            if braced && !self.eat('}') {
                return None;
            }
            return if mark == '°' { self.degrees(base) } else { primed(base) };
        }
        let exponent = self.deeper(|parser| {
            if braced || parser.peek_symbol() == Some('(') {
                return parser.primary();
            }
            let sign = parser.sign();
            let value = parser.primary()?;
            // `2^x!` and `2^3^2` bind to the right.
            let value = if parser.eat('^') { parser.raise(value)? } else { value };
            Some(match sign {
                Some(sign) => Expr::Sum(vec![(sign, value)]),
                None => value,
            })
        })?;
        Some(Expr::Power(Box::new(base), Box::new(exponent)))
    }
}

/// True for `\vec{a}` and its like.
fn is_vector(expr: &Expr) -> bool {
    let accents = ["vec ", "overrightarrow ", "hat ", "widehat "];
    matches!(expr, Expr::Variable(name) if accents.iter().any(|accent| name.starts_with(accent)))
}

fn is_ordinal(word: &str) -> bool {
    matches!(word, "st" | "nd" | "rd" | "th")
}

/// Words that introduce a condition: `2k, where k is an integer`.
fn is_where(word: &str) -> bool {
    matches!(word, "where" | "with" | "for" | "for any" | "for all" | "if" | "when")
}

fn is_conjunction(word: &str) -> bool {
    matches!(word.to_ascii_lowercase().trim_matches(|c: char| !c.is_ascii_alphabetic()), "and" | "or")
}

fn primed(value: Expr) -> Option<Expr> {
    match value {
        Expr::Variable(name) => Some(Expr::Variable(format!("{name}'"))),
        _ => None,
    }
}

fn collapse(mut factors: Vec<(bool, Expr)>) -> Expr {
    if factors.len() == 1 && !factors[0].0 { factors.swap_remove(0).1 } else { Expr::Product(factors) }
}

fn quotient(top: Expr, bottom: Expr) -> Expr {
    Expr::Product(vec![(false, top), (true, bottom)])
}

fn signed(sign: Sign, value: Expr) -> Expr {
    match (sign, value) {
        (Sign::Minus, Expr::Number { value, decimals }) => Expr::Number { value: -value, decimals },
        (sign, value) => Expr::Sum(vec![(sign, value)]),
    }
}

/// A positive whole number followed by a proper fraction of whole numbers, which may carry a `%` or `°`.
fn mixed(whole: &Expr, part: &Expr) -> Option<Expr> {
    let factors = match part {
        Expr::Percent(inner) => return Some(Expr::Percent(Box::new(mixed(whole, inner)?))),
        Expr::Degrees(inner) => return Some(Expr::Degrees(Box::new(mixed(whole, inner)?))),
        Expr::Product(factors) => factors,
        _ => return None,
    };
    let whole_ok =
        matches!(whole, Expr::Number { value, decimals: 0 } if value.is_int() && value.is_positive());
    match factors.as_slice() {
        [(false, Expr::Number { value: top, .. }), (true, Expr::Number { value: bottom, .. })] => {
            (whole_ok && top.is_int() && bottom.is_int() && top < bottom && top.is_positive())
                .then(|| Expr::Sum(vec![(Sign::Plus, whole.clone()), (Sign::Plus, part.clone())]))
        }
        _ => None,
    }
}

pub(super) fn is_inequality(item: &Expr) -> bool {
    matches!(item, Expr::Chain(_, relations) if !is_equation(relations))
}

/// What kind of relation a chain is made of.
pub(super) fn is_equation(relations: &[Relation]) -> bool {
    relations.iter().all(|relation| *relation == Relation::Equal)
}
