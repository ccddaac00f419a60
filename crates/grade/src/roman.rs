//! Roman numerals, where the other answer is a number: `XIV` and 14.

use super::expr::Expr;
use super::{Reason, Verdict, exact};

const SYMBOLS: [(i64, &str); 13] = [
    (1_000, "M"),
    (900, "CM"),
    (500, "D"),
    (400, "CD"),
    (100, "C"),
    (90, "XC"),
    (50, "L"),
    (40, "XL"),
    (10, "X"),
    (9, "IX"),
    (5, "V"),
    (4, "IV"),
    (1, "I"),
];

/// Compares a numeral with a number; `None` unless the text is one. A letter alone may be a variable or an option.
pub(super) fn compare(text: &str, number: Option<&Expr>) -> Option<Verdict> {
    let inner = ["\\text{", "\\textbf{", "\\mathrm{"]
        .iter()
        .find_map(|start| text.strip_prefix(start))
        .map_or(text, |inner| inner.trim_end_matches('}'))
        .trim();
    if inner.is_empty() || inner.len() > 15 || !inner.bytes().all(|b| b"IVXLCDM".contains(&b)) {
        return None;
    }
    let number = exact::value(number?).as_ref().and_then(exact::integer)?;
    let same = written(number)? == inner;
    match (same, inner.len()) {
        (true, 1) => Some(Verdict::Undecided(Reason::Inconclusive)),
        (true, _) => Some(Verdict::Equal),
        (false, _) => None,
    }
}

fn written(mut number: i64) -> Option<String> {
    if !(1..4_000).contains(&number) {
        return None;
    }
    let mut text = String::new();
    for (value, symbol) in SYMBOLS {
        while number >= value {
            text.push_str(symbol);
            number -= value;
        }
    }
    Some(text)
}
