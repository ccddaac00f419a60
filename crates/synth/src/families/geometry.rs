//! Rectangular things: fences, floors, L-shaped rooms, paths around gardens, tanks.

use super::distract;
use crate::calc::{Calc, Op, Q};
use crate::dice::Dice;
use crate::number::Number;
use crate::plan::Plan;
use crate::unit::{BARE, CUBIC_METERS, DOLLARS, HOURS, METERS, SQUARE_METERS};
use crate::words;

pub(super) fn plan(d: i64, dice: &mut Dice) -> Plan {
    match d {
        1 => fence(dice),
        2 if dice.chance(0.5) => fence_cost(dice),
        2 => floor(dice),
        3 => l_shape(dice),
        4 => path(dice),
        _ if dice.chance(0.5) => path(dice),
        _ => tank(dice),
    }
}

/// Length and width, the length the greater.
fn sides(low: i64, high: i64, dice: &mut Dice) -> (i64, i64) {
    let width = dice.between(low, high - 1);
    (dice.between(width + 1, high), width)
}

fn perimeter(calc: &mut Calc, length: i64, width: i64) -> Q {
    let (length, width, two) = (calc.given(length, METERS), calc.given(width, METERS), calc.constant(2));
    let half =
        calc.step((Op::Add, &[length, width]), METERS, "half the perimeter", "length and width add up to {}");
    calc.step((Op::Mul, &[half, two]), METERS, "the perimeter", "the perimeter is {}")
}

fn fence(dice: &mut Dice) -> Plan {
    let who = words::name(dice);
    let (length, width) = sides(3, 30, dice);
    let mut calc = Calc::default();
    perimeter(&mut calc, length, width);
    let place = dice.pick(&["garden", "field", "playground", "courtyard"]);
    let sentences = vec![
        format!("{who} has a rectangular {place}."),
        format!("It is {length} meters long and {width} meters wide."),
    ];
    let question = dice.pick(&[
        "How many meters of fence does it take to go all the way around it?",
        "What is its perimeter in meters?",
    ]);
    Plan::story(sentences, question, calc)
}

fn fence_cost(dice: &mut Dice) -> Plan {
    let who = words::name(dice);
    let (length, width) = sides(5, 40, dice);
    let mut calc = Calc::default();
    let around = perimeter(&mut calc, length, width);
    let price = dice.between(3, 15);
    let sentences = vec![
        format!("{who} wants to fence in a rectangular meadow of {length} meters by {width} meters."),
        format!("One meter of fence costs ${price}."),
    ];
    let price = calc.given(price, DOLLARS);
    calc.step((Op::Mul, &[around, price]), DOLLARS, "the cost of the fence", "the fence costs {}");
    Plan::story(sentences, "How many dollars does the fence cost?", calc)
}

fn floor(dice: &mut Dice) -> Plan {
    let who = words::name(dice);
    let (length, width) = sides(3, 14, dice);
    let price = dice.between(6, 40);
    let mut calc = Calc::default();
    let (l, w) = (calc.given(length, METERS), calc.given(width, METERS));
    let area =
        calc.step((Op::Mul, &[l, w]), SQUARE_METERS, "the area of the floor", "the floor has an area of {}");
    let p = calc.given(price, DOLLARS);
    calc.step((Op::Mul, &[area, p]), DOLLARS, "the price of the floor", "the new floor costs {}");
    let sentences = vec![
        format!(
            "{who} is laying a new floor in a room that is {length} meters long and {width} meters wide."
        ),
        format!("The boards cost ${price} per square meter."),
    ];
    Plan::story(sentences, "How many dollars do the boards cost?", calc)
}

fn l_shape(dice: &mut Dice) -> Plan {
    let who = words::name(dice);
    let ((a, b), (c, e)) = (sides(6, 20, dice), sides(2, 6, dice));
    let mut calc = Calc::default();
    let (a_q, b_q, c_q, e_q) =
        (calc.given(a, METERS), calc.given(b, METERS), calc.given(c, METERS), calc.given(e, METERS));
    let main = calc.step(
        (Op::Mul, &[a_q, b_q]),
        SQUARE_METERS,
        "the area of the hall",
        "the hall has an area of {}",
    );
    let second = calc.step(
        (Op::Mul, &[c_q, e_q]),
        SQUARE_METERS,
        "the area of the alcove",
        "the alcove has an area of {}",
    );
    let extra = dice.chance(0.5);
    let (op, verb) = if extra { (Op::Add, "with") } else { (Op::Sub, "without") };
    let area = calc.step(
        (op, &[main, second]),
        SQUARE_METERS,
        format!("the area to be painted, {verb} the alcove"),
        "{} have to be painted",
    );
    let mut sentences = vec![format!("{who} paints the floor of a hall that is {a} meters by {b} meters.")];
    sentences.push(if extra {
        format!("Next to the hall, an alcove of {c} meters by {e} meters is painted as well.")
    } else {
        format!("Inside the hall, an alcove of {c} meters by {e} meters stays as it is.")
    });
    distract(&mut sentences, &mut calc, who, 3, dice);
    let speed = dice.pick(&[4, 5, 8, 10]);
    sentences.push(format!("Painting goes at {speed} square meters per hour."));
    let speed = calc.given(speed, SQUARE_METERS);
    calc.step((Op::Div, &[area, speed]), HOURS, "the time needed", "the work takes {}");
    Plan::story(sentences, "How many hours does the painting take?", calc)
}

