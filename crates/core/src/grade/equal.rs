//! Equality of whole answers: tuples, sets, intervals, equations, matrices, quantities; scalars go to `decide`.

use std::borrow::Cow;

use dashu_ratio::RBig;

use super::expr::{Expr, Relation, Sign};
use super::parse::is_equation;
use super::{Reason, Verdict, decide, intervals, text, units};

/// Longer lists are compared in order only.
const MAX_UNORDERED: usize = 64;

/// Decides whether two answers are the same.
pub(super) fn same(gold: &Expr, answer: &Expr) -> Verdict {
    let (gold, answer) = (canonical(gold), canonical(answer));
    let (gold, answer) = (gold.as_ref(), answer.as_ref());
    use Expr::{Chain, Degrees, List, Matrix, Percent, Quantity, Ratio, Set, Text, Tuple, Union, Variable};
    match (gold, answer) {
        (Quantity(a, unit_a), Quantity(b, unit_b)) => quantities(a, unit_a, b, unit_b),
        (Quantity(a, _), b) => same(a, b),
        (a, Quantity(b, _)) => same(a, b),
        (Degrees(a), Degrees(b)) => same(a, b),
        (Degrees(a), b) => same(a, b),
        (a, Degrees(b)) => same(a, b),
        (Percent(a), Percent(b)) => same(a, b),
        (Percent(inner), other) => percent(inner, other),
        (other, Percent(inner)) => percent(inner, other),
        (Text(a), Text(b)) => words(a, b),
        (Text(a), Variable(b)) | (Variable(b), Text(a)) => words(a, b),
        (Text(_), _) | (_, Text(_)) => Verdict::Different,
        (Chain(a, relations_a), Chain(b, relations_b)) => chains(a, relations_a, b, relations_b),
        (Chain(members, relations), other) => chain_and_value(members, relations, other, true),
        (other, Chain(members, relations)) => chain_and_value(members, relations, other, false),
        (Union(_), Union(_) | Tuple(..) | List(_)) | (Tuple(..) | List(_), Union(_)) => unions(gold, answer),
        (Set(a) | List(a) | Union(a), Set(b) | List(b) | Union(b)) => unordered(a, b),
        (Tuple(open_a, a, close_a), Tuple(open_b, b, close_b)) => {
            // Two numbers in brackets may be an interval: then the brackets matter.
            if a.len() == 2 && (open_a, close_a) != (open_b, close_b) {
                return Verdict::Different;
            }
            ordered(a, b)
        }
        (Tuple(_, a, _), List(b)) | (List(a), Tuple(_, b, _)) => ordered(a, b),
        (Matrix(a), Matrix(b)) => {
            if a.len() != b.len() || a.iter().zip(b).any(|(a, b)| a.len() != b.len()) {
                return match (vector(a), vector(b)) {
                    (Some(a), Some(b)) => ordered(&a, &b),
                    _ => Verdict::Different,
                };
            }
            all(a.iter().flatten().zip(b.iter().flatten()).map(|(a, b)| same(a, b)))
        }
        (Matrix(rows), Tuple(_, items, _)) | (Tuple(_, items, _), Matrix(rows)) => match vector(rows) {
            Some(cells) => ordered(&cells, items),
            None => Verdict::Different,
        },
        (Ratio(a), Ratio(b)) => ratios(a, b),
        (Ratio(a), b) | (b, Ratio(a)) => match a.as_slice() {
            [top, bottom] => same(&quotient(top, bottom), b),
            _ => Verdict::Different,
        },
        (a, b) if is_scalar(a) && is_scalar(b) => decide::scalars(a, b),
        (a, b) if a == b => Verdict::Equal,
        (a, b) if is_plain(a) && is_plain(b) => Verdict::Different,
        _ => Verdict::Undecided(Reason::Inconclusive),
    }
}

/// Rewrites an answer into the form it is compared in: conditions on one variable become intervals, `±` a list,
/// brackets around a single thing vanish.
fn canonical(expr: &Expr) -> Cow<'_, Expr> {
    if is_scalar(expr) && !expr.has_plus_minus() {
        return Cow::Borrowed(expr);
    }
    if !matches!(expr, Expr::List(_)) && expr.has_plus_minus() {
        return Cow::Owned(Expr::List(vec![expr.resolve_plus_minus(true), expr.resolve_plus_minus(false)]));
    }
    match expr {
        Expr::Member(inner) => canonical(inner),
        Expr::Builder(inner) => match canonical(inner) {
            Cow::Borrowed(inner) => Cow::Borrowed(inner),
            owned => owned,
        },
        Expr::Set(items) | Expr::List(items) | Expr::Union(items) if items.len() == 1 => canonical(&items[0]),
        Expr::Quantity(inner, unit) if matches!(unit.as_str(), "percent" | "%" | "per cent") => {
            Cow::Owned(Expr::Percent(inner.clone()))
        }
        Expr::List(items) if items.iter().any(Expr::has_plus_minus) => {
            let expanded = items
                .iter()
                .flat_map(|item| {
                    let both = item.has_plus_minus();
                    std::iter::once(item.resolve_plus_minus(true))
                        .chain(both.then(|| item.resolve_plus_minus(false)))
                })
                .collect();
            Cow::Owned(Expr::List(expanded))
        }
        Expr::Chain(members, relations) => match intervals::from_chain(members, relations) {
            Some(interval) => Cow::Owned(interval),
            None => Cow::Borrowed(expr),
        },
        _ => Cow::Borrowed(expr),
    }
}

