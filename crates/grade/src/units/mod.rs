//! Units, as far as grading needs them: which words are units at all, and which convert into each other.
//!
//! Answers mostly repeat the unit of the question or leave it out, so a unit on one side only is ignored. When both
//! sides name units their values are converted: 100 cm is 1 m, 60 miles per hour is 88 feet per second, and 3 m is neither
//! 3 cm nor 3 kg. A word that the table does not know is equal to itself, and against anything else nothing is said.

mod table;

use dashu_ratio::RBig;

use table::{BASES, Base, Unit, readings};

/// Short words that are parts of a time or of a unit, not products of variables.
const ABBREVIATIONS: [&str; 6] = ["am", "pm", "rpm", "sq", "cu", "per"];
/// Short units that may as well be products of variables.
const PRODUCTS: [&str; 12] = ["in", "mi", "pt", "ha", "us", "ns", "ms", "pa", "kn", "cl", "dl", "gm"];
/// Words after a unit that say nothing about it: `5 feet long`.
const REMARKS: [&str; 24] = [
    "long", "tall", "wide", "high", "deep", "thick", "old", "away", "apart", "each", "total", "altogether",
    "left", "in", "remaining", "approximately", "about", "roughly", "only", "all", "overall", "the", "time",
    "exactly",
];

/// Words that make more of a value than a quantity: `3 plus x`, `10 choose n`, `5 degrees below zero`, `n odd`.
const OPERATIONS: [&str; 11] = [
    "plus", "minus", "divided", "multiplied", "over", "choose", "factorial", "remainder", "below", "odd",
    "even",
];
/// Words that do so before the name of a variable: `2 times x`, `5 percent of x`.
const BEFORE_NAMES: [&str; 4] = ["times", "of", "than", "by"];
/// Words of which a quantity can have only one.
const CONTRADICTIONS: [&[&str]; 5] = [
    &["left", "right", "up", "down", "above"],
    &["north", "south", "east", "west"],
    &["each", "total", "altogether"],
    &["wide", "high", "long", "deep", "thick"],
    &["wide", "tall", "long", "deep", "thick"],
];

/// True when a name of a unit says something that changes the value before it, so that it cannot be left out.
pub(super) fn says_more(name: &str) -> bool {
    let words: Vec<&str> = name.split_whitespace().collect();
    let is_name = |word: &str| word == "pi" || (word.len() == 1 && word != "a" && readings(word).is_empty());
    words.iter().any(|word| OPERATIONS.contains(word))
        || words.windows(2).any(|pair| BEFORE_NAMES.contains(&pair[0]) && is_name(pair[1]))
}

/// True for names that cannot both be meant: `units left` and `units right`.
pub(super) fn contradict(first: &str, second: &str) -> bool {
    CONTRADICTIONS.iter().any(|words| {
        let said = |name: &str| name.split_whitespace().find(|word| words.contains(word)).map(str::to_owned);
        matches!((said(first), said(second)), (Some(a), Some(b)) if a != b)
    })
}

/// How many of these make one: `3 tenths`.
pub(super) fn share(name: &str) -> Option<i64> {
    Some(match name.strip_suffix('s').unwrap_or(name) {
        "half" | "halve" => 2,
        "third" => 3,
        "fourth" => 4,
        "fifth" => 5,
        "sixth" => 6,
        "seventh" => 7,
        "eighth" => 8,
        "ninth" => 9,
        "tenth" => 10,
        "hundredth" => 100,
        "thousandth" => 1_000,
        _ => return None,
    })
}

/// A unit in small letters, spelled out where capitals tell two units apart: a megawatt is no milliwatt.
pub(super) fn lowercase(name: &str) -> String {
    let word = |word: &str| {
        let spelled = match word {
            "mW" => "milliwatt",
            "MW" => "megawatt",
            "mHz" => "millihertz",
            "mJ" => "millijoule",
            "MJ" => "megajoule",
            "mV" => "millivolt",
            "MV" => "megavolt",
            "Mm" => "megameter",
            "Mg" => "megagram",
            "kb" => "kilobit",
            "Mb" => "megabit",
            "Gb" => "gigabit",
            _ => return word.to_lowercase(),
        };
        spelled.to_owned()
    };
    name.split_whitespace().map(word).collect::<Vec<_>>().join(" ")
}

