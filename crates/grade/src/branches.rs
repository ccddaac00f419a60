//! Are two functions equal on all sides of their branch points?
//!
//! Where only sums, products, powers, exponentials and the like occur, agreement at a few points proves equality: such
//! functions are analytic. Roots, absolute values, floors, remainders and inverse sines are not: √((x − 3)²) is 3 − x up
//! to 3 and x − 3 from there. With those, values of all sizes and signs, whole numbers, and both sides of every branch
//! point that is found are tried:
//!
//! - a difference at positive values proves that the two differ;
//! - one at negative values only does where an absolute value says that those are meant; with roots alone the question
//!   may say that variables are positive, so that is undecided;
//! - floors, ceilings and remainders that agree everywhere are equal only by an exact argument ([`super::steps`]);
//! - functions that agree at whole numbers alone are undecided, unless only whole numbers give them a value: (−1)ⁿ.

use super::decide::{close, is_constant};
use super::expr::{Expr, Function};
use super::numeric::{self, Approx, Points, SamplePoint};
use super::{Reason, Verdict, curves, exact, steps};

/// Points that must agree, and how many are tried.
const NEEDED: usize = 3;
const ROUNDS: u64 = 32;
/// Points of each kind that are tried where a function may branch.
const BRANCH_ROUNDS: u64 = 32;
/// Sums whose changes of sign are looked for, and variables along which.
const MAX_SUMS: usize = 12;
const MAX_VARIABLES: usize = 3;

const UNDECIDED: Verdict = Verdict::Undecided(Reason::Inconclusive);

/// Decides whether two expressions with variables have the same values.
pub(super) fn functions(a: &Expr, b: &Expr) -> Verdict {
    if needs_whole(a) || needs_whole(b) {
        return match (agree_at(a, b, Points::Integer), named_whole(a) && named_whole(b)) {
            (Verdict::Equal, true) => Verdict::Equal,
            (Verdict::Different, _) => Verdict::Different,
            _ => UNDECIDED,
        };
    }
    let first = agree_at(a, b, points_for(a, b));
    match first {
        Verdict::Equal if may_branch(a) || may_branch(b) => everywhere(a, b),
        // tanh 1000x is nearly 1 but near zero, and e^{x/10^9} is so but far from it.
        Verdict::Equal if beyond(a, b) => Verdict::Different,
        // ⌊n/2⌋ + ⌈n/2⌉ is n and sin nπ is 0 for whole n, which a question may say and an answer does not.
        Verdict::Different
            if named_whole(a)
                && named_whole(b)
                && agree_at(a, b, Points::Natural) == Verdict::Equal
                && !differs(a, b, Points::Integer)
                && !differs(a, b, Points::LargeNatural) =>
        {
            UNDECIDED
        }
        verdict => verdict,
    }
}

/// True when they differ at values that are much smaller or larger.
fn beyond(a: &Expr, b: &Expr) -> bool {
    match points_for(a, b) {
        Points::Natural => differs(a, b, Points::LargeNatural),
        _ => differs(a, b, Points::Small) || differs(a, b, Points::Wide),
    }
}

/// They agree at some positive values: do they at all others?
fn everywhere(a: &Expr, b: &Expr) -> Verdict {
    if steps::same_parts(a, b) {
        return Verdict::Equal;
    }
    let steps = has_steps(a, b);
    if differs(a, b, Points::Wide) || differs_at_branches(a, b, false) {
        // Whole numbers may be meant.
        let named = named_whole(a) && named_whole(b);
        let whole_agree =
            steps && named && !differs(a, b, Points::Natural) && !differs(a, b, Points::LargeNatural);
        return if whole_agree { UNDECIDED } else { Verdict::Different };
    }
    if differs(a, b, Points::LargeNatural) || differs(a, b, Points::Natural) {
        return Verdict::Different;
    }
    let explicit = applies(a, &[Function::Abs]) || applies(b, &[Function::Abs]);
    if differs(a, b, Points::Signed) || differs(a, b, Points::Integer) || differs_at_branches(a, b, true) {
        return if explicit || steps { Verdict::Different } else { UNDECIDED };
    }
    if steps {
        return if steps::prove(a, b) { Verdict::Equal } else { UNDECIDED };
    }
    // ln x has no value where ln |x| has one.
    if explicit && domains_differ(a, b) { UNDECIDED } else { Verdict::Equal }
}

/// True when a node that may branch depends on a variable.
pub(super) fn may_branch(expr: &Expr) -> bool {
    use Function::{Abs, Arccos, Arcsin, Ceil, Floor, Mod};
    applies(expr, &[Abs, Floor, Ceil, Mod, Arcsin, Arccos])
        || expr.any(&|node| match node {
            Expr::Root(_, inner) => !is_constant(inner),
            Expr::Power(base, exponent) => {
                !is_constant(base) && exact::value(exponent).is_some_and(|exponent| !exponent.is_int())
            }
            _ => false,
        })
}

/// True when a floor, ceiling or remainder of a variable occurs.
pub(super) fn has_steps(a: &Expr, b: &Expr) -> bool {
    let functions = [Function::Floor, Function::Ceil, Function::Mod];
    applies(a, &functions) || applies(b, &functions)
}

/// True when one of `functions` is applied to variables.
fn applies(expr: &Expr, functions: &[Function]) -> bool {
    expr.any(&|node| match node {
        Expr::Call(function, arguments) => functions.contains(function) && !arguments.iter().all(is_constant),
        _ => false,
    })
}

