//! The ends of sentences, in prose that is full of formulas.
//!
//! A full stop ends a sentence when white space follows, the next word does not begin in lower case, and the word
//! before it is no abbreviation, initial or item number. LaTeX puts the stop inside the formula (`$x = 3.$`), so a
//! formula that ends with one counts too. Chinese and Japanese stops need no white space after them. What is left
//! out: abbreviations of other languages than English.

use std::ops::Range;

use super::layout::Layout;
use super::protect::{Block, Kind};

/// Never the end of a sentence.
const ABBREVIATIONS: [&str; 22] = [
    "e.g", "i.e", "mr", "mrs", "ms", "dr", "prof", "st", "vs", "cf", "al", "viz", "approx", "resp", "w.r.t",
    "w.l.o.g", "jr", "sr", "fig", "figs", "eq", "eqs",
];

/// Abbreviations only when a number or formula follows: "No. 5" against "No. That is wrong."
const NUMBERED: [&str; 12] = ["no", "nos", "p", "pp", "ch", "sec", "vol", "thm", "lem", "prop", "cor", "ex"];

/// Words that begin a sentence rather than end a name: "through A. Then" against "J. Smith".
const OPENERS: [&str; 48] = [
    "a", "after", "also", "an", "and", "as", "at", "because", "but", "by", "each", "finally", "first", "for",
    "from", "given", "he", "hence", "her", "his", "how", "however", "i", "if", "in", "it", "let", "next",
    "now", "on", "she", "similarly", "since", "so", "that", "the", "their", "then", "therefore", "there",
    "these", "they", "this", "thus", "to", "we", "when", "you",
];

const STOPS: [char; 4] = ['.', '!', '?', '…'];

/// Characters that may stand between the stop and the white space.
const CLOSERS: &str = "\"')]}”’»）」』】*_";

/// Where sentences begin.
pub(super) fn cuts(layout: &Layout<'_>) -> Vec<usize> {
    let text = layout.text;
    let mut cuts = Vec::new();
    let mut sentence = 0;
    let mut at = 0;
    let mut next_block = 0;
    while let Some(c) = text[at..].chars().next() {
        while next_block < layout.blocks.len() && layout.blocks[next_block].range.start < at {
            next_block += 1;
        }
        let end = match layout.blocks.get(next_block).filter(|block| block.range.start == at) {
            Some(block) => {
                at = block.range.end;
                after_block(text, block)
            }
            None => {
                let stop = at;
                at += c.len_utf8();
                match c {
                    '.' | '!' | '?' | '…' => {
                        at = text.len() - text[stop..].trim_start_matches(STOPS).len();
                        after_stop(text, sentence, stop..at)
                    }
                    '。' | '！' | '？' | '｡' | '।' | '؟' => after_wide_stop(text, stop),
                    '\n' => after_newline(layout, at),
                    _ => None,
                }
            }
        };
        if let Some(start) = end {
            at = at.max(start);
            if sentence < start {
                cuts.push(start);
                sentence = start;
            }
        }
    }
    cuts
}

/// Where the next sentence begins if a block ends one.
fn after_block(text: &str, block: &Block) -> Option<usize> {
    let rest = &text[block.range.end..];
    match block.kind {
        Kind::Inline => {
            let inside = text[block.range.clone()].trim_end_matches(['$', ')', '\\', ' ']);
            let stops = inside.ends_with(['.', '?']) && !inside.ends_with("..");
            let next = rest.trim_start();
            (stops && next.len() < rest.len() && next.starts_with(opens)).then(|| text.len() - next.len())
        }
        Kind::Display | Kind::Figure => {
            let next = rest.trim_start_matches(['.', ',', ';']).trim_start();
            let new = next.starts_with(|c: char| c.is_alphabetic() && !c.is_lowercase());
            new.then(|| text.len() - next.len())
        }
        Kind::Code | Kind::Table => Some(text.len() - rest.trim_start().len()),
    }
}

