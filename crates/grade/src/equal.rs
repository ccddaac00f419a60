//! Equality of whole answers: tuples, sets, intervals, equations, matrices, quantities; scalars go to `decide`.

use std::borrow::Cow;

use dashu_ratio::RBig;

use super::expr::{Expr, Relation, Sign};
use super::parse::{is_equation, is_inequality};
use super::units::Conversion;
use super::{Reason, Verdict, decide, intervals, text, units};

/// Longer lists are compared in order only.
const MAX_UNORDERED: usize = 64;

/// Decides whether two answers are the same.
pub(super) fn same(gold: &Expr, answer: &Expr) -> Verdict {
    match same_forms(canonical(gold).as_ref(), canonical(answer).as_ref()) {
        // `(±1, ±2)` may be two points or four.
        Verdict::Different if gold.plus_minus_count() > 1 || answer.plus_minus_count() > 1 => {
            Verdict::Undecided(Reason::Inconclusive)
        }
        verdict => verdict,
    }
}

fn same_forms(gold: &Expr, answer: &Expr) -> Verdict {
    if let Some(verdict) = letters_as_unit(gold, answer).or_else(|| letters_as_unit(answer, gold)) {
        return verdict;
    }
    use Expr::{Chain, Degrees, List, Matrix, Percent, Quantity, Ratio, Set, Text, Tuple, Union, Variable};
    match (gold, answer) {
        (Quantity(a, unit_a), Quantity(b, unit_b)) => quantities(a, unit_a, b, unit_b),
        (Quantity(a, _), b) => same(a, b),
        (a, Quantity(b, _)) => same(a, b),
        (Degrees(a), Degrees(b)) => same(a, b),
        (Degrees(inner), other) | (other, Degrees(inner)) => match same(inner, other) {
            Verdict::Equal => Verdict::Equal,
            // 60° is 60 where the question says degrees, and π/3.
            _ => decide::scalars(gold, answer),
        },
        (Percent(a), Percent(b)) => same(a, b),
        (Percent(inner), other) => percent(inner, other),
        (other, Percent(inner)) => percent(inner, other),
        (Text(a), Text(b)) => text::compare(a, b),
        (Text(a), Variable(b)) | (Variable(b), Text(a)) => text::compare(a, b),
        (Text(_), _) | (_, Text(_)) => Verdict::Different,
        (Chain(a, relations_a), Chain(b, relations_b)) => chains(a, relations_a, b, relations_b),
        (Chain(members, relations), other) => chain_and_value(members, relations, other, true),
        (other, Chain(members, relations)) => chain_and_value(members, relations, other, false),
        (Union(_), Union(_) | Tuple(..) | List(_) | Set(_)) | (Tuple(..) | List(_) | Set(_), Union(_)) => {
            unions(gold, answer)
        }
        (Set(a), Set(b) | List(b)) | (List(b), Set(a)) if a.len() != b.len() => contained(a, b),
        (List(a), List(b)) => lists(a, b),
        (Set(a) | List(a), Set(b) | List(b)) => unordered(a, b),
        (Set(items), other) | (other, Set(items)) if is_scalar(other) => {
            contained(items, std::slice::from_ref(other))
        }
        (Tuple(open_a, a, close_a), Tuple(open_b, b, close_b)) => {
            // Two numbers in brackets may be an interval: then the brackets matter.
            if a.len() == 2 && (open_a, close_a) != (open_b, close_b) {
                return Verdict::Different;
            }
            ordered(a, b)
        }
        (Tuple(..), List(list)) | (List(list), Tuple(..)) if list.iter().all(is_inequality) => {
            unions(gold, answer)
        }
        (Tuple(_, items, _), List(list)) | (List(list), Tuple(_, items, _)) => ordered(&by_name(list), items),
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
        (a, b) if is_scalar(a) && is_scalar(b) => match decide::scalars(a, b) {
            Verdict::Different if has_degrees(a) || has_degrees(b) => {
                decide::scalars(&without_degrees(a), &without_degrees(b))
            }
            verdict => verdict,
        },
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

/// `5 m` and `5 men` may be quantities or products. Against a value without variables they are not products.
fn letters_as_unit(product: &Expr, other: &Expr) -> Option<Verdict> {
    let Expr::Product(factors) = product else { return None };
    let [value @ .., (false, letters)] = factors.as_slice() else { return None };
    let unit = match letters {
        Expr::Variable(name) if units::is_letter(name) => Some(name),
        Expr::Product(letters) if letters.iter().all(|(divides, letter)| !divides && is_letter(letter)) => {
            None
        }
        _ => return None,
    };
    let is_value = |expr: &Expr| {
        matches!(expr, Expr::Number { .. } | Expr::Quantity(..) | Expr::Product(_) | Expr::Power(..))
    };
    let constant = |expr: &Expr| !expr.any(&|node| matches!(node, Expr::Variable(_) | Expr::Imaginary));
    if value.is_empty()
        || !is_value(other)
        || !constant(other)
        || !value.iter().all(|(_, factor)| constant(factor))
    {
        return None;
    }
    let value = Expr::Product(value.to_vec());
    if let (Some(unit), Expr::Quantity(amount, other_unit)) = (unit, other) {
        return Some(quantities(&value, &unit.to_lowercase(), amount, other_unit));
    }
    (same(&value, other) == Verdict::Equal).then_some(Verdict::Undecided(Reason::Inconclusive))
}

/// A factor of a word that was read as a product.
fn is_letter(expr: &Expr) -> bool {
    matches!(expr, Expr::Variable(_) | Expr::Euler | Expr::Imaginary)
}

fn has_degrees(expr: &Expr) -> bool {
    expr.any(&|node| matches!(node, Expr::Degrees(_)))
}

/// `180° - 2x` as `180 - 2x`; within functions a degree stays one.
fn without_degrees(expr: &Expr) -> Expr {
    match expr {
        Expr::Sum(terms) => {
            Expr::Sum(terms.iter().map(|(sign, term)| (*sign, without_degrees(term))).collect())
        }
        Expr::Product(factors) => Expr::Product(
            factors.iter().map(|(divides, factor)| (*divides, without_degrees(factor))).collect(),
        ),
        Expr::Degrees(inner) => (**inner).clone(),
        other => other.clone(),
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

/// Every element of `a` has its own equal in `b`. Different when they cannot be paired even where it is in doubt.
fn unordered(a: &[Expr], b: &[Expr]) -> Verdict {
    if a.len() != b.len() {
        return Verdict::Different;
    }
    let in_order: Vec<Verdict> = a.iter().zip(b).map(|(a, b)| same(a, b)).collect();
    if in_order.iter().all(|verdict| *verdict == Verdict::Equal) {
        return Verdict::Equal;
    }
    if a.len() > MAX_UNORDERED {
        return Verdict::Undecided(Reason::TooLarge);
    }
    let verdict = |row: usize, column: usize| match row == column {
        true => in_order[row],
        false => same(&a[row], &b[column]),
    };
    let verdicts: Vec<Vec<Verdict>> =
        (0..a.len()).map(|row| (0..b.len()).map(|column| verdict(row, column)).collect()).collect();
    if pairs_up(&verdicts, |verdict| verdict == Verdict::Equal) {
        return Verdict::Equal;
    }
    if !pairs_up(&verdicts, |verdict| verdict != Verdict::Different) {
        return Verdict::Different;
    }
    Verdict::Undecided(Reason::Inconclusive)
}

/// True when every row can have a column of its own whose verdict fits (Kuhn's augmenting paths).
fn pairs_up(verdicts: &[Vec<Verdict>], fits: fn(Verdict) -> bool) -> bool {
    fn augment(
        row: usize,
        verdicts: &[Vec<Verdict>],
        fits: fn(Verdict) -> bool,
        tried: &mut [bool],
        row_of: &mut [Option<usize>],
    ) -> bool {
        for (column, verdict) in verdicts[row].iter().enumerate() {
            if !fits(*verdict) || std::mem::replace(&mut tried[column], true) {
                continue;
            }
            if row_of[column].is_none_or(|other| augment(other, verdicts, fits, tried, row_of)) {
                row_of[column] = Some(row);
                return true;
            }
        }
        false
    }
    let mut row_of = vec![None; verdicts.len()];
    (0..verdicts.len()).all(|row| augment(row, verdicts, fits, &mut vec![false; verdicts.len()], &mut row_of))
}

/// Sets with repetitions: every element of each is an element of the other.
fn contained(a: &[Expr], b: &[Expr]) -> Verdict {
    if a.len().max(b.len()) > MAX_UNORDERED {
        return Verdict::Undecided(Reason::TooLarge);
    }
    let mut result = Verdict::Equal;
    for (items, others) in [(a, b), (b, a)] {
        for item in items {
            match any(others.iter().map(|other| same(item, other))) {
                Verdict::Equal => {}
                Verdict::Different => return Verdict::Different,
                undecided => result = undecided,
            }
        }
    }
    result
}

/// One equal is equal, all different is different, else a doubt.
fn any(verdicts: impl Iterator<Item = Verdict>) -> Verdict {
    let mut result = Verdict::Different;
    for verdict in verdicts {
        match verdict {
            Verdict::Equal => return Verdict::Equal,
            Verdict::Different => {}
            undecided => result = undecided,
        }
    }
    result
}

/// The name that an item gives a value to: `x = 3`.
fn name(item: &Expr) -> Option<&str> {
    match item {
        Expr::Chain(members, relations) if is_equation(relations) => match members.first() {
            Some(Expr::Variable(name)) => Some(name),
            _ => None,
        },
        _ => None,
    }
}

/// `y = 4, x = 3` in the order of the names, which is that of a tuple; other lists as they are.
fn by_name(list: &[Expr]) -> Cow<'_, [Expr]> {
    if !list.iter().all(|item| name(item).is_some()) {
        return Cow::Borrowed(list);
    }
    let mut sorted = list.to_vec();
    sorted.sort_by(|a, b| name(a).cmp(&name(b)));
    Cow::Owned(sorted)
}

/// Lists in any order; but `x = 3, y = 4` does not tell whether it is `4, 3`.
fn lists(a: &[Expr], b: &[Expr]) -> Verdict {
    let named = |list: &[Expr]| {
        let names: Option<Vec<&str>> = list.iter().map(name).collect();
        names.is_some_and(|names| names.iter().any(|name| *name != names[0]))
    };
    let bare = |list: &[Expr]| list.iter().all(|item| name(item).is_none());
    let verdict = unordered(a, b);
    let told = !((named(a) && bare(b)) || (named(b) && bare(a)));
    if verdict != Verdict::Equal || told || ordered(a, b) == Verdict::Equal {
        return verdict;
    }
    Verdict::Undecided(Reason::Inconclusive)
}

/// Unions of intervals and points, after parts that touch or overlap have been joined.
fn unions(gold: &Expr, answer: &Expr) -> Verdict {
    match (intervals::parts(gold), intervals::parts(answer)) {
        (Some(a), Some(b)) => match ordered(&a, &b) {
            Verdict::Equal => Verdict::Equal,
            // `x > 2, x < 5` may mean both at once.
            verdict => match (intervals::intersection(gold), intervals::intersection(answer)) {
                (Some(both), _) if ordered(std::slice::from_ref(&both), &b) == Verdict::Equal => {
                    Verdict::Equal
                }
                (_, Some(both)) if ordered(&a, std::slice::from_ref(&both)) == Verdict::Equal => {
                    Verdict::Equal
                }
                _ => verdict,
            },
        },
        _ => match (gold, answer) {
            (Expr::Union(a) | Expr::List(a), Expr::Union(b) | Expr::List(b)) => unordered(a, b),
            _ => Verdict::Undecided(Reason::Inconclusive),
        },
    }
}

fn quantities(a: &Expr, unit_a: &str, b: &Expr, unit_b: &str) -> Verdict {
    let half_day = |unit: &str| matches!(unit, "am" | "pm").then(|| unit == "am");
    if let (Some(first), Some(second)) = (half_day(unit_a), half_day(unit_b))
        && first != second
    {
        return Verdict::Different;
    }
    match units::conversion(unit_a, unit_b) {
        Conversion::Impossible => Verdict::Different,
        Conversion::Factor(factor) if factor != RBig::ONE => {
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

/// A name on the left of an equation: `x`, `f(x)`, `y'`, `ABC`, `f^{-1}(x)`, `(x, y)`.
fn names_something(expr: &Expr) -> bool {
    let is_letter = |expr: &Expr| matches!(expr, Expr::Variable(_));
    match expr {
        Expr::Variable(_) => true,
        Expr::Tuple(_, items, _) => items.iter().all(is_letter),
        Expr::Product(factors) => factors.iter().all(|(divides, factor)| {
            !divides
                && match factor {
                    Expr::Variable(_) | Expr::Tuple(..) => true,
                    Expr::Power(base, exponent) => is_letter(base) && **exponent == Expr::integer(-1),
                    Expr::Product(letters) => letters.iter().all(|(_, letter)| is_letter(letter)),
                    _ => false,
                }
        }),
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
    // `x² - 12 = 0` is not the value 0, and `x + y = 5` may be the value 5; `x = 5` and `6 · 3 = 18` are values.
    if !names_something(&members[0]) && !names_something(last) && !members[0].variables().is_empty() {
        // A list may be its solutions.
        let open = !is_scalar(value) || (*last != Expr::integer(0) && same(last, value) == Verdict::Equal);
        return if open { Verdict::Undecided(Reason::Inconclusive) } else { Verdict::Different };
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
    let is_function = |head: &Expr| !matches!(head, Expr::Variable(_));
    let (head_a, head_b) = (&a[0], &b[0]);
    let named = names_something(head_a) && names_something(head_b);
    if named && (head_a == head_b || is_function(head_a) != is_function(head_b)) {
        let verdict = same(last_a, last_b);
        let solved = |last: &Expr| !last.any(&|node| node == head_a);
        if verdict == Verdict::Equal || (head_a == head_b && solved(last_a) && solved(last_b)) {
            return verdict;
        }
    }
    let is_constant = |members: &[Expr]| members.iter().all(|member| member.variables().is_empty());
    if a.len() != 2 || b.len() != 2 || !a.iter().chain(b).all(is_scalar) || is_constant(a) || is_constant(b) {
        return ordered(a, b);
    }
    decide::equations(&difference(&a[0], &a[1]), &difference(&b[0], &b[1]))
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