/// True for a word of two to four letters that is a unit.
pub(super) fn is_abbreviation(word: &str) -> bool {
    if !(2..=4).contains(&word.len()) {
        return false;
    }
    let word = word.to_ascii_lowercase();
    let word = word.as_str();
    ABBREVIATIONS.contains(&word) || (!PRODUCTS.contains(&word) && !readings(word).is_empty())
}

/// True for a short unit that is one only at the end of an answer, `5 in`.
pub(super) fn is_last_abbreviation(word: &str) -> bool {
    matches!(word, "in" | "mi" | "ms" | "pt" | "ha")
}

/// True for a letter that may be a unit or a variable.
pub(super) fn is_letter(name: &str) -> bool {
    matches!(name, "m" | "g" | "l" | "L" | "s" | "h")
}

/// The unit that a capital letter stands for, where it is no variable.
pub(super) fn capital(letter: &str) -> Option<&'static str> {
    Some(match letter {
        "N" => "newton",
        "J" => "joule",
        "W" => "watt",
        "V" => "volt",
        "A" => "ampere",
        "K" => "kelvin",
        _ => return None,
    })
}

/// True for a currency, which may stand before its value.
pub(super) fn is_currency(name: &str) -> bool {
    let is_money = |base: Base| {
        matches!(
            base,
            Base::Dollar | Base::Euro | Base::Sterling | Base::Yen | Base::Yuan | Base::Rupee | Base::Ruble
        )
    };
    readings(name).iter().any(|unit| matches!(unit.powers, [(base, 1)] if is_money(*base)))
}

/// How a value in one unit becomes one in another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Conversion {
    /// It is multiplied.
    Factor(RBig),
    /// It is multiplied, then something is added: temperatures.
    Affine(RBig, RBig),
    /// It is multiplied by something near this: a month has 28 to 31 days.
    Nearly(RBig),
    /// Both are known and measure different things.
    Impossible,
    /// One is not known.
    Unknown,
}

/// `3 million` is 3000000.
pub(super) fn scale(word: &str) -> Option<i64> {
    Some(match word.trim().to_ascii_lowercase().as_str() {
        "dozen" => 12,
        "hundred" | "hundreds" => 100,
        "thousand" | "thousands" => 1_000,
        "lakh" | "lakhs" => 100_000,
        "million" | "millions" => 1_000_000,
        "crore" | "crores" => 10_000_000,
        "billion" | "billions" => 1_000_000_000,
        "trillion" | "trillions" => 1_000_000_000_000,
        "quadrillion" | "quadrillions" => 1_000_000_000_000_000,
        _ => return None,
    })
}

/// Words of a unit that is taken apart.
const MAX_WORDS: usize = 10;
/// The most readings that a name of the table has.
const MAX_READINGS: usize = 3;

/// All ways to convert from `first` to `second`, one for each reading of their names.
pub(super) fn conversions(first: &str, second: &str) -> Vec<Conversion> {
    let mut found = Vec::new();
    let of_second: Vec<Measure> = all_readings(second);
    for from in all_readings(first) {
        for to in &of_second {
            let conversion = conversion(&from, to);
            if !found.contains(&conversion) {
                found.push(conversion);
            }
        }
    }
    // A reading that measures something else says nothing where another fits.
    if found.iter().any(|conversion| *conversion != Conversion::Impossible) {
        found.retain(|conversion| *conversion != Conversion::Impossible);
    }
    found
}

/// True when the quantities of two units may be added: `5 ft 6 in`.
pub(super) fn is_part_of(smaller: &str, larger: &str) -> Option<RBig> {
    match conversions(smaller, larger).as_slice() {
        [Conversion::Factor(factor), ..] if *factor < RBig::ONE => Some(factor.clone()),
        _ => None,
    }
}

