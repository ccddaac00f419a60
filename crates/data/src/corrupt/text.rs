//! What can be changed in a step's text so that it becomes false.

use std::ops::Range;

use rand::RngExt;
use rand::seq::IndexedRandom;
use rand_chacha::ChaCha8Rng;

/// Where numbers are: digits, with commas between thousands and a decimal point, that are no part of a word or a command.
pub(super) fn numbers(text: &str) -> Vec<Range<usize>> {
    let bytes = text.as_bytes();
    let digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
    let mut found = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        if !digit(at) {
            at += 1;
            continue;
        }
        let start = at;
        while digit(at) || (matches!(bytes.get(at), Some(b',' | b'.')) && digit(at + 1) && at > start) {
            at += 1;
        }
        let before = text[..start].chars().next_back();
        let after = text[at..].chars().next();
        let word = |c: Option<char>| c.is_some_and(|c| c.is_alphabetic() || c == '_' || c == '\\');
        // 3x and 2nd are words here: 'x' and 'nd' belong to them.
        if !word(before) && !after.is_some_and(char::is_alphabetic) {
            found.push(start..at);
        }
    }
    found
}

/// The number that a step arrives at: the last one after an equals sign or in a box, or else one that the question states.
pub(super) fn result(step: &str, question: &str) -> Option<Range<usize>> {
    let all = numbers(step);
    let follows_equals = |place: &&Range<usize>| {
        let before = step[..place.start].trim_end_matches([' ', '$', '-', '\\', '{', '(']);
        let before =
            before.strip_suffix("boxed").map_or(before, |rest| rest.trim_end_matches(['\\', ' ', '$']));
        before.ends_with('=')
            || before.len() < step[..place.start].len() && step[..place.start].ends_with("boxed{")
    };
    if let Some(place) = all.iter().rev().find(follows_equals) {
        return Some(place.clone());
    }
    let stated = numbers(question);
    let in_question =
        |place: &&Range<usize>| stated.iter().any(|other| question[other.clone()] == step[(*place).clone()]);
    all.iter().find(in_question).cloned()
}

/// Another number of the same kind.
pub(super) fn another(number: &str, random: &mut ChaCha8Rng) -> Option<String> {
    let plain = number.replace(',', "");
    if let Some((whole, decimals)) = plain.split_once('.') {
        let mut digits: Vec<u8> = decimals.bytes().collect();
        let last = digits.last_mut()?;
        *last = b'0' + (*last - b'0' + random.random_range(1..10)) % 10;
        return Some(format!("{whole}.{}", String::from_utf8(digits).ok()?));
    }
    let value: u64 = plain.parse().ok()?;
    let near = (value / 5).max(2);
    let new = match random.random_range(0..6) {
        0 => value.wrapping_add(1),
        1 => value.checked_sub(1)?,
        2 => value.wrapping_add(random.random_range(1..=near)),
        3 => value.saturating_sub(random.random_range(1..=near)),
        4 => value.checked_mul(if value < 1000 { 10 } else { 2 })?,
        _ => value.wrapping_add(10),
    };
    (new != value).then(|| new.to_string())
}

/// Replaces a number wherever it stands; none where it does not.
pub(super) fn renamed(text: &mut String, old: &str, new: &str) -> Option<()> {
    let places: Vec<Range<usize>> =
        numbers(text).into_iter().filter(|place| &text[place.clone()] == old).collect();
    for place in places.iter().rev() {
        text.replace_range(place.clone(), new);
    }
    (!places.is_empty()).then_some(())
}

/// The step with one operation between two numbers replaced, if that makes a difference.
pub(super) fn operated(step: &str, random: &mut ChaCha8Rng) -> Option<String> {
    const SWAPS: [(&str, &str); 10] = [
        ("+", "-"),
        ("-", "+"),
        ("*", "+"),
        ("×", "+"),
        ("/", "*"),
        ("\\times", "+"),
        ("\\cdot", "+"),
        ("x", "+"),
        ("÷", "×"),
        ("\\div", "\\times"),
    ];
    let all = numbers(step);
    let mut found: Vec<(Range<usize>, &str)> = Vec::new();
    for pair in all.windows(2) {
        let between = &step[pair[0].end..pair[1].start];
        let inner = between.trim_matches([' ', '$']);
        let Some((old, new)) = SWAPS.iter().find(|(old, _)| *old == inner) else { continue };
        let value = |place: &Range<usize>| step[place.clone()].replace(',', "").parse::<f64>().unwrap_or(0.0);
        let (a, b) = (value(&pair[0]), value(&pair[1]));
        let apply = |operation: &str| match operation {
            "+" => a + b,
            "-" => a - b,
            "/" | "÷" | "\\div" => a / b,
            _ => a * b,
        };
        if (apply(old) - apply(new)).abs() > 1e-9 {
            let start = pair[0].end + between.find(old).unwrap_or(0);
            found.push((start..start + old.len(), new));
        }
    }
    let (place, new) = found.choose(random)?.clone();
    let mut changed = step.to_owned();
    changed.replace_range(place, new);
    Some(changed)
}

