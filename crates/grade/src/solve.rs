//! Inequalities in one variable, solved: linear and quadratic ones, and |u| against a constant.
//!
//! Coefficients may be any constants; the ends of the solution are written with them, so they are compared exactly.

use super::expr::{Bracket, Expr, Function, Relation, Sign};
use super::intervals::{Part, meet};
use super::numeric::{self, Points};
use super::{Verdict, decide, exact};

/// Largest degree in between; what is left after like terms are collected is at most quadratic.
const MAX_DEGREE: usize = 6;

/// The solutions of `a < b ≤ c …` in its one variable. `None` when it has several, or is not of a kind that is solved.
pub(super) fn inequality(members: &[Expr], relations: &[Relation]) -> Option<Vec<Part>> {
    let mut names: Vec<String> = members.iter().flat_map(Expr::variables).collect();
    names.sort();
    names.dedup();
    let [name] = names.as_slice() else { return None };
    let mut all: Option<Vec<Part>> = None;
    for (pair, relation) in members.windows(2).zip(relations) {
        let next = comparison(&pair[0], &pair[1], *relation, name)?;
        all = Some(match all {
            None => next,
            Some(last) => meet(&last, &next),
        });
    }
    all
}

fn comparison(left: &Expr, right: &Expr, relation: Relation, name: &str) -> Option<Vec<Part>> {
    if relation == Relation::Equal {
        return None;
    }
    let difference = subtract(left, right);
    match absolute_value(&difference) {
        None => polynomial_sign(&difference, relation, name),
        // `3|u| + 1 > 9`: solved for |u| first.
        Some(node @ Expr::Call(_, inner)) => {
            let linear = polynomial(&replace(&difference, node, "|u|"), "|u|")?;
            let [constant, slope] = linear.as_slice() else { return None };
            let relation = if sign(slope)? > 0 { relation } else { relation.flipped() };
            absolute(inner.first()?, &quotient(&negate(constant), slope), relation, name)
        }
        Some(_) => None,
    }
}

/// The first absolute value of a variable.
fn absolute_value(expr: &Expr) -> Option<&Expr> {
    match expr {
        Expr::Call(Function::Abs, _) if !expr.variables().is_empty() => Some(expr),
        other => other.children().into_iter().find_map(absolute_value),
    }
}

/// The expression with a node replaced by a variable.
fn replace(expr: &Expr, node: &Expr, name: &str) -> Expr {
    if expr == node {
        return Expr::Variable(name.to_owned());
    }
    expr.map_children(&|child| replace(child, node, name))
}

/// `|inner| < bound` is `-bound < inner < bound`, and `>` is either side.
fn absolute(inner: &Expr, bound: &Expr, relation: Relation, name: &str) -> Option<Vec<Part>> {
    if !bound.variables().is_empty() {
        return None;
    }
    let negative = negate(bound);
    let above = |bound: &Expr, relation| polynomial_sign(&subtract(inner, bound), relation, name);
    match relation {
        Relation::Less => Some(meet(&above(bound, Relation::Less)?, &above(&negative, Relation::Greater)?)),
        Relation::LessEqual => {
            Some(meet(&above(bound, Relation::LessEqual)?, &above(&negative, Relation::GreaterEqual)?))
        }
        Relation::Greater | Relation::GreaterEqual => {
            let mut either = above(bound, relation)?;
            either.extend(above(&negative, relation.flipped())?);
            Some(either)
        }
        Relation::Equal | Relation::NotEqual => None,
    }
}

/// Where a polynomial of degree two or less is below, above or not zero.
fn polynomial_sign(expr: &Expr, relation: Relation, name: &str) -> Option<Vec<Part>> {
    let mut coefficients = polynomial(expr, name)?;
    while coefficients.len() > 1 && sign(coefficients.last()?)? == 0 {
        coefficients.pop();
    }
    let leading = sign(coefficients.last()?)?;
    let roots = match coefficients.as_slice() {
        [_] => Vec::new(),
        [b, a] => vec![quotient(&negate(b), a)],
        [c, b, a] => {
            let four = product(&[Expr::integer(4), a.clone(), c.clone()]);
            let discriminant = subtract(&product(&[b.clone(), b.clone()]), &four);
            let twice = product(&[Expr::integer(2), a.clone()]);
            match sign(&discriminant)? {
                0 => vec![quotient(&negate(b), &twice)],
                1 => {
                    let root = Expr::Root(Box::new(Expr::integer(2)), Box::new(discriminant));
                    let below = quotient(&subtract(&negate(b), &root), &twice);
                    let above =
                        quotient(&Expr::Sum(vec![(Sign::Plus, negate(b)), (Sign::Plus, root)]), &twice);
                    if leading > 0 { vec![below, above] } else { vec![above, below] }
                }
                _ => Vec::new(),
            }
        }
        _ => return None,
    };
    // The sign right of all roots is that of the leading coefficient; it changes at every simple root.
    let double = coefficients.len() == 3 && roots.len() == 1;
    let wanted = |sign: i32| match relation {
        Relation::Less | Relation::LessEqual => sign < 0,
        Relation::Greater | Relation::GreaterEqual => sign > 0,
        _ => sign != 0,
    };
    let closed = matches!(relation, Relation::LessEqual | Relation::GreaterEqual);
    let constant_zero = leading == 0;
    if constant_zero {
        return Some(if closed { vec![everything()?] } else { Vec::new() });
    }
    let bracket = if closed { Bracket::Square } else { Bracket::Round };
    let mut parts = Vec::new();
    for region in 0..=roots.len() {
        let changes = if double { 0 } else { roots.len() - region };
        if !wanted(if changes % 2 == 0 { leading } else { -leading }) {
            continue;
        }
        let low = region.checked_sub(1).map(|index| &roots[index]);
        let high = roots.get(region);
        parts.push(Part::new(
            if low.is_some() { bracket } else { Bracket::Round },
            low.unwrap_or(&infinity(false)),
            high.unwrap_or(&infinity(true)),
            if high.is_some() { bracket } else { Bracket::Round },
        )?);
    }
    if closed {
        for root in &roots {
            parts.push(Part::new(Bracket::Square, root, root, Bracket::Square)?);
        }
    }
    Some(parts)
}

