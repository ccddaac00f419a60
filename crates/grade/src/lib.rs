//! Final answers: find one in a solution, and decide whether two are equal.
//!
//! ```
//! use gradus_grade::{compare, grade, Verdict};
//! assert_eq!(compare(r"\frac{\sqrt{3}}{3}", r"1/\sqrt{3}"), Verdict::Equal);
//! assert_eq!(compare("(-2, 3]", "-2 < x \\le 3"), Verdict::Equal);
//! assert_eq!(grade("72", "48 + 24 = 72, so she sold \\boxed{72} clips.").verdict, Verdict::Equal);
//! ```
//!
//! A verdict is *equal*, *different*, or *undecided* with a reason; 'cannot tell' never passes for 'wrong'. Every call
//! does bounded work: inputs, nesting, digits and sample points are limited, so no input hangs it, overflows the
//! stack or panics. It keeps no state and needs no clock, so any number of threads may grade.
//!
//! Notation that writers use in two ways, such as `1/2x` and `\log`, is read in the usual way; where only the other way
//! makes two answers equal, that is undecided. Conventions: a unit or name on one side only does not matter, 50% is 50
//! and 0.5, 60° is 60 and π/3.
//!
//! Left out: integrals, limits, sums without end, set differences, and inequalities in several variables that are not
//! linear. Such answers are equal when they are written alike, and else undecided.

mod branches;
pub mod checks;
mod choices;
mod clock;
mod curves;
mod dates;
mod decide;
mod equal;
mod exact;
mod expr;
mod extract;
mod families;
mod field;
mod intervals;
mod lex;
mod numeric;
mod parse;
mod piecewise;
mod precise;
pub mod qa;
mod quantities;
mod relations;
mod roman;
mod sets;
mod solve;
mod steps;
mod symbols;
mod text;
mod units;
mod vectors;

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use expr::Expr;
pub use extract::{Extracted, Found, extract};
use lex::Reading;
use parse::Parsed;

/// Whether two answers are the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "verdict", content = "reason")]
pub enum Verdict {
    /// They are the same.
    Equal,
    /// They are not.
    Different,
    /// It cannot be told, and why.
    Undecided(Reason),
}

/// Why a verdict could not be reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Reason {
    /// No gold answer was given.
    NoGold,
    /// The solution has no final answer.
    NoAnswer,
    /// The gold answer is not mathematics that the grader reads.
    UnreadableGold,
    /// The answer is not mathematics that the grader reads.
    UnreadableAnswer,
    /// An answer has too many parts.
    TooLarge,
    /// The numeric tests did not settle it.
    Inconclusive,
}

impl Reason {
    /// The reason in words.
    pub fn describe(self) -> &'static str {
        match self {
            Self::NoGold => "there is no gold answer",
            Self::NoAnswer => "the solution has no final answer",
            Self::UnreadableGold => "the gold answer cannot be read as mathematics",
            Self::UnreadableAnswer => "the answer cannot be read as mathematics",
            Self::TooLarge => "an answer has too many parts",
            Self::Inconclusive => "numeric tests did not settle it",
        }
    }
}

/// A solution's grade.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Grade {
    /// The verdict.
    #[serde(flatten)]
    pub verdict: Verdict,
    /// The answer that was found in the solution.
    pub answer: Option<String>,
    /// Where it was found.
    pub found: Option<Found>,
}

/// Finds the final answer of `solution` and compares it with `gold`.
pub fn grade(gold: &str, solution: &str) -> Grade {
    match extract(solution) {
        None => Grade { verdict: Verdict::Undecided(Reason::NoAnswer), answer: None, found: None },
        Some(Extracted { answer, found }) => {
            Grade { verdict: compare(gold, &answer), answer: Some(answer), found: Some(found) }
        }
    }
}

/// Decides whether `answer` is the same as `gold`.
pub fn compare(gold: &str, answer: &str) -> Verdict {
    let (gold, answer) = (tidy(gold), tidy(answer));
    if gold.is_empty() {
        return Verdict::Undecided(Reason::NoGold);
    }
    if answer.is_empty() {
        return Verdict::Undecided(Reason::NoAnswer);
    }
    if gold == answer || text::squeeze(&gold) == text::squeeze(&answer) {
        return Verdict::Equal;
    }
    let special = choices::compare_options(&gold, &answer)
        .or_else(|| dates::compare(&gold, &answer))
        .or_else(|| text::compare_sentences(&gold, &answer));
    if let Some(verdict) = special {
        return verdict;
    }
    let (gold_parsed, answer_parsed) = (read(&gold), read(&answer));
    let numeral = roman::compare(&gold, answer_parsed.as_ref().map(|parsed| &parsed.expr))
        .or_else(|| roman::compare(&answer, gold_parsed.as_ref().map(|parsed| &parsed.expr)));
    if let Some(verdict) = numeral {
        return verdict;
    }
    match (gold_parsed, answer_parsed) {
        (Some(gold_parsed), Some(answer_parsed)) => {
            let verdict = match equal::same(&gold_parsed.expr, &answer_parsed.expr) {
                // Sample points come from the left side first; the other side's may settle it.
                Verdict::Undecided(_) => equal::same(&answer_parsed.expr, &gold_parsed.expr),
                verdict => verdict,
            };
            if verdict == Verdict::Equal {
                // f(x + y) is f(x) + f(y) as a product only.
                let as_products =
                    (gold_parsed.applies || answer_parsed.applies) && !same_functions(&gold, &answer);
                // ABC and CBA are the same product, but not the same order; nor is `on` the word `no`.
                let as_letters = (text::is_capitals(&gold) && text::is_capitals(&answer))
                    || (text::is_short_word(&gold) && text::is_short_word(&answer));
                return if as_products || as_letters {
                    Verdict::Undecided(Reason::Inconclusive)
                } else {
                    verdict
                };
            }
            let reread = |reading| reread(&gold, &gold_parsed, &answer, &answer_parsed, reading);
            if same_words(&gold, &answer) || reread(Reading::OtherCommas) {
                return Verdict::Equal;
            }
            if verdict == Verdict::Different
                && (reread(Reading::Unusual)
                    || families::same_but_names(&gold_parsed.expr, &answer_parsed.expr))
            {
                return Verdict::Undecided(Reason::Inconclusive);
            }
            verdict
        }
        (gold_parsed, answer_parsed) => {
            as_text(&gold, gold_parsed.is_some(), &answer, answer_parsed.is_some())
        }
    }
}

