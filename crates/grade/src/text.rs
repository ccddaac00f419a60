//! Answers as strings: the form in which two are equal whatever they mean, and words.

use super::expr::Expr;
use super::{Reason, Verdict};

/// The answer without what never matters: outer dollars, spacing and size commands, white space, a final full stop.
pub(super) fn squeeze(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = strip(text);
    while let Some(first) = rest.chars().next() {
        if first == '\\' {
            let name = rest[1..].bytes().take_while(u8::is_ascii_alphabetic).count();
            let command = &rest[1..=name];
            match command {
                "left" | "right" | "displaystyle" | "quad" | "qquad" => rest = &rest[1 + name..],
                "dfrac" | "tfrac" | "cfrac" => {
                    out.push_str("\\frac");
                    rest = &rest[1 + name..];
                }
                "" => {
                    let symbol = rest[1..].chars().next();
                    let length = 1 + symbol.map_or(0, char::len_utf8);
                    let spaces = matches!(symbol, Some(',' | ';' | ':' | ' '));
                    if !spaces && !matches!(symbol, Some('!' | '$' | '(' | ')')) {
                        out.push_str(&rest[..length]);
                    }
                    rest = &rest[length..];
                    if spaces {
                        rest = part_digits(&mut out, rest);
                    }
                }
                _ => {
                    out.push_str(&rest[..=name]);
                    rest = &rest[1 + name..];
                }
            }
            continue;
        }
        rest = &rest[first.len_utf8()..];
        if first.is_whitespace() {
            rest = part_digits(&mut out, rest);
        } else if !matches!(first, '$' | '~') {
            out.push(first);
        }
    }
    out
}

/// Keeps a space between digits: `1 2` is not 12.
fn part_digits<'a>(out: &mut String, rest: &'a str) -> &'a str {
    let digit = |c: Option<char>| c.is_some_and(|c| c.is_ascii_digit());
    if digit(out.chars().next_back()) && digit(rest.trim_start().chars().next()) {
        out.push(' ');
        return rest.trim_start();
    }
    rest
}

/// White space, dollars and sentence punctuation off both ends; three dots stay.
pub(super) fn strip(text: &str) -> &str {
    let inner = text.trim_matches(|c: char| c.is_whitespace() || matches!(c, '$' | '*' | '`'));
    if inner.ends_with("..") && inner.trim_end_matches('.').contains(['.', ',']) {
        return inner;
    }
    inner.trim_end_matches(|c: char| c.is_whitespace() || matches!(c, '.' | ',' | ';' | ':' | '。'))
}

/// The words of an answer: letters and digits in lower case, everything else a single space; LaTeX text commands gone.
pub(super) fn words(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        if first == '\\' {
            let name = rest[1..].bytes().take_while(u8::is_ascii_alphabetic).count();
            let command = &rest[1..=name];
            if !is_silent(command) {
                out.push_str(command);
            }
            out.push(' ');
            rest = &rest[1 + name..];
            continue;
        }
        if first.is_alphanumeric() {
            out.extend(first.to_lowercase());
        } else {
            out.push(' ');
        }
        rest = &rest[first.len_utf8()..];
    }
    out.split_whitespace()
        .filter(|word| !matches!(*word, "the" | "a" | "an" | "and"))
        .collect::<Vec<_>>()
        .join(" ")
}

/// Compares words; a list of them in another order stays open.
pub(super) fn compare(a: &str, b: &str) -> Verdict {
    let (first, second) = (words(a), words(b));
    if first == second {
        return Verdict::Equal;
    }
    let sorted = |words: &str| {
        let mut words: Vec<String> = words.split(' ').map(str::to_owned).collect();
        words.sort();
        words
    };
    if (a.contains(',') || b.contains(',')) && sorted(&first) == sorted(&second) {
        return Verdict::Undecided(Reason::Inconclusive);
    }
    Verdict::Different
}

/// An option's letter and the value after it: `(A) 5`, `\textbf{(A)}\ 5`.
pub(super) fn option(text: &str) -> Option<(char, &str)> {
    let braced = ["\\textbf{", "\\text{", "\\mathrm{"].iter().find_map(|start| text.strip_prefix(start));
    let mut characters = braced.unwrap_or(text).strip_prefix('(')?.chars();
    let letter = characters.next().filter(|letter| ('A'..='J').contains(letter))?;
    let mut rest = characters.as_str().strip_prefix(')')?;
    if braced.is_some() {
        rest = rest.trim_start().strip_prefix('}')?;
    }
    let value = rest.trim_start_matches([' ', '~', ':', '$']);
    let value = value.strip_prefix("\\ ").unwrap_or(value).trim_start();
    let is_value = value.starts_with(|c: char| c.is_ascii_digit() || c == '-')
        || ["\\frac", "\\dfrac", "\\sqrt", "\\$", "\\pi"].iter().any(|start| value.starts_with(start));
    (is_value && value.len() < rest.len()).then_some((letter, value))
}

/// The letter of an answer that is an option alone: `A`, `(A)`, `\text{(A)}`.
pub(super) fn letter(text: &str) -> Option<char> {
    let inner = text.trim_start_matches("\\textbf{").trim_start_matches("\\text{");
    let inner = inner.trim_matches(|c: char| matches!(c, '(' | ')' | '}' | ' '));
    let mut characters = inner.chars();
    characters.next().filter(|letter| ('A'..='J').contains(letter) && characters.next().is_none())
}

/// The number of capital letters.
pub(super) fn capitals(text: &str) -> usize {
    text.chars().filter(char::is_ascii_uppercase).count()
}

/// True for a command that only sets or spaces words.
fn is_silent(command: &str) -> bool {
    command.starts_with("text")
        || command.starts_with("math")
        || matches!(command, "mbox" | "left" | "right" | "operatorname" | "quad" | "")
}

/// True for an answer that is words: letters, and no digit, operator or mathematical command.
pub(super) fn is_wordy(text: &str) -> bool {
    let mut commands = text.split('\\').skip(1).map(|rest| {
        let length = rest.bytes().take_while(u8::is_ascii_alphabetic).count();
        &rest[..length]
    });
    if !commands.all(is_silent) {
        return false;
    }
    let words = words(text);
    words.chars().any(char::is_alphabetic)
        && !words.chars().any(|c| c.is_ascii_digit())
        && !text.contains(['=', '+', '^', '<', '>', '_'])
        && words.split(' ').any(|word| word.chars().count() > 1)
}

/// The words for 0 to 20, in their order.
const NUMBERS: [&str; 21] = [
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven",
    "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen", "twenty",
];
/// Other words of which numbers are made.
const NUMBER_PARTS: [&str; 15] = [
    "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety", "hundred", "thousand", "million",
    "half", "third", "thirds", "quarter", "quarters",
];

/// What a few words mean: a number, all reals, or nothing.
pub(super) fn meaning(words: &str) -> Option<Expr> {
    match words {
        "all real numbers"
        | "all reals"
        | "real numbers"
        | "set of all real numbers"
        | "set of real numbers" => Some(Expr::reals()),
        "no solution" | "no solutions" | "no real solution" | "no real solutions" | "empty set" | "none" => {
            Some(Expr::empty_set())
        }
        "infinity" => Some(Expr::Infinity),
        word => {
            let value = NUMBERS.iter().position(|name| *name == word)?;
            Some(Expr::integer(i64::try_from(value).ok()?))
        }
    }
}

/// True when a number may be written out in the words.
pub(super) fn may_count(words: &str) -> bool {
    words.split(' ').any(|word| NUMBERS.contains(&word) || NUMBER_PARTS.contains(&word))
}
