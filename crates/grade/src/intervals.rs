//! Intervals: conditions on one variable turned into them, and unions of them brought into one form.

use super::expr::{Bracket, Expr, Relation, Sign};
use super::numeric::{self, Points};
use super::{Verdict, decide};

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
        ([Expr::Variable(_), bound], [relation]) if !matches!(bound, Expr::Variable(_)) => match relation {
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
        ([bound, Expr::Variable(name)], [relation]) if !matches!(bound, Expr::Variable(_)) => {
            from_chain(&[Expr::Variable(name.clone()), bound.clone()], &[relation.flipped()])
        }
        ([low, Expr::Variable(_), high], [first, second]) => {
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

/// An interval with the numeric place of its ends, for sorting.
struct Part {
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
                parts.push(part(*open, &ends[0], &ends[1], *close)?);
            }
            Expr::Set(points) => {
                for point in points {
                    parts.push(part(Bracket::Square, point, point, Bracket::Square)?);
                }
            }
            Expr::Chain(members, relations) => match from_chain(members, relations)? {
                Expr::Tuple(open, ends, close) => parts.push(part(open, &ends[0], &ends[1], close)?),
                Expr::Union(both) => {
                    for half in both {
                        let Expr::Tuple(open, ends, close) = half else { return None };
                        parts.push(part(open, &ends[0], &ends[1], close)?);
                    }
                }
                _ => return None,
            },
            _ => return None,
        }
    }
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
    Some(joined.into_iter().map(|p| Expr::Tuple(p.open, vec![p.ends.0, p.ends.1], p.close)).collect())
}

/// What the conditions of a list have in common, when that is an interval.
pub(super) fn intersection(expr: &Expr) -> Option<Expr> {
    let Expr::List(items) = expr else { return None };
    let mut all: Option<Part> = None;
    for item in items {
        let Expr::Chain(members, relations) = item else { return None };
        let Expr::Tuple(open, ends, close) = from_chain(members, relations)? else { return None };
        let next = part(open, &ends[0], &ends[1], close)?;
        all = Some(match all {
            None => next,
            Some(last) => {
                let (low, high) = (next.low > last.low, next.high < last.high);
                Part {
                    low: last.low.max(next.low),
                    high: last.high.min(next.high),
                    open: if low { next.open } else { last.open },
                    close: if high { next.close } else { last.close },
                    ends: (
                        if low { next.ends.0 } else { last.ends.0 },
                        if high { next.ends.1 } else { last.ends.1 },
                    ),
                }
            }
        });
    }
    all.filter(|all| all.low < all.high).map(|p| Expr::Tuple(p.open, vec![p.ends.0, p.ends.1], p.close))
}

fn part(open: Bracket, low: &Expr, high: &Expr, close: Bracket) -> Option<Part> {
    Some(Part { low: place(low)?, high: place(high)?, open, ends: (low.clone(), high.clone()), close })
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