/// True for a name of which every word is a known unit.
pub(super) fn is_known(name: &str) -> bool {
    measure(name, 0).is_some_and(|measure| measure.unknown.is_empty() && measure.noun.is_none())
}

/// A unit, taken apart.
#[derive(Debug, PartialEq, Eq)]
struct Measure {
    factor: RBig,
    powers: [i8; BASES],
    /// Zero of the scale, in base units; only of a temperature alone.
    offset: RBig,
    /// Words that are not in the table, with their powers, sorted.
    unknown: Vec<(String, i8)>,
    /// What is measured: `flour` of `cups of flour`.
    noun: Option<String>,
}

fn all_readings(name: &str) -> Vec<Measure> {
    let mut found: Vec<Measure> = Vec::new();
    for reading in 0..MAX_READINGS {
        if let Some(measure) = measure(name, reading)
            && !found.contains(&measure)
        {
            found.push(measure);
        }
    }
    found
}

fn conversion(from: &Measure, to: &Measure) -> Conversion {
    let nouns_differ = matches!((&from.noun, &to.noun), (Some(a), Some(b)) if a != b);
    if from.unknown != to.unknown || nouns_differ {
        return Conversion::Unknown;
    }
    let factor = from.factor.clone() / to.factor.clone();
    if from.powers == to.powers {
        if from.offset == to.offset && from.factor == to.factor {
            return Conversion::Factor(RBig::ONE);
        }
        if from.offset == RBig::ZERO && to.offset == RBig::ZERO {
            return Conversion::Factor(factor);
        }
        let shift = from.offset.clone() * factor.clone() - to.offset.clone();
        return Conversion::Affine(factor, shift);
    }
    let (days, of_month) = (Base::Time as usize, Base::Month as usize);
    let moved = |powers: &[i8; BASES]| {
        let mut powers = *powers;
        powers[days] = powers[days].saturating_add(powers[of_month]);
        powers[of_month] = 0;
        powers
    };
    if moved(&from.powers) != moved(&to.powers) {
        return Conversion::Impossible;
    }
    // 30.436875 days is a twelfth of a Gregorian year.
    let seconds = RBig::from(2_629_746);
    Conversion::Nearly(
        factor * seconds.pow(isize::from(from.powers[of_month].saturating_sub(to.powers[of_month]))),
    )
}

/// Reads a unit such as `cm^2`, `square inches`, `miles per hour`, `kg m / s^2`, `cups of flour`. `None` when there is none,
/// as in `square units`.
fn measure(name: &str, reading: usize) -> Option<Measure> {
    let mut found = Measure {
        factor: RBig::ONE,
        powers: [0; BASES],
        offset: RBig::ZERO,
        unknown: Vec::new(),
        noun: None,
    };
    let spaced = name.replace('/', " / ").replace('-', " ");
    let words: Vec<&str> = spaced.split_whitespace().map(|word| word.trim_end_matches(['.', ','])).collect();
    // More words than that are no unit that anyone converts.
    if words.len() > MAX_WORDS {
        found.unknown.push((name.to_owned(), 1));
        return Some(found);
    }
    let mut sign = 1i8;
    let mut prefix = 1i8;
    let mut atoms = 0;
    let mut at = 0;
    while at < words.len() {
        let word = words[at];
        let pair = words.get(at + 1).map(|next| format!("{word} {next}"));
        at += 1;
        match word {
            "per" | "/" | "a" | "an" if atoms > 0 => sign = -1,
            "square" | "sq" => prefix = 2,
            "cubic" | "cu" => prefix = 3,
            "of" if atoms > 0 => {
                found.noun = Some(words[at..].join(" "));
                break;
            }
            "unit" | "units" => return None,
            remark if atoms > 0 && REMARKS.contains(&remark) => {}
            _ => {
                let (base, written_power) = match word.split_once('^') {
                    Some((base, power)) => (base, power.parse::<i8>().ok().filter(|p| (1..=6).contains(p))),
                    None => (word, Some(1)),
                };
                let after = match words.get(at) {
                    Some(&"squared") => 2,
                    Some(&"cubed") => 3,
                    _ => 1,
                };
                at += usize::from(after > 1);
                let mut rows = pair.as_deref().map_or(&[][..], readings);
                if rows.is_empty() {
                    rows = readings(base);
                } else {
                    at += 1;
                }
                let power = sign * std::mem::replace(&mut prefix, 1) * written_power? * after;
                match rows.get(reading).or(rows.last()) {
                    Some(unit) => found.multiply(unit, power),
                    None => found.unknown.push((singular(base), power)),
                }
                atoms += 1;
            }
        }
    }
    found.unknown.sort();
    // An offset belongs to a temperature by itself, not to degrees per hour.
    if atoms > 1 {
        found.offset = RBig::ZERO;
    }
    (atoms > 0).then_some(found)
}

