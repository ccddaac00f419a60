//! Equations and inequalities, against each other and against values.

use super::equal::{is_scalar, ordered, same};
use super::expr::{Expr, Relation, Sign};
use super::numeric::{self, Points};
use super::parse::is_equation;
use super::{Reason, Verdict, decide, solve};

/// A name on the left of an equation: `x`, `f(x)`, `y'`, `ABC`, `f^{-1}(x)`, `(x, y)`.
fn names_something(expr: &Expr) -> bool {
    let is_letter = |expr: &Expr| matches!(expr, Expr::Variable(_));
    match expr {
        Expr::Variable(_) | Expr::Applied(..) => true,
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

/// True for `xy`, where `AB` is a segment, and `f(x)` a function though it is read as a product.
fn is_product_of_variables(expr: &Expr) -> bool {
    let Expr::Product(factors) = expr else { return false };
    let names = |factor: &Expr, letters: &str| matches!(factor, Expr::Variable(name) if letters.contains(name.as_str()));
    !factors.first().is_some_and(|(_, first)| names(first, "fghpq"))
        && factors.iter().all(|(_, factor)| {
            matches!(factor, Expr::Variable(name) if name.starts_with(|c: char| c.is_lowercase()))
        })
}

/// An equation against a value: the value must be the last member.
pub(super) fn chain_and_value(
    members: &[Expr],
    relations: &[Relation],
    value: &Expr,
    chain_is_gold: bool,
) -> Verdict {
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
    // `x = √2 ≈ 1.414` is √2, too.
    if verdict != Verdict::Equal
        && members[..members.len() - 1]
            .iter()
            .any(|exact| is_rounded(exact, last) && same(exact, value) == Verdict::Equal)
    {
        return Verdict::Equal;
    }
    // `5 = x` names its value on the left.
    match members {
        [first, name] if verdict != Verdict::Equal && names_something(name) && !names_something(first) => {
            same(first, value)
        }
        _ => verdict,
    }
}

/// True when the second number is the first, rounded to the decimals that it has.
fn is_rounded(exact: &Expr, rounded: &Expr) -> bool {
    let Expr::Number { decimals: decimals @ 1.., .. } = rounded else { return false };
    let value = |expr: &Expr| {
        let value = numeric::value(expr, 0, Points::Positive).filter(|value| value.im == 0.0);
        value.filter(|_| is_scalar(expr) && expr.variables().is_empty()).map(|value| value.re)
    };
    let unit = 0.1f64.powi(i32::try_from(*decimals).unwrap_or(i32::MAX));
    matches!((value(exact), value(rounded)), (Some(a), Some(b)) if (a - b).abs() <= unit)
}

fn difference(left: &Expr, right: &Expr) -> Expr {
    Expr::Sum(vec![(Sign::Plus, left.clone()), (Sign::Minus, right.clone())])
}

pub(super) fn chains(a: &[Expr], relations_a: &[Relation], b: &[Expr], relations_b: &[Relation]) -> Verdict {
    if !is_equation(relations_a) || !is_equation(relations_b) {
        return inequalities(a, relations_a, b, relations_b);
    }
    let (Some(last_a), Some(last_b)) = (a.last(), b.last()) else {
        return Verdict::Undecided(Reason::Inconclusive);
    };
    // `f(x) = 2x` and `y = 2x`, `AB = 5` and `x = 5`; but `xy = 0` is not `x = 0`.
    let is_function = |head: &Expr| !matches!(head, Expr::Variable(_)) && !is_product_of_variables(head);
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
    let ([a0, a1], [b0, b1], [first], [second]) = (a, b, relations_a, relations_b) else {
        return Verdict::Undecided(Reason::Inconclusive);
    };
    if !a.iter().chain(b).all(is_scalar) {
        return Verdict::Undecided(Reason::Inconclusive);
    }
    // `2x + y < 4` and `y < 4 - 2x`: one difference is a positive multiple of the other.
    let (left, right) = (difference(a0, a1), difference(b0, b1));
    match decide::positive_multiple(&left, &right) {
        Some(positive) => {
            let second = if positive { *second } else { second.flipped() };
            if *first == second { Verdict::Equal } else { Verdict::Different }
        }
        // Half-planes that are no multiples of each other differ.
        None if is_linear(&left) && is_linear(&right) => Verdict::Different,
        None => Verdict::Undecided(Reason::Inconclusive),
    }
}

/// True for a sum of constants and of constant multiples of variables.
fn is_linear(expr: &Expr) -> bool {
    expr.variables().iter().all(|name| {
        solve::polynomial(expr, name).is_some_and(|coefficients| {
            coefficients.len() <= 2 && coefficients.get(1).is_none_or(|slope| slope.variables().is_empty())
        })
    })
}

/// The variables that an answer made of conditions is about; `None` for any other answer. Those of a set's definition are
/// its own.
pub(super) fn condition_names(expr: &Expr) -> Option<Vec<String>> {
    match expr {
        Expr::Chain(_, relations) if !is_equation(relations) => Some(expr.variables()),
        Expr::Member(name, _) => Some(name.variables()),
        Expr::List(items) | Expr::Union(items) => {
            let mut names = Vec::new();
            for item in items {
                names.extend(condition_names(item)?);
            }
            names.sort();
            names.dedup();
            Some(names)
        }
        _ => None,
    }
}
