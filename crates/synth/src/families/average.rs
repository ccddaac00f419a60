//! Averages: of a few numbers, of groups of different size, or the value that is missing for an average.

use super::distract;
use crate::calc::{Calc, Op, Q};
use crate::dice::Dice;
use crate::number::Number;
use crate::plan::Plan;
use crate::unit::{BARE, KILOGRAMS, POINTS, Unit};
use crate::words;

/// What is averaged: the sentence with the name and then the values, the noun for one value, its unit.
const SERIES: &[(&str, &str, Unit)] = &[
    ("{} scores {} points in the last {n} games.", "game", POINTS),
    ("{} picks {} kilograms of apples on {n} days.", "day", KILOGRAMS),
    ("{} reads {} pages on {n} evenings.", "evening", Unit::noun("page", "pages")),
    ("The {n} tests of {} were marked with {} points.", "test", POINTS),
];

pub(super) fn plan(d: i64, dice: &mut Dice) -> Plan {
    match d {
        1 | 2 => simple(d, dice),
        3 if dice.chance(0.5) => missing(d, dice),
        4 if dice.chance(0.3) => missing(d, dice),
        _ => weighted(d, dice),
    }
}

/// Values and their mean, a whole number: the last one evens out the others.
fn values(count: i64, d: i64, dice: &mut Dice) -> (Vec<i64>, i64) {
    loop {
        let mean = dice.between(8 * d, 25 * d);
        let mut values: Vec<_> = (1..count).map(|_| mean + dice.between(-3 * d, 3 * d)).collect();
        let rest = count * mean - values.iter().sum::<i64>();
        values.push(rest);
        if rest > 1 && values.iter().all(|&value| value > 1) {
            return (values, mean);
        }
    }
}

/// The opening sentence, the noun for one value and the unit.
fn series(who: &str, numbers: &[i64], dice: &mut Dice) -> (String, &'static str, Unit) {
    let (template, noun, unit) = dice.pick(SERIES);
    let shown: Vec<_> = numbers.iter().map(ToString::to_string).collect();
    let text = template.replace("{n}", &numbers.len().to_string());
    (text.replacen("{}", who, 1).replacen("{}", &words::list(&shown), 1), noun, unit)
}

fn simple(d: i64, dice: &mut Dice) -> Plan {
    let who = words::name(dice);
    let count = 2 + d;
    let (numbers, _) = values(count, d, dice);
    let (sentence, noun, unit) = series(who, &numbers, dice);
    let mut calc = Calc::default();
    let terms: Vec<_> = numbers.iter().map(|&number| calc.given(number, unit)).collect();
    let sum = calc.step((Op::Add, &terms), unit, "the sum", "the sum is {}");
    let count = calc.given(count, BARE);
    calc.step((Op::Div, &[sum, count]), unit, "the average", "the average is {}");
    Plan::story(vec![sentence], format!("What is the average per {noun}?"), calc)
}

fn missing(d: i64, dice: &mut Dice) -> Plan {
    let who = words::name(dice);
    let (mut numbers, mean) = values(d + 1, d, dice);
    numbers.pop();
    let (sentence, noun, unit) = series(who, &numbers, dice);
    let mut calc = Calc::default();
    let terms: Vec<_> = numbers.iter().map(|&number| calc.given(number, unit)).collect();
    calc.given(d, BARE);
    let have = calc.step((Op::Add, &terms), unit, "the sum so far", "the sum so far is {}");
    let mut sentences =
        vec![sentence, format!("With one more {noun}, the average over {} {noun}s should be {mean}.", d + 1)];
    distract(&mut sentences, &mut calc, who, d, dice);
    let (count, mean) = (calc.given(d + 1, BARE), calc.given(mean, unit));
    let need = calc.step((Op::Mul, &[count, mean]), unit, "the sum that is needed", "{} are needed in all");
    calc.step((Op::Sub, &[need, have]), unit, "the missing value", "the missing value is {}");
    let ask = dice.pick(&["What must the value of the last {} be?", "Which value does the last {} need?"]);
    Plan::story(sentences, ask.replace("{}", noun), calc)
}

/// Groups of one kind: the whole, the name of a group, the group's members, the value.
const GROUPS: &[(&str, &[&str], &str, &str, Unit)] = &[
    (
        "A school compares the test results of its classes.",
        &["class A", "class B", "class C"],
        "students",
        "an average of {} points",
        POINTS,
    ),
    (
        "A baker blends flours of different price.",
        &["rye flour", "wheat flour", "spelt flour"],
        "bags",
        "a price of {} dollars per bag",
        Unit::noun("dollar", "dollars"),
    ),
    (
        "A farm packs its boxes in three sheds.",
        &["the north shed", "the south shed", "the old shed"],
        "boxes",
        "an average weight of {} kilograms",
        KILOGRAMS,
    ),
];

fn weighted(d: i64, dice: &mut Dice) -> Plan {
    let (opening, names, members, value, unit) = dice.pick(GROUPS);
    let groups = if d == 5 { 3 } else { 2 };
    let opening =
        if groups == 2 { opening.replace("in three sheds", "in two sheds") } else { opening.to_owned() };
    let (sizes, means) = loop {
        let sizes: Vec<_> = (0..groups).map(|_| dice.between(2, 6 + 4 * d)).collect();
        let means: Vec<_> = (0..groups).map(|_| dice.between(5, 12 * d)).collect();
        let total: i64 = sizes.iter().zip(&means).map(|(n, mean)| n * mean).sum();
        let mean = Number::ratio(total.into(), sizes.iter().sum::<i64>().into());
        let places = if d >= 4 { 1 } else { 0 };
        let differ = means.iter().any(|mean| *mean != means[0]);
        if differ && mean.and_then(Number::decimals).is_some_and(|decimals| decimals <= places) {
            break (sizes, means);
        }
    };
    let mut calc = Calc::default();
    let mut sentences = vec![opening];
    let (mut counts, mut totals): (Vec<Q>, Vec<Q>) = (vec![], vec![]);
    for ((name, n), mean) in names.iter().zip(sizes).zip(means) {
        let value = value.replace("{}", &mean.to_string());
        sentences
            .push(format!("There are {n} {members} of {name} with {value}.").replace("of the", "in the"));
        let (n, mean) = (calc.given(n, BARE), calc.given(mean, unit));
        totals.push(calc.step(
            (Op::Mul, &[n, mean]),
            unit,
            format!("the total for {name}"),
            format!("{name} accounts for {{}}"),
        ));
        counts.push(n);
    }
    let sum = calc.step((Op::Add, &totals), unit, "the total over all groups", "all groups together make {}");
    let count = calc.step(
        (Op::Add, &counts),
        BARE,
        format!("the number of {members}"),
        format!("the number of {members} is {{}}"),
    );
    calc.step((Op::Div, &[sum, count]), unit, "the overall average", "the overall average is {}");
    let one = members.strip_suffix("es").filter(|one| one.ends_with('x')).or(members.strip_suffix('s'));
    let question = format!("What is the average per {} over all of them?", one.unwrap_or(members));
    Plan::story(sentences, question, calc)
}
