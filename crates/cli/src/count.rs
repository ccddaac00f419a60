//! Counts in sentences: `12,345`, `1 record`, `2 records`, `12.3 %`.

use std::fmt::Display;

/// A whole number with its digits in groups of three: `12,345`.
pub(crate) fn grouped(number: impl Display) -> String {
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

/// A count with its noun, in the singular or the plural: `1 record`, `12,345 records`.
pub(crate) fn counted(number: impl Display, noun: &str) -> String {
    let number = grouped(number);
    format!("{number} {}", plural(&number, noun))
}

/// A noun in the form that goes with a count: `record` for 1, else `records`.
pub(crate) fn plural(number: impl Display, noun: &str) -> String {
    let ending = if number.to_string() == "1" { "" } else { "s" };
    format!("{noun}{ending}")
}

/// A share in percent: `12.3 %`, or an empty text for a share of nothing.
pub(crate) fn percent_of(part: impl TryInto<u64>, whole: impl TryInto<u64>) -> String {
    let (part, whole) = (part.try_into().unwrap_or(0), whole.try_into().unwrap_or(0));
    if whole == 0 { String::new() } else { format!("{:.1} %", 100.0 * part as f64 / whole as f64) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_singular_and_all_else_plural() {
        assert_eq!(counted(1_u64, "record"), "1 record");
        assert_eq!(counted(0_usize, "record"), "0 records");
        assert_eq!(counted(12_345_u64, "record"), "12,345 records");
        assert_eq!(grouped(1_000_000_u64), "1,000,000");
        assert_eq!(
            (percent_of(1_usize, 8_usize), percent_of(1_u64, 0_u64)),
            ("12.5 %".to_owned(), String::new())
        );
    }
}
