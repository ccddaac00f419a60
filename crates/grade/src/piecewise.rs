//! Piecewise definitions in one variable: compared at the places where their conditions change, and between them.

use dashu_ratio::RBig;

use super::expr::{Expr, Function, Relation};
use super::numeric::{self, Points};
use super::{Reason, Verdict, decide, equal, exact, intervals, solve};

const UNDECIDED: Verdict = Verdict::Undecided(Reason::Inconclusive);
/// Places where conditions change.
const MAX_PLACES: usize = 16;

/// Compares a piecewise definition with another or with a single expression.
pub(super) fn compare(a: &Expr, b: &Expr) -> Verdict {
    match in_one_variable(a, b) {
        Some(Verdict::Undecided(_)) | None => alike(a, b),
        Some(verdict) => verdict,
    }
}

/// Equal when the branches pair up, in any order.
fn alike(a: &Expr, b: &Expr) -> Verdict {
    let (Expr::Cases(a), Expr::Cases(b)) = (a, b) else { return UNDECIDED };
    let same = |first: &(Expr, Option<Expr>), second: &(Expr, Option<Expr>)| {
        let conditions = match (&first.1, &second.1) {
            (Some(a), Some(b)) => equal::same(a, b) == Verdict::Equal,
            (a, b) => a == b,
        };
        conditions && equal::same(&first.0, &second.0) == Verdict::Equal
    };
    let paired = a.len() == b.len()
        && a.iter().all(|branch| b.iter().any(|other| same(branch, other)))
        && b.iter().all(|branch| a.iter().any(|other| same(other, branch)));
    if paired { Verdict::Equal } else { UNDECIDED }
}

fn in_one_variable(a: &Expr, b: &Expr) -> Option<Verdict> {
    let mut names = a.variables();
    names.extend(b.variables());
    names.sort();
    names.dedup();
    let [name] = names.as_slice() else { return None };
    let mut places = Vec::new();
    collect_places(a, name, &mut places)?;
    collect_places(b, name, &mut places)?;
    let mut sorted: Vec<(f64, Expr)> = Vec::new();
    for place in places {
        let value = numeric::value(&place, 0, Points::Positive).filter(|value| value.im == 0.0)?;
        if !sorted.iter().any(|(_, known)| decide::scalars(known, &place) == Verdict::Equal) {
            sorted.push((value.re, place));
        }
        if sorted.len() > MAX_PLACES {
            return None;
        }
    }
    sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut result = Verdict::Equal;
    for (_, place) in &sorted {
        match at_point(a, b, name, place) {
            Verdict::Different => return Some(Verdict::Different),
            Verdict::Equal => {}
            undecided => result = undecided,
        }
    }
    for region in 0..=sorted.len() {
        let low = region.checked_sub(1).map(|index| sorted[index].0);
        let high = sorted.get(region).map(|(place, _)| *place);
        match between(a, b, name, low, high)? {
            Verdict::Different => return Some(Verdict::Different),
            Verdict::Equal => {}
            undecided => result = undecided,
        }
    }
    Some(result)
}

/// Where conditions change, and the corners of absolute values. `None` when that is not known.
fn collect_places(expr: &Expr, name: &str, places: &mut Vec<Expr>) -> Option<()> {
    let mut add_root = |expr: &Expr| {
        let coefficients = solve::polynomial(expr, name)?;
        match coefficients.as_slice() {
            [_] => {}
            [constant, slope] => places.push(solve::quotient(&solve::negate(constant), slope)),
            _ => return None,
        }
        Some(())
    };
    match expr {
        Expr::Cases(branches) => {
            for (value, condition) in branches {
                collect_places(value, name, places)?;
                if let Some(condition) = condition {
                    collect_places(condition, name, places)?;
                }
            }
        }
        Expr::Chain(members, _) => {
            for pair in members.windows(2) {
                add_root(&solve::subtract(&pair[0], &pair[1]))?;
            }
        }
        Expr::List(items) => {
            for item in items {
                collect_places(item, name, places)?;
            }
        }
        Expr::Call(Function::Abs, arguments) => add_root(arguments.first()?)?,
        Expr::Call(Function::Floor | Function::Ceil | Function::Mod, _)
        | Expr::Member(..)
        | Expr::Text(_) => {
            return None;
        }
        other => {
            for child in other.children() {
                collect_places(child, name, places)?;
            }
        }
    }
    Some(())
}

