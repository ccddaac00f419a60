//! A chain of operations, written as a formula or told as instructions.

use crate::calc::{Calc, Op, Q};
use crate::dice::Dice;
use crate::number::Number;
use crate::plan::Plan;
use crate::unit::BARE;

pub(super) fn plan(d: i64, dice: &mut Dice) -> Plan {
    let mut calc = Calc::default();
    let first = start(d, dice);
    let mut now = calc.given(first, BARE);
    let mut formula = first.to_string();
    let mut told = vec![];
    let mut last = None;
    for _ in 0..=d {
        let (op, number) = operation(calc.value(now), last, d, dice);
        last = Some(op);
        let (sign, telling, after) = match op {
            Op::Add => ("+", format!("add {number}"), format!("adding {number}")),
            Op::Sub => ("-", format!("subtract {number}"), format!("subtracting {number}")),
            Op::Mul => ("*", format!("multiply by {number}"), format!("multiplying by {number}")),
            Op::Div => ("/", format!("divide by {number}"), format!("dividing by {number}")),
        };
        let open = if told.is_empty() { formula } else { format!("({formula})") };
        formula = if number.is_negative() {
            format!("{open} {sign} ({number})")
        } else {
            format!("{open} {sign} {number}")
        };
        told.push(telling);
        let term = calc.given(number, BARE);
        now = step(&mut calc, op, now, term, &after);
    }
    match dice.between(0, 3) {
        0 => Plan::story(vec![], format!("What is the value of {formula}?"), calc),
        1 => Plan::story(vec![format!("Evaluate the expression {formula}.")], "What is the result?", calc),
        kind => {
            let opening = if kind == 2 { "Start with" } else { "Think of the number" };
            let mut sentences = vec![format!("{opening} {first}.")];
            for (index, telling) in told.iter().enumerate() {
                let lead = match index {
                    0 => "First",
                    i if i + 1 == told.len() => "Finally",
                    i if i % 2 == 1 => "Then",
                    _ => "Next",
                };
                sentences.push(format!("{lead}, {telling}."));
            }
            Plan::story(sentences, dice.pick(&["What number do you get?", "What is the final number?"]), calc)
        }
    }
}

fn start(d: i64, dice: &mut Dice) -> Number {
    match d {
        ..=3 => Number::from(dice.between(3, 8 * d + 4)),
        4 => Number::from(-dice.between(5, 40)),
        _ => Number::cents(10 * dice.between(15, 250)),
    }
}

/// An operation that keeps the chain within reach of mental arithmetic.
fn operation(now: Number, last: Option<Op>, d: i64, dice: &mut Dice) -> (Op, Number) {
    let signed = |n: i64, dice: &mut Dice| if d >= 4 && dice.chance(0.25) { -n } else { n };
    loop {
        let op = dice.pick(&[Op::Add, Op::Sub, Op::Mul, Op::Div]);
        let large = now > Number::from(150) || now < Number::from(-150);
        let number = match op {
            Op::Add | Op::Sub => {
                let n = dice.between(2, 10 + 8 * d);
                signed(n, dice)
            }
            Op::Mul if large => continue,
            Op::Mul => {
                let n = dice.between(2, 4 + d);
                signed(n, dice)
            }
            Op::Div => dice.between(2, 9),
        };
        let number = Number::from(number);
        let result = match op {
            Op::Sub => now.sub(number),
            Op::Div => now.div(number),
            Op::Add => now.add(number),
            Op::Mul => now.mul(number),
        };
        let Some(result) = result else { continue };
        let places = if d == 5 { 1 } else { 0 };
        let small = result.decimals().is_some_and(|decimals| decimals <= places);
        let positive = d >= 3 || !result.is_negative();
        if Some(op) != last && small && positive && !result.is_zero() {
            return (op, number);
        }
    }
}

fn step(calc: &mut Calc, op: Op, now: Q, term: Q, after: &str) -> Q {
    calc.step(
        (op, &[now, term]),
        BARE,
        format!("the value after {after}"),
        format!("the value after {after} is {{}}"),
    )
}
