//! The tree of an answer: numbers, expressions, and what is built of them (tuples, sets, intervals, equations …).
//!
//! Trees are made by the parser alone, which bounds their depth and size; everything that walks them may recurse.

use dashu_ratio::RBig;

/// A named function of one argument (two for `Log`, `Binomial` and `Mod`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Function {
    Sin,
    Cos,
    Tan,
    Cot,
    Sec,
    Csc,
    Arcsin,
    Arccos,
    Arctan,
    Sinh,
    Cosh,
    Tanh,
    Ln,
    Exp,
    Abs,
    Floor,
    Ceil,
    Factorial,
    /// `log(base, x)`.
    Log,
    /// `binom(n, k)`.
    Binomial,
    /// `a mod n`, from 0 up to n.
    Mod,
}

/// How two sides of a relation compare.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Relation {
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
}

impl Relation {
    /// The same relation read from right to left.
    pub(super) fn flipped(self) -> Self {
        match self {
            Self::Less => Self::Greater,
            Self::LessEqual => Self::GreaterEqual,
            Self::Greater => Self::Less,
            Self::GreaterEqual => Self::LessEqual,
            same => same,
        }
    }
}

/// A bracket of a tuple or interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Bracket {
    Round,
    Square,
}

/// The sign before a summand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Sign {
    Plus,
    Minus,
    PlusMinus,
    MinusPlus,
}

/// A node of an answer.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Expr {
    /// An exact number. `decimals` is the number of digits written after the point, 0 for a whole number.
    Number {
        value: RBig,
        decimals: u32,
    },
    /// Digits with a base, `4210_5`.
    BaseNumber {
        digits: String,
        base: u32,
    },
    /// A variable, subscript and accents included.
    Variable(String),
    Pi,
    Euler,
    Imaginary,
    Infinity,
    /// Summands with their signs.
    Sum(Vec<(Sign, Expr)>),
    /// Factors; `true` divides.
    Product(Vec<(bool, Expr)>),
    Power(Box<Expr>, Box<Expr>),
    /// `Root(n, x)` is the n-th root of x.
    Root(Box<Expr>, Box<Expr>),
    Call(Function, Vec<Expr>),
    /// A function that only has a name: `f(x + 1)`.
    Applied(String, Box<Expr>),
    /// `x%`.
    Percent(Box<Expr>),
    /// `x°`.
    Degrees(Box<Expr>),
    /// A value and the unit written after it, in lower case.
    Quantity(Box<Expr>, String),
    /// `a : b : c`.
    Ratio(Vec<Expr>),
    /// `(a, b)`, `[a, b)`, a point, a vector or an interval.
    Tuple(Bracket, Vec<Expr>, Bracket),
    /// `{a, b}`.
    Set(Vec<Expr>),
    /// `{head | condition}`.
    Builder(Box<Expr>, Box<Expr>),
    /// `a, b and c`, without brackets.
    List(Vec<Expr>),
    /// `A ∪ B`.
    Union(Vec<Expr>),
    /// Rows of a matrix.
    Matrix(Vec<Vec<Expr>>),
    /// `a < b ≤ c`: one more member than relations.
    Chain(Vec<Expr>, Vec<Relation>),
    /// `x ∈ S`.
    Member(Box<Expr>, Box<Expr>),
    /// A piecewise definition: values with their conditions; no condition is 'otherwise'.
    Cases(Vec<(Expr, Option<Expr>)>),
    /// Words.
    Text(String),
}

impl Expr {
    pub(super) fn integer(value: i64) -> Self {
        Self::Number { value: RBig::from(value), decimals: 0 }
    }

    /// The whole real line.
    pub(super) fn reals() -> Self {
        let ends = vec![Self::Sum(vec![(Sign::Minus, Self::Infinity)]), Self::Infinity];
        Self::Tuple(Bracket::Round, ends, Bracket::Round)
    }

    pub(super) fn empty_set() -> Self {
        Self::Text("empty set".into())
    }

    /// Direct children, for walks that treat all nodes alike.
    pub(super) fn children(&self) -> Vec<&Expr> {
        match self {
            Self::Sum(items) => items.iter().map(|(_, item)| item).collect(),
            Self::Product(items) => items.iter().map(|(_, item)| item).collect(),
            Self::Power(a, b) | Self::Root(a, b) | Self::Builder(a, b) | Self::Member(a, b) => vec![a, b],
            Self::Percent(a) | Self::Degrees(a) | Self::Quantity(a, _) | Self::Applied(_, a) => vec![a],
            Self::Call(_, items)
            | Self::Ratio(items)
            | Self::Tuple(_, items, _)
            | Self::Set(items)
            | Self::List(items)
            | Self::Union(items)
            | Self::Chain(items, _) => items.iter().collect(),
            Self::Matrix(rows) => rows.iter().flatten().collect(),
            Self::Cases(branches) => branches
                .iter()
                .flat_map(|(value, condition)| std::iter::once(value).chain(condition))
                .collect(),
            _ => Vec::new(),
        }
    }

