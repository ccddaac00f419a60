//! Counts in sentences: `12,345`, `1 record`, `2 records`, `12.3 %`.

use std::fmt::Display;

/// A whole number with its digits in groups of three.
///
/// ```
/// assert_eq!(gradus_core::count::grouped(1_000_000), "1,000,000");
/// ```
pub fn grouped(number: impl Display) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A count with its noun, in the singular or the plural.
///
/// ```
/// use gradus_core::count::counted;
/// assert_eq!(counted(1, "label"), "1 label");
/// assert_eq!(counted(12_345, "record"), "12,345 records");
/// assert_eq!(counted(0, "query"), "0 queries");
/// ```
pub fn counted(number: impl Display, noun: &str) -> String {
    let number = grouped(number);
    format!("{number} {}", plural(&number, noun))
}

/// A noun in the form that goes with a count.
///
/// ```
/// use gradus_core::count::plural;
/// assert_eq!((plural(1, "batch"), plural(2, "batch"), plural(2, "day")), ("batch".into(), "batches".into(), "days".into()));
/// ```
pub fn plural(number: impl Display, noun: &str) -> String {
    if number.to_string() == "1" {
        return noun.to_owned();
    }
    let consonant_before_y = noun.strip_suffix('y').filter(|stem| !stem.ends_with(['a', 'e', 'i', 'o', 'u']));
    match consonant_before_y {
        Some(stem) => format!("{stem}ies"),
        None if noun.ends_with(['s', 'x', 'z']) || noun.ends_with("ch") || noun.ends_with("sh") => {
            format!("{noun}es")
        }
        None => format!("{noun}s"),
    }
}

/// A share in percent, or an empty text for a share of nothing.
///
/// ```
/// use gradus_core::count::percent_of;
/// assert_eq!((percent_of(1_u64, 8_u64), percent_of(1_u64, 0_u64)), ("12.5 %".into(), String::new()));
/// ```
pub fn percent_of(part: impl TryInto<u64>, whole: impl TryInto<u64>) -> String {
    let (part, whole) = (part.try_into().unwrap_or(0), whole.try_into().unwrap_or(0));
    if whole == 0 { String::new() } else { format!("{:.1} %", 100.0 * part as f64 / whole as f64) }
}
