//! Intervals: conditions on one variable turned into them, and unions of them brought into one form.

use super::expr::{Bracket, Expr, Relation, Sign};
use super::numeric::{self, Points};
use super::{Verdict, decide, solve};

/// Conditions that are taken together.
const MAX_CONDITIONS: usize = 32;

/// `x > 2` as `(2, ∞)`, `-2 < x ≤ 3` as `(-2, 3]`, `x ≠ 1` as a union.
pub(super) fn from_chain(members: &[Expr], relations: &[Relation]) -> Option<Expr> {
    let infinity = |positive: bool| {
        if positive { Expr::Infinity } else { Expr::Sum(vec![(Sign::Minus, Expr::Infinity)]) }
    };
    let bracket = |relation: Relation| match relation {
        Relation::LessEqual | Relation::GreaterEqual => Bracket::Square,
        _ => Bracket::Round,
    };
    let is_less = |relation: Relation| matches!(relation, Relation::Less | Relation::LessEqual);
    match (members, relations) {
        ([Expr::Variable(name), bound], [relation]) if bounds(bound, name) => match relation {
            Relation::Equal => None,
            Relation::NotEqual => Some(Expr::Union(vec![
                Expr::Tuple(Bracket::Round, vec![infinity(false), bound.clone()], Bracket::Round),
                Expr::Tuple(Bracket::Round, vec![bound.clone(), infinity(true)], Bracket::Round),
            ])),
            relation if is_less(*relation) => {
                Some(Expr::Tuple(Bracket::Round, vec![infinity(false), bound.clone()], bracket(*relation)))
            }
            relation => {
                Some(Expr::Tuple(bracket(*relation), vec![bound.clone(), infinity(true)], Bracket::Round))
            }
        },
        ([bound, Expr::Variable(name)], [relation]) if bounds(bound, name) => {
            from_chain(&[Expr::Variable(name.clone()), bound.clone()], &[relation.flipped()])
        }
        ([low, Expr::Variable(name), high], [first, second])
            if ![low, high].iter().any(|end| end.variables().contains(name)) =>
        {
            if is_less(*first) && is_less(*second) {
                Some(Expr::Tuple(bracket(*first), vec![low.clone(), high.clone()], bracket(*second)))
            } else if is_less(first.flipped()) && is_less(second.flipped()) {
                Some(Expr::Tuple(bracket(*second), vec![high.clone(), low.clone()], bracket(*first)))
            } else {
                None
            }
        }
        _ => None,
    }
}

/// True for an end of an interval of `name`: neither another name nor something with it.
fn bounds(bound: &Expr, name: &String) -> bool {
    !matches!(bound, Expr::Variable(_)) && !bound.variables().contains(name)
}

/// An interval with the numeric place of its ends, for sorting.
#[derive(Debug, Clone)]
pub(super) struct Part {
    low: f64,
    high: f64,
    open: Bracket,
    ends: (Expr, Expr),
    close: Bracket,
}

/// The intervals and points of a union, sorted, with parts that touch or overlap joined. `None` when a part is not an
/// interval with real ends.
pub(super) fn parts(expr: &Expr) -> Option<Vec<Expr>> {
    let items = match expr {
        Expr::Union(items) | Expr::List(items) => items.as_slice(),
        single => std::slice::from_ref(single),
    };
    let mut parts = Vec::new();
    for item in items {
        match item {
            Expr::Tuple(open, ends, close) if ends.len() == 2 => {
                parts.push(Part::new(*open, &ends[0], &ends[1], *close)?);
            }
            Expr::Set(points) => {
                for point in points {
                    parts.push(Part::new(Bracket::Square, point, point, Bracket::Square)?);
                }
            }
            Expr::Chain(members, relations) => parts.extend(solutions(members, relations)?),
            _ => return None,
        }
    }
    Some(join(parts).into_iter().map(Part::into_interval).collect())
}

/// Parts in their order, with those that touch or overlap made one.
fn join(mut parts: Vec<Part>) -> Vec<Part> {
    parts.sort_by(|a, b| {
        a.low.total_cmp(&b.low).then((a.open == Bracket::Round).cmp(&(b.open == Bracket::Round)))
    });
    let mut joined: Vec<Part> = Vec::new();
    for part in parts {
        match joined.last_mut() {
            Some(last) if touches(last, &part) => {
                let same_end = decide::scalars(&part.ends.1, &last.ends.1) == Verdict::Equal;
                if (part.high > last.high && !same_end) || (same_end && part.close == Bracket::Square) {
                    last.high = part.high;
                    last.ends.1 = part.ends.1;
                    last.close = part.close;
                }
            }
            _ => joined.push(part),
        }
    }
    joined
}

/// What the conditions of a list have in common, as [`parts`]; `None` where that is nothing.
pub(super) fn intersection(expr: &Expr) -> Option<Vec<Expr>> {
    let Expr::List(items) = expr else { return None };
    let common = common(items)?;
    (!common.is_empty()).then(|| join(common).into_iter().map(Part::into_interval).collect())
}

