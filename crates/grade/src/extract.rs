//! Finds the final answer in a solution.
//!
//! In this order: the last `\boxed{…}`; the line after the last `####`; a heading `# Answer`; the `answer` of a JSON
//! object; what follows the last 'answer is' or 'answer:'; an option letter; all of it, where it is one formula without
//! words; the last number, or the formula it stands in. Later ways are weaker, so the way is reported beside the answer.

use serde::{Deserialize, Serialize};

use super::lex::Reading;
use super::parse::parse;
use super::text::{is_name, strip};

/// Where an answer was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Found {
    /// In `\boxed{…}` or `\fbox{…}`.
    Boxed,
    /// After `####`.
    Hashes,
    /// Under a heading `# Answer`.
    Heading,
    /// In the `answer` field of a JSON object.
    Json,
    /// After 'the answer is' or its like.
    Phrase,
    /// As an option letter, `(B)`.
    Choice,
    /// There is nothing else: one formula without words, or what it ends in after `=`.
    Bare,
    /// As the last number.
    LastNumber,
}

/// A final answer and where it was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Extracted {
    /// The answer as it was written.
    pub answer: String,
    /// Where.
    pub found: Found,
}

/// How far before the last box others are looked for that are part of the same answer.
const BOX_WINDOW: usize = 400;
/// How far back from the end a phrase or number is looked for.
const TAIL_BYTES: usize = 4_000;

/// The final answer of `solution`, or `None` if there is none to be seen.
///
/// ```
/// use gradus_grade::{extract, Found};
/// let found = extract("Half of 8 is 4.\n#### 4").unwrap();
/// assert_eq!((found.answer.as_str(), found.found), ("4", Found::Hashes));
/// ```
pub fn extract(solution: &str) -> Option<Extracted> {
    let solution = before_end_token(solution);
    if let Some(found) = stated(solution) {
        return found;
    }
    let tail = tail(solution);
    if let Some(answer) = after_phrase(tail).and_then(readable).and_then(|answer| take(answer, Found::Phrase))
    {
        return Some(answer);
    }
    if let Some(letter) = option_letter(tail) {
        return take(letter, Found::Choice);
    }
    if let Some(answer) = bare(solution) {
        return take(answer, Found::Bare);
    }
    take(last_value(tail)?, Found::LastNumber)
}

/// What a model wrote before the special tokens that end its turn, which some samplers leave in the text.
pub(super) fn before_end_token(solution: &str) -> &str {
    let mut text = solution.trim_end();
    while let Some(before) = last_token(text) {
        text = before.trim_end();
    }
    text
}

/// The text before a special token at its end: `<|name|>`, `<｜name｜>`, or a name of older models.
fn last_token(text: &str) -> Option<&str> {
    let name = text.strip_suffix('>')?;
    let named = [("<|", '|'), ("<｜", '｜')].into_iter().find_map(|(open, bar)| {
        let (before, name) = name.strip_suffix(bar)?.rsplit_once(open)?;
        let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '▁');
        (!name.is_empty() && name.chars().all(is_name)).then_some(before)
    });
    let older = ["</s", "<eos", "<pad", "<end_of_turn", "<turn|"];
    named.or_else(|| older.into_iter().find_map(|token| name.strip_suffix(token)))
}

/// Bytes of a bare answer at most.
const BARE_BYTES: usize = 200;

/// A solution that is one formula without words; of an equation what is after the last `=`.
fn bare(solution: &str) -> Option<&str> {
    let text = solution.trim();
    if text.len() > BARE_BYTES || text.contains('\n') || text.contains('$') || has_words(text) {
        return None;
    }
    let answer = match text.rsplit_once('=') {
        Some((before, after)) if !before.ends_with(['<', '>', '!']) => after.trim(),
        _ => text,
    };
    parse(answer, Reading::Usual).map(|_| answer)
}

/// Whether there are words: three letters together, or two by themselves, that are neither a command of LaTeX nor the name
/// of a function or Greek letter.
fn has_words(text: &str) -> bool {
    text.split_whitespace().any(|part| {
        let word = part.trim_matches(|c: char| !c.is_alphanumeric() && c != '\\');
        let alone = word.chars().count() == 2 && word.chars().all(char::is_alphabetic);
        let mut in_command = false;
        alone && !is_name(word)
            || part.split_inclusive(|c: char| !c.is_alphabetic()).any(|run| {
                let letters = run.trim_end_matches(|c: char| !c.is_alphabetic());
                let command = std::mem::replace(&mut in_command, run.ends_with('\\'));
                !command && letters.chars().count() > 2 && !is_name(letters)
            })
    })
}

