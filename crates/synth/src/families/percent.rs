//! Percentages: discounts, a second discount, tax, several pieces.

use super::distract;
use crate::calc::{Calc, Op, Q};
use crate::dice::Dice;
use crate::plan::Plan;
use crate::unit::{BARE, DOLLARS, Unit};
use crate::words;

const GOODS: &[(&str, &str)] = &[
    ("jacket", "jackets"),
    ("bicycle", "bicycles"),
    ("desk", "desks"),
    ("phone", "phones"),
    ("guitar", "guitars"),
    ("tent", "tents"),
    ("camera", "cameras"),
    ("printer", "printers"),
];

/// Adds the steps `rate` per cent of `whole`.
fn share(calc: &mut Calc, whole: Q, rate: Q, name: &str) -> Q {
    let hundred = calc.constant(100);
    let one = calc.step(
        (Op::Div, &[whole, hundred]),
        DOLLARS,
        format!("1% of the price before {name}"),
        format!("1% of the price before {name} is {{}}"),
    );
    calc.step(
        (Op::Mul, &[one, rate]),
        DOLLARS,
        format!("the amount of {name}"),
        format!("{name} comes to {{}}"),
    )
}

pub(super) fn plan(d: i64, dice: &mut Dice) -> Plan {
    let who = words::name(dice);
    let mut calc = Calc::default();
    let (one, many) = dice.pick(GOODS);
    let price = if d <= 2 { 20 * dice.between(2, 15) } else { 20 * dice.between(5, 45) };
    let unit_price = calc.given(price, DOLLARS);
    let mut sentences = vec![match dice.between(0, 2) {
        0 => format!("A {one} normally costs ${price}."),
        1 => format!("{who} has had an eye on a {one} that is priced at ${price}."),
        _ => format!("The regular price of a {one} is ${price}."),
    }];
    let mut now = unit_price;
    if d >= 4 {
        let n = dice.between(2, 6);
        sentences.push(format!("{who} needs {n} {many} for a club."));
        let n = calc.given(n, Unit::noun(one, many));
        now = calc.step(
            (Op::Mul, &[n, now]),
            DOLLARS,
            format!("the regular price of all the {many}"),
            format!("the {many} regularly cost {{}}"),
        );
    }
    let rate = if d <= 2 { 10 * dice.between(1, 6) } else { 5 * dice.between(2, 11) };
    sentences.push(match dice.between(0, 2) {
        0 => format!("During a sale, the shop gives a discount of {rate}%."),
        1 => format!("This week the price is reduced by {rate}%."),
        _ => format!("Members of the shop pay {rate}% less, and {who} is a member."),
    });
    if !sentences.iter().any(|sentence| sentence.contains(who)) {
        sentences.push(format!("{who} buys one."));
    }
    let rate = calc.given(rate, BARE);
    let off = share(&mut calc, now, rate, "the discount");
    now = calc.step((Op::Sub, &[now, off]), DOLLARS, "the reduced price", "the reduced price is {}");
    distract(&mut sentences, &mut calc, who, d, dice);
    if d == 5 {
        let coupon = dice.between(5, 30);
        sentences.push(format!("A voucher takes another ${coupon} off the reduced price."));
        let coupon = calc.given(coupon, DOLLARS);
        now = calc.step(
            (Op::Sub, &[now, coupon]),
            DOLLARS,
            "the price after the voucher",
            "{} remain after the voucher",
        );
    }
    if d == 2 || d >= 4 || (d == 3 && dice.chance(0.5)) {
        let tax = if d == 2 { 10 } else { dice.pick(&[5, 10, 20]) };
        sentences.push(format!("A tax of {tax}% is added at the end."));
        let tax = calc.given(tax, BARE);
        let extra = share(&mut calc, now, tax, "the tax");
        calc.step((Op::Add, &[now, extra]), DOLLARS, "the price with tax", format!("{who} pays {{}}"));
    } else if d == 3 {
        let second = 10 * dice.between(1, 3);
        sentences.push(format!("At the till, another {second}% is taken off the reduced price."));
        let second = calc.given(second, BARE);
        let more = share(&mut calc, now, second, "the second discount");
        calc.step((Op::Sub, &[now, more]), DOLLARS, "the final price", format!("{who} pays {{}}"));
    }
    let question = dice.pick(&["How many dollars does {} pay?", "What does {} pay in the end, in dollars?"]);
    Plan::story(sentences, question.replace("{}", who), calc)
}
