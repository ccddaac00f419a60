//! Words around numbers: which may be a unit or a thing counted, and which change what is computed.

use super::lex::{Kind, Token};
use crate::units;

/// Most words of one unit: `dollars per hour worked`.
pub(super) const MAX_UNIT_WORDS: usize = 5;

/// After a number these are no unit: the value is another, or something else goes on.
const NOT_UNITS: &[&str] = &[
    "and", "or", "of", "plus", "minus", "times", "by", "divided", "multiplied", "than", "is", "are", "was",
    "were", "equals", "equal", "to", "mod", "modulo", "base", "from", "if", "then", "so", "that", "which",
    "but", "with", "remainder", "when", "where", "since", "because", "thus", "hence", "therefore", "we",
    "it", "has", "have", "had", "gives", "get", "gets", "as", "not", "choose", "over", "root", "power",
    "squared", "cubed", "more", "less", "fewer", "twice", "half", "double", "triple", "third", "quarter",
    "dozen", "hundred", "hundreds", "thousand", "thousands", "million", "millions", "billion", "billions",
    "trillion", "tens", "ones", "percent", "pair", "pairs", "dozens", "out", "sin", "cos", "tan", "log",
    "ln", "exp", "sec", "csc", "cot", "gcd", "lcm", "max", "det", "lim", "cis", "left", "point", "would",
    "will", "can", "must", "leaves", "leaving", "makes", "making", "giving", "mins",
];

/// After a whole equality these say that its last number is another, or only a part.
const CHANGES_VALUE: &[&str] = &[
    "mod", "modulo", "base", "remainder", "rem", "dozen", "hundred", "hundreds", "thousand", "thousands",
    "million", "millions", "billion", "billions", "trillion", "percent", "times", "plus", "minus", "divided",
    "multiplied", "squared", "cubed", "choose", "pair", "pairs", "dozens", "tens", "half", "halves", "third",
    "thirds", "quarter", "quarters", "fourths", "fifths", "sixths", "sin", "cos", "tan", "log", "ln", "exp",
    "sec", "csc", "cot", "root", "point", "k", "in base", "score",
];

/// Right before an expression these take part in what is computed.
const FUNCTIONS: &[&str] = &[
    "mod", "modulo", "base", "log", "ln", "sin", "cos", "tan", "sec", "csc", "cot", "exp", "power", "root",
    "square", "cube", "negative", "half", "twice", "double", "triple", "squared", "cubed", "gcd", "lcm",
    "max", "min", "det", "lim", "arctan", "arcsin", "arccos", "choose", "percent", "point", "sqrt", "minus",
];

/// These do when a value stands before them: `5 more than 3 × 4`.
const JOINERS: &[&str] =
    &["of", "plus", "minus", "times", "by", "than", "over", "from", "to", "divided", "multiplied", "per"];

/// These do with an `of` after them.
const SHARES: &[&str] = &[
    "half", "third", "thirds", "quarter", "quarters", "fourth", "fourths", "fifth", "fifths", "percent",
    "percentage", "square", "cube", "root", "fraction", "part", "tenth", "tenths", "sixth", "sixths",
    "eighth", "eighths", "twice", "reciprocal", "inverse", "opposite", "negative", "average", "mean",
    "median",
];

/// Before what is counted these say nothing of a value: `20 + the 5 that are left`.
const DETERMINERS: &[&str] =
    &["the", "a", "an", "his", "her", "its", "their", "my", "our", "your", "another"];

/// Before a number these name nothing: `so 15 = 3 × 5`.
const INTRODUCES: &[&str] = &[
    "so", "since", "that", "because", "then", "have", "get", "thus", "as", "hence", "therefore", "we", "is",
    "know", "but", "note", "and", "find", "obtain", "see", "gives", "where", "also",
];

/// Words of two letters that are no product of variables.
const SHORT: &[&str] = &[
    "in", "is", "so", "or", "to", "as", "at", "by", "we", "it", "if", "on", "up", "an", "be", "my", "no",
    "do", "us", "he", "me", "go", "of",
];