/// Where two expressions have values at all.
pub(super) fn points_for(a: &Expr, b: &Expr) -> Points {
    let counts = [Function::Factorial, Function::Binomial, Function::Mod];
    if applies(a, &counts) || applies(b, &counts) { Points::Natural } else { Points::Positive }
}

/// True for (−1)ⁿ and its like: a negative number to the power of a variable.
fn needs_whole(expr: &Expr) -> bool {
    expr.any(&|node| match node {
        Expr::Power(base, exponent) if is_constant(base) && !is_constant(exponent) => {
            numeric::value(base, 0, Points::Positive).is_some_and(|value| value.im == 0.0 && value.re < 0.0)
        }
        _ => false,
    })
}

/// True when all variables have names that are given to whole numbers.
fn named_whole(expr: &Expr) -> bool {
    expr.variables().iter().all(|name| is_whole_name(name))
}

/// True for a name that is given to whole numbers.
pub(super) fn is_whole_name(name: &str) -> bool {
    matches!(name, "n" | "m" | "k" | "l" | "ell" | "N" | "M" | "K")
}

/// Values of both at points of all kinds.
pub(super) fn values(a: &Expr, b: &Expr) -> Vec<(Approx, Approx)> {
    [Points::Wide, Points::Signed, Points::Integer, Points::LargeNatural]
        .into_iter()
        .flat_map(|points| (0..BRANCH_ROUNDS).map(move |round| (points, round)))
        .filter_map(|(points, round)| Some((real(a, round, points)?, real(b, round, points)?)))
        .collect()
}

fn real(expr: &Expr, round: u64, points: Points) -> Option<Approx> {
    let is_complex = expr.any(&|node| *node == Expr::Imaginary);
    numeric::value_at(expr, SamplePoint { round, points, fixed: None, real: !is_complex })
}

/// True when a point of this kind shows a difference.
fn differs(a: &Expr, b: &Expr, points: Points) -> bool {
    (0..BRANCH_ROUNDS).any(|round| match (real(a, round, points), real(b, round, points)) {
        (Some(x), Some(y)) => close(x, y) == Some(false),
        _ => false,
    })
}

/// True when one has real values where the other has none.
fn domains_differ(a: &Expr, b: &Expr) -> bool {
    (0..BRANCH_ROUNDS)
        .any(|round| real(a, round, Points::Signed).is_some() != real(b, round, Points::Signed).is_some())
}

/// Equal when enough of the points agree and none up to there differs.
fn agree_at(a: &Expr, b: &Expr, points: Points) -> Verdict {
    // Whole numbers are few, so more of them are needed.
    let (rounds, needed) = match points {
        Points::Natural | Points::Integer => (ROUNDS, 4 * NEEDED),
        _ => (ROUNDS, NEEDED),
    };
    let mut agreed = 0;
    for round in 0..rounds {
        let (Some(x), Some(y)) = (numeric::value(a, round, points), numeric::value(b, round, points)) else {
            continue;
        };
        match close(x, y) {
            Some(false) => return Verdict::Different,
            Some(true) => agreed += 1,
            None => {}
        }
        if agreed == needed {
            return Verdict::Equal;
        }
    }
    if agreed >= NEEDED { Verdict::Equal } else { UNDECIDED }
}

/// Tries both sides of the places where a sum changes its sign, one variable at a time: between any two neighbours of
/// them the functions do not branch.
fn differs_at_branches(a: &Expr, b: &Expr, negative: bool) -> bool {
    let mut sums = Vec::new();
    collect_sums(a, &mut sums);
    collect_sums(b, &mut sums);
    let mut names = a.variables();
    names.extend(b.variables());
    names.sort();
    names.dedup();
    for name in names.iter().take(MAX_VARIABLES) {
        let at = |expr: &Expr, x: f64| {
            let place =
                SamplePoint { round: 0, points: Points::Positive, fixed: Some((name, x)), real: true };
            numeric::value_at(expr, place)
        };
        let mut places: Vec<f64> = Vec::new();
        for sum in sums.iter().take(MAX_SUMS) {
            let value = |x: f64| at(sum, x).filter(|value| value.im == 0.0).map(|value| value.re);
            for (left, right) in curves::sign_changes(value) {
                places.extend(curves::bisect(value, left, right));
            }
        }
        places.sort_by(f64::total_cmp);
        // Neighbours that are one place in truth have nothing between them.
        let is_gap = |pair: &&[f64]| pair[1] - pair[0] > 1e-6 * (1.0 + pair[0].abs());
        let between = places.windows(2).filter(is_gap).map(|pair| f64::midpoint(pair[0], pair[1]));
        let around = places.iter().flat_map(|x| [x - 0.01 * (1.0 + x.abs()), x + 0.01 * (1.0 + x.abs())]);
        let differs = |x: f64| match (at(a, x), at(b, x)) {
            (Some(x), Some(y)) => close(x, y) == Some(false),
            _ => false,
        };
        if between.chain(around).filter(|x| negative || *x > 0.0).any(differs) {
            return true;
        }
    }
    false
}

/// Sums with variables, which are what roots and absolute values change their behaviour with.
fn collect_sums<'a>(expr: &'a Expr, sums: &mut Vec<&'a Expr>) {
    if matches!(expr, Expr::Sum(terms) if terms.len() > 1) && !is_constant(expr) {
        sums.push(expr);
    }
    for child in expr.children() {
        collect_sums(child, sums);
    }
}
