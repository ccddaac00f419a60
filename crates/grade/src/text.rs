//! Answers as strings: the form in which two are equal whatever they mean, and words.

use super::expr::Expr;
use super::symbols::{FUNCTIONS, GREEK};
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

/// The inside of `\boxed{…}` around a whole answer.
pub(super) fn unboxed(text: &str) -> &str {
    let Some(inner) = text.strip_prefix("\\boxed{").and_then(|rest| rest.strip_suffix('}')) else {
        return text;
    };
    let mut depth = 0i32;
    for byte in inner.bytes() {
        depth += i32::from(byte == b'{') - i32::from(byte == b'}');
        if depth < 0 {
            return text;
        }
    }
    strip(inner)
}

/// True for a dollar sign that is a price's, not one of a pair around a formula: `$3.25`, `-$5`.
pub(super) fn is_price(text: &str) -> bool {
    let text = text.trim();
    let amount = text.strip_prefix("-$").or_else(|| text.strip_prefix('$'));
    let is_amount = amount.is_some_and(|amount| amount.starts_with(|c: char| c.is_ascii_digit() || c == '.'));
    is_amount && text.matches('$').count() - text.matches("\\$").count() == 1
}

/// The words of an answer: letters and digits in lower case, everything else a single space; LaTeX text commands, articles
/// and conjunctions gone.
pub(super) fn words(text: &str) -> String {
    let is_filler = |word: &str| matches!(word.to_ascii_lowercase().as_str(), "the" | "a" | "an" | "and");
    all_words(text)
        .split(' ')
        .filter(|word| !is_filler(word) && *word != ",")
        .map(str::to_lowercase)
        .collect::<Vec<_>>()
        .join(" ")
}

/// The words as they are written, and a comma for each `and` and `,`.
fn all_words(text: &str) -> String {
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
        match first {
            ',' | ';' | '&' => out.push_str(" , "),
            // An apostrophe is part of its word.
            '\'' | '’' => {}
            first if first.is_alphanumeric() => out.push(first),
            _ => out.push(' '),
        }
        rest = &rest[first.len_utf8()..];
    }
    let mut words: Vec<&str> = Vec::new();
    for word in out.split_whitespace() {
        let word = if word.eq_ignore_ascii_case("and") { "," } else { word };
        if word != "," || words.last().is_some_and(|last| *last != ",") {
            words.push(word);
        }
    }
    words.join(" ")
}

/// Compares words. Articles do not matter, unless they may be names: `player A wins`. A list in another order, or without
/// its commas, stays open.
pub(super) fn compare(a: &str, b: &str) -> Verdict {
    let (first, second) = (all_words(a), all_words(b));
    let lower = |words: &str| words.to_lowercase();
    if lower(&first) == lower(&second) {
        return Verdict::Equal;
    }
    if let Some(verdict) = yes_or_no(&lower(&first), &lower(&second)) {
        return verdict;
    }
    let is_article = |index: usize, word: &str| match word {
        "the" | "The" | "an" | "An" | "a" => true,
        // At the start of a sentence an article has a capital.
        "A" => index == 0,
        _ => false,
    };
    let plain = |words: &str| {
        let kept = words.split(' ').enumerate().filter(|(index, word)| !is_article(*index, word));
        kept.map(|(_, word)| word.to_lowercase()).collect::<Vec<_>>()
    };
    let (mut first_plain, mut second_plain) = (plain(&first), plain(&second));
    if first_plain == second_plain {
        // `A wins` and `wins` may differ by a name.
        let starts_with_name = |words: &str| words.starts_with("A ");
        return if starts_with_name(&first) != starts_with_name(&second) {
            Verdict::Undecided(Reason::Inconclusive)
        } else {
            Verdict::Equal
        };
    }
    for words in [&mut first_plain, &mut second_plain] {
        words.retain(|word| word != "," && word != "a");
        words.sort();
    }
    let has_name = |words: &str| words.split(' ').any(|word| matches!(word, "," | "A"));
    let is_list = has_name(&first) || has_name(&second);
    if is_list && first_plain == second_plain {
        return Verdict::Undecided(Reason::Inconclusive);
    }
    Verdict::Different
}