fn everything() -> Option<Part> {
    Part::new(Bracket::Round, &infinity(false), &infinity(true), Bracket::Round)
}

fn infinity(positive: bool) -> Expr {
    if positive { Expr::Infinity } else { negate(&Expr::Infinity) }
}

/// The coefficients of a polynomial in `name`, from the constant up. `None` for anything else.
pub(super) fn polynomial(expr: &Expr, name: &str) -> Option<Vec<Expr>> {
    let is_name = |variable: &String| variable == name;
    match expr {
        Expr::Variable(variable) if is_name(variable) => Some(vec![Expr::integer(0), Expr::integer(1)]),
        constant if !constant.variables().iter().any(is_name) => Some(vec![constant.clone()]),
        Expr::Sum(terms) => {
            let mut total: Vec<Expr> = Vec::new();
            for (sign, term) in terms {
                if !matches!(sign, Sign::Plus | Sign::Minus) {
                    return None;
                }
                for (power, coefficient) in polynomial(term, name)?.into_iter().enumerate() {
                    if total.len() <= power {
                        total.resize(power + 1, Expr::integer(0));
                    }
                    total[power] =
                        tidy(Expr::Sum(vec![(Sign::Plus, total[power].clone()), (*sign, coefficient)]));
                }
            }
            Some(total)
        }
        Expr::Product(factors) => {
            let mut total = vec![Expr::integer(1)];
            for (divides, factor) in factors {
                let factor = polynomial(factor, name)?;
                if !divides {
                    total = multiply(&total, &factor)?;
                } else if let [constant] = factor.as_slice() {
                    total = total.iter().map(|coefficient| quotient(coefficient, constant)).collect();
                } else {
                    return None;
                }
            }
            Some(total)
        }
        Expr::Power(base, exponent) => {
            let exponent = usize::try_from(exact::integer(&exact::value(exponent)?)?).ok()?;
            let base = polynomial(base, name)?;
            if exponent > MAX_DEGREE {
                return None;
            }
            let mut total = vec![Expr::integer(1)];
            for _ in 0..exponent {
                total = multiply(&total, &base)?;
            }
            Some(total)
        }
        _ => None,
    }
}

fn multiply(a: &[Expr], b: &[Expr]) -> Option<Vec<Expr>> {
    if a.len() + b.len() > MAX_DEGREE + 2 {
        return None;
    }
    let mut result = vec![Expr::integer(0); a.len() + b.len() - 1];
    for (i, x) in a.iter().enumerate() {
        for (j, y) in b.iter().enumerate() {
            let term = product(&[x.clone(), y.clone()]);
            result[i + j] = tidy(Expr::Sum(vec![(Sign::Plus, result[i + j].clone()), (Sign::Plus, term)]));
        }
    }
    Some(result)
}

/// Rational constants as one number, which keeps coefficients small.
fn tidy(expr: Expr) -> Expr {
    match exact::value(&expr) {
        Some(value) => Expr::Number { value, decimals: 0 },
        None => expr,
    }
}

pub(super) fn negate(expr: &Expr) -> Expr {
    tidy(Expr::Sum(vec![(Sign::Minus, expr.clone())]))
}

pub(super) fn subtract(left: &Expr, right: &Expr) -> Expr {
    tidy(Expr::Sum(vec![(Sign::Plus, left.clone()), (Sign::Minus, right.clone())]))
}

fn product(factors: &[Expr]) -> Expr {
    tidy(Expr::Product(factors.iter().map(|factor| (false, factor.clone())).collect()))
}

pub(super) fn quotient(top: &Expr, bottom: &Expr) -> Expr {
    tidy(Expr::Product(vec![(false, top.clone()), (true, bottom.clone())]))
}

/// The sign of a constant: 1, 0 or -1.
pub(super) fn sign(constant: &Expr) -> Option<i32> {
    if !constant.variables().is_empty() {
        return None;
    }
    if decide::scalars(constant, &Expr::integer(0)) == Verdict::Equal {
        return Some(0);
    }
    let value = numeric::value(constant, 0, Points::Positive)?;
    (value.im == 0.0 && value.re.abs() > value.err * 4.0).then_some(if value.re > 0.0 { 1 } else { -1 })
}
