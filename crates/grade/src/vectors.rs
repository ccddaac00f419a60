//! Vectors written with unit vectors: `i + 2j` and `3\hat{i} - \hat{k}` as their components.

use super::expr::{Expr, Sign};

/// The components along i, j and k. `None` when the expression is not linear in them, or may be a complex number: `1 + 2i`
/// has no j, no k and no accent.
pub(super) fn components(expr: &Expr) -> Option<[Expr; 3]> {
    let is_vector = |node: &Expr| matches!(axis(node), Some(axis) if axis > 0 || *node != Expr::Imaginary);
    if !expr.any(&is_vector) {
        return None;
    }
    linear(expr)
}

/// Which unit vector a node is.
fn axis(expr: &Expr) -> Option<usize> {
    let name = match expr {
        Expr::Imaginary => "i",
        Expr::Variable(name) => name.as_str(),
        _ => return None,
    };
    let letter = ["hat ", "vec ", "widehat ", "bar ", "overrightarrow "]
        .iter()
        .find_map(|accent| name.strip_prefix(accent))
        .unwrap_or(name);
    match letter {
        "i" | "imath" => Some(0),
        "j" | "jmath" => Some(1),
        "k" => Some(2),
        _ => None,
    }
}

fn linear(expr: &Expr) -> Option<[Expr; 3]> {
    let zero = || [Expr::integer(0), Expr::integer(0), Expr::integer(0)];
    if let Some(axis) = axis(expr) {
        let mut unit = zero();
        unit[axis] = Expr::integer(1);
        return Some(unit);
    }
    match expr {
        Expr::Sum(terms) => {
            let mut sums = [Vec::new(), Vec::new(), Vec::new()];
            for (sign, term) in terms {
                if !matches!(sign, Sign::Plus | Sign::Minus) {
                    return None;
                }
                for (sum, component) in sums.iter_mut().zip(linear(term)?) {
                    sum.push((*sign, component));
                }
            }
            Some(sums.map(Expr::Sum))
        }
        Expr::Product(factors) => {
            let has_axis = |factor: &Expr| factor.any(&|node| axis(node).is_some());
            let at = factors.iter().position(|(divides, factor)| !divides && has_axis(factor))?;
            let others: Vec<_> = factors
                .iter()
                .enumerate()
                .filter(|(index, _)| *index != at)
                .map(|(_, factor)| factor)
                .collect();
            if others.iter().any(|(_, factor)| has_axis(factor)) {
                return None;
            }
            let scaled = |component: Expr| {
                let mut factors: Vec<_> = others.iter().map(|factor| (*factor).clone()).collect();
                factors.push((false, component));
                Expr::Product(factors)
            };
            Some(linear(&factors[at].1)?.map(scaled))
        }
        _ => None,
    }
}
