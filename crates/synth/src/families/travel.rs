//! Trips: legs of a given speed and time, and what is left, how long it takes, or how fast it was on average.

use super::distract;
use crate::calc::{Calc, Op, Q};
use crate::dice::Dice;
use crate::number::Number;
use crate::plan::Plan;
use crate::unit::{BARE, HOURS, KILOMETERS, KM_PER_HOUR, LITERS, MINUTES};
use crate::words;

/// How one travels, slowest and fastest.
const MEANS: &[(&str, i64, i64)] =
    &[("drives", 40, 110), ("cycles", 12, 25), ("travels by train", 60, 160), ("rides a scooter", 20, 45)];
/// The same for trips that may ask for fuel.
const MOTORS: &[(&str, i64, i64)] = &[
    ("drives", 40, 110),
    ("rides a scooter", 20, 45),
    ("drives a truck", 30, 80),
    ("takes the motorbike", 40, 100),
];
const PARTS: &[&str] = &["the first part", "the second part", "the third part"];

pub(super) fn plan(d: i64, dice: &mut Dice) -> Plan {
    let who = words::name(dice);
    let mut calc = Calc::default();
    let (verb, slow, fast) = dice.pick(if d >= 4 { MOTORS } else { MEANS });
    let legs = match d {
        1 => 1,
        2 | 3 => 2,
        _ => 3,
    };
    let mut sentences = vec![];
    let (mut distances, mut times) = (vec![], vec![]);
    for (leg, part) in PARTS.iter().take(legs).enumerate() {
        let speed =
            if d >= 3 { 2 * dice.between(slow / 2, fast / 2) } else { 5 * dice.between(slow / 5, fast / 5) };
        let speed_q = calc.given(speed, KM_PER_HOUR);
        // The difficult trips give some times in minutes.
        let half_hours =
            if d >= 4 && dice.chance(0.5) { 2 * dice.between(1, 3) - 1 } else { 2 * dice.between(1, 4) };
        let (time, time_q) = if half_hours % 2 == 0 {
            let hours = half_hours / 2;
            (HOURS.amount(hours.into()), calc.given(hours, HOURS))
        } else {
            let minutes = calc.given(half_hours * 30, MINUTES);
            let sixty = calc.constant(60);
            let of = if legs == 1 { "the trip" } else { part };
            let what = format!("the time for {of} in hours");
            let claim = format!("{of} takes {{}}");
            let hours = calc.step((Op::Div, &[minutes, sixty]), HOURS, what, claim);
            (MINUTES.amount((half_hours * 30).into()), hours)
        };
        let opening = match leg {
            0 => format!("{who} {verb} for"),
            1 => dice.pick(&["After a break, the trip goes on for", "Then it is another"]).to_owned(),
            _ => "The rest of the way takes".to_owned(),
        };
        sentences.push(format!("{opening} {time} at {speed} kilometers per hour."));
        let of = if legs == 1 { "the stretch" } else { part };
        distances.push(calc.step(
            (Op::Mul, &[speed_q, time_q]),
            KILOMETERS,
            format!("the length of {of}"),
            format!("{of} is {{}} long"),
        ));
        times.push(time_q);
    }
    distract(&mut sentences, &mut calc, who, d, dice);
    let total = match distances.as_slice() {
        [only] => *only,
        many => calc.step(
            (Op::Add, many),
            KILOMETERS,
            "the total distance",
            format!("{who} covers {{}} in total"),
        ),
    };
    if d >= 3 && average(&mut calc, total, &times) {
        let question = dice.pick(&[
            "What is the average speed of the trip without breaks, in kilometers per hour?",
            "How many kilometers per hour does {} cover on average while moving?",
        ]);
        return Plan::story(sentences, question.replace("{}", who), calc);
    }
    if d >= 4 {
        let per_hundred = calc.given(dice.between(4, 9), LITERS);
        let hundred = calc.constant(100);
        sentences.push(format!(
            "The vehicle needs {} for every 100 kilometers.",
            LITERS.amount(calc.value(per_hundred))
        ));
        let units = calc.step(
            (Op::Div, &[total, hundred]),
            BARE,
            "the number of hundreds of kilometers",
            "the trip has {} hundreds of kilometers",
        );
        let claim = "the trip uses {} of fuel";
        calc.step((Op::Mul, &[units, per_hundred]), LITERS, "the fuel used", claim);
        return Plan::story(sentences, "How many liters of fuel does the whole trip use?", calc);
    }
    let left = 10 * dice.between(2, 12);
    let whole = calc.value(total).add(Number::from(left)).expect("trips are short");
    sentences.insert(0, format!("{who} is on a trip of {}.", KILOMETERS.amount(whole)));
    let whole = calc.given(whole, KILOMETERS);
    calc.step((Op::Sub, &[whole, total]), KILOMETERS, "the distance left", "{} are left to go");
    let question = dice.pick(&["How many kilometers are left?", "How many kilometers still lie ahead?"]);
    Plan::story(sentences, question, calc)
}

/// Adds the steps to the average speed, if it is a number with at most one decimal.
fn average(calc: &mut Calc, total: Q, times: &[Q]) -> bool {
    let hours = times.iter().try_fold(Number::from(0), |sum, &time| sum.add(calc.value(time)));
    let speed = hours.and_then(|hours| calc.value(total).div(hours));
    if speed.and_then(Number::decimals).is_none_or(|places| places > 1) {
        return false;
    }
    let hours =
        calc.step((Op::Add, times), HOURS, "the total time on the move", "the trip takes {} on the move");
    calc.step((Op::Div, &[total, hours]), KM_PER_HOUR, "the average speed", "the average speed is {}");
    true
}
