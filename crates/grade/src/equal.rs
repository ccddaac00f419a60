//! Equality of whole answers: tuples, sets, intervals, equations, matrices, quantities; scalars go to `decide`.

use std::borrow::Cow;

use super::expr::{Bracket, Expr, Relation};
use super::parse::{is_equation, is_inequality};
use super::quantities::quotient;
use super::relations::{chain_and_value, chains, condition_names};
use super::{
    Reason, Verdict, branches, clock, decide, exact, families, intervals, piecewise, quantities, sets, text,
    vectors,
};

/// Longer lists are compared in order only.
const MAX_UNORDERED: usize = 64;

/// Decides whether two answers are the same.
pub(super) fn same(gold: &Expr, answer: &Expr) -> Verdict {
    // `x > 3` is not `y > 3`.
    if let (Some(first), Some(second)) = (condition_names(gold), condition_names(answer))
        && first != second
    {
        return Verdict::Different;
    }
    // `2x + y < 4` is compared as it is; `x > 3` as an interval.
    if let (Expr::Chain(a, relations_a), Expr::Chain(b, relations_b)) = (gold, answer)
        && !is_equation(relations_a)
        && gold.variables().len() > 1
        && let verdict @ (Verdict::Equal | Verdict::Different) = chains(a, relations_a, b, relations_b)
    {
        return verdict;
    }
    match same_forms(canonical(gold).as_ref(), canonical(answer).as_ref()) {
        // For a whole n, `n > 4` is `n ≥ 5`.
        Verdict::Different if same_whole_numbers(gold, answer) => Verdict::Undecided(Reason::Inconclusive),
        // `(±1, ±2)` may be two points or four.
        Verdict::Different if gold.plus_minus_count() > 1 || answer.plus_minus_count() > 1 => {
            Verdict::Undecided(Reason::Inconclusive)
        }
        verdict => verdict,
    }
}