fn take(answer: &str, found: Found) -> Option<Extracted> {
    let answer = strip(answer);
    (!answer.is_empty()).then(|| Extracted { answer: answer.to_owned(), found })
}

/// The answer in a place that is meant for it, which may be empty; `None` without such a place.
pub(super) fn stated(solution: &str) -> Option<Option<Extracted>> {
    if let Some(answer) = boxed(solution) {
        return Some(take(&answer, Found::Boxed));
    }
    // `####` also starts a Markdown heading; GSM8K's is the last line.
    // A search for one character is much faster than one for several from the end.
    let has_hash = solution.contains('#');
    if has_hash
        && let Some((_, rest)) = after_hashes(solution)
        && !rest.trim().contains('\n')
    {
        return Some(take(rest, Found::Hashes));
    }
    if has_hash && let Some((_, rest)) = split_last(solution, "# Answer\n") {
        let line = rest.trim_start().lines().next();
        return Some(line.and_then(|line| take(line, Found::Heading)));
    }
    json_answer(solution).map(|answer| take(&answer, Found::Json))
}

/// What stands before and after the last `####`.
fn after_hashes(text: &str) -> Option<(&str, &str)> {
    let (before, rest) = text.rsplit_once('#')?;
    // Mostly the last mark is the last of the four.
    match before.strip_suffix("###") {
        Some(before) => Some((before, rest)),
        None => split_last(text, "####"),
    }
}

/// [`str::rsplit_once`], which is slow, where there is something to split.
fn split_last<'a>(text: &'a str, mark: &str) -> Option<(&'a str, &'a str)> {
    if text.contains(mark) { text.rsplit_once(mark) } else { None }
}

/// The end of a text.
pub(super) fn tail(text: &str) -> &str {
    let mut start = text.len().saturating_sub(TAIL_BYTES);
    while !text.is_char_boundary(start) {
        start += 1;
    }
    &text[start..]
}

/// The content of the last box. Boxes that follow each other in one sentence are parts of one answer.
fn boxed(text: &str) -> Option<String> {
    let (last, end) = last_box(text)?;
    let mut start = last.saturating_sub(BOX_WINDOW);
    while !text.is_char_boundary(start) {
        start -= 1;
    }
    let text = &text[start..end];
    let boxes = boxes(text);
    let (mut first, last) = (boxes.len().checked_sub(1)?, boxes.last()?);
    // Walk back over `\boxed{2}$ and $\boxed{3}`.
    while first > 0 && joins(&text[boxes[first - 1].end..boxes[first].start]) {
        first -= 1;
    }
    if boxes.len() - first == 1 {
        return Some(last.content.to_owned());
    }
    Some(boxes[first..].iter().map(|found| found.content).collect::<Vec<_>>().join(", "))
}

/// Where the last complete box starts, and the first box after it that is cut off, or the end.
fn last_box(text: &str) -> Option<(usize, usize)> {
    // Texts without a box are passed over by this search, which is the fastest.
    if !text.contains("box") {
        return None;
    }
    let mut end = text.len();
    for (at, _) in text.rmatch_indices('\\') {
        let Some(from) = box_argument(text, at) else { continue };
        if argument(&text[..end], from).is_some() {
            return Some((at, end));
        }
        // What is around a box that never closes never closes either.
        if text[from..].trim_start_matches(' ').starts_with('{') {
            end = at;
        }
    }
    None
}

/// Where the argument of a box begins whose backslash is at `at`.
fn box_argument(text: &str, at: usize) -> Option<usize> {
    let name = &text[at + 1..];
    let word = ["boxed", "fbox"].iter().find(|word| name.starts_with(**word))?;
    Some(at + 1 + word.len())
}

struct BoxedAnswer<'a> {
    start: usize,
    end: usize,
    content: &'a str,
}

fn boxes(text: &str) -> Vec<BoxedAnswer<'_>> {
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(start) = text[from..].find('\\').map(|at| at + from) {
        from = start + 1;
        let Some((content, end)) = box_argument(text, start).and_then(|from| argument(text, from)) else {
            continue;
        };
        found.push(BoxedAnswer { start, end, content });
        from = end;
    }
    found
}

