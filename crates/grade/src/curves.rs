//! Do two equations have the same solutions? Tested on solutions of each, where sign changes give them away.
//!
//! `y = 2/x` and `xy = 2` are the same curve though neither is a multiple of the other; a point of one that is not on
//! the other proves that they differ. Solutions without a change of sign, (x + y)² = 0, are not found.

use super::expr::Expr;
use super::numeric::{self, Points, SamplePoint};
use super::{Reason, Verdict};

/// Pseudo-random values of the other variables that are tried.
const ROUNDS: u64 = 3;
/// Places along each half of an axis, each 1.6 times as far out as the one before.
const STEPS: i32 = 46;
const BISECTIONS: usize = 60;
/// Variables that are solved for.
const MAX_VARIABLES: usize = 3;

/// Whether `a = 0` and `b = 0` have the same real solutions; `None` when none are found.
pub(super) fn same_solutions(a: &Expr, b: &Expr) -> Option<Verdict> {
    match (solves(a, b), solves(b, a)) {
        (Some(false), _) | (_, Some(false)) => Some(Verdict::Different),
        // In one variable they may still be a problem and its solution, x³ = 8 and x = 2.
        (Some(true), Some(true)) if a.variables().len() > 1 && !may_hide(a) && !may_hide(b) => {
            Some(Verdict::Equal)
        }
        (None, None) => None,
        _ => Some(Verdict::Undecided(Reason::Inconclusive)),
    }
}

/// True for a product: one factor may have solutions that are not found, (x − 1)²·y = 0.
fn may_hide(expr: &Expr) -> bool {
    match expr {
        Expr::Sum(terms) => {
            let mut rest = terms.iter().map(|(_, term)| term).filter(|term| **term != Expr::integer(0));
            matches!((rest.next(), rest.next()), (Some(only), None) if may_hide(only))
        }
        Expr::Product(factors) => {
            factors.iter().filter(|(divides, factor)| !divides && !factor.variables().is_empty()).count() > 1
        }
        Expr::Power(..) | Expr::Call(..) => true,
        _ => false,
    }
}

/// True when the solutions of `a = 0` that are found solve `b = 0`; `None` when there are none, or it is unclear.
fn solves(a: &Expr, b: &Expr) -> Option<bool> {
    let mut found = false;
    let mut names = a.variables();
    names.extend(b.variables());
    names.sort();
    names.dedup();
    for name in names.iter().take(MAX_VARIABLES) {
        for round in 0..ROUNDS {
            let at = |expr: &Expr, x: f64| {
                let place =
                    SamplePoint { round, points: Points::Positive, fixed: Some((name, x)), real: false };
                numeric::value_at(expr, place).filter(|value| value.im == 0.0).map(|value| value.re)
            };
            for (left, right) in sign_changes(|x| at(a, x)) {
                let Some(solution) = bisect(|x| at(a, x), left, right) else { continue };
                let Some(rest) = at(b, solution) else { continue };
                // What `b` is nearby says how small is small.
                let scale =
                    [left, right].into_iter().filter_map(|x| at(b, x)).fold(0.0, |a: f64, b| a.max(b.abs()));
                if rest.abs() > scale.max(1e-9) * 1e-3 {
                    return Some(false);
                }
                if rest.abs() > scale * 1e-9 {
                    return None;
                }
                found = true;
            }
        }
    }
    found.then_some(true)
}

/// Neighbouring places between which `f` changes its sign.
pub(super) fn sign_changes(f: impl Fn(f64) -> Option<f64>) -> Vec<(f64, f64)> {
    let far = |step: i32| 0.037 * 1.6f64.powi(step);
    let places: Vec<(f64, Option<f64>)> =
        (0..STEPS).rev().map(|step| -far(step)).chain((0..STEPS).map(far)).map(|x| (x, f(x))).collect();
    places
        .windows(2)
        .filter(|pair| matches!((pair[0].1, pair[1].1), (Some(a), Some(b)) if a * b < 0.0))
        .map(|pair| (pair[0].0, pair[1].0))
        .collect()
}

/// Where `f` is zero between two places; `None` at a pole, where it grows instead.
pub(super) fn bisect(f: impl Fn(f64) -> Option<f64>, mut left: f64, mut right: f64) -> Option<f64> {
    let start = f(left)?;
    let size = start.abs().max(f(right)?.abs());
    for _ in 0..BISECTIONS {
        let middle = f64::midpoint(left, right);
        if f(middle)? * start > 0.0 {
            left = middle;
        } else {
            right = middle;
        }
    }
    let solution = f64::midpoint(left, right);
    (f(solution)?.abs() <= size * 1e-9).then_some(solution)
}
