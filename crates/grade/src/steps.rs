//! Exact arguments for floors, ceilings, remainders, roots and absolute values.
//!
//! - [`same_parts`]: parts that are equal get one name each, and what is left is compared as a rational function:
//!   `1 + ⌊n/2⌋` and `⌊n/2⌋ + 1`.
//! - [`prove`]: floors and ceilings of linear terms of one variable repeat with a period. A polynomial in them and in the
//!   variable is zero when it is at enough points of each cell of enough periods: `⌊x + 1⌋` and `⌊x⌋ + 1`.

use std::cell::RefCell;

use dashu_base::{Abs, Gcd, UnsignedAbs};
use dashu_int::{IBig, UBig};
use dashu_ratio::RBig;

use super::expr::{Expr, Function};
use super::{decide, exact, solve};

/// Parts that get names.
const MAX_PARTS: usize = 16;
/// Points at which a difference is evaluated.
const MAX_POINTS: i64 = 2_000;
/// Nodes that are evaluated at all points together.
const MAX_WORK: i64 = 200_000;
const MAX_DEGREE: usize = 4;

/// True when `a` and `b` are the same rational function of their variables and of their parts.
pub(super) fn same_parts(a: &Expr, b: &Expr) -> bool {
    let parts = RefCell::new(Vec::new());
    let (Some(a), Some(b)) = (named(a, &parts), named(b, &parts)) else { return false };
    decide::by_field(&a, &b) == Some(true)
}

/// The expression with every part replaced by a variable.
fn named(expr: &Expr, parts: &RefCell<Vec<Expr>>) -> Option<Expr> {
    let is_part = match expr {
        Expr::Call(..) => exact::value(expr).is_none(),
        Expr::Root(_, inner) => !decide::is_constant(inner),
        Expr::Power(base, exponent) => {
            (!decide::is_constant(base) || !decide::is_constant(exponent))
                && !exact::value(exponent).is_some_and(|exponent| exponent.is_int())
        }
        _ => false,
    };
    if !is_part {
        let failed = RefCell::new(false);
        let mapped = expr.map_children(&|child| {
            named(child, parts).unwrap_or_else(|| {
                *failed.borrow_mut() = true;
                child.clone()
            })
        });
        return (!failed.into_inner()).then_some(mapped);
    }
    let known = parts.borrow().iter().position(|part| is_same(part, expr));
    let index = match known {
        Some(index) => index,
        None => {
            let mut parts = parts.borrow_mut();
            if parts.len() == MAX_PARTS {
                return None;
            }
            parts.push(expr.clone());
            parts.len() - 1
        }
    };
    Some(Expr::Variable(format!("part {index}")))
}

/// The same function of equal arguments.
fn is_same(a: &Expr, b: &Expr) -> bool {
    let equal = |a: &Expr, b: &Expr| a == b || decide::by_field(a, b) == Some(true);
    match (a, b) {
        (Expr::Call(f, first), Expr::Call(g, second)) => {
            f == g && first.len() == second.len() && first.iter().zip(second).all(|(a, b)| equal(a, b))
        }
        (Expr::Root(m, first), Expr::Root(n, second)) | (Expr::Power(first, m), Expr::Power(second, n)) => {
            equal(m, n) && equal(first, second)
        }
        _ => false,
    }
}

/// True when `a` and `b` are equal for all real values of their one variable.
pub(super) fn prove(a: &Expr, b: &Expr) -> bool {
    let mut names = a.variables();
    names.extend(b.variables());
    names.sort();
    names.dedup();
    let [name] = names.as_slice() else { return false };
    proof(a, b, name).unwrap_or(false)
}

fn proof(a: &Expr, b: &Expr, name: &str) -> Option<bool> {
    let degree = degree(a, name)?.max(degree(b, name)?);
    if degree > MAX_DEGREE {
        return None;
    }
    let mut slopes = Vec::new();
    collect(a, name, &mut slopes)?;
    collect(b, name, &mut slopes)?;
    // A step of slope p/q and offset r/s jumps at multiples of q/(p·s) and repeats after q/p.
    let mut period = RBig::ZERO;
    let mut cell = RBig::ZERO;
    for (slope, offset) in &slopes {
        let step = RBig::ONE / slope.clone();
        let jump = step.clone() / RBig::from(offset.denominator().clone());
        period = common(&period, &step, true);
        cell = common(&cell, &jump, false);
    }
    let (points_per_cell, periods) = (degree as i64 + 2, degree as i64 + 1);
    let cells = exact::integer(&(period / cell.clone()))?.checked_mul(periods)?;
    let count = cells.checked_mul(points_per_cell)?;
    let work = count.checked_mul(i64::try_from(a.size() + b.size()).ok()?)?;
    if count > MAX_POINTS || work > MAX_WORK {
        return None;
    }
    let step = cell / RBig::from(points_per_cell);
    for index in -1..=count {
        let point = Expr::Number { value: step.clone() * RBig::from(index), decimals: 0 };
        let value = |expr: &Expr| exact::value(&expr.substitute(name, &point));
        if value(a)? != value(b)? {
            return Some(false);
        }
    }
    Some(true)
}

/// The least common multiple or greatest common divisor of two rationals; zero is neutral.
fn common(a: &RBig, b: &RBig, multiple: bool) -> RBig {
    let b = b.clone().abs();
    if a.is_zero() {
        return b;
    }
    let (first, second) = (a.numerator().clone().unsigned_abs(), b.numerator().clone().unsigned_abs());
    let (below, under) = (a.denominator().clone(), b.denominator().clone());
    let gcd = |x: &UBig, y: &UBig| x.clone().gcd(y.clone());
    let lcm = |x: &UBig, y: &UBig| x * y / gcd(x, y);
    let (top, bottom) = if multiple {
        (lcm(&first, &second), gcd(&below, &under))
    } else {
        (gcd(&first, &second), lcm(&below, &under))
    };
    RBig::from_parts(IBig::from(top), bottom)
}

/// How fast a polynomial in the variable and its steps grows; `None` for anything else.
fn degree(expr: &Expr, name: &str) -> Option<usize> {
    match expr {
        Expr::Variable(_) => Some(1),
        _ if !expr.variables().iter().any(|variable| variable == name) => exact::value(expr).map(|_| 0),
        Expr::Sum(terms) => {
            terms.iter().map(|(_, term)| degree(term, name)).try_fold(0, |a, b| Some(a.max(b?)))
        }
        Expr::Product(factors) => factors
            .iter()
            .map(|(divides, factor)| degree(factor, name).filter(|degree| !divides || *degree == 0))
            .try_fold(0, |a, b| Some(a + b?)),
        Expr::Power(base, exponent) => {
            let exponent = usize::try_from(exact::integer(&exact::value(exponent)?)?).ok()?;
            degree(base, name)?.checked_mul(exponent)
        }
        Expr::Call(Function::Floor | Function::Ceil, _) => Some(1),
        _ => None,
    }
}

/// Slopes and offsets of the linear arguments of all steps; `None` when one is not linear.
fn collect(expr: &Expr, name: &str, slopes: &mut Vec<(RBig, RBig)>) -> Option<()> {
    if let Expr::Call(Function::Floor | Function::Ceil, arguments) = expr
        && !expr.variables().is_empty()
    {
        let coefficients = solve::polynomial(arguments.first()?, name)?;
        let [offset, slope] = coefficients.as_slice() else { return None };
        let slope = exact::value(slope).filter(|slope| !slope.is_zero())?;
        slopes.push((slope, exact::value(offset)?));
        return Some(());
    }
    for child in expr.children() {
        collect(child, name, slopes)?;
    }
    Some(())
}
