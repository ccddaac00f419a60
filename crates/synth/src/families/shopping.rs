//! Shopping: quantities times prices, a total, then perhaps a delivery fee, a coupon and change.

use super::distract;
use crate::calc::{Calc, Op};
use crate::dice::Dice;
use crate::number::Number;
use crate::plan::Plan;
use crate::unit::{DOLLARS, Unit};
use crate::words;

/// Singular, plural, and the lowest and highest price in dollars.
const GOODS: &[(&str, &str, i64, i64)] = &[
    ("notebook", "notebooks", 2, 6),
    ("pen", "pens", 1, 4),
    ("mug", "mugs", 5, 12),
    ("lamp", "lamps", 15, 40),
    ("chair", "chairs", 30, 80),
    ("melon", "melons", 2, 5),
    ("loaf of bread", "loaves of bread", 2, 6),
    ("T-shirt", "T-shirts", 8, 25),
    ("plant", "plants", 4, 15),
    ("ticket", "tickets", 6, 18),
    ("sandwich", "sandwiches", 3, 9),
    ("battery", "batteries", 1, 5),
    ("pillow", "pillows", 9, 22),
    ("bottle of juice", "bottles of juice", 2, 7),
];

pub(super) fn plan(d: i64, dice: &mut Dice) -> Plan {
    let who = words::name(dice);
    let mut calc = Calc::default();
    let count = if d <= 2 { 2 } else { (d - 1).min(4) } as usize;
    let goods = dice.sample(GOODS, count);
    let (mut bought, mut priced, mut counted, mut costs) = (vec![], vec![], vec![], vec![]);
    for (one, many, low, high) in goods {
        let n = dice.between(2, 3 + 2 * d);
        let cents = match d {
            ..=2 => 100 * dice.between(low, high),
            3 => 50 * dice.between(2 * low, 2 * high),
            _ => 25 * dice.between(4 * low, 4 * high),
        };
        let price = Number::cents(cents);
        let (n_q, price_q) = (calc.given(n, Unit::noun(one, many)), calc.given(price, DOLLARS));
        let money = DOLLARS.amount(price);
        bought.push(format!("{n} {many} at {money} each"));
        priced.push(format!("one {one} costs {money}"));
        counted.push(format!("{n} {many}"));
        costs.push(calc.step(
            (Op::Mul, &[n_q, price_q]),
            DOLLARS,
            format!("the cost of the {many}"),
            format!("the {many} cost {{}}"),
        ));
    }
    let mut sentences = match dice.between(0, 2) {
        0 => vec![format!("{who} buys {}.", words::list(&bought))],
        1 => {
            let shop = dice.pick(&["At the market,", "In a small shop,", "At the department store,"]);
            vec![
                format!("{shop} {}.", words::list(&priced)),
                format!("{who} takes {}.", words::list(&counted)),
            ]
        }
        _ => vec![format!(
            "{who} is shopping for {} and puts {} in the cart.",
            dice.pick(&["a party", "a new flat", "the school fair", "a friend"]),
            words::list(&bought)
        )],
    };
    let mut total = calc.step((Op::Add, &costs), DOLLARS, "the total cost", "everything together costs {}");
    distract(&mut sentences, &mut calc, who, d, dice);
    if d == 5 {
        let fee = dice.between(3, 12);
        sentences.push(format!("Delivery costs ${fee} extra."));
        let fee = calc.given(fee, DOLLARS);
        total = calc.step(
            (Op::Add, &[total, fee]),
            DOLLARS,
            "the cost with delivery",
            "the bill with delivery is {}",
        );
    }
    if d >= 3 {
        let off = dice.between(2, 9);
        sentences.push(format!("A coupon takes ${off} off the bill."));
        let off = calc.given(off, DOLLARS);
        total = calc.step(
            (Op::Sub, &[total, off]),
            DOLLARS,
            "the bill after the coupon",
            format!("{who} has to pay {{}}"),
        );
    }
    if d == 1 || dice.chance(0.3) {
        let question = dice.pick(&[
            "How much does {} pay in total, in dollars?",
            "What is the total that {} has to pay, in dollars?",
            "How many dollars does {} spend?",
        ]);
        return Plan::story(sentences, question.replace("{}", who), calc);
    }
    let owed = calc.value(total);
    let step = dice.pick(&[10, 20, 50]);
    let paid = (1..).map(|k| Number::from(k * step)).find(|paid| *paid > owed).expect("numbers have no end");
    sentences.push(format!("{who} pays with {}.", DOLLARS.amount(paid)));
    let paid = calc.given(paid, DOLLARS);
    calc.step((Op::Sub, &[paid, total]), DOLLARS, "the change", format!("{who} gets {{}} back"));
    let question =
        dice.pick(&["How much change does {} get, in dollars?", "How many dollars does {} get back?"]);
    Plan::story(sentences, question.replace("{}", who), calc)
}
