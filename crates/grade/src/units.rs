//! Units, as far as grading needs them: which short words are units at all, and which convert into each other.
//!
//! Answers mostly repeat the unit of the question or leave it out, so a unit on one side only is ignored. When both
//! sides name known units their values are converted: 100 cm is 1 m, and 3 m is neither 3 cm nor 3 kg.

use dashu_ratio::RBig;

/// A unit: its dimension, how many of the dimension's base unit it is, and its spellings.
struct Unit {
    dimension: &'static str,
    numerator: i64,
    denominator: i64,
    names: &'static [&'static str],
}

const fn unit(dimension: &'static str, ratio: (i64, i64), names: &'static [&'static str]) -> Unit {
    Unit { dimension, numerator: ratio.0, denominator: ratio.1, names }
}

const UNITS: [Unit; 26] = [
    unit("length", (1, 1000), &["mm", "millimeter", "millimeters", "millimetre", "millimetres"]),
    unit("length", (1, 100), &["cm", "centimeter", "centimeters", "centimetre", "centimetres"]),
    unit("length", (1, 1), &["meter", "meters", "metre", "metres", "m"]),
    unit("length", (1000, 1), &["km", "kilometer", "kilometers", "kilometre", "kilometres"]),
    unit("length", (127, 5_000), &["inch", "inches", "in"]),
    unit("length", (381, 1_250), &["foot", "feet", "ft"]),
    unit("length", (1_143, 1_250), &["yard", "yards", "yd"]),
    unit("length", (201_168, 125), &["mile", "miles", "mi"]),
    unit("mass", (1, 1000), &["mg", "milligram", "milligrams"]),
    unit("mass", (1, 1), &["gram", "grams", "g"]),
    unit("mass", (1000, 1), &["kg", "kilogram", "kilograms"]),
    unit("mass", (45_359_237, 1_600_000), &["ounce", "ounces", "oz"]),
    unit("mass", (45_359_237, 100_000), &["pound", "pounds", "lb", "lbs"]),
    unit("volume", (1, 1000), &["ml", "milliliter", "milliliters"]),
    unit("volume", (1, 1), &["liter", "liters", "litre", "litres", "l"]),
    unit("time", (1, 1), &["sec", "second", "seconds", "secs", "s"]),
    unit("time", (60, 1), &["min", "minute", "minutes", "mins"]),
    unit("time", (3600, 1), &["hr", "hour", "hours", "hrs", "h"]),
    unit("time", (86400, 1), &["day", "days"]),
    unit("time", (604_800, 1), &["week", "weeks"]),
    unit("money", (1, 100), &["cent", "cents", "¢"]),
    unit("money", (1, 1), &["dollar", "dollars", "usd", "$"]),
    unit("angle", (1, 1), &["degree", "degrees", "deg"]),
    unit("speed", (1, 1), &["mph"]),
    // Degrees Celsius and Fahrenheit are no multiples of each other.
    unit("celsius", (1, 1), &["celsius", "c"]),
    unit("fahrenheit", (1, 1), &["fahrenheit", "f"]),
];

/// Short words that are units or parts of a time, not products of variables.
const ABBREVIATIONS: [&str; 9] = ["am", "pm", "rpm", "kph", "sq", "cu", "per", "deg", "cc"];

/// True for a word of two or three letters that is a unit.
pub(super) fn is_abbreviation(word: &str) -> bool {
    let word = word.to_ascii_lowercase();
    let word = word.as_str();
    word.len() >= 2
        && (ABBREVIATIONS.contains(&word)
            || (word != "in" && word != "mi" && UNITS.iter().any(|unit| unit.names.contains(&word))))
}

/// How a value in one unit becomes one in another.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Conversion {
    Factor(RBig),
    /// Both are known and measure different things.
    Impossible,
    Unknown,
}

/// How many of `second` one `first` is.
pub(super) fn conversion(first: &str, second: &str) -> Conversion {
    let (Some((first_unit, first_power)), Some((second_unit, second_power))) = (find(first), find(second))
    else {
        return Conversion::Unknown;
    };
    if first_unit.dimension != second_unit.dimension || first_power != second_power {
        return Conversion::Impossible;
    }
    let ratio = |unit: &Unit| RBig::from(unit.numerator) / RBig::from(unit.denominator);
    Conversion::Factor((ratio(first_unit) / ratio(second_unit)).pow(first_power))
}

/// `3 million` is 3000000.
pub(super) fn scale(word: &str) -> Option<i64> {
    Some(match word.trim().to_ascii_lowercase().as_str() {
        "dozen" => 12,
        "hundred" => 100,
        "thousand" => 1_000,
        "million" => 1_000_000,
        "billion" => 1_000_000_000,
        "trillion" => 1_000_000_000_000,
        _ => return None,
    })
}

/// True for a letter that may be a unit or a variable.
pub(super) fn is_letter(name: &str) -> bool {
    matches!(name, "m" | "g" | "l" | "L" | "s" | "h")
}

/// The unit and its power: `cm^2` and `square inches` are squares.
fn find(name: &str) -> Option<(&'static Unit, isize)> {
    let name = name.trim().trim_end_matches('.');
    let (name, power) = match name.rsplit_once('^') {
        Some((base, "2")) => (base, 2),
        Some((base, "3")) => (base, 3),
        Some(_) => return None,
        None => match name.split_once(' ') {
            Some(("square" | "sq" | "sq.", base)) => (base, 2),
            Some(("cubic" | "cu" | "cu.", base)) => (base, 3),
            Some(_) => return None,
            None => (name, 1),
        },
    };
    Some((UNITS.iter().find(|unit| unit.names.contains(&name.trim()))?, power))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn converts_within_a_dimension_only() {
        let factor = |value: i64| Conversion::Factor(RBig::from(value));
        assert_eq!(conversion("m", "cm"), factor(100));
        assert_eq!(conversion("square feet", "in^2"), factor(144));
        assert_eq!(conversion("miles", "feet"), factor(5_280));
        assert_eq!(conversion("lb", "oz"), factor(16));
        assert_eq!(conversion("dollars", "cents"), factor(100));
        assert_eq!(conversion("kg", "cm"), Conversion::Impossible);
        assert_eq!(conversion("apples", "apples"), Conversion::Unknown);
    }
}
