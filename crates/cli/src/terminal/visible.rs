//! Text of strangers on a terminal: control characters are shown, not obeyed.
//!
//! Datasets, file names and servers may hold escape sequences that clear the screen, set the window's title or write into
//! the clipboard, and marks that reverse the direction of writing. Everything that this program prints goes through here.

use std::borrow::Cow;

/// `text` with control characters and marks of direction as `\u{1b}`, except line breaks, tabs, and this program's own
/// colors where it uses them.
pub(crate) fn visible(text: &str, colors: bool) -> Cow<'_, str> {
    if !text.chars().any(is_hidden) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    let mut rest = text;
    while let Some(letter) = rest.chars().next() {
        let own = if colors && letter == '\u{1b}' { own_color(rest) } else { 0 };
        if own > 0 {
            out.push_str(&rest[..own]);
        } else if is_hidden(letter) {
            out.extend(letter.escape_unicode());
        } else {
            out.push(letter);
        }
        rest = &rest[own.max(letter.len_utf8())..];
    }
    Cow::Owned(out)
}

/// Bytes of the color that `text` begins with, if it is one of [`super::paint`]'s.
fn own_color(text: &str) -> usize {
    let Some((code, _)) = text.strip_prefix("\u{1b}[").and_then(|rest| rest.split_once('m')) else {
        return 0;
    };
    let score = code.strip_prefix("38;2;").is_some_and(|channels| {
        channels.split(';').count() == 3 && channels.split(';').all(|channel| channel.parse::<u8>().is_ok())
    });
    if score || ["0", "1", "2", "1;31", "32"].contains(&code) { code.len() + 3 } else { 0 }
}

fn is_hidden(letter: char) -> bool {
    match letter {
        '\n' | '\t' => false,
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{2028}' | '\u{2029}' => true,
        other => other.is_control(),
    }
}

/// JSON with the same characters as `\u009b`, which is the same JSON.
pub(crate) fn visible_json(json: &str) -> Cow<'_, str> {
    if !json.chars().any(is_hidden) {
        return Cow::Borrowed(json);
    }
    let mut out = String::with_capacity(json.len() + 16);
    for letter in json.chars() {
        if is_hidden(letter) {
            out += &format!("\\u{:04x}", u32::from(letter));
        } else {
            out.push(letter);
        }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequences_are_shown_and_colors_kept() {
        let hostile = "a\x1b]0;x\x07b\x1b[2Jc\u{9b}31md\re\x08f\u{202e}g\x7f\n\th";
        let shown = visible(hostile, true);
        assert_eq!(shown, "a\\u{1b}]0;x\\u{7}b\\u{1b}[2Jc\\u{9b}31md\\u{d}e\\u{8}f\\u{202e}g\\u{7f}\n\th");
        let painted = "\x1b[1;31mred\x1b[0m \x1b[38;2;220;10;60m0.1\x1b[0m";
        assert_eq!(visible(painted, true), painted);
        assert!(!visible(painted, false).contains('\x1b'));
        assert!(!visible("\x1b[8mhidden\x1b[31m \x1b[0", true).contains('\x1b'));
        assert_eq!(visible("Größe ≤ 3 👍", true), "Größe ≤ 3 👍");
    }

    #[test]
    fn json_stays_the_same_json() {
        let json = serde_json::to_string(&"a\u{9b}b\u{202e}c\x1bd").unwrap();
        let shown = visible_json(&json);
        assert!(!shown.chars().any(is_hidden), "{shown}");
        assert_eq!(serde_json::from_str::<String>(&shown).unwrap(), "a\u{9b}b\u{202e}c\x1bd");
    }
}