/// `Yes` against `Yes, it does`; `None` unless one side is such a word alone and the other starts with one and a comma.
fn yes_or_no(first: &str, second: &str) -> Option<Verdict> {
    let head = |words: &str| {
        let (head, alone) = words.split_once(" ,").map_or((words, true), |(head, _)| (head, false));
        ["yes", "no", "true", "false"].into_iter().find(|word| *word == head).map(|head| (head, alone))
    };
    let ((first, first_alone), (second, second_alone)) = (head(first)?, head(second)?);
    let equal = if first == second { Verdict::Equal } else { Verdict::Different };
    (first_alone || second_alone).then_some(equal)
}

/// Two sentences with the same one number, which say more than that: `It rains on 3 days` and `It does not rain on 3 days`.
/// A sentence that does not simply state its number, `at least 3 days`, is not the number.
pub(super) fn compare_sentences(a: &str, b: &str) -> Option<Verdict> {
    let (first, second) = (is_sentence(a), is_sentence(b));
    if !first && !second {
        return None;
    }
    if first && second {
        let verdict = compare(a, b);
        let same_number = super::extract::only_number(a) == super::extract::only_number(b);
        return Some(match verdict {
            Verdict::Different if same_number => Verdict::Undecided(Reason::Inconclusive),
            verdict => verdict,
        });
    }
    let hedges =
        ["not", "no", "never", "least", "most", "than", "between", "except", "without", "nor", "cannot"];
    let hedged = |text: &str| words(text).split(' ').any(|word| hedges.contains(&word));
    let doubtful = (first && hedged(a)) || (second && hedged(b));
    doubtful.then_some(Verdict::Undecided(Reason::Inconclusive))
}

/// True when a capital letter follows another letter, as in `AB`.
pub(super) fn has_inner_capital(text: &str) -> bool {
    text.as_bytes().windows(2).any(|pair| pair[0].is_ascii_alphabetic() && pair[1].is_ascii_uppercase())
}

/// True for a word of several capital letters.
pub(super) fn is_capitals(text: &str) -> bool {
    text.len() > 1 && text.bytes().all(|b| b.is_ascii_uppercase())
}

/// True for small letters that are a word rather than a product: o is no variable.
pub(super) fn is_short_word(text: &str) -> bool {
    text.len() > 1 && text.contains('o') && text.bytes().all(|b| b.is_ascii_lowercase())
}

/// True for several words of which one is too long to be a product of letters.
pub(super) fn is_prose(words: &str) -> bool {
    words.contains(' ') && words.split(' ').any(|word| word.len() >= 4 && !is_name(word))
}

/// True for the name of a function or Greek letter.
pub(super) fn is_name(word: &str) -> bool {
    FUNCTIONS.contains(&word) || GREEK.contains(&word)
}

/// True for a sentence with one number in it.
pub(super) fn is_sentence(text: &str) -> bool {
    let long = |word: &&str| word.len() > 2 && word.bytes().all(|b| b.is_ascii_alphabetic());
    text.len() > 12
        && text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.split(' ').filter(long).count() >= 3
        && super::extract::only_number(text).is_some()
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
/// The words for 1st to 10th, in their order.
const ORDINALS: [&str; 10] =
    ["first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth"];
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
        "dne"
        | "does not exist"
        | "do not exist"
        | "doesnt exist"
        | "limit does not exist"
        | "it does not exist" => Some(Expr::Text("does not exist".into())),
        "undefined" | "not defined" | "is undefined" => Some(Expr::Text("undefined".into())),
        "all integers" | "integers" | "set of integers" | "set of all integers" => {
            Some(Expr::Text("integers".into()))
        }
        "impossible" | "inconsistent" | "not possible" => Some(Expr::Text("impossible".into())),
        "noon" => Some(Expr::Quantity(Box::new(Expr::integer(12)), "pm".into())),
        "midnight" => Some(Expr::Quantity(Box::new(Expr::integer(12)), "am".into())),
        "infinity" => Some(Expr::Infinity),
        word => {
            if let Some(place) = ORDINALS.iter().position(|name| *name == word) {
                return Some(Expr::integer(i64::try_from(place).ok()? + 1));
            }
            let value = NUMBERS.iter().position(|name| *name == word)?;
            Some(Expr::integer(i64::try_from(value).ok()?))
        }
    }
}

/// True for what says in one way or another that there is no answer.
pub(super) fn means_nothing(text: &str) -> bool {
    matches!(text, "empty set" | "does not exist" | "undefined" | "impossible")
}

/// True when a number may be written out in the words.
pub(super) fn may_count(words: &str) -> bool {
    words.split(' ').any(|word| NUMBERS.contains(&word) || NUMBER_PARTS.contains(&word))
}
