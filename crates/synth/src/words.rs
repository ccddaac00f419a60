//! Names, and the small change of English: capitals, lists, plurals.

use super::dice::Dice;

/// Given names, all different in their first three letters so that they are not confused in reading.
pub(super) const NAMES: &[&str] = &[
    "Ana", "Boris", "Chen", "Dana", "Elena", "Farid", "Grace", "Hugo", "Ines", "Jonas", "Kira", "Leo",
    "Mina", "Nadia", "Omar", "Petra", "Quentin", "Rosa", "Samir", "Tara", "Uma", "Viktor", "Wanda", "Yusuf",
    "Zoe", "Aisha", "Bruno", "Clara", "David", "Emil", "Freya", "Goran", "Hana", "Ivan", "Julia", "Karim",
    "Lena", "Marco", "Nils", "Olga",
];

/// One name.
pub(super) fn name(dice: &mut Dice) -> &'static str {
    dice.pick(NAMES)
}

/// The same text with a capital first letter.
pub(super) fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

/// `a, b and c`.
pub(super) fn list(items: &[String]) -> String {
    match items {
        [] => String::new(),
        [only] => only.clone(),
        [rest @ .., last] => format!("{} and {last}", rest.join(", ")),
    }
}

/// `1st`, `2nd`, `13th`.
pub(super) fn ordinal(n: i64) -> String {
    let suffix = match (n % 10, n % 100) {
        (_, 11..=13) => "th",
        (1, _) => "st",
        (2, _) => "nd",
        (3, _) => "rd",
        _ => "th",
    };
    format!("{n}{suffix}")
}

/// `twice`, or `3 times`.
pub(super) fn times(n: i64) -> String {
    if n == 2 { "twice".to_owned() } else { format!("{n} times") }
}

/// A true but useless sentence, and the number in it.
pub(super) fn aside(dice: &mut Dice, who: &str) -> (String, i64) {
    let kind = dice.between(0, 5);
    let n = if kind == 3 { dice.between(5, 9) } else { dice.between(11, 48) };
    let text = match kind {
        0 => format!("{who} is {n} years old."),
        1 => format!("{who} lives at number {n} of the same street."),
        2 => format!("It is {n} degrees outside."),
        3 => format!("{who} slept {n} hours last night."),
        4 => format!("{who} took bus {n} this morning."),
        _ => format!("{who} has {n} unread messages."),
    };
    (text, n)
}