fn at_point(a: &Expr, b: &Expr, name: &str, place: &Expr) -> Verdict {
    let value = |expr: &Expr| branch(expr, name, place).map(|value| value.substitute(name, place));
    match (value(a), value(b)) {
        (Some(a), Some(b)) => decide::scalars(&a, &b),
        (None, None) => Verdict::Equal,
        // One leaves out a single point.
        _ => UNDECIDED,
    }
}

/// Compares two definitions where neither changes; `None` when no rational number lies there.
fn between(a: &Expr, b: &Expr, name: &str, low: Option<f64>, high: Option<f64>) -> Option<Verdict> {
    let points: Vec<f64> = match (low, high) {
        (None, None) => vec![-7.25, -0.75, 0.5, 3.25, 11.0],
        (None, Some(high)) => vec![high - 0.5, high - 3.0, high - 12.25, high - 100.0],
        (Some(low), None) => vec![low + 0.5, low + 3.0, low + 12.25, low + 100.0],
        (Some(low), Some(high)) => [0.5, 0.25, 0.75, 0.875].map(|part| low + part * (high - low)).to_vec(),
    };
    let points: Vec<Expr> = points
        .into_iter()
        .map(|point| Some(Expr::Number { value: RBig::simplest_from_f64(point)?, decimals: 0 }))
        .collect::<Option<_>>()?;
    let (first, second) = match (branch(a, name, &points[0]), branch(b, name, &points[0])) {
        (Some(first), Some(second)) => (first, second),
        (None, None) => return Some(Verdict::Equal),
        _ => return Some(Verdict::Different),
    };
    if decide::scalars(&first, &second) == Verdict::Equal {
        return Some(Verdict::Equal);
    }
    // |x| and x are different functions, but the same where x is positive.
    let mut result = Verdict::Equal;
    for point in &points {
        match decide::scalars(&first.substitute(name, point), &second.substitute(name, point)) {
            Verdict::Different => return Some(Verdict::Different),
            Verdict::Equal => {}
            undecided => result = undecided,
        }
    }
    Some(result)
}

/// The expression that holds at a place; `None` where nothing is defined.
fn branch(expr: &Expr, name: &str, place: &Expr) -> Option<Expr> {
    let Expr::Cases(branches) = expr else { return Some(expr.clone()) };
    let holds =
        |condition: &Option<Expr>| condition.as_ref().is_none_or(|condition| holds(condition, name, place));
    branches.iter().find(|(_, condition)| holds(condition)).map(|(value, _)| value.clone())
}

fn holds(condition: &Expr, name: &str, place: &Expr) -> bool {
    match condition {
        Expr::List(all) => all.iter().all(|condition| holds(condition, name, place)),
        Expr::Chain(members, relations) => members.windows(2).zip(relations).all(|(pair, relation)| {
            let difference = solve::subtract(&pair[0], &pair[1]).substitute(name, place);
            let sign = exact::value(&difference)
                .map(|value| value.to_f64().value().partial_cmp(&0.0))
                .unwrap_or_else(|| solve::sign(&difference).map(|sign| sign.cmp(&0)));
            sign.is_some_and(|sign| match relation {
                Relation::Equal => sign.is_eq(),
                Relation::NotEqual => sign.is_ne(),
                Relation::Less => sign.is_lt(),
                Relation::LessEqual => sign.is_le(),
                Relation::Greater => sign.is_gt(),
                Relation::GreaterEqual => sign.is_ge(),
            })
        }),
        _ => false,
    }
}

/// `{x ∈ ℤ | -2 < x < 3}` as its elements, when they are few.
pub(super) fn integers_in(condition: &Expr) -> Option<Vec<Expr>> {
    const MOST: f64 = 64.0;
    let parts = intervals::bounded(condition)?;
    let mut found = Vec::new();
    for (low, low_included, high, high_included) in parts {
        if !(low.is_finite() && high.is_finite()) || high - low > MOST {
            return None;
        }
        for whole in low.ceil() as i64..=high.floor() as i64 {
            let value = whole as f64;
            if (value == low && !low_included) || (value == high && !high_included) {
                continue;
            }
            found.push(Expr::integer(whole));
        }
    }
    Some(found)
}
