//! Sets by a condition: `{x | x > 2}` as an interval, `{x ∈ ℤ | -2 < x < 3}` as its elements, others up to the name of
//! their variable.

use super::expr::Expr;
use super::parse::is_equation;
use super::{Reason, Verdict, equal, intervals, piecewise};

/// The set `{head | condition}` in a simpler form: all reals that fulfil a condition, or a few whole numbers.
pub(super) fn elements(head: &Expr, condition: &Expr) -> Option<Expr> {
    let (name, domain) = match head {
        Expr::Variable(name) => (name, None),
        Expr::Member(name, domain) => match &**name {
            Expr::Variable(name) => (name, Some(&**domain)),
            _ => return None,
        },
        _ => return None,
    };
    if condition.variables() != std::slice::from_ref(name) {
        return None;
    }
    match domain {
        None => real_elements(condition),
        Some(domain) if *domain == Expr::reals() => real_elements(condition),
        Some(Expr::Text(domain)) if matches!(domain.as_str(), "integers" | "natural numbers") => {
            let mut found = piecewise::integers_in(condition)?;
            if domain == "natural numbers" {
                // Whether 0 is natural is a matter of taste.
                if found.contains(&Expr::integer(0)) {
                    return None;
                }
                found.retain(|element| !matches!(element, Expr::Number { value, .. } if *value < dashu_ratio::RBig::ZERO));
            }
            Some(if found.is_empty() { Expr::empty_set() } else { Expr::Set(found) })
        }
        _ => None,
    }
}

fn real_elements(condition: &Expr) -> Option<Expr> {
    match condition {
        Expr::Chain(_, relations) if is_equation(relations) => match condition {
            Expr::Chain(members, _) if matches!(members.as_slice(), [Expr::Variable(_), _]) => {
                Some(Expr::Set(vec![members[1].clone()]))
            }
            _ => None,
        },
        Expr::Chain(..) | Expr::Union(_) => Some(condition.clone()),
        // Several conditions hold together.
        Expr::List(_) => intervals::intersection(condition).map(Expr::Union),
        Expr::Member(_, set) => Some((**set).clone()),
        _ => None,
    }
}

/// Two sets that stay definitions: equal when they are alike up to the name of their variable.
pub(super) fn compare(a: &Expr, b: &Expr) -> Verdict {
    let (names, others) = (a.variables(), b.variables());
    let renamed = match (names.as_slice(), others.as_slice()) {
        ([name], [other]) if name != other => b.substitute(other, &Expr::Variable(name.clone())),
        _ => b.clone(),
    };
    match (a, &renamed) {
        (Expr::Builder(head, condition), Expr::Builder(other_head, other_condition)) => {
            let same = |a: &Expr, b: &Expr| a == b || equal::same(a, b) == Verdict::Equal;
            if same(head, other_head) && same(condition, other_condition) {
                Verdict::Equal
            } else {
                Verdict::Undecided(Reason::Inconclusive)
            }
        }
        _ => Verdict::Undecided(Reason::Inconclusive),
    }
}