/// What fulfils all of several conditions.
fn common(conditions: &[Expr]) -> Option<Vec<Part>> {
    if conditions.len() > MAX_CONDITIONS {
        return None;
    }
    let mut all: Option<Vec<Part>> = None;
    for condition in conditions {
        let Expr::Chain(members, relations) = condition else { return None };
        let next = solutions(members, relations)?;
        all = Some(match all {
            None => next,
            Some(last) => meet(&last, &next),
        });
    }
    all
}

/// The solutions of an inequality in one variable as an answer: an interval, a union, all reals or none.
pub(super) fn solved(members: &[Expr], relations: &[Relation]) -> Option<Expr> {
    let parts = solve::inequality(members, relations)?;
    let mut joined = join(parts);
    Some(match joined.len() {
        0 => Expr::empty_set(),
        1 => joined.swap_remove(0).into_expr(),
        _ => Expr::Union(joined.into_iter().map(Part::into_interval).collect()),
    })
}

fn solutions(members: &[Expr], relations: &[Relation]) -> Option<Vec<Part>> {
    match from_chain(members, relations) {
        Some(Expr::Tuple(open, ends, close)) => Some(vec![Part::new(open, &ends[0], &ends[1], close)?]),
        Some(Expr::Union(halves)) => halves
            .iter()
            .map(|half| match half {
                Expr::Tuple(open, ends, close) => Part::new(*open, &ends[0], &ends[1], *close),
                _ => None,
            })
            .collect(),
        _ => solve::inequality(members, relations),
    }
}

/// The ends of the solutions of a condition and whether they belong to it.
pub(super) fn bounded(condition: &Expr) -> Option<Vec<(f64, bool, f64, bool)>> {
    let parts = match condition {
        Expr::Chain(members, relations) => join(solutions(members, relations)?),
        Expr::List(conditions) => common(conditions)?,
        _ => return None,
    };
    let included = |bracket: Bracket| bracket == Bracket::Square;
    Some(parts.into_iter().map(|p| (p.low, included(p.open), p.high, included(p.close))).collect())
}

/// What two unions of intervals have in common.
pub(super) fn meet(a: &[Part], b: &[Part]) -> Vec<Part> {
    let mut common = Vec::new();
    for left in a {
        for right in b {
            // At one and the same end the stricter bracket holds.
            let same = |x: &Expr, y: &Expr| decide::scalars(x, y) == Verdict::Equal;
            let from_right = if same(&left.ends.0, &right.ends.0) {
                right.open == Bracket::Round
            } else {
                right.low > left.low
            };
            let to_right = if same(&left.ends.1, &right.ends.1) {
                right.close == Bracket::Round
            } else {
                right.high < left.high
            };
            let (low, high) = (if from_right { right } else { left }, if to_right { right } else { left });
            let part = Part {
                low: low.low,
                high: high.high,
                open: low.open,
                close: high.close,
                ends: (low.ends.0.clone(), high.ends.1.clone()),
            };
            if !part.is_empty() {
                common.push(part);
            }
        }
    }
    common
}

impl Part {
    pub(super) fn new(open: Bracket, low: &Expr, high: &Expr, close: Bracket) -> Option<Self> {
        Some(Self { low: place(low)?, high: place(high)?, open, ends: (low.clone(), high.clone()), close })
    }

    fn into_expr(self) -> Expr {
        // A single point is a number.
        if self.open == Bracket::Square && self.close == Bracket::Square && self.ends.0 == self.ends.1 {
            return self.ends.0;
        }
        self.into_interval()
    }

    fn into_interval(self) -> Expr {
        Expr::Tuple(self.open, vec![self.ends.0, self.ends.1], self.close)
    }

    fn is_empty(&self) -> bool {
        if decide::scalars(&self.ends.0, &self.ends.1) == Verdict::Equal {
            return self.open == Bracket::Round || self.close == Bracket::Round;
        }
        self.low >= self.high
    }
}

fn touches(left: &Part, right: &Part) -> bool {
    if decide::scalars(&left.ends.1, &right.ends.0) == Verdict::Equal {
        return left.close == Bracket::Square || right.open == Bracket::Square;
    }
    right.low < left.high
}

fn place(end: &Expr) -> Option<f64> {
    match end {
        Expr::Infinity => Some(f64::INFINITY),
        Expr::Sum(terms) if matches!(terms.as_slice(), [(Sign::Minus, Expr::Infinity)]) => {
            Some(f64::NEG_INFINITY)
        }
        Expr::Sum(terms) if matches!(terms.as_slice(), [(Sign::Plus, Expr::Infinity)]) => Some(f64::INFINITY),
        other if other.variables().is_empty() => {
            let value = numeric::value(other, 0, Points::Positive)?;
            (value.im == 0.0).then_some(value.re)
        }
        _ => None,
    }
}
