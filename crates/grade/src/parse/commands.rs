//! LaTeX commands and functions: fractions, roots, floors, accents, and calls such as `\sin^2 2x`.

use dashu_ratio::RBig;

use super::super::exact;
use super::super::expr::{Expr, Function};
use super::super::lex::Token;
use super::super::symbols::{FUNCTIONS, GREEK};
use super::{Parser, collapse};

impl Parser {
    pub(super) fn command(&mut self, name: &str) -> Option<Expr> {
        match name {
            "frac" => {
                let numerator = self.deeper(Self::group)?;
                let denominator = self.deeper(Self::group)?;
                if let Some(derivative) = derivative(&numerator, &denominator) {
                    return Some(derivative);
                }
                Some(Expr::Product(vec![(false, numerator), (true, denominator)]))
            }
            "sqrt" => {
                let index = if self.eat('[') {
                    let mut items = self.enclosed(|token| *token == Token::Symbol(']'))?;
                    (items.len() == 1).then(|| items.swap_remove(0))?
                } else {
                    Expr::integer(2)
                };
                let inner = self.deeper(Self::group)?;
                Some(Expr::Root(Box::new(index), Box::new(inner)))
            }
            "binom" => {
                let top = self.deeper(Self::group)?;
                let bottom = self.deeper(Self::group)?;
                Some(Expr::Call(Function::Binomial, vec![top, bottom]))
            }
            "pi" => Some(Expr::Pi),
            "emptyset" | "varnothing" => Some(Expr::empty_set()),
            "reals" => Some(Expr::reals()),
            "integers" => Some(Expr::Text("integers".into())),
            "naturals" => Some(Expr::Text("natural numbers".into())),
            "rationals" => Some(Expr::Text("rational numbers".into())),
            "complexes" => Some(Expr::Text("complex numbers".into())),
            "sum" | "prod" => self.series(name == "sum"),
            "det" => match self.deeper(Self::primary)? {
                Expr::Matrix(rows) => super::series::determinant(&rows),
                _ => None,
            },
            "boxed" | "fbox" | "displaystyle" => self.deeper(Self::group),
            "lfloor" | "lceil" => {
                let (function, close) =
                    if name == "lfloor" { (Function::Floor, "rfloor") } else { (Function::Ceil, "rceil") };
                let mut items =
                    self.enclosed(|token| matches!(token, Token::Command(name) if name == close))?;
                (items.len() == 1).then(|| Expr::Call(function, vec![items.swap_remove(0)]))
            }
            "begin" => self.matrix(),
            "vec" | "hat" | "bar" | "tilde" | "dot" | "ddot" | "overline" | "overrightarrow"
            | "underline" | "widehat" => {
                let inner = self.deeper(Self::group)?;
                let letters = match &inner {
                    Expr::Variable(letter) => letter.clone(),
                    Expr::Euler => "e".into(),
                    Expr::Imaginary => "i".into(),
                    Expr::Product(factors) => factors
                        .iter()
                        .map(|(_, factor)| match factor {
                            Expr::Variable(letter) => Some(letter.as_str()),
                            Expr::Euler => Some("e"),
                            Expr::Imaginary => Some("i"),
                            _ => None,
                        })
                        .collect::<Option<String>>()?,
                    _ => return None,
                };
                self.with_subscript(&format!("{name} {letters}"))
            }
            "max" | "min" | "gcd" => self.extreme(name),
            "lcm" | "lim" | "int" | "ldots" | "cdots" | "dots" | "cases" | "to" | "mapsto" | "rightarrow"
            | "setminus" | "subset" | "forall" | "exists" | "choose" | "over" => None,
            _ if FUNCTIONS.contains(&name) => self.call(name),
            _ => {
                let letter = name.strip_prefix("var").unwrap_or(name);
                if GREEK.contains(&letter) { self.with_subscript(letter) } else { None }
            }
        }
    }

    /// The largest, the smallest, or the greatest common divisor of numbers.
    fn extreme(&mut self, name: &str) -> Option<Expr> {
        let items = match self.peek()? {
            Token::Symbol('(') => {
                self.at += 1;
                self.enclosed(|token| *token == Token::Symbol(')'))?
            }
            Token::SetOpen => {
                self.at += 1;
                self.enclosed(|token| matches!(token, Token::SetClose))?
            }
            _ => return None,
        };
        let values: Vec<RBig> = items.iter().map(exact::value).collect::<Option<_>>()?;
        let value = match name {
            "max" => values.into_iter().max()?,
            "min" => values.into_iter().min()?,
            _ => {
                let wholes = values.iter().map(exact::integer).collect::<Option<Vec<_>>>()?;
                let gcd = wholes.into_iter().fold(0u64, |mut a, b| {
                    let mut b = b.unsigned_abs();
                    while b > 0 {
                        (a, b) = (b, a % b);
                    }
                    a
                });
                RBig::from(gcd)
            }
        };
        Some(Expr::Number { value, decimals: 0 })
    }