/// `{…}` with balanced braces, or the word after a space as in `\boxed 3`.
fn argument(text: &str, from: usize) -> Option<(&str, usize)> {
    let rest = &text[from..];
    let skipped = rest.len() - rest.trim_start_matches(' ').len();
    let rest = &rest[skipped..];
    if !rest.starts_with('{') {
        let length =
            rest.find(|c: char| c.is_whitespace() || matches!(c, '$' | '.' | ',')).unwrap_or(rest.len());
        return (length > 0).then(|| (&rest[..length], from + skipped + length));
    }
    let mut depth = 0usize;
    let mut escaped = false;
    for (index, byte) in rest.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'{' => depth += 1,
            b'}' => {
                depth -= 1;
                if depth == 0 {
                    return Some((&rest[1..index], from + skipped + index + 1));
                }
            }
            _ => {}
        }
    }
    // A box that the end of the text cut off: what is there may be half an answer.
    None
}

/// True when the text between two boxes makes them one answer.
fn joins(between: &str) -> bool {
    if between.len() > 40 {
        return false;
    }
    let words: String =
        between.chars().map(|c| if c.is_ascii_alphabetic() { c.to_ascii_lowercase() } else { ' ' }).collect();
    let mut words = words.split_whitespace().peekable();
    let has_mark = between.contains(',') || between.contains('&');
    let mut seen = 0;
    for word in words.by_ref() {
        if !matches!(word, "and" | "or") {
            return false;
        }
        seen += 1;
    }
    seen > 0 || has_mark
}

/// The value of the last `"answer":` of something like a JSON object; models forget to escape the rest of it.
fn json_answer(text: &str) -> Option<String> {
    let (_, rest) = split_last(text, "\"answer\"")?;
    let value = rest.trim_start().strip_prefix(':')?.trim_start();
    let Some(inner) = value.strip_prefix('"') else {
        let end = value.find([',', '}', '\n']).unwrap_or(value.len());
        return (value[..end].trim() != "null").then(|| value[..end].to_owned());
    };
    let mut escaped = false;
    let end = inner.bytes().position(|byte| {
        let closes = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        closes
    })?;
    let raw = &inner[..end];
    Some(serde_json::from_str(&format!("\"{raw}\"")).unwrap_or_else(|_| raw.to_owned()))
}

/// What follows the word 'answer' where it announces one.
const ANSWER_SUFFIXES: [&str; 6] = [" is", ":", " =", " to the question is", " should be", " would be"];
/// Other phrases that announce an answer.
const CHOICES: [&str; 2] = ["correct option is", "correct choice is"];

/// All that follows the last phrase that announces an answer: 'the answer is', 'Answer:', 'the correct option is'.
pub(super) fn announced(text: &str) -> Option<&str> {
    let lower = text.to_ascii_lowercase();
    let after_answer = last_answer(&lower);
    let choice = |phrase: &&str| split_last(&lower, phrase).map(|(before, _)| before.len() + phrase.len());
    let after_choice = CHOICES.iter().filter_map(choice).max();
    let end = after_answer.max(after_choice)?;
    Some(text[end..].trim_start_matches(|c: char| c.is_whitespace() || matches!(c, ':' | '*' | '=')))
}

/// Where the last announcement with the word 'answer' ends.
fn last_answer(lower: &str) -> Option<usize> {
    // Most texts without one are passed over by this search, which is the fastest.
    if !lower.contains("answer") {
        return None;
    }
    // Words with a `w` are few.
    lower.rmatch_indices('w').find_map(|(at, _)| {
        let start = at.checked_sub("ans".len())?;
        let end = start + "answer".len();
        if lower.get(start..end)? != "answer" {
            return None;
        }
        let suffix = ANSWER_SUFFIXES.iter().find(|suffix| lower[end..].starts_with(**suffix))?;
        Some(end + suffix.len())
    })
}

