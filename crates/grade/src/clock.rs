//! Times of day: `3:30 p.m.`, `15:30`, `12 noon`.
//!
//! `7:30` alone is a time of the 24-hour clock, or one whose half of the day the question names, or a ratio; so it is
//! 7:30 AM, it may be 7:30 PM, and it is never 7:31.

use super::expr::Expr;
use super::{Reason, Verdict, exact};

const HALF_DAY: i64 = 12 * 3_600;

/// A time of day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Time {
    /// Seconds after midnight.
    Sure(i64),
    /// The same on a 24-hour clock; before noon it may be meant for the afternoon.
    Bare(i64),
}

/// Compares two times of day; `None` unless both can be one and at least one must be.
pub(super) fn compare(a: &Expr, b: &Expr) -> Option<Verdict> {
    use Time::{Bare, Sure};
    if !is_timed(a) && !is_timed(b) {
        return None;
    }
    let (Some(a), Some(b)) = (time(a), time(b)) else {
        // 3:30 PM is no number.
        let is_number = |expr: &Expr| matches!(expr, Expr::Number { .. });
        return Some(if is_number(a) || is_number(b) {
            Verdict::Different
        } else {
            Verdict::Undecided(Reason::Inconclusive)
        });
    };
    let agree = |equal: bool| if equal { Verdict::Equal } else { Verdict::Different };
    Some(match (a, b) {
        (Sure(a), Sure(b)) | (Bare(a), Bare(b)) => agree(a == b),
        (Sure(sure), Bare(bare)) | (Bare(bare), Sure(sure)) => {
            let later = (bare + HALF_DAY) % (2 * HALF_DAY);
            // `0:30` is of the 24-hour clock.
            if (3_600..HALF_DAY + 3_600).contains(&bare) && later == sure {
                Verdict::Undecided(Reason::Inconclusive)
            } else {
                agree(bare == sure)
            }
        }
    })
}

/// Two ratios that are equal, `10:20` and `5:10`, but may both be times.
pub(super) fn may_be_times(a: &[Expr], b: &[Expr]) -> bool {
    // `2:4` is no time: minutes have two digits.
    let may = |parts: &[Expr]| {
        parts.len() == 2
            && parts.get(1).and_then(whole).is_some_and(|minutes| minutes >= 10)
            && bare(parts).is_some()
    };
    may(a) && may(b) && bare(a) != bare(b)
}

fn is_timed(expr: &Expr) -> bool {
    matches!(expr, Expr::Quantity(_, unit) if half(unit).is_some() || unit == "oclock")
}

/// Seconds that the half of the day adds to an hour from 0 to 11.
fn half(unit: &str) -> Option<i64> {
    match unit {
        "am" | "midnight" | "in the morning" | "a m" => Some(0),
        "pm" | "noon" | "p m" => Some(HALF_DAY),
        _ => None,
    }
}

fn time(expr: &Expr) -> Option<Time> {
    let Expr::Quantity(inner, unit) = expr else { return bare(parts(expr)).map(Time::Bare) };
    let seconds = bare(parts(inner))?;
    Some(match half(unit) {
        // `15:30 PM` is said too.
        Some(half) if seconds < 13 * 3_600 => Time::Sure(seconds % HALF_DAY + half),
        Some(_) => Time::Sure(seconds),
        None if unit == "oclock" => Time::Bare(seconds),
        None => return None,
    })
}

fn parts(expr: &Expr) -> &[Expr] {
    match expr {
        Expr::Ratio(parts) => parts,
        single => std::slice::from_ref(single),
    }
}

/// Seconds after midnight of `h`, `h:mm` or `h:mm:ss`.
fn bare(parts: &[Expr]) -> Option<i64> {
    let mut numbers = parts.iter().map(whole);
    let hour = numbers.next()?.filter(|hour| (0..=24).contains(hour))?;
    let mut seconds = hour * 3_600;
    for (number, size) in numbers.by_ref().zip([60, 1]) {
        seconds += number.filter(|number| (0..60).contains(number))? * size;
    }
    (numbers.next().is_none() && parts.len() <= 3 && seconds <= 2 * HALF_DAY)
        .then_some(seconds % (2 * HALF_DAY))
}

fn whole(expr: &Expr) -> Option<i64> {
    match expr {
        Expr::Number { value, decimals: 0 } => exact::integer(value),
        _ => None,
    }
}