fn same_forms(gold: &Expr, answer: &Expr) -> Verdict {
    use Expr::{Builder, Cases, Chain, List, Matrix, Ratio, Set, Text, Tuple, Union, Variable};
    // Two plain numbers need none of what follows.
    if let (Expr::Number { .. }, Expr::Number { .. }) = (gold, answer) {
        return decide::scalars(gold, answer);
    }
    let special = quantities::letters_as_unit(gold, answer)
        .or_else(|| quantities::letters_as_unit(answer, gold))
        .or_else(|| clock::compare(gold, answer))
        .or_else(|| quantities::compare(gold, answer));
    if let Some(verdict) = special {
        return verdict;
    }
    match (gold, answer) {
        (Text(a), Text(b)) if a != b && text::means_nothing(a) && text::means_nothing(b) => {
            Verdict::Undecided(Reason::Inconclusive)
        }
        (Text(a), Text(b)) => text::compare(a, b),
        (Text(a), Variable(b)) | (Variable(b), Text(a)) => text::compare(a, b),
        (Text(_), _) | (_, Text(_)) => Verdict::Different,
        (Cases(_), other) | (other, Cases(_)) if matches!(other, Cases(_)) || is_scalar(other) => {
            piecewise::compare(gold, answer)
        }
        (Builder(..), Builder(..)) => sets::compare(gold, answer),
        (Builder(..), _) | (_, Builder(..)) => Verdict::Undecided(Reason::Inconclusive),
        (Chain(a, relations_a), Chain(b, relations_b)) => chains(a, relations_a, b, relations_b),
        (Chain(members, relations), other) => chain_and_value(members, relations, other, true),
        (other, Chain(members, relations)) => chain_and_value(members, relations, other, false),
        (Union(_), Union(_) | Tuple(..) | List(_) | Set(_)) | (Tuple(..) | List(_) | Set(_), Union(_)) => {
            unions(gold, answer)
        }
        (List(a), List(b)) if let Some(verdict) = families::compare(a, b) => verdict,
        (List(a), b) if let Some(verdict) = families::compare(a, std::slice::from_ref(b)) => verdict,
        (a, List(b)) if let Some(verdict) = families::compare(std::slice::from_ref(a), b) => verdict,
        (Set(a), Set(b)) if sets_in(a) != sets_in(b) => Verdict::Different,
        (Set(a), Set(b) | List(b)) | (List(b), Set(a)) if a.len() != b.len() => contained(a, b),
        (List(a), List(b)) => lists(a, b),
        (Set(a) | List(a), Set(b) | List(b)) => unordered(a, b),
        (Set(items), other) | (other, Set(items)) if is_scalar(other) => {
            match contained(items, std::slice::from_ref(other)) {
                // `{x}` may be the fractional part of x.
                Verdict::Equal if !other.variables().is_empty() => Verdict::Undecided(Reason::Inconclusive),
                verdict => verdict,
            }
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
        (Tuple(open, items, close), List(list)) | (List(list), Tuple(open, items, close)) => {
            match ordered(&by_name(list), items) {
                // `[1, 2]` may be an interval.
                Verdict::Equal if items.len() == 2 && (*open, *close) != (Bracket::Round, Bracket::Round) => {
                    Verdict::Undecided(Reason::Inconclusive)
                }
                verdict => verdict,
            }
        }
        (Matrix(a), Matrix(b)) => {
            // A row is not a column.
            if a.len() != b.len() || a.iter().zip(b).any(|(a, b)| a.len() != b.len()) {
                return Verdict::Different;
            }
            all(a.iter().flatten().zip(b.iter().flatten()).map(|(a, b)| same(a, b)))
        }
        (Matrix(rows), Tuple(_, items, _)) | (Tuple(_, items, _), Matrix(rows))
            if items.iter().all(|item| matches!(item, Tuple(..))) =>
        {
            // `[[1, 2], [3, 4]]`.
            let as_tuple = |row: &Vec<Expr>| Tuple(Bracket::Square, row.clone(), Bracket::Square);
            ordered(
                &rows.iter().map(as_tuple).collect::<Vec<_>>(),
                &items.iter().map(squared).collect::<Vec<_>>(),
            )
        }
        (Matrix(rows), Tuple(_, items, _)) | (Tuple(_, items, _), Matrix(rows)) => match vector(rows) {
            Some(cells) => ordered(&cells, items),
            None => Verdict::Different,
        },
        (Tuple(_, items, _), other) | (other, Tuple(_, items, _))
            if let Some(verdict) = components_and_items(other, items) =>
        {
            verdict
        }
        (Matrix(rows), other) | (other, Matrix(rows))
            if let Some(verdict) = vector(rows).and_then(|cells| components_and_items(other, &cells)) =>
        {
            verdict
        }
        (Ratio(a), Ratio(b)) => ratios(a, b),
        (Ratio(a), b) | (b, Ratio(a)) => match a.as_slice() {
            [top, bottom] => same(&quotient(top, bottom), b),
            _ => Verdict::Different,
        },
        (Variable(name), number) | (number, Variable(name))
            if let Some(digits) = based_letter(name)
                && exact::value(number).is_some() =>
        {
            decide::scalars(&digits, number)
        }
        (a, b) if is_scalar(a) && is_scalar(b) => match decide::scalars(a, b) {
            // `i + 2j` with and without hats.
            Verdict::Different
                if let (Some(a), Some(b)) = (vectors::components(a), vectors::components(b)) =>
            {
                ordered(&a, &b)
            }
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
        Expr::Member(_, inner) => canonical(inner),
        Expr::Builder(head, condition) => match sets::elements(head, condition) {
            Some(elements) => Cow::Owned(canonical(&elements).into_owned()),
            None => Cow::Borrowed(expr),
        },
        Expr::List(items) | Expr::Union(items) if items.len() == 1 => canonical(&items[0]),
        // `{5}` is 5; the set of a set is not that set.
        Expr::Set(items) if matches!(items.as_slice(), [item] if is_scalar(item) && item.variables().is_empty()) => {
            canonical(&items[0])
        }
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
        Expr::Chain(members, relations) if is_equation(relations) => {
            sorted_names(members).map_or(Cow::Borrowed(expr), Cow::Owned)
        }
        Expr::Chain(members, relations) => {
            let interval =
                intervals::from_chain(members, relations).or_else(|| intervals::solved(members, relations));
            interval.map_or(Cow::Borrowed(expr), Cow::Owned)
        }
        _ => Cow::Borrowed(expr),
    }
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
pub(super) fn is_scalar(expr: &Expr) -> bool {
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
            | Expr::Applied(..)
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

pub(super) fn ordered(a: &[Expr], b: &[Expr]) -> Verdict {
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

/// How many of some elements are sets themselves.
fn sets_in(elements: &[Expr]) -> usize {
    elements.iter().filter(|element| matches!(element, Expr::Set(_))).count()
}

/// Unions of intervals and points, after parts that touch or overlap have been joined.
fn unions(gold: &Expr, answer: &Expr) -> Verdict {
    // `x > 2, x < 5` holds for both at once; `x < 2, x > 5`, which nothing fulfils, is a union.
    let meaning = |expr: &Expr| intervals::intersection(expr).or_else(|| intervals::parts(expr));
    match (meaning(gold), meaning(answer)) {
        (Some(a), Some(b)) => ordered(&a, &b),
        _ => match (gold, answer) {
            (Expr::Union(a) | Expr::List(a), Expr::Union(b) | Expr::List(b)) => unordered(a, b),
            _ => Verdict::Undecided(Reason::Inconclusive),
        },
    }
}

/// The cells of a row or column.
fn vector(rows: &[Vec<Expr>]) -> Option<Vec<Expr>> {
    match rows {
        [row] => Some(row.clone()),
        _ => rows.iter().map(|row| if row.len() == 1 { Some(row[0].clone()) } else { None }).collect(),
    }
}

/// `i + 2j` against (1, 2): its components, of which those beyond the items must vanish.
fn components_and_items(other: &Expr, items: &[Expr]) -> Option<Verdict> {
    let components = vectors::components(other)?;
    if !(2..=3).contains(&items.len()) {
        return Some(Verdict::Different);
    }
    let mut items = items.to_vec();
    items.resize(3, Expr::integer(0));
    Some(ordered(&components, &items))
}

/// `(y, x) = (1, 2)` as `(x, y) = (2, 1)`; `None` where the names are in order, or something else is said.
fn sorted_names(members: &[Expr]) -> Option<Expr> {
    let [Expr::Tuple(_, names, _), Expr::Tuple(_, values, _)] = members else { return None };
    let name = |expr: &Expr| match expr {
        Expr::Variable(name) => Some(name.clone()),
        _ => None,
    };
    let names: Vec<String> = names.iter().map(name).collect::<Option<_>>()?;
    if names.len() != values.len() || names.is_sorted() {
        return None;
    }
    let mut pairs: Vec<(String, Expr)> = names.into_iter().zip(values.iter().cloned()).collect();
    pairs.sort_by(|a, b| a.0.cmp(&b.0));
    let (names, values) = pairs.into_iter().map(|(name, value)| (Expr::Variable(name), value)).unzip();
    let tuple = |items| Expr::Tuple(Bracket::Round, items, Bracket::Round);
    Some(Expr::Chain(vec![tuple(names), tuple(values)], vec![Relation::Equal]))
}

/// A tuple with square brackets.
fn squared(item: &Expr) -> Expr {
    match item {
        Expr::Tuple(_, items, _) => Expr::Tuple(Bracket::Square, items.clone(), Bracket::Square),
        other => other.clone(),
    }
}

/// True for conditions on a variable that has the name of a whole number, and that the same whole numbers fulfil.
fn same_whole_numbers(gold: &Expr, answer: &Expr) -> bool {
    let (Expr::Chain(..), Expr::Chain(..)) = (gold, answer) else { return false };
    let whole_parts = |expr: &Expr| {
        let parts = intervals::bounded(expr)?;
        let whole = |(low, low_in, high, high_in): (f64, bool, f64, bool)| {
            let first = if low_in { low.ceil() } else { low.floor() + 1.0 };
            let last = if high_in { high.floor() } else { high.ceil() - 1.0 };
            (first, last)
        };
        Some(parts.into_iter().map(whole).collect::<Vec<_>>())
    };
    let is_named_whole = matches!(gold.variables().as_slice(), [name] if branches::is_whole_name(name));
    is_named_whole && whole_parts(gold).is_some_and(|parts| whole_parts(answer) == Some(parts))
}

/// `A_{16}` is ten where a number is expected.
fn based_letter(name: &str) -> Option<Expr> {
    let (digits, base) = name.split_once('_')?;
    let base: u32 = base.parse().ok().filter(|base| (11..=36).contains(base))?;
    let is_digit = digits.len() == 1 && digits.chars().all(|c| c.is_ascii_uppercase() && c.is_digit(base));
    is_digit.then(|| Expr::BaseNumber { digits: digits.to_owned(), base })
}

fn ratios(a: &[Expr], b: &[Expr]) -> Verdict {
    if a.len() != b.len() {
        return Verdict::Different;
    }
    let scaled = |items: &[Expr]| items[1..].iter().map(|item| quotient(item, &items[0])).collect::<Vec<_>>();
    match ordered(a, b) {
        Verdict::Equal => Verdict::Equal,
        _ => match ordered(&scaled(a), &scaled(b)) {
            // 10:20 and 5:10 are the same ratio and different times.
            Verdict::Equal if clock::may_be_times(a, b) => Verdict::Undecided(Reason::Inconclusive),
            verdict => verdict,
        },
    }
}