    /// The same node with every direct child replaced.
    pub(super) fn map_children(&self, change: &impl Fn(&Expr) -> Expr) -> Self {
        let all = |items: &[Expr]| items.iter().map(change).collect::<Vec<_>>();
        let boxed = |item: &Expr| Box::new(change(item));
        match self {
            Self::Sum(items) => Self::Sum(items.iter().map(|(sign, item)| (*sign, change(item))).collect()),
            Self::Product(items) => {
                Self::Product(items.iter().map(|(divides, item)| (*divides, change(item))).collect())
            }
            Self::Power(a, b) => Self::Power(boxed(a), boxed(b)),
            Self::Root(a, b) => Self::Root(boxed(a), boxed(b)),
            Self::Call(function, items) => Self::Call(*function, all(items)),
            Self::Applied(name, a) => Self::Applied(name.clone(), boxed(a)),
            Self::Percent(a) => Self::Percent(boxed(a)),
            Self::Degrees(a) => Self::Degrees(boxed(a)),
            Self::Quantity(a, unit) => Self::Quantity(boxed(a), unit.clone()),
            Self::Ratio(items) => Self::Ratio(all(items)),
            Self::Tuple(open, items, close) => Self::Tuple(*open, all(items), *close),
            Self::Set(items) => Self::Set(all(items)),
            Self::Builder(a, b) => Self::Builder(boxed(a), boxed(b)),
            Self::List(items) => Self::List(all(items)),
            Self::Union(items) => Self::Union(all(items)),
            Self::Matrix(rows) => Self::Matrix(rows.iter().map(|row| all(row)).collect()),
            Self::Chain(items, relations) => Self::Chain(all(items), relations.clone()),
            Self::Member(a, b) => Self::Member(boxed(a), boxed(b)),
            Self::Cases(branches) => Self::Cases(
                branches
                    .iter()
                    .map(|(value, condition)| (change(value), condition.as_ref().map(change)))
                    .collect(),
            ),
            leaf => leaf.clone(),
        }
    }

    /// The tree with every occurrence of `name` replaced; `i` and `e` may be names too.
    pub(super) fn substitute(&self, name: &str, value: &Expr) -> Self {
        let is_name = match self {
            Self::Variable(variable) => variable == name,
            Self::Imaginary => name == "i",
            Self::Euler => name == "e",
            _ => false,
        };
        if is_name { value.clone() } else { self.map_children(&|child| child.substitute(name, value)) }
    }

    /// The number of nodes.
    pub(super) fn size(&self) -> usize {
        1 + self.children().into_iter().map(Self::size).sum::<usize>()
    }

    /// True when `test` holds for this node or any below it.
    pub(super) fn any(&self, test: &impl Fn(&Expr) -> bool) -> bool {
        test(self) || self.children().into_iter().any(|child| child.any(test))
    }

    /// The names of the variables, sorted, each once.
    pub(super) fn variables(&self) -> Vec<String> {
        fn collect(expr: &Expr, names: &mut Vec<String>) {
            if let Expr::Variable(name) = expr {
                names.push(name.clone());
            }
            for child in expr.children() {
                collect(child, names);
            }
        }
        let mut names = Vec::new();
        collect(self, &mut names);
        names.sort();
        names.dedup();
        names
    }

    /// True when a `±` occurs.
    pub(super) fn has_plus_minus(&self) -> bool {
        self.any(&|expr| {
            matches!(expr, Self::Sum(items) if items.iter().any(|(s, _)| matches!(s, Sign::PlusMinus | Sign::MinusPlus)))
        })
    }

    /// How many `±` occur in the item of this answer that has most.
    pub(super) fn plus_minus_count(&self) -> usize {
        match self {
            Self::Number { .. } | Self::Variable(_) | Self::Text(_) => 0,
            Self::List(items) => items.iter().map(Self::plus_minus_count).max().unwrap_or(0),
            _ => {
                let own = match self {
                    Self::Sum(items) => items.iter().filter(|(sign, _)| *sign == Sign::PlusMinus).count(),
                    _ => 0,
                };
                own + self.children().into_iter().map(Self::plus_minus_count).sum::<usize>()
            }
        }
    }

    /// The tree with every `±` read as `+` (`upper`) or as `-`.
    pub(super) fn resolve_plus_minus(&self, upper: bool) -> Self {
        let mut resolved = self.map_children(&|child| child.resolve_plus_minus(upper));
        if let Self::Sum(terms) = &mut resolved {
            for (sign, _) in terms {
                *sign = match (*sign, upper) {
                    (Sign::PlusMinus, true) | (Sign::MinusPlus, false) => Sign::Plus,
                    (Sign::PlusMinus, false) | (Sign::MinusPlus, true) => Sign::Minus,
                    (sign, _) => sign,
                };
            }
        }
        resolved
    }
}