/// True for expressions that have a single value.
fn is_scalar(expr: &Expr) -> bool {
    matches!(
        expr,
        Expr::Number { .. }
            | Expr::BaseNumber { .. }
            | Expr::Variable(_)
            | Expr::Pi
            | Expr::Euler
            | Expr::Imaginary
            | Expr::Infinity
            | Expr::Sum(_)
            | Expr::Product(_)
            | Expr::Power(..)
            | Expr::Root(..)
            | Expr::Call(..)
    )
}

/// True when no part is of a kind that only looks different, such as a product of matrices.
fn is_plain(expr: &Expr) -> bool {
    !is_scalar(expr) || !expr.any(&|node| matches!(node, Expr::Matrix(_) | Expr::Tuple(..) | Expr::Set(_)))
}

/// All equal is equal, one different is different, else the first doubt.
fn all(verdicts: impl Iterator<Item = Verdict>) -> Verdict {
    let mut result = Verdict::Equal;
    for verdict in verdicts {
        match verdict {
            Verdict::Equal => {}
            Verdict::Different => return Verdict::Different,
            Verdict::Undecided(_) if result == Verdict::Equal => result = verdict,
            Verdict::Undecided(_) => {}
        }
    }
    result
}

fn ordered(a: &[Expr], b: &[Expr]) -> Verdict {
    if a.len() != b.len() {
        return Verdict::Different;
    }
    all(a.iter().zip(b).map(|(a, b)| same(a, b)))
}

/// Every element of `a` has its own equal in `b`.
fn unordered(a: &[Expr], b: &[Expr]) -> Verdict {
    if a.len() != b.len() {
        return Verdict::Different;
    }
    if a.len() > MAX_UNORDERED {
        return match ordered(a, b) {
            Verdict::Equal => Verdict::Equal,
            _ => Verdict::Undecided(Reason::TooLarge),
        };
    }
    let mut free = vec![true; b.len()];
    let mut result = Verdict::Equal;
    for wanted in a {
        let mut doubt = None;
        let found = b.iter().enumerate().position(|(index, candidate)| {
            free[index]
                && match same(wanted, candidate) {
                    Verdict::Equal => true,
                    Verdict::Different => false,
                    undecided => {
                        doubt = Some(undecided);
                        false
                    }
                }
        });
        match (found, doubt) {
            (Some(index), _) => free[index] = false,
            (None, Some(undecided)) => result = undecided,
            (None, None) => return Verdict::Different,
        }
    }
    result
}

/// Unions of intervals and points, after parts that touch or overlap have been joined.
fn unions(gold: &Expr, answer: &Expr) -> Verdict {
    match (intervals::parts(gold), intervals::parts(answer)) {
        (Some(a), Some(b)) => ordered(&a, &b),
        _ => match (gold, answer) {
            (Expr::Union(a) | Expr::List(a), Expr::Union(b) | Expr::List(b)) => unordered(a, b),
            _ => Verdict::Undecided(Reason::Inconclusive),
        },
    }
}

fn words(a: &str, b: &str) -> Verdict {
    if text::words(a) == text::words(b) { Verdict::Equal } else { Verdict::Different }
}

fn quantities(a: &Expr, unit_a: &str, b: &Expr, unit_b: &str) -> Verdict {
    let half_day = |unit: &str| matches!(unit, "am" | "pm").then(|| unit == "am");
    if let (Some(first), Some(second)) = (half_day(unit_a), half_day(unit_b))
        && first != second
    {
        return Verdict::Different;
    }
    match units::conversion(unit_a, unit_b) {
        Some(factor) if factor != RBig::ONE => {
            let factor = Expr::Number { value: factor, decimals: 0 };
            same(&Expr::Product(vec![(false, a.clone()), (false, factor)]), b)
        }
        _ => same(a, b),
    }
}

