//! Keys are taken out of what a server says, before it is cut, shown or kept.
//!
//! Servers like to repeat the key that they refuse: whole, in part, or escaped (`\u0073k-…`, `%73k-…`, `&#115;k-…`). So a
//! text is read letter by letter with such escapes undone, and every stretch of twelve letters that a key also has becomes
//! `[key]`.

use std::collections::HashSet;

/// Letters of a key in a row that give it away.
const PIECE: usize = 12;
/// Shorter keys are words like `EMPTY` that stand in for a key; they are hidden in errors, but stay in answers.
const SECRET: usize = 8;

/// A key, and what of it must not be shown.
pub(crate) struct Secret {
    length: usize,
    window: usize,
    pieces: HashSet<Vec<u8>>,
    alphabet: [bool; 256],
}

impl Secret {
    pub(crate) fn new(key: &str) -> Self {
        let mut letters = Vec::new();
        let mut rest = key.as_bytes();
        while !rest.is_empty() {
            let (letter, length) = letter(rest);
            letters.push(letter);
            rest = &rest[length..];
        }
        let window = letters.len().clamp(1, PIECE);
        let mut alphabet = [false; 256];
        letters.iter().for_each(|letter| alphabet[usize::from(*letter)] = true);
        let pieces = letters.windows(window).map(<[u8]>::to_vec).collect();
        Self { length: key.len(), window, pieces, alphabet }
    }

    /// An error's text without the key.
    pub(crate) fn hide_in_error(&self, text: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(text.len());
        let mut copied = 0;
        for (start, end) in self.places(text) {
            out.extend_from_slice(&text[copied..start]);
            out.extend_from_slice(b"[key]");
            copied = end;
        }
        out.extend_from_slice(&text[copied..]);
        out
    }

    /// An answer without the key. JSON stays JSON.
    pub(crate) fn hide_in_answer(&self, text: Vec<u8>) -> Vec<u8> {
        if self.length < SECRET || self.places(&text).is_empty() { text } else { self.hide_in_error(&text) }
    }

    /// Where the key or a part of it begins and ends.
    fn places(&self, text: &[u8]) -> Vec<(usize, usize)> {
        let mut places: Vec<(usize, usize)> = Vec::new();
        let (mut recent, mut starts) = (Vec::new(), Vec::new());
        let mut place = 0;
        while place < text.len() {
            let (letter, length) = letter(&text[place..]);
            if self.alphabet[usize::from(letter)] {
                if recent.len() == self.window {
                    recent.remove(0);
                    starts.remove(0);
                }
                recent.push(letter);
                starts.push(place);
                if self.pieces.contains(&recent) {
                    let end = place + length;
                    match places.last_mut() {
                        Some(last) if starts[0] <= last.1 => last.1 = end,
                        _ => places.push((starts[0], end)),
                    }
                }
            } else {
                recent.clear();
                starts.clear();
            }
            place += length;
        }
        places
    }
}

/// The letter that a text begins with, escapes undone, and its bytes; 0 for what no key has.
fn letter(text: &[u8]) -> (u8, usize) {
    let number = |digits: Option<&[u8]>, radix| {
        let digits = std::str::from_utf8(digits?).ok()?;
        let plain = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        plain.then(|| u32::from_str_radix(digits, radix).map_or(0, |code| u8::try_from(code).unwrap_or(0)))
    };
    match text[0] {
        b'\\' => {
            // Text within text is escaped twice and thrice.
            let slashes = text.iter().take_while(|byte| **byte == b'\\').count();
            let (kind, digits) = (text.get(slashes).copied().unwrap_or(0), &text[slashes.min(text.len())..]);
            let found = match kind {
                b'u' if digits.get(1) == Some(&b'{') => {
                    let end = digits.iter().take(12).position(|byte| *byte == b'}');
                    end.and_then(|end| Some((number(digits.get(2..end), 16)?, end + 1)))
                }
                b'u' => number(digits.get(1..5), 16).map(|letter| (letter, 5)),
                b'U' => number(digits.get(1..9), 16).map(|letter| (letter, 9)),
                b'0'..=b'7' => number(digits.get(..3), 8).map(|letter| (letter, 3)),
                b'x' => number(digits.get(1..3), 16).map(|letter| (letter, 3)),
                b'/' | b'"' | b'\'' => Some((kind, 1)),
                b'n' | b't' | b'r' | b'b' | b'f' => Some((0, 1)),
                _ => None,
            };
            let (letter, length) = found.unwrap_or((b'\\', 0));
            (letter, slashes + length)
        }
        // The sign may be escaped itself, and that again.
        b'%' => {
            let start = 1 + repeats(&text[1..], b"25");
            let digits = text.get(start..start + 2);
            number(digits, 16).map_or((b'%', start), |letter| (letter, start + 2))
        }
        b'&' => {
            let start = 1 + repeats(&text[1..], b"amp;");
            let code = || {
                let reference = text.get(start..)?.strip_prefix(b"#")?;
                let end = reference.iter().take(24).position(|byte| *byte == b';')?;
                let code = match reference[0] {
                    b'x' | b'X' => number(reference.get(1..end), 16),
                    _ => number(reference.get(..end), 10),
                };
                Some((code?, start + 1 + end + 1))
            };
            code().unwrap_or((b'&', start))
        }
        byte => (byte, 1),
    }
}

/// Bytes of a text that are repetitions of `part`.
fn repeats(text: &[u8], part: &[u8]) -> usize {
    text.chunks_exact(part.len()).take_while(|chunk| *chunk == part).count() * part.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hidden(text: &str) -> String {
        String::from_utf8(Secret::new("sk-open-sesame-1234567890").hide_in_error(text.as_bytes())).unwrap()
    }

    #[test]
    fn a_key_is_found_however_it_is_written() {
        for text in [
            "key sk-open-sesame-1234567890!",
            r"key \u0073k-open-sesame-1234567890!",
            r"key \\u0073\\u006B-open\u002dsesame-1234567890!",
            "key %73k-open%2Dsesame-1234567890!",
            "key &#115;k-open&#x2D;sesame-1234567890!",
            r"key \u{73}k-open\U0000002dsesame-\061234567890!",
            "key %2573k-open%25252Dsesame-1234567890!",
            "key &amp;#115;k-open&amp;amp;#x2D;sesame-1234567890!",
            "key &#000000000115;k-open-sesame-1234567890!",
            "key sk-open-sesame-12345!",
            "key pen-sesame-1234567890!",
        ] {
            assert_eq!(hidden(text), "key [key]!", "{text}");
        }
        assert_eq!(hidden(r#"{"a": "\nsk-open-sesame-1234567890"}"#), r#"{"a": "\n[key]"}"#);
        for text in ["sk-open-ses", "open sesame", "100 %", r"C:\users\x", "&#; &#9999999999;", "\\"] {
            assert_eq!(hidden(text), text);
        }
    }

    #[test]
    fn words_in_place_of_a_key_stay_in_answers() {
        let empty = Secret::new("EMPTY");
        assert_eq!(empty.hide_in_answer(b"The set is EMPTY.".to_vec()), b"The set is EMPTY.");
        assert_eq!(empty.hide_in_error(b"EMPTY is wrong"), b"[key] is wrong");
        let percent = Secret::new("a%41b%42c");
        assert_eq!(percent.hide_in_answer(b"is a%41b%42c".to_vec()), b"is [key]");
    }
}