/// Where the next sentence begins after a line break: at a blank line, an item, a table or code.
fn after_newline(layout: &Layout<'_>, at: usize) -> Option<usize> {
    let text = layout.text;
    let rest = text[at..].trim_start();
    let next = text.len() - rest.len();
    let blank = text[at..next].contains('\n');
    let item =
        rest.starts_with(['-', '*', '#']) && rest[1..].starts_with(['#', ' ', '\t']) || rest.starts_with('•');
    let digits = rest.bytes().take(4).take_while(u8::is_ascii_digit).count();
    let numbered = digits > 0 && digits < 4 && rest[digits..].starts_with(['.', ')']) && {
        rest[digits + 1..].starts_with([' ', '\t'])
    };
    let block = layout.block_at(next).is_some_and(|block| matches!(block.kind, Kind::Code | Kind::Table));
    (blank || item || numbered || block).then_some(next)
}

fn after_wide_stop(text: &str, stop: usize) -> Option<usize> {
    let rest =
        text[stop..].trim_start_matches(['。', '！', '？', '｡', '।', '؟']).trim_start_matches(is_closer);
    Some(text.len() - rest.trim_start().len())
}

fn after_stop(text: &str, sentence: usize, stops: Range<usize>) -> Option<usize> {
    let rest = text[stops.end..].trim_start_matches(is_closer);
    let next = rest.trim_start();
    let first = next.chars().next()?;
    if next.len() == rest.len() || !opens(first) {
        return None;
    }
    let before = Before::new(text, sentence, stops.start);
    let goes_on = match &text[stops] {
        "." => is_abbreviated(&before, next),
        "!" => is_factorial(before.word) && !first.is_alphabetic(),
        run if run.starts_with("..") || run.starts_with('…') => !first.is_uppercase(),
        _ => false,
    };
    (!goes_on).then(|| text.len() - next.len())
}

fn is_closer(c: char) -> bool {
    CLOSERS.contains(c)
}

/// True for a character that a sentence may begin with.
fn opens(c: char) -> bool {
    !c.is_lowercase() && (c.is_alphanumeric() || "\"'“‘«([{$\\*#-–—•「『（【`<|".contains(c) || !c.is_ascii())
}

fn is_factorial(word: &str) -> bool {
    word.chars().count() == 1 || word.ends_with(|c: char| c.is_ascii_digit() || c == ')')
}

/// The word before a stop and the one before that.
struct Before<'a> {
    word: &'a str,
    previous: &'a str,
    /// Nothing of the sentence stands before the word.
    first: bool,
}

impl<'a> Before<'a> {
    /// Looks back no further than any abbreviation is long, so that the work stays linear.
    fn new(text: &'a str, sentence: usize, stop: usize) -> Self {
        let reach = text[sentence..stop].char_indices().rev().take(32).last().map_or(0, |(index, _)| index);
        let window = &text[sentence + reach..stop];
        let start = window.rfind(|c: char| c.is_whitespace() || "([{\"'“‘$*_/".contains(c));
        let start = start.map_or(0, |index| index + window[index..].chars().next().map_or(0, char::len_utf8));
        let earlier = window[..start].trim_end();
        let first = reach == 0 && !earlier.contains(char::is_alphanumeric);
        Self {
            word: &window[start..],
            previous: earlier.rsplit(char::is_whitespace).next().unwrap_or(""),
            first,
        }
    }
}

fn is_abbreviated(before: &Before<'_>, next: &str) -> bool {
    let word = before.word.to_lowercase();
    let first = next.chars().next().unwrap_or(' ');
    if ABBREVIATIONS.contains(&word.as_str()) {
        return true;
    }
    if NUMBERED.contains(&word.as_str()) && (first.is_ascii_digit() || "($\\".contains(first)) {
        return true;
    }
    if before.first && !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit()) {
        return true;
    }
    is_initial(before, next)
}

/// "J. Smith", "J. R. R. Tolkien", "U.S. Army"; not "point A. Then".
fn is_initial(before: &Before<'_>, next: &str) -> bool {
    let parts = before.word.split('.');
    if before.word.is_empty() || !parts.clone().all(is_capital) {
        return false;
    }
    let following: String = next.chars().take(24).take_while(|c| c.is_alphabetic()).collect();
    if !following.starts_with(char::is_uppercase) {
        return false;
    }
    let chain = following.chars().count() == 1 && next[following.len()..].starts_with('.');
    let name = before.first
        || parts.count() > 1
        || before.previous.starts_with(char::is_uppercase)
        || before.previous == "by";
    chain || (name && !OPENERS.contains(&following.to_lowercase().as_str()))
}

fn is_capital(part: &str) -> bool {
    let mut chars = part.chars();
    chars.next().is_some_and(char::is_uppercase) && chars.next().is_none()
}