fn path(dice: &mut Dice) -> Plan {
    let who = words::name(dice);
    let (length, width) = sides(6, 30, dice);
    let border = Number::cents(50 * dice.between(1, 6));
    let price = Number::cents(50 * dice.between(9, 50));
    let mut calc = Calc::default();
    let (l, w, two) = (calc.given(length, METERS), calc.given(width, METERS), calc.constant(2));
    let b = calc.given(border, METERS);
    let double = calc.step(
        (Op::Mul, &[two, b]),
        METERS,
        "twice the width of the path",
        "the path adds {} to each side",
    );
    let long = calc.step((Op::Add, &[l, double]), METERS, "the outer length", "the outer length is {}");
    let wide = calc.step((Op::Add, &[w, double]), METERS, "the outer width", "the outer width is {}");
    let outer = calc.step((Op::Mul, &[long, wide]), SQUARE_METERS, "the outer area", "the outer area is {}");
    let inner = calc.step(
        (Op::Mul, &[l, w]),
        SQUARE_METERS,
        "the area of the garden",
        "the garden has an area of {}",
    );
    let area =
        calc.step((Op::Sub, &[outer, inner]), SQUARE_METERS, "the area of the path", "the path covers {}");
    let mut sentences = vec![
        format!("The garden of {who} is a rectangle of {length} meters by {width} meters."),
        format!("A path with a width of {} runs all the way around the outside.", METERS.amount(border)),
    ];
    distract(&mut sentences, &mut calc, who, 4, dice);
    if dice.chance(0.5) {
        sentences.push(format!("Paving costs {} per square meter.", DOLLARS.amount(price)));
        let p = calc.given(price, DOLLARS);
        calc.step((Op::Mul, &[area, p]), DOLLARS, "the cost of the paving", "paving the path costs {}");
        return Plan::story(sentences, "How many dollars does it cost to pave the path?", calc);
    }
    Plan::story(sentences, "What is the area of the path in square meters?", calc)
}

fn tank(dice: &mut Dice) -> Plan {
    let (length, width) = sides(3, 16, dice);
    let (height, level) = sides(2, 7, dice);
    let rate = dice.pick(&[2, 4, 5, 8]);
    let mut calc = Calc::default();
    let (l, w) = (calc.given(length, METERS), calc.given(width, METERS));
    let (h, e) = (calc.given(height, METERS), calc.given(level, METERS));
    let base =
        calc.step((Op::Mul, &[l, w]), SQUARE_METERS, "the area of the base", "the base has an area of {}");
    let volume = calc.step(
        (Op::Mul, &[base, h]),
        CUBIC_METERS,
        "the volume of the tank",
        "the tank holds {} when full",
    );
    let water = calc.step(
        (Op::Mul, &[base, e]),
        CUBIC_METERS,
        "the volume of the water",
        "the tank already holds {}",
    );
    let free = calc.step(
        (Op::Sub, &[volume, water]),
        CUBIC_METERS,
        "the volume still to fill",
        "{} are still to be filled",
    );
    let pumps = dice.between(2, 4);
    let (p, r) = (calc.given(pumps, BARE), calc.given(rate, CUBIC_METERS));
    let flow =
        calc.step((Op::Mul, &[p, r]), CUBIC_METERS, "the inflow per hour", "{} of water come in every hour");
    let sentences = vec![
        format!("A tank has a base of {length} meters by {width} meters and is {height} meters high."),
        format!("The water in it is {level} meters deep."),
        format!("Now {pumps} pumps fill it up, each with {rate} cubic meters per hour."),
    ];
    let hours = calc.value(free).div(calc.value(flow)).and_then(Number::decimals);
    if hours.is_some_and(|places| places <= 3) {
        calc.step((Op::Div, &[free, flow]), HOURS, "the time to fill the tank", "the tank is full after {}");
        return Plan::story(sentences, "After how many hours is the tank full?", calc);
    }
    let spent = dice.between(1, 2);
    let t = calc.given(spent, HOURS);
    let came = calc.step((Op::Mul, &[flow, t]), CUBIC_METERS, "the water pumped in", "the pumps bring in {}");
    calc.step(
        (Op::Add, &[water, came]),
        CUBIC_METERS,
        "the water in the tank afterwards",
        "the tank then holds {}",
    );
    let question =
        format!("How many cubic meters of water are in the tank after {}?", HOURS.amount(spent.into()));
    Plan::story(sentences, question, calc)
}
