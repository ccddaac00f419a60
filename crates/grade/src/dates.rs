//! Dates: `March 5, 2020`, `5th of March`, `2020-03-05`, `3/5/2020`.

use super::{Reason, Verdict};

const MONTHS: [&str; 12] = [
    "january", "february", "march", "april", "may", "june", "july", "august", "september", "october",
    "november", "december",
];
const WEEKDAYS: [&str; 7] = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"];

/// A date; what is not written is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Date {
    year: Option<u32>,
    month: u32,
    day: Option<u32>,
    weekday: Option<usize>,
}

/// Compares two dates; `None` unless both are.
pub(super) fn compare(a: &str, b: &str) -> Option<Verdict> {
    // All that is read below has a digit or one of the months' letters; most answers are settled here.
    let may = |text: &str| text.len() <= 40 && text.bytes().filter(u8::is_ascii_alphanumeric).count() >= 3;
    if !may(a) || !may(b) {
        return None;
    }
    let (a, b) = match (readings(a), readings(b)) {
        (Some(a), Some(b)) => (a, b),
        // 2020-03-05 is no difference of numbers.
        (first, second) if (first.is_some() && is_iso(a)) || (second.is_some() && is_iso(b)) => {
            return Some(Verdict::Undecided(Reason::Inconclusive));
        }
        _ => return None,
    };
    let verdicts: Vec<Verdict> = a.iter().flat_map(|a| b.iter().map(|b| same(*a, *b))).collect();
    let all = |verdict| verdicts.iter().all(|found| *found == verdict);
    Some(if all(Verdict::Equal) {
        Verdict::Equal
    } else if all(Verdict::Different) {
        Verdict::Different
    } else {
        Verdict::Undecided(Reason::Inconclusive)
    })
}

/// A date as ISO 8601 writes it.
fn is_iso(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.len() == 10 && matches!((bytes[4], bytes[7]), (b'-', b'-') | (b'/', b'/'))
}

fn same(a: Date, b: Date) -> Verdict {
    let clash = |a: Option<u32>, b: Option<u32>| matches!((a, b), (Some(a), Some(b)) if a != b);
    let other_weekday = matches!((a.weekday, b.weekday), (Some(a), Some(b)) if a != b);
    if a.month != b.month || clash(a.day, b.day) || clash(a.year, b.year) || other_weekday {
        Verdict::Different
    } else if a.day.is_some() == b.day.is_some() {
        Verdict::Equal
    } else {
        Verdict::Undecided(Reason::Inconclusive)
    }
}

/// The dates that a text can be: `3/5/2020` is one of two.
fn readings(text: &str) -> Option<Vec<Date>> {
    let may_name_month = text.bytes().any(|byte| b"JFMASOND".contains(&byte));
    if may_name_month && let Some(month) = MONTHS.iter().position(|month| mentions(text, month)) {
        return worded(text, month as u32 + 1).map(|date| vec![date]);
    }
    let parts: Vec<&str> = text.split(['-', '/', '.']).collect();
    let [first, second, third] = parts.as_slice() else { return None };
    let number =
        |part: &str| part.bytes().all(|b| b.is_ascii_digit()).then(|| part.parse::<u32>().ok()).flatten();
    let (first_number, second_number, third_number) = (number(first)?, number(second)?, number(third)?);
    let date = |year, month, day| {
        let fits = (1..=12).contains(&month) && (1..=31).contains(&day);
        fits.then_some(Date { year: Some(year), month, day: Some(day), weekday: None })
    };
    // `2020-3-5` is a difference, and `2020/3/5` a quotient, unless it is padded as ISO 8601 has it.
    if first.len() == 4 && second.len() == 2 && third.len() == 2 {
        return date(first_number, second_number, third_number).map(|date| vec![date]);
    }
    if third.len() == 4 && text.contains('/') && first.len() <= 2 && second.len() <= 2 {
        let mut found: Vec<Date> = Vec::new();
        found.extend(date(third_number, first_number, second_number));
        found.extend(date(third_number, second_number, first_number).filter(|date| !found.contains(date)));
        return (!found.is_empty()).then_some(found);
    }
    None
}

/// True when a text has the month's name or its first three letters as a word.
fn mentions(text: &str, month: &str) -> bool {
    let Some(first) = month.chars().next() else { return false };
    // `may` is a word of its own, and most texts have no letter that a month begins with.
    text.split(|c: char| !c.is_ascii_alphabetic()).any(|word| {
        word.len() >= 3
            && word.starts_with(first.to_ascii_uppercase())
            && (word.eq_ignore_ascii_case(month)
                || word.eq_ignore_ascii_case(&month[..3])
                || (month == "september" && word.eq_ignore_ascii_case("sept")))
    })
}

fn worded(text: &str, month: u32) -> Option<Date> {
    let mut date = Date { year: None, month, day: None, weekday: None };
    for word in text.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty()) {
        let lower = word.to_ascii_lowercase();
        let digits = lower.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let ending = &lower[digits.len()..];
        if let Ok(number) = digits.parse::<u32>() {
            match number {
                1..=31 if date.day.is_none() && matches!(ending, "" | "st" | "nd" | "rd" | "th") => {
                    date.day = Some(number);
                }
                1_000..=2_999 if date.year.is_none() && ending.is_empty() => date.year = Some(number),
                _ => return None,
            }
        } else if let Some(weekday) = WEEKDAYS.iter().position(|day| *day == lower) {
            date.weekday = Some(weekday);
        } else if !matches!(lower.as_str(), "of" | "the" | "on" | "text" | "in")
            && !MONTHS.iter().any(|name| lower == *name || lower == name[..3] || lower == "sept")
        {
            return None;
        }
    }
    Some(date)
}