impl Measure {
    fn multiply(&mut self, unit: &Unit, power: i8) {
        let ratio = |(top, bottom): (i64, i64)| RBig::from(top) / RBig::from(bottom);
        self.factor *= ratio(unit.ratio).pow(isize::from(power));
        self.offset = ratio(unit.offset);
        for (base, exponent) in unit.powers {
            let sum = &mut self.powers[*base as usize];
            *sum = sum.saturating_add(exponent.saturating_mul(power));
        }
    }
}

/// An unknown word without the `s` of its plural.
fn singular(word: &str) -> String {
    match word {
        "people" | "persons" => "person".into(),
        "children" => "child".into(),
        "men" => "man".into(),
        "women" => "woman".into(),
        _ if word.len() > 4 && word.ends_with("ies") => format!("{}y", &word[..word.len() - 3]),
        _ if word.len() > 4 && ["ches", "shes", "xes", "sses"].iter().any(|end| word.ends_with(end)) => {
            word[..word.len() - 2].to_owned()
        }
        _ if word.len() > 2 && word.ends_with('s') && !word.ends_with("ss") => {
            word[..word.len() - 1].to_owned()
        }
        _ => word.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn only(first: &str, second: &str) -> Conversion {
        let found = conversions(first, second);
        assert_eq!(found.len(), 1, "{first} and {second}: {found:?}");
        found[0].clone()
    }

    #[test]
    fn converts_within_a_dimension_only() {
        let factor = |value: i64| Conversion::Factor(RBig::from(value));
        assert_eq!(only("m", "cm"), factor(100));
        assert_eq!(only("square feet", "in^2"), factor(144));
        assert_eq!(only("miles", "feet"), factor(5_280));
        assert_eq!(only("lb", "grams"), Conversion::Factor(RBig::from(45_359_237) / RBig::from(100_000)));
        assert_eq!(only("liters", "cm^3"), factor(1_000));
        assert_eq!(only("gallon", "quarts"), factor(4));
        assert_eq!(only("years", "months"), factor(12));
        assert_eq!(only("acre", "square feet"), factor(43_560));
        assert_eq!(only("m/s", "kilometers per hour"), Conversion::Factor(RBig::from(18) / RBig::from(5)));
        assert_eq!(only("dollars per person", "cents / people"), factor(100));
        assert_eq!(only("kg", "cm"), Conversion::Impossible);
        assert_eq!(only("euros", "dollars"), Conversion::Impossible);
    }

    #[test]
    fn what_is_not_in_the_table_is_equal_to_itself_alone() {
        assert_eq!(only("apples", "apple"), Conversion::Factor(RBig::ONE));
        assert_eq!(only("apples", "oranges"), Conversion::Unknown);
        assert_eq!(only("apples", "km"), Conversion::Unknown);
        assert_eq!(only("cups of flour", "cups of sugar"), Conversion::Unknown);
        assert!(conversions("square units", "cm^2").is_empty());
    }

    #[test]
    fn words_with_two_meanings_have_two_conversions() {
        assert_eq!(conversions("tons", "pounds").len(), 2);
        assert_eq!(conversions("ounces", "cups"), [Conversion::Factor(RBig::from(1) / RBig::from(8))]);
        assert!(matches!(only("months", "days"), Conversion::Nearly(_)));
        assert!(matches!(only("celsius", "fahrenheit"), Conversion::Affine(..)));
    }
}
