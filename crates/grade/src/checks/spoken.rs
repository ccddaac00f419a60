//! Operators in words and letters: `3 times 4`, `20 percent of 50`, `7 x 8`.

use super::lex::{Kind, Token};
use super::operands::{begins_value, ends_value};

/// Turns words that stand between two values into the operators that they name.
pub(super) fn name_operators(text: &str, tokens: &mut [Token]) {
    let mut letters = 0;
    let mut crosses = Vec::new();
    for at in 0..tokens.len() {
        let first = text.as_bytes()[tokens[at].start as usize];
        if tokens[at].kind != Kind::Word || !b"xXpotm".contains(&first) {
            continue;
        }
        match &text[tokens[at].range()] {
            "x" | "X" if stands_between(tokens, at) && is_even(tokens, at) => crosses.push(at),
            "x" | "X" => letters += 1,
            "percent" if at > 0 && tokens[at - 1].kind == Kind::Number => tokens[at].kind = Kind::Percent,
            "of" if is_share(tokens, at) && stands_between(tokens, at) => tokens[at].kind = Kind::Times,
            "times" if stands_between(tokens, at) => tokens[at].kind = Kind::Times,
            "plus" if stands_between(tokens, at) => tokens[at].kind = Kind::Plus,
            "minus" if stands_between(tokens, at) => tokens[at].kind = Kind::Minus,
            _ => {}
        }
    }
    // Where x is a variable as well, none is a sign.
    if letters == 0 {
        crosses.into_iter().for_each(|at| tokens[at].kind = Kind::Times);
    }
}

/// A value, or one with a word after it, stands before, and a value after.
fn stands_between(tokens: &[Token], at: usize) -> bool {
    let kind = |at: usize| tokens.get(at).map(|token| token.kind);
    let before = |back: usize| at.checked_sub(back).and_then(kind);
    let is_word = |kind: Option<Kind>| matches!(kind, Some(Kind::Word | Kind::Text));
    let value_before =
        before(1).is_some_and(ends_value) || (is_word(before(1)) && before(2).is_some_and(ends_value));
    let after = match kind(at + 1) {
        Some(Kind::Dollar) => kind(at + 2),
        after => after,
    };
    value_before && after.is_some_and(begins_value)
}

/// White space on both sides or on none.
fn is_even(tokens: &[Token], at: usize) -> bool {
    tokens.get(at + 1).is_some_and(|next| next.spaced == tokens[at].spaced)
}

/// A percentage or fraction stands before.
fn is_share(tokens: &[Token], at: usize) -> bool {
    let kind = |back: usize| at.checked_sub(back).map(|at| tokens[at].kind);
    match kind(1) {
        Some(Kind::Percent | Kind::Vulgar | Kind::Close) => true,
        Some(Kind::Number) => kind(2) == Some(Kind::Divide),
        _ => false,
    }
}
