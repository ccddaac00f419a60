//! Arithmetic sequences: a later term, or the sum of the first terms; told as seats, savings, or plain numbers.

use super::distract;
use crate::calc::{Calc, Op};
use crate::dice::Dice;
use crate::number::Number;
use crate::plan::Plan;
use crate::unit::{BARE, DOLLARS, Unit};
use crate::words::{self, ordinal};

/// How the sequence is told. `{a}` is the first term, `{d}` the difference, `{n}` which term is asked for.
struct Tale {
    story: &'static [&'static str],
    term: &'static str,
    sum: &'static str,
    unit: Unit,
}

const TALES: &[Tale] = &[
    Tale {
        story: &[
            "A theater has {a} seats in its first row.",
            "Every further row has {d} more seats than the row before.",
        ],
        term: "How many seats does the {n} row have?",
        sum: "How many seats do the first {m} rows have together?",
        unit: Unit::noun("seat", "seats"),
    },
    Tale {
        story: &[
            "{who} puts {a} dollars aside in the first week.",
            "In each later week it is {d} dollars more than in the week before.",
        ],
        term: "How many dollars does {who} put aside in the {n} week?",
        sum: "How many dollars does {who} put aside in the first {m} weeks?",
        unit: DOLLARS,
    },
    Tale {
        story: &[
            "{who} is training and does {a} push-ups on the first day.",
            "On every following day {who} adds {d} push-ups.",
        ],
        term: "How many push-ups does {who} do on the {n} day?",
        sum: "How many push-ups does {who} do in the first {m} days in all?",
        unit: Unit::noun("push-up", "push-ups"),
    },
];
const PLAIN: Tale = Tale {
    story: &["An arithmetic sequence starts with {a}.", "Its common difference is {d}."],
    term: "What is the {n} term of the sequence?",
    sum: "What is the sum of the first {m} terms?",
    unit: BARE,
};

pub(super) fn plan(d: i64, dice: &mut Dice) -> Plan {
    let who = words::name(dice);
    // Stories cannot count down below zero; plain sequences can.
    let plain = d >= 4 && dice.chance(0.6) || dice.chance(0.25);
    let picked = dice.between(0, TALES.len() as i64 - 1) as usize;
    let tale = if plain { &PLAIN } else { &TALES[picked] };
    let unit = tale.unit;
    let first = dice.between(3, 10 + 6 * d);
    let mut gap = Number::from(dice.between(2, 2 + 2 * d));
    if plain && d >= 3 && dice.chance(0.5) {
        gap = gap.negated();
    } else if plain && d == 5 {
        gap = gap.add(Number::cents(50)).expect("small numbers");
    }
    let n = dice.between(5, 6 + 4 * d);
    let mut calc = Calc::default();
    let mut fill = vec![("{who}", who.to_owned()), ("{n}", ordinal(n)), ("{m}", n.to_string())];
    fill.extend([("{a}", first.to_string()), ("{d}", gap.to_string())]);
    let told = |text: &str| fill.iter().fold(text.to_owned(), |text, (mark, by)| text.replace(mark, by));

    let mut sentences: Vec<_> = tale.story.iter().map(|sentence| told(sentence)).collect();
    let (first_q, n_q, one) = (calc.given(first, unit), calc.given(n, BARE), calc.constant(1));
    let gap_q = if plain && d >= 2 && dice.chance(0.5) {
        // The difference has to be found from two neighbouring terms.
        let second = gap.add(Number::from(first)).expect("small numbers");
        sentences = vec![format!("An arithmetic sequence begins with the terms {first} and {second}.")];
        let second = calc.given(second, unit);
        calc.step((Op::Sub, &[second, first_q]), unit, "the common difference", "the common difference is {}")
    } else {
        calc.given(gap, unit)
    };
    distract(&mut sentences, &mut calc, who, if plain { 0 } else { d }, dice);
    let nth = ordinal(n);
    let gaps = calc.step(
        (Op::Sub, &[n_q, one]),
        BARE,
        "the number of increases",
        "the number of increases up to there is {}",
    );
    let rise = calc.step((Op::Mul, &[gaps, gap_q]), unit, "the total change", "the total change is {}");
    let last = calc.step(
        (Op::Add, &[first_q, rise]),
        unit,
        format!("the {nth} value"),
        format!("the {nth} value is {{}}"),
    );
    if d <= 2 || (d == 4 && dice.chance(0.3)) {
        return Plan::story(sentences, told(tale.term), calc);
    }
    let two = calc.constant(2);
    let ends = calc.step(
        (Op::Add, &[first_q, last]),
        unit,
        format!("the first value plus the {nth} value"),
        format!("the first and the {nth} value make {{}}"),
    );
    let double = calc.step((Op::Mul, &[n_q, ends]), unit, "twice the sum", "twice the sum is {}");
    calc.step((Op::Div, &[double, two]), unit, format!("the sum of the first {n} values"), "the sum is {}");
    Plan::story(sentences, told(tale.sum), calc)
}
