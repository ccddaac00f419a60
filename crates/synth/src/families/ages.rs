//! Ages: a chain of people related by differences and ratios, then a sum or a look into the future.

use super::distract;
use crate::calc::{Calc, Op};
use crate::dice::Dice;
use crate::plan::Plan;
use crate::unit::{BARE, YEARS};
use crate::words::{NAMES, times};

pub(super) fn plan(d: i64, dice: &mut Dice) -> Plan {
    let links = match d {
        1 => 1,
        2 | 3 => 2,
        4 => 3,
        _ => 4,
    };
    let people = dice.sample(NAMES, links + 1);
    let mut calc = Calc::default();
    let first = dice.between(3, 6 + 2 * d);
    let mut sentences = vec![match dice.between(0, 1) {
        0 => format!("{} is {first} years old.", people[0]),
        _ => format!("{} turned {first} this year.", people[0]),
    }];
    let mut age = first;
    let mut ages = vec![calc.given(first, YEARS)];
    let mut multiplied = false;
    for pair in people.windows(2) {
        let (other, who) = (pair[0], pair[1]);
        let kind = dice.between(0, 2);
        let (op, by) = match kind {
            0 if age <= 20 && !multiplied => (Op::Mul, dice.between(2, if age <= 10 { 5 } else { 3 })),
            1 if age > 8 => (Op::Sub, dice.between(2, age - 4)),
            _ => (Op::Add, dice.between(2, 10 + 3 * d)),
        };
        multiplied |= op == Op::Mul;
        sentences.push(match op {
            Op::Mul => format!("{who} is {} as old as {other}.", times(by)),
            Op::Sub => format!("{who} is {} younger than {other}.", YEARS.amount(by.into())),
            _ if dice.chance(0.5) => format!("{who} is {} older than {other}.", YEARS.amount(by.into())),
            _ => format!("{other} was born {} after {who}.", YEARS.amount(by.into())),
        });
        age = match op {
            Op::Mul => age * by,
            Op::Sub => age - by,
            _ => age + by,
        };
        let by = if op == Op::Mul && by == 2 {
            calc.constant(by)
        } else {
            calc.given(by, if op == Op::Mul { BARE } else { YEARS })
        };
        let previous = ages[ages.len() - 1];
        ages.push(calc.step(
            (op, &[previous, by]),
            YEARS,
            format!("the age of {who}"),
            format!("{who} is {{}} old"),
        ));
    }
    let last_person = people[links];
    distract(&mut sentences, &mut calc, last_person, d, dice);
    let later = dice.between(3, 12);
    match (d, dice.between(0, 2)) {
        (3.., 0) => {
            calc.step((Op::Add, &ages), YEARS, "the sum of the ages", "together they are {} old");
            Plan::story(sentences, "How many years old are they all together?", calc)
        }
        (3.., 1) => {
            let sum =
                calc.step((Op::Add, &ages), YEARS, "the sum of the ages today", "together they are {} old");
            let count = calc.constant(ages.len() as i64);
            let later_q = calc.given(later, YEARS);
            let gained = calc.step(
                (Op::Mul, &[count, later_q]),
                YEARS,
                format!("the years gained in {}", YEARS.amount(later.into())),
                "they gain {} together",
            );
            calc.step((Op::Add, &[sum, gained]), YEARS, "the later sum", "together they will be {} old");
            let question = format!("How old will they be all together in {later} years?");
            Plan::story(sentences, question, calc)
        }
        _ => {
            let later_q = calc.given(later, YEARS);
            let last = ages[links];
            calc.step(
                (Op::Add, &[last, later_q]),
                YEARS,
                format!("the age of {last_person} in {later} years"),
                format!("{last_person} will be {{}} old"),
            );
            let question = match dice.between(0, 1) {
                0 => format!("How old will {last_person} be in {later} years?"),
                _ => format!("What will be the age of {last_person} {later} years from now?"),
            };
            Plan::story(sentences, question, calc)
        }
    }
}
