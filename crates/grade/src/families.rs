//! Families of solutions: `π/2 + 2kπ, k ∈ ℤ`. The name of the parameter does not matter, nor where it starts to count.

use super::expr::{Expr, Sign};
use super::{Reason, Verdict, equal};

const UNDECIDED: Verdict = Verdict::Undecided(Reason::Inconclusive);

/// Compares two lists of which at least one declares a parameter; `None` when neither does.
pub(super) fn compare(a: &[Expr], b: &[Expr]) -> Option<Verdict> {
    let (values_a, names_a) = split(a);
    let (values_b, names_b) = split(b);
    let same = |a: &[Expr], b: &[Expr]| equal::same(&list(a), &list(b)) == Verdict::Equal;
    match (names_a.as_slice(), names_b.as_slice()) {
        ([], []) => None,
        ([name], [other]) => {
            // k → ±k + c runs through the same whole numbers.
            let runs = [
                (Sign::Plus, 0),
                (Sign::Plus, 1),
                (Sign::Plus, -1),
                (Sign::Minus, 0),
                (Sign::Minus, 1),
                (Sign::Minus, -1),
            ];
            let equal = runs.into_iter().any(|(sign, start)| {
                let index = Expr::Sum(vec![
                    (sign, Expr::Variable((*name).to_owned())),
                    (Sign::Plus, Expr::integer(start)),
                ]);
                let renamed: Vec<Expr> =
                    values_b.iter().map(|value| value.substitute(other, &index)).collect();
                same(&values_a, &renamed)
            });
            Some(if equal { Verdict::Equal } else { UNDECIDED })
        }
        // One side leaves the declaration out.
        ([_], []) | ([], [_]) if same(&values_a, &values_b) => Some(Verdict::Equal),
        _ => Some(UNDECIDED),
    }
}

/// True when two answers differ in the names of constants or parameters only: `x² + C` and `x² + K`, `kπ` and `nπ`. A question
/// may have given them their names.
pub(super) fn same_but_names(a: &Expr, b: &Expr) -> bool {
    let is_arbitrary = |name: &&String| {
        matches!(name.as_str(), "C" | "K" | "c" | "k" | "n" | "m" | "C_1" | "C_2" | "c_1" | "c_2")
    };
    // A letter by itself is an answer of its own.
    if !matches!(a, Expr::Sum(_) | Expr::Product(_) | Expr::Chain(..)) {
        return false;
    }
    let (names, others) = (a.variables(), b.variables());
    let own: Vec<&String> = names.iter().filter(|name| !others.contains(name)).collect();
    let foreign: Vec<&String> = others.iter().filter(|name| !names.contains(name)).collect();
    if own.is_empty() || own.len() != foreign.len() || !own.iter().chain(&foreign).all(is_arbitrary) {
        return false;
    }
    let renamed = own.iter().zip(&foreign).fold(b.clone(), |renamed, (name, other)| {
        renamed.substitute(other, &Expr::Variable((*name).clone()))
    });
    equal::same(a, &renamed) == Verdict::Equal
}

fn list(values: &[Expr]) -> Expr {
    match values {
        [only] => only.clone(),
        several => Expr::List(several.to_vec()),
    }
}

/// The values of a list and the names that it declares to be whole numbers.
fn split(items: &[Expr]) -> (Vec<Expr>, Vec<&str>) {
    let mut values = Vec::new();
    let mut names = Vec::new();
    for item in items {
        match item {
            Expr::Member(name, set) if **set == Expr::Text("integers".into()) => match &**name {
                Expr::Variable(name) => names.push(name.as_str()),
                _ => values.push(item.clone()),
            },
            _ => values.push(item.clone()),
        }
    }
    (values, names)
}
