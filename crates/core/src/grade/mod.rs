//! Final answers: find one in a solution, and decide whether two are equal.
//!
//! ```
//! use gradus_core::grade::{Verdict, compare, grade};
//! assert_eq!(compare(r"\frac{\sqrt{3}}{3}", r"1/\sqrt{3}"), Verdict::Equal);
//! assert_eq!(compare("(-2, 3]", "-2 < x \\le 3"), Verdict::Equal);
//! assert_eq!(grade("72", "48 + 24 = 72, so she sold \\boxed{72} clips.").verdict, Verdict::Equal);
//! ```
//!
//! A verdict is *equal*, *different*, or *undecided* with a reason; 'cannot tell' never passes for 'wrong'. Every call
//! does bounded work: inputs, nesting, digits and sample points are limited, so no input hangs it, overflows the
//! stack or panics. It keeps no state and needs no clock, so any number of threads may grade.
//!
//! Left out: sums, integrals and limits that are not evaluated, piecewise definitions, set differences, and general
//! inequalities in several variables. Such answers are equal when they are written alike, and else undecided.

mod decide;
mod equal;
mod exact;
mod expr;
mod extract;
mod field;
mod intervals;
mod lex;
mod numeric;
mod parse;
mod precise;
mod text;
mod units;

use serde::{Deserialize, Serialize};

use expr::Expr;
pub use extract::{Extracted, Found, extract};
use lex::Commas;
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
    match (read(&gold), read(&answer)) {
        (Some(gold_parsed), Some(answer_parsed)) => {
            let verdict = equal::same(&gold_parsed.expr, &answer_parsed.expr);
            if verdict != Verdict::Equal
                && (same_words(&gold, &answer) || reread(&gold, &gold_parsed, &answer, &answer_parsed))
            {
                return Verdict::Equal;
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
    let parse = |text: &str| parse::parse(text, Commas::Thousands);
    parse(text).or_else(|| extract::only_number(text).and_then(parse))
}

/// Strips what surrounds an answer; `p.m.` loses its dots.
fn tidy(answer: &str) -> String {
    let stripped = text::strip(answer);
    if stripped.contains(".m") {
        stripped.replace("p.m", "pm").replace("a.m", "am")
    } else {
        stripped.to_owned()
    }
}

/// Tries the other reading of commas that may separate thousands or items.
fn reread(gold: &str, gold_parsed: &Parsed, answer: &str, answer_parsed: &Parsed) -> bool {
    let other = |text: &str, parsed: &Parsed| -> Option<Expr> {
        parsed.ambiguous.then(|| parse::parse(text, Commas::Separators)).flatten().map(|parsed| parsed.expr)
    };
    let gold_other = other(gold, gold_parsed);
    let answer_other = other(answer, answer_parsed);
    let equal = |a: &Expr, b: &Expr| equal::same(a, b) == Verdict::Equal;
    gold_other.as_ref().is_some_and(|gold| equal(gold, &answer_parsed.expr))
        || answer_other.as_ref().is_some_and(|answer| equal(&gold_parsed.expr, answer))
        || matches!((&gold_other, &answer_other), (Some(gold), Some(answer)) if equal(gold, answer))
}

fn same_words(gold: &str, answer: &str) -> bool {
    text::is_wordy(gold) && text::is_wordy(answer) && text::words(gold) == text::words(answer)
}

/// At least one side is not mathematics: words are compared as words, and anything else stays open.
fn as_text(gold: &str, gold_read: bool, answer: &str, answer_read: bool) -> Verdict {
    let (gold_wordy, answer_wordy) = (text::is_wordy(gold), text::is_wordy(answer));
    if gold_wordy && answer_wordy {
        return if text::words(gold) == text::words(answer) { Verdict::Equal } else { Verdict::Different };
    }
    if (gold_wordy && answer_read) || (answer_wordy && gold_read) {
        return Verdict::Different;
    }
    Verdict::Undecided(if gold_read { Reason::UnreadableAnswer } else { Reason::UnreadableGold })
}