    /// A function's optional power and base, then its argument.
    pub(super) fn call(&mut self, name: &str) -> Option<Expr> {
        let mut power = None;
        let mut base = None;
        for _ in 0..2 {
            if self.eat('^') {
                power = Some(self.deeper(|parser| {
                    let sign = parser.sign();
                    let value = parser.group()?;
                    Some(match sign {
                        Some(sign) => Expr::Sum(vec![(sign, value)]),
                        None => value,
                    })
                })?);
            } else if self.eat('_') {
                base = Some(self.deeper(Self::group)?);
            }
        }
        let argument = self.deeper(|parser| parser.argument(name))?;
        let inverse = matches!(&power, Some(Expr::Number { value, .. }) if *value == RBig::from(-1));
        if matches!(name, "log" | "lg") && base.is_none() {
            // Without a base, `log` is the decimal logarithm to a school and the natural one to a mathematician.
            self.doubtful = true;
            base = Some(if self.unusual { Expr::Euler } else { Expr::integer(10) });
        }
        let value = apply(name, base, argument, inverse)?;
        Some(match power {
            Some(power) if !inverse || !TRIGONOMETRIC.contains(&name) => {
                Expr::Power(Box::new(value), Box::new(power))
            }
            _ => value,
        })
    }

    /// `\sin (x+1)`, `\sin 2x`, `\sin \pi t`: brackets, or factors up to the next sign, function or separator.
    pub(super) fn argument(&mut self, name: &str) -> Option<Expr> {
        if matches!(self.peek_symbol(), Some('(' | '{' | '[' | '|')) {
            let value = self.primary()?;
            // `\sin (x+1)^2` may be a square of the sine or of the sum; a root's brackets are its own.
            let unclear = self.peek_symbol() == Some('^')
                && matches!(value, Expr::Sum(_))
                && !matches!(name, "sqrt" | "cbrt" | "abs" | "floor" | "ceil" | "exp");
            return (!unclear).then_some(value);
        }
        let mut factors = Vec::new();
        while self.starts_factor() || (factors.is_empty() && matches!(self.peek_symbol(), Some('-' | '+'))) {
            let is_function = match self.peek() {
                Some(Token::Word(word) | Token::Command(word)) => {
                    FUNCTIONS.contains(&word.as_str()) && word != "sqrt"
                }
                _ => false,
            };
            let opens = matches!(self.peek_symbol(), Some('(' | '['));
            if !factors.is_empty() && (is_function || opens || self.at_unit()) {
                break;
            }
            factors.push((false, self.factor()?));
            // `\log 2/3` is (log 2)/3 to some and log(2/3) to others; plain `\sin x/2` is read as (sin x)/2.
        }
        (!factors.is_empty()).then(|| collapse(factors))
    }
}

/// `dy/dx` is a name, not a quotient.
fn derivative(top: &Expr, bottom: &Expr) -> Option<Expr> {
    let differential = |expr: &Expr| match expr {
        Expr::Variable(name) if name == "d" => Some("d".to_owned()),
        Expr::Product(factors) => match factors.as_slice() {
            [(false, Expr::Variable(d)), (false, Expr::Variable(name))] if d == "d" => {
                Some(format!("d{name}"))
            }
            _ => None,
        },
        _ => None,
    };
    let (top, bottom) = (differential(top)?, differential(bottom).filter(|bottom| bottom != "d")?);
    Some(Expr::Variable(format!("{top}/{bottom}")))
}

const TRIGONOMETRIC: [&str; 6] = ["sin", "cos", "tan", "cot", "sec", "csc"];

fn apply(name: &str, base: Option<Expr>, argument: Expr, inverse: bool) -> Option<Expr> {
    let function = match (name, inverse) {
        ("sqrt", _) => return Some(Expr::Root(Box::new(Expr::integer(2)), Box::new(argument))),
        ("cbrt", _) => return Some(Expr::Root(Box::new(Expr::integer(3)), Box::new(argument))),
        ("log" | "lg", _) => return Some(Expr::Call(Function::Log, vec![base?, argument])),
        ("sin", true) | ("arcsin" | "asin", _) => Function::Arcsin,
        ("cos", true) | ("arccos" | "acos", _) => Function::Arccos,
        ("tan", true) | ("arctan" | "atan", _) => Function::Arctan,
        ("sin", _) => Function::Sin,
        ("cos", _) => Function::Cos,
        ("tan", _) => Function::Tan,
        ("cot" | "ctg", false) => Function::Cot,
        ("sec", false) => Function::Sec,
        ("csc", false) => Function::Csc,
        ("sinh", _) => Function::Sinh,
        ("cosh", _) => Function::Cosh,
        ("tanh", _) => Function::Tanh,
        ("ln", _) => Function::Ln,
        ("exp", _) => Function::Exp,
        ("abs", _) => Function::Abs,
        ("floor", _) => Function::Floor,
        ("ceil", _) => Function::Ceil,
        _ => return None,
    };
    Some(Expr::Call(function, vec![argument]))
}
