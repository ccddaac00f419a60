//! An amount shared out in a ratio, and what the shares become.

use super::distract;
use crate::calc::{Calc, Op};
use crate::dice::Dice;
use crate::plan::Plan;
use crate::unit::{BARE, DOLLARS, Unit};
use crate::words::{self, NAMES};

const GOODS: &[Unit] = &[
    DOLLARS,
    Unit::noun("marble", "marbles"),
    Unit::noun("stamp", "stamps"),
    Unit::noun("trading card", "trading cards"),
    Unit::noun("cookie", "cookies"),
    Unit::noun("bead", "beads"),
];

pub(super) fn plan(d: i64, dice: &mut Dice) -> Plan {
    let unit = dice.pick(GOODS);
    let count = if d >= 3 { 3 } else { 2 };
    let people = dice.sample(NAMES, count);
    let mut parts: Vec<i64> = (1..=3 + 2 * d).collect();
    dice.shuffle(&mut parts);
    parts.truncate(count);
    let part = dice.between(3, 5 + 4 * d);
    let total = part * parts.iter().sum::<i64>();
    let shown = |n: i64| unit.amount(n.into());
    let ratio = parts.iter().map(ToString::to_string).collect::<Vec<_>>().join(" : ");
    let names = words::list(&people.iter().map(ToString::to_string).collect::<Vec<_>>());

    let mut calc = Calc::default();
    let mut sentences = vec![];
    let whole = if d >= 4 {
        // What is shared has to be found first.
        let removed = dice.between(4, 30);
        sentences.push(format!("{names} win {} together.", shown(total + removed)));
        sentences.push(format!(
            "They give {} to a friend and share the rest in the ratio {ratio}.",
            shown(removed)
        ));
        let (won, given) = (calc.given(total + removed, unit), calc.given(removed, unit));
        calc.step((Op::Sub, &[won, given]), unit, "the amount to share", "{} are left to share")
    } else {
        let verb = dice.pick(&["share", "divide", "split"]);
        sentences.push(format!("{names} {verb} {} in the ratio {ratio}.", shown(total)));
        calc.given(total, unit)
    };
    distract(&mut sentences, &mut calc, people[0], d, dice);
    let part_qs: Vec<_> = parts.iter().map(|&n| calc.given(n, BARE)).collect();
    let sum = calc.step((Op::Add, &part_qs), BARE, "the number of parts", "there are {} parts in all");
    let one = calc.step((Op::Div, &[whole, sum]), unit, "the size of one part", "one part is {}");
    let share = |calc: &mut Calc, i: usize| {
        let who = people[i];
        calc.step(
            (Op::Mul, &[part_qs[i], one]),
            unit,
            format!("the share of {who}"),
            format!("{who} gets {{}}"),
        )
    };
    let asked = unit.plural();
    // The one with more parts comes first, so that differences are positive.
    let (high, low) = if parts[0] > parts[1] { (0, 1) } else { (1, 0) };
    if d == 1 || (d == 3 && dice.chance(0.4)) {
        share(&mut calc, high);
        return Plan::story(sentences, format!("How many {asked} does {} get?", people[high]), calc);
    }
    let (more, less) = (share(&mut calc, high), share(&mut calc, low));
    if d == 5 {
        let gift = dice.between(2, 9);
        sentences.push(format!("Afterwards, {} receives an extra {}.", people[high], shown(gift)));
        let gift = calc.given(gift, unit);
        let now = calc.step(
            (Op::Add, &[more, gift]),
            unit,
            format!("what {} has in the end", people[high]),
            format!("{} ends up with {{}}", people[high]),
        );
        calc.step((Op::Sub, &[now, less]), unit, "the difference", "the difference is {}");
    } else {
        calc.step((Op::Sub, &[more, less]), unit, "the difference", "the difference is {}");
    }
    let verb = if d == 5 { "have in the end" } else { "get" };
    let question = format!("How many more {asked} does {} {verb} than {}?", people[high], people[low]);
    Plan::story(sentences, question, calc)
}