/// `50%` is 50 or 0.5, as the question wants it.
fn percent(inner: &Expr, other: &Expr) -> Verdict {
    match same(inner, other) {
        Verdict::Equal => Verdict::Equal,
        verdict => match same(&quotient(inner, &Expr::integer(100)), other) {
            Verdict::Equal => Verdict::Equal,
            _ => verdict,
        },
    }
}

fn quotient(top: &Expr, bottom: &Expr) -> Expr {
    Expr::Product(vec![(false, top.clone()), (true, bottom.clone())])
}

fn ratios(a: &[Expr], b: &[Expr]) -> Verdict {
    if a.len() != b.len() {
        return Verdict::Different;
    }
    let scaled = |items: &[Expr]| items[1..].iter().map(|item| quotient(item, &items[0])).collect::<Vec<_>>();
    match ordered(a, b) {
        Verdict::Equal => Verdict::Equal,
        _ => ordered(&scaled(a), &scaled(b)),
    }
}

/// The cells of a row or column.
fn vector(rows: &[Vec<Expr>]) -> Option<Vec<Expr>> {
    match rows {
        [row] => Some(row.clone()),
        _ => rows.iter().map(|row| if row.len() == 1 { Some(row[0].clone()) } else { None }).collect(),
    }
}

/// A name on the left of an equation: `x`, `f(x)`, `y'`.
fn names_something(expr: &Expr) -> bool {
    match expr {
        Expr::Variable(_) => true,
        Expr::Product(factors) => {
            matches!(
                factors.as_slice(),
                [(false, Expr::Variable(_)), (false, Expr::Variable(_) | Expr::Tuple(..))]
            )
        }
        _ => false,
    }
}

/// An equation against a value: the value must be the last member.
fn chain_and_value(members: &[Expr], relations: &[Relation], value: &Expr, chain_is_gold: bool) -> Verdict {
    let Some(last) = members.last() else { return Verdict::Undecided(Reason::Inconclusive) };
    if !is_equation(relations) {
        // An inequality is no value, but it may be an interval in several variables.
        return if is_scalar(value) { Verdict::Different } else { Verdict::Undecided(Reason::Inconclusive) };
    }
    // `x² - 12 = 0` is not the value 0; `x = 5` and `6 · 3 = 18` are values.
    if !names_something(&members[0]) && !names_something(last) && !members[0].variables().is_empty() {
        return Verdict::Different;
    }
    let verdict = if chain_is_gold { same(last, value) } else { same(value, last) };
    // `5 = x` names its value on the left.
    match members {
        [first, name] if verdict != Verdict::Equal && names_something(name) && !names_something(first) => {
            same(first, value)
        }
        _ => verdict,
    }
}

fn difference(left: &Expr, right: &Expr) -> Expr {
    Expr::Sum(vec![(Sign::Plus, left.clone()), (Sign::Minus, right.clone())])
}

fn chains(a: &[Expr], relations_a: &[Relation], b: &[Expr], relations_b: &[Relation]) -> Verdict {
    if !is_equation(relations_a) || !is_equation(relations_b) {
        return inequalities(a, relations_a, b, relations_b);
    }
    let (Some(last_a), Some(last_b)) = (a.last(), b.last()) else {
        return Verdict::Undecided(Reason::Inconclusive);
    };
    let named = names_something(&a[0]) && names_something(&b[0]);
    let a_function = !matches!(a[0], Expr::Variable(_));
    let b_function = !matches!(b[0], Expr::Variable(_));
    if named && (a[0] == b[0] || a_function != b_function) {
        let verdict = same(last_a, last_b);
        if verdict != Verdict::Different || a_function || b_function {
            return verdict;
        }
    }
    let is_constant = |members: &[Expr]| members.iter().all(|member| member.variables().is_empty());
    if a.len() != 2 || b.len() != 2 || !a.iter().chain(b).all(is_scalar) || is_constant(a) || is_constant(b) {
        return ordered(a, b);
    }
    decide::proportional(&difference(&a[0], &a[1]), &difference(&b[0], &b[1]))
}

fn inequalities(a: &[Expr], relations_a: &[Relation], b: &[Expr], relations_b: &[Relation]) -> Verdict {
    if relations_a == relations_b && ordered(a, b) == Verdict::Equal {
        return Verdict::Equal;
    }
    let flipped: Vec<Relation> = relations_b.iter().rev().map(|relation| relation.flipped()).collect();
    let reversed: Vec<Expr> = b.iter().rev().cloned().collect();
    if relations_a == flipped && ordered(a, &reversed) == Verdict::Equal {
        return Verdict::Equal;
    }
    Verdict::Undecided(Reason::Inconclusive)
}
