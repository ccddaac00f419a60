//! What the text around an equality says about it: that it is refuted, or meant in another arithmetic.
//!
//! Only an equality that would be marked wrong is looked at. A step may state one to refute it (`1 + 1 = 3, which is
//! impossible`), and whole problems reckon modulo a number, in another base, or with an operation of their own.

use std::ops::Range;

use dashu_base::Abs;
use dashu_ratio::RBig;

use super::decide::Decision;
use crate::exact;

/// How far around an equality words are looked for.
const AROUND: usize = 240;
/// Longest text before a step that is looked at.
const MAX_CONTEXT: usize = 64 * 1024;

/// Said of what is not meant to hold.
const REFUTED: &[&str] = &[
    "contradict", "impossible", "not possible", "n't possible", "invalid", "not valid", "false", "not true",
    "n't true", "not equal", "n't equal", "not satisf", "n't satisf", "not hold", "n't hold", "not work",
    "n't work", "not a solution", "not correct", "incorrect", "not an integer", "fails", "suppose", "assume",
    "≠", "\\neq", "\\ne ", "whether", "absurd", "inconsistent", "not the same",
];

/// Said of digits that are written one by one.
const DIGITWISE: &[&str] = &["borrow", "carry", "carrying", "carried", "regroup", "parity"];

/// A number after one of these may be a modulus.
const MODULAR: &[&str] =
    &["mod", "divided by", "divides by", "multiple", "divisible by", "congruent", "clock", "in z_", "in f_"];

/// Rings of remainders, whose number stands behind them.
const RINGS: &[&str] = &["\\mathbb{z}", "\\mathbb{f}", "\\mathbb z", "\\mathbb f"];

/// Of numbers of which only the last digits count.
const LAST_DIGITS: &[&str] = &["units digit", "unit digit", "ones digit", "last digit", "digit in the units"];

/// How far after such a word its number stands.
const AFTER: usize = 24;

const BASES: &[&str] =
    &["in base", "base-", "binary", "in octal", "octal ", "hexadecimal", "in hex", "ternary"];

const OPERATIONS: &[&str] =
    &["operation", "define", "\\star", "\\oplus", "\\otimes", "\\diamond", "\\ast", "\\odot"];

/// The kinds of arithmetic that a problem may be about.
///
/// ```
/// use gradus_grade::checks::{Context, Verdict, check_in};
/// let context = Context::of("What is the remainder of 7^2 when it is divided by 9?");
/// assert_eq!(check_in("7^2 = 4", &context)[0].verdict, Verdict::Undecided);
/// assert_eq!(check_in("7^2 = 48", &context)[0].verdict, Verdict::Wrong);
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Context {
    /// Numbers that may be a modulus, when the text is about remainders.
    moduli: Vec<i64>,
    other_base: bool,
    own_operation: bool,
}

impl Context {
    /// What the text before a step is about: the problem, and the steps before if there are any.
    pub fn of(text: &str) -> Self {
        let mut context = Self::default();
        context.add(text);
        context
    }

    /// Adds a text, such as the next step.
    pub fn add(&mut self, text: &str) {
        let mut end = text.len().min(MAX_CONTEXT);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        let lower = text[..end].to_ascii_lowercase();
        for word in MODULAR.iter().chain(RINGS) {
            self.moduli.extend(
                lower
                    .match_indices(word)
                    .take(64)
                    .filter_map(|(at, _)| number_after(&lower, at + word.len())),
            );
        }
        if contains_any(&lower, LAST_DIGITS) {
            self.moduli.push(10);
        }
        self.moduli.sort_unstable();
        self.moduli.dedup();
        self.moduli.truncate(64);
        self.other_base |= contains_any(&lower, BASES);
        self.own_operation |= contains_any(&lower, OPERATIONS) || defines_operation(&lower);
    }
}

/// `a * b = 2a + 3b`: an operation between two letters, by its value.
fn defines_operation(text: &str) -> bool {
    let is_letter = |c: Option<char>| c.is_some_and(|c| c.is_ascii_lowercase());
    text.match_indices(['*', '#', '@', '∘', '⋆', '★']).any(|(at, mark)| {
        let (before, after) = (text[..at].trim_end(), text[at + mark.len()..].trim_start());
        let (mut before, mut after) = (before.chars().rev(), after.chars());
        is_letter(before.next())
            && !is_letter(before.next())
            && is_letter(after.next())
            && after.as_str().trim_start().starts_with('=')
    })
}

