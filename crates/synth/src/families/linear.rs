//! One linear equation in one unknown, from `ax + b = c` to parentheses on both sides.

use crate::calc::{Calc, Op, Q};
use crate::dice::Dice;
use crate::number::Number;
use crate::plan::Plan;
use crate::unit::BARE;

/// One side: `factor (x + inner) + outer`, or `factor x + outer` without `inner`.
struct Side {
    factor: i64,
    inner: Option<i64>,
    outer: i64,
}

impl Side {
    fn text(&self, name: &str) -> String {
        let body = match self.inner {
            Some(inner) => format!("{}({name}{})", self.factor, signed(inner)),
            None => format!("{}{name}", self.factor),
        };
        format!("{body}{}", signed(self.outer))
    }

    /// The constant of the side once its parentheses are expanded, and how the solver gets it.
    fn constant(&self, calc: &mut Calc, side: &str) -> Q {
        let outer = calc.given(self.outer, BARE);
        let Some(inner) = self.inner else { return outer };
        let (factor, inner) = (calc.given(self.factor, BARE), calc.given(inner, BARE));
        let product = calc.step(
            (Op::Mul, &[factor, inner]),
            BARE,
            format!("the constant from expanding the parentheses on the {side}"),
            format!("expanding the parentheses on the {side} gives the constant {{}}"),
        );
        calc.step(
            (Op::Add, &[product, outer]),
            BARE,
            format!("the constant on the {side}"),
            format!("the constant on the {side} is {{}}"),
        )
    }
}

fn signed(n: i64) -> String {
    if n < 0 { format!(" - {}", -n) } else { format!(" + {n}") }
}

/// Both sides and the root. No constant is zero: a zero would not be written.
fn sides(d: i64, dice: &mut Dice) -> (Side, Side, i64) {
    let constant = |dice: &mut Dice| {
        let n = dice.between(2, 8 + 5 * d);
        if d >= 3 && dice.chance(0.4) { -n } else { n }
    };
    loop {
        let root = dice.between(2, 6 + 3 * d) * if d >= 3 && dice.chance(0.4) { -1 } else { 1 };
        let right_factor = if d == 1 { 0 } else { dice.between(2, 4 + d) };
        let left = Side {
            factor: right_factor + dice.between(2, 4 + d),
            inner: (d >= 4).then(|| constant(dice)),
            outer: constant(dice),
        };
        let inner = (d >= 5).then(|| constant(dice));
        let value = left.factor * (root + left.inner.unwrap_or(0)) + left.outer;
        let outer = value - right_factor * (root + inner.unwrap_or(0));
        if outer != 0 {
            return (left, Side { factor: right_factor, inner, outer }, root);
        }
    }
}

pub(super) fn plan(d: i64, dice: &mut Dice) -> Plan {
    let name = dice.pick(&["x", "y", "n", "t"]);
    let (left, right, root) = sides(d, dice);
    let mut calc = Calc::default();
    let equation = if d == 1 {
        format!("{} = {}", left.text(name), right.outer)
    } else {
        format!("{} = {}", left.text(name), right.text(name))
    };

    let from = left.constant(&mut calc, "left");
    let to = right.constant(&mut calc, "right");
    let mut factor = calc.given(left.factor, BARE);
    if d >= 2 {
        let other = calc.given(right.factor, BARE);
        factor = calc.step(
            (Op::Sub, &[factor, other]),
            BARE,
            format!("the coefficient of {name} with all {name} terms on the left"),
            format!("the coefficient of {name} on the left becomes {{}}"),
        );
    }
    let constant = calc.step(
        (Op::Sub, &[to, from]),
        BARE,
        "the right side after moving the constant",
        "the right side becomes {}",
    );
    let root_q = calc.step(
        (Op::Div, &[constant, factor]),
        BARE,
        format!("the value of {name}"),
        format!("{name} is {{}}"),
    );
    assert_eq!(calc.value(root_q), Number::from(root), "the equation was built from its root");
    match dice.between(0, 2) {
        0 => Plan::story(vec![format!("Solve the equation {equation}.")], format!("What is {name}?"), calc),
        1 => Plan::story(vec![], format!("For which value of {name} is {equation}?"), calc),
        _ => Plan::story(
            vec![format!("A number {name} satisfies {equation}.")],
            format!("Find the value of {name}."),
            calc,
        ),
    }
}