/// What follows the last phrase that announces an answer, up to the end of its sentence.
fn after_phrase(text: &str) -> Option<&str> {
    let rest = strip_option(announced(text)?);
    // Mathematics in dollars or brackets is the answer, if the sentence begins with it.
    for (open, close) in [("$$", "$$"), ("$", "$"), ("\\(", "\\)"), ("\\[", "\\]")] {
        if let Some(inner) = rest.strip_prefix(open) {
            if let Some((answer, _)) = inner.split_once(close)
                && !answer.trim().is_empty()
            {
                return Some(answer);
            }
            break;
        }
    }
    let line = rest.lines().next()?;
    Some(sentence(line))
}

/// A phrase as it is when it can be read or is a word or two; else the value that its sentence ends in.
fn readable(phrase: &str) -> Option<&str> {
    let words = phrase.split_whitespace().count();
    if words <= 2 || parse(strip(phrase), Reading::Usual).is_some() {
        return Some(phrase);
    }
    last_value(phrase)
}

/// The one number of a sentence such as `The book has 300 pages`; `None` when it has several, or is no sentence.
pub(super) fn only_number(text: &str) -> Option<&str> {
    let end = text.bytes().rposition(|byte| byte.is_ascii_digit())? + 1;
    let number = number_ending_at(text, end);
    let start = end - number.len();
    let alone = !text[..start].bytes().any(|byte| byte.is_ascii_digit());
    let long_words = text.split(|c: char| !c.is_alphabetic()).filter(|word| word.len() > 2).count();
    // `… is 50%` is 50%.
    let end = end + usize::from(text[end..].starts_with('%'));
    (alone && long_words >= 3 && !text.contains(['\\', '^', '=', '+', '*', '/'])).then_some(&text[start..end])
}

/// Drops 'option' before a letter.
fn strip_option(text: &str) -> &str {
    for word in ["option ", "choice ", "Option ", "Choice "] {
        if let Some(rest) = text.strip_prefix(word) {
            return rest;
        }
    }
    text
}

/// Up to the full stop that ends a sentence: one that is followed by a space or the end, not by a digit.
fn sentence(line: &str) -> &str {
    let end = line
        .match_indices(['.', '!', '?'])
        .find(|(at, _)| line[at + 1..].chars().next().is_none_or(char::is_whitespace))
        .map_or(line.len(), |(at, _)| at);
    &line[..end]
}

/// A lone option letter in brackets at the end: `… so the choice is (B).`
fn option_letter(text: &str) -> Option<&str> {
    let line = text.trim_end().lines().next_back()?;
    let at = line.rfind('(')?;
    let inner = &line[at + 1..];
    let mut characters = inner.chars();
    let letter = characters.next()?;
    (letter.is_ascii_uppercase() && letter <= 'J' && characters.next() == Some(')')).then(|| &inner[..1])
}

/// The last number of the text, or the whole formula if it stands in one.
fn last_value(text: &str) -> Option<&str> {
    let end = text.bytes().rposition(|byte| byte.is_ascii_digit())? + 1;
    for (open, close) in [("\\[", "\\]"), ("\\(", "\\)"), ("$$", "$$"), ("$", "$")] {
        let Some(start) = split_last(&text[..end], open).map(|(before, _)| before.len() + open.len()) else {
            continue;
        };
        let Some(length) = text[start..].find(close) else { continue };
        let formula = &text[start..start + length];
        // `$5 and $6` are prices, not a formula.
        let prices = open == "$" && (formula.ends_with(' ') || text[..start - 1].ends_with('\\'));
        if start + length >= end && !prices && !formula.trim().is_empty() {
            return Some(formula);
        }
    }
    Some(number_ending_at(text, end))
}

/// The number whose last digit is at `end`, sign, thousands and fraction included.
fn number_ending_at(text: &str, end: usize) -> &str {
    let bytes = text.as_bytes();
    let mut start = end;
    // Digits since the last mark: a comma joins only groups of three, and a list such as `1, 2` is not one number.
    let mut group = 0;
    while start > 0 {
        let byte = bytes[start - 1];
        if byte.is_ascii_digit() {
            group += 1;
        } else {
            let after_digit = start >= 2 && bytes[start - 2].is_ascii_digit();
            if !after_digit || !(matches!(byte, b'.' | b'/') || (byte == b',' && group == 3)) {
                break;
            }
            group = 0;
        }
        start -= 1;
    }
    let signed = start > 0
        && bytes[start - 1] == b'-'
        && (start == 1 || matches!(bytes[start - 2], b' ' | b'$' | b'(' | b'=' | b'\n' | b':'));
    &text[start - usize::from(signed)..end]
}