fn contains_any(text: &str, words: &[&str]) -> bool {
    words.iter().any(|word| text.contains(word))
}

/// The first whole number from 2 to 10⁶ right after `at`.
fn number_after(text: &str, at: usize) -> Option<i64> {
    let rest = &text.as_bytes()[at..text.len().min(at + AFTER)];
    let start = rest.iter().position(u8::is_ascii_digit)?;
    let digits = rest[start..].iter().take_while(|byte| byte.is_ascii_digit());
    let number =
        digits.fold(0i64, |number, digit| number.saturating_mul(10).saturating_add(i64::from(digit - b'0')));
    (2..=1_000_000).contains(&number).then_some(number)
}

/// A step and what it is a part of.
pub(super) struct Surroundings<'a, 'c> {
    text: &'a str,
    before: &'c Context,
    /// With the step's own words, once they were needed.
    here: Option<Context>,
}

impl<'a, 'c> Surroundings<'a, 'c> {
    pub(super) fn new(text: &'a str, before: &'c Context) -> Self {
        Self { text, before, here: None }
    }

    /// The words around may make an equality right that is wrong by itself, or say that it is wrong.
    pub(super) fn are_doubtful(&mut self, span: &Range<usize>, decision: &Decision) -> bool {
        let around = around(self.text, span).to_ascii_lowercase();
        if contains_any(&around, REFUTED)
            || contains_any(&around, DIGITWISE)
            || is_said_otherwise(&around, decision)
        {
            return true;
        }
        let here = self.here.get_or_insert_with(|| {
            let mut here = self.before.clone();
            here.add(self.text);
            here
        });
        let marks = self.text[span.clone()].contains(['*', '#', '@', '∘', '⋆', '★']);
        here.other_base || (here.own_operation && marks) || is_congruence(decision, &here.moduli)
    }
}

/// `61.5 - 61.9 = 0.4` of an error's size, `1/2 = 50` cents or percent, `5 × 3 = 15,000` of thousands.
fn is_said_otherwise(around: &str, decision: &Decision) -> bool {
    let (Some(left), Some(right)) = (exact::value(&decision.left.expr), exact::value(&decision.right.expr))
    else {
        return false;
    };
    if left.is_zero() || right.is_zero() {
        return false;
    }
    let ratio = left / right;
    let is = |factor: i64| ratio == RBig::from(factor) || ratio.clone() * RBig::from(factor) == RBig::ONE;
    (is(-1) && contains_any(around, &["difference", "error", "distance", "absolute", "decrease", "between"]))
        || (is(100) && contains_any(around, &["%", "percent", "cent", "¢", "penn", " cm", " m"]))
        || (is(1_000)
            && contains_any(around, &["thousand", "kilo", "km", "kg", "mg", "ml", "mm", "gram", "liter"]))
        || (is(1_000_000) && around.contains("million"))
}

/// The right side is what a modulus leaves of the left one.
fn is_congruence(decision: &Decision, moduli: &[i64]) -> bool {
    let (Some(left), Some(right)) = (exact::value(&decision.left.expr), exact::value(&decision.right.expr))
    else {
        return false;
    };
    let distance = left - &right;
    let size = right.abs();
    distance.is_int()
        && moduli
            .iter()
            .map(|modulus| RBig::from(*modulus))
            .any(|modulus| size < modulus && (distance.clone() / modulus).is_int())
}

/// The sentence of `span` and the one after it.
fn around<'a>(text: &'a str, span: &Range<usize>) -> &'a str {
    let boundary = |mut at: usize| {
        while !text.is_char_boundary(at) {
            at += 1;
        }
        at
    };
    let first = boundary(span.start.saturating_sub(AROUND));
    let last = boundary((span.end + AROUND).min(text.len()));
    let before = &text[first..span.start];
    let start = before.rfind(". ").or_else(|| before.rfind("\n\n")).map_or(first, |at| first + at);
    let after = &text[span.end..last];
    let mut ends = after.match_indices(". ").map(|(at, _)| at);
    let end = ends.nth(1).map_or(last, |at| span.end + at);
    &text[start..end]
}