/// Reads an answer as mathematics, or the one number of a sentence.
fn read(text: &str) -> Option<Parsed> {
    if text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '\\') && text::is_wordy(text) {
        let words = text::words(text);
        if let Some(expr) = text::meaning(&words) {
            return Some(Parsed { expr, ambiguous: false, doubtful: false, applies: false });
        }
        if text::may_count(&words) || text::is_prose(&words) {
            return None;
        }
    }
    let parse = |text: &str| parse::parse(text, Reading::Usual);
    if text::is_sentence(text) {
        return extract::only_number(text).and_then(parse);
    }
    parse(text).or_else(|| extract::only_number(text).and_then(parse))
}

/// Strips what surrounds an answer; `p.m.` and `o'clock` lose their marks, and a price keeps its currency.
fn tidy(answer: &str) -> Cow<'_, str> {
    let stripped = text::unboxed(text::strip(answer));
    let mut tidied = Cow::Borrowed(stripped);
    if stripped.contains(".m") || stripped.contains(".M") {
        tidied = Cow::Owned(
            ["p.m.", "p.m", "P.M.", "P.M"]
                .iter()
                .fold(stripped.to_owned(), |text, mark| text.replace(mark, "pm")),
        );
        tidied = Cow::Owned(
            ["a.m.", "a.m", "A.M.", "A.M"]
                .iter()
                .fold(tidied.into_owned(), |text, mark| text.replace(mark, "am")),
        );
    }
    if stripped.contains("o'clock") || stripped.contains("o’clock") {
        tidied = Cow::Owned(tidied.replace("o'clock", "oclock").replace("o’clock", "oclock"));
    }
    if text::is_price(answer) {
        tidied = Cow::Owned(match tidied.strip_prefix('-') {
            Some(amount) => format!("-\\${}", amount.trim_start_matches('$')),
            None => format!("\\${tidied}"),
        });
    }
    tidied
}

/// True when two answers are equal with `f(x + 1)` read as a value of f.
fn same_functions(gold: &str, answer: &str) -> bool {
    let read = |text: &str| parse::parse(text, Reading::Functions);
    match (read(gold), read(answer)) {
        (Some(gold), Some(answer)) => equal::same(&gold.expr, &answer.expr) == Verdict::Equal,
        _ => false,
    }
}

/// True when another reading of one side or both makes them equal.
fn reread(gold: &str, gold_parsed: &Parsed, answer: &str, answer_parsed: &Parsed, reading: Reading) -> bool {
    let other = |text: &str, parsed: &Parsed| -> Option<Expr> {
        let possible = if reading == Reading::Unusual { parsed.doubtful } else { parsed.ambiguous };
        possible.then(|| parse::parse(text, reading)).flatten().map(|parsed| parsed.expr)
    };
    let gold_other = other(gold, gold_parsed);
    let answer_other = other(answer, answer_parsed);
    let equal = |a: &Expr, b: &Expr| equal::same(a, b) == Verdict::Equal;
    gold_other.as_ref().is_some_and(|gold| equal(gold, &answer_parsed.expr))
        || answer_other.as_ref().is_some_and(|answer| equal(&gold_parsed.expr, answer))
        || matches!((&gold_other, &answer_other), (Some(gold), Some(answer)) if equal(gold, answer))
}

/// Words that also read as products of letters, `odd` and `\text{Odd}`; not `ab-cd` and `ab/cd`, nor `ab` and `AB`.
fn same_words(gold: &str, answer: &str) -> bool {
    let is_words = |text: &str| text::is_wordy(text) && !text.contains(['-', '/', '*', '!', '|', '%', '\'']);
    is_words(gold)
        && is_words(answer)
        && text::compare(gold, answer) == Verdict::Equal
        && text::has_inner_capital(gold) == text::has_inner_capital(answer)
}

/// At least one side is not mathematics: words are compared as words, and anything else stays open.
fn as_text(gold: &str, gold_read: bool, answer: &str, answer_read: bool) -> Verdict {
    let (gold_wordy, answer_wordy) = (text::is_wordy(gold), text::is_wordy(answer));
    if gold_wordy && answer_wordy {
        return text::compare(gold, answer);
    }
    for (wordy, other_read, text) in [(gold_wordy, answer_read, gold), (answer_wordy, gold_read, answer)] {
        if wordy && other_read && !text::may_count(&text::words(text)) {
            return Verdict::Different;
        }
    }
    Verdict::Undecided(if gold_read { Reason::UnreadableAnswer } else { Reason::UnreadableGold })
}