fn is_in(list: &[&str], word: &str) -> bool {
    word.len() <= 12 && list.iter().any(|other| other.eq_ignore_ascii_case(word))
}

/// What a word after a number says about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum After {
    /// Prose, or a unit: the number stands.
    Word,
    /// It may be a variable: the number is not the whole.
    Variable,
    /// The number is another: `3 million`, `5 mod 3`.
    Changes,
}

/// Judges the word right after a number.
pub(super) fn after_number(text: &str, token: Token, next: Option<Kind>) -> After {
    let word = &text[token.range()];
    if token.kind == Kind::Text {
        let inner = content(word);
        let first = inner.split([' ', '~']).find(|part| !part.is_empty()).unwrap_or_default();
        return if is_in(CHANGES_VALUE, first) || is_in(FUNCTIONS, first) {
            After::Changes
        } else {
            After::Word
        };
    }
    if !token.spaced {
        let ordinal = matches!(word, "st" | "nd" | "rd" | "th");
        let known = word.len() > 1 && units::is_known(&word.to_ascii_lowercase());
        return if ordinal || known { After::Word } else { After::Variable };
    }
    match word.len() {
        1 if matches!(word, "a" | "I") && next == Some(Kind::Word) => After::Word,
        1 => After::Variable,
        _ if is_in(CHANGES_VALUE, word) => After::Changes,
        2 if !is_in(SHORT, word) && !units::is_known(&word.to_ascii_lowercase()) => After::Variable,
        3 | 4 if word.bytes().all(|byte| byte.is_ascii_uppercase()) => After::Variable,
        _ => After::Word,
    }
}

/// True when the words may be a unit or what is counted.
pub(super) fn is_unit(text: &str, run: &[Token]) -> bool {
    // `1/2 a cup`, not `1/2 a`.
    let letter = run.len() == 1 && matches!(&text[run[0].range()], "a" | "A");
    run.len() <= MAX_UNIT_WORDS && !letter && run.iter().all(|token| is_unit_word(text, *token))
}

fn is_unit_word(text: &str, token: Token) -> bool {
    let word = &text[token.range()];
    if token.kind == Kind::Text {
        return content(word).split([' ', '~', '-', '/']).all(|part| !is_in(NOT_UNITS, part));
    }
    if is_in(NOT_UNITS, word) {
        return false;
    }
    let is_known = || units::is_known(&word.to_ascii_lowercase());
    match (word.len(), token.spaced) {
        (1, true) => units::is_letter(word) || word == "a",
        (1, false) => false,
        (2, true) => is_known() || is_in(SHORT, word),
        (2, false) => is_known() || matches!(word, "th" | "nd" | "st" | "rd"),
        (3 | 4, true) => !word.bytes().all(|byte| byte.is_ascii_uppercase()),
        (_, true) => true,
        (_, false) => is_known(),
    }
}

/// True when what stands before an expression is a part of what is computed. `before` are the words before it, the
/// nearest last; `value` says that a value stands before them.
pub(super) fn take_part(before: &[&str], value: bool) -> bool {
    if let [rest @ .., last] = before
        && is_in(DETERMINERS, last)
    {
        return take_part(rest, value);
    }
    match before {
        [.., share, of] if of.eq_ignore_ascii_case("of") && is_in(SHARES, share) => true,
        [.., last] if is_in(FUNCTIONS, last) => true,
        [.., last] if is_in(JOINERS, last) => value,
        [and] if *and == "and" => value,
        _ => false,
    }
}

/// True for a word after which a number is a value, not a name.
pub(super) fn introduces(word: &str) -> bool {
    is_in(INTRODUCES, word)
}

/// What stands in the braces of `\text{…}`.
pub(super) fn content(word: &str) -> &str {
    word.split_once('{')
        .map_or(word, |(_, inner)| inner.trim_end_matches('}'))
        .trim_matches([' ', '~', ',', '.'])
}