/// The step with one unit replaced.
pub(super) fn remeasured(step: &str, random: &mut ChaCha8Rng) -> Option<String> {
    const UNITS: [(&str, &str); 20] = [
        ("dollars", "cents"),
        ("cents", "dollars"),
        ("hours", "minutes"),
        ("minutes", "hours"),
        ("seconds", "minutes"),
        ("days", "weeks"),
        ("weeks", "days"),
        ("months", "years"),
        ("years", "months"),
        ("feet", "inches"),
        ("inches", "feet"),
        ("meters", "kilometers"),
        ("kilometers", "meters"),
        ("miles", "feet"),
        ("pounds", "ounces"),
        ("ounces", "pounds"),
        ("grams", "kilograms"),
        ("kilograms", "grams"),
        ("gallons", "quarts"),
        ("degrees", "radians"),
    ];
    let found: Vec<_> = UNITS.iter().flat_map(|(old, new)| words(step, old, new)).collect();
    swapped(step, &found, random)
}

/// The step with one relation, function, sign, power or word turned into its opposite.
pub(super) fn opposed(step: &str, random: &mut ChaCha8Rng) -> Option<String> {
    const WORDS: [(&str, &str); 24] = [
        ("even", "odd"),
        ("more", "less"),
        ("greater", "smaller"),
        ("positive", "negative"),
        ("maximum", "minimum"),
        ("largest", "smallest"),
        ("increases", "decreases"),
        ("increasing", "decreasing"),
        ("sum", "difference"),
        ("product", "sum"),
        ("twice", "half"),
        ("parallel", "perpendicular"),
        ("inside", "outside"),
        ("numerator", "denominator"),
        ("area", "perimeter"),
        ("radius", "diameter"),
        ("at least", "at most"),
        ("before", "after"),
        ("adding", "subtracting"),
        ("add", "subtract"),
        ("multiply", "divide"),
        ("multiplying", "dividing"),
        ("row", "column"),
        ("rational", "irrational"),
    ];
    const SIGNS: [(&str, &str); 10] = [
        ("\\sin", "\\cos"),
        ("\\le", "\\ge"),
        ("\\leq", "\\geq"),
        (" < ", " > "),
        ("\\cup", "\\cap"),
        (" + ", " - "),
        ("^2", "^3"),
        ("\\tan", "\\cot"),
        ("\\max", "\\min"),
        ("\\log", "\\exp"),
    ];
    let both = |pairs: &'static [(&str, &str)]| {
        pairs.iter().flat_map(|(one, other)| [(*one, *other), (*other, *one)])
    };
    let command = |(at, old, _): &(usize, &str, &str)| {
        !old.starts_with('\\') || !step[at + old.len()..].starts_with(char::is_alphabetic)
    };
    let signs = both(&SIGNS)
        .flat_map(|(old, new)| step.match_indices(old).map(move |(at, _)| (at, old, new)))
        .filter(command);
    let found: Vec<_> = both(&WORDS).flat_map(|(old, new)| words(step, old, new)).chain(signs).collect();
    swapped(step, &found, random)
}

/// Where a whole word stands, and what it could become.
fn words<'a>(step: &str, old: &'a str, new: &'a str) -> impl Iterator<Item = (usize, &'a str, &'a str)> {
    let letter = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
    step.match_indices(old)
        .filter(move |(at, word)| {
            !letter(step[..*at].chars().next_back()) && !letter(step[at + word.len()..].chars().next())
        })
        .map(move |(at, _)| (at, old, new))
}

/// The text with one of these places changed.
fn swapped(text: &str, places: &[(usize, &str, &str)], random: &mut ChaCha8Rng) -> Option<String> {
    let (at, old, new) = *places.choose(random)?;
    let mut changed = text.to_owned();
    changed.replace_range(at..at + old.len(), new);
    Some(changed)
}
