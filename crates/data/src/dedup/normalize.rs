//! The same problem, however it is typeset: lower-case words, numbers and signs, one space between them.
//!
//! Folded: white space, punctuation, `$` and the other math delimiters, braces, LaTeX spacing and sizing,
//! `\dfrac` and `\frac`, `\leq` and `≤`, `1{,}000` and `1000`. Kept: every number, brackets and signs.

/// LaTeX commands that only change how a formula looks.
const SILENT: [&str; 30] = [
    "left", "right", "big", "bigl", "bigr", "bigg", "biggl", "biggr", "displaystyle", "textstyle", "limits",
    "quad", "qquad", "text", "textbf", "textit", "textrm", "mathrm", "mathbf", "mathit", "mbox", "hbox",
    "rm", "emph", "begin", "end", "operatorname", "boxed", "hspace", "vspace",
];

/// Commands and signs that mean the same.
const SAME: [(&str, &str); 18] = [
    ("dfrac", "frac"),
    ("tfrac", "frac"),
    ("cfrac", "frac"),
    ("leq", "<="),
    ("le", "<="),
    ("leqslant", "<="),
    ("geq", ">="),
    ("ge", ">="),
    ("geqslant", ">="),
    ("neq", "!="),
    ("ne", "!="),
    ("times", "*"),
    ("cdot", "*"),
    ("div", "/"),
    ("ldots", "..."),
    ("dots", "..."),
    ("cdots", "..."),
    ("lt", "<"),
];

/// The normal form of a problem's text.
///
/// ```
/// use gradus_data::dedup::normalize;
/// assert_eq!(normalize(r"Find $\dfrac{1}{2}$ of $1{,}000$."), "find frac 1 2 of 1000");
/// assert_eq!(normalize(r"find \( \frac {1} {2} \) of 1,000?"), normalize(r"Find $\tfrac12$ of 1000"));
/// ```
pub fn normalize(text: &str) -> String {
    let mut words = Words::default();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let mut length = c.len_utf8();
        match c {
            '\\' => length = command(rest, &mut words),
            _ if c.is_numeric() => length = number(rest, &mut words),
            _ if c.is_alphabetic() => {
                length = rest.find(|c: char| !c.is_alphabetic()).unwrap_or(rest.len());
                words.push(&rest[..length]);
            }
            '-' | '−' | '–' => {
                // A hyphen joins words, a minus numbers and variables.
                let word_after = rest[length..].chars().take(2).filter(|c| c.is_alphabetic()).count() == 2;
                words.push(if words.word_before && word_after { "" } else { "-" });
            }
            '≤' => words.push("<="),
            '≥' => words.push(">="),
            '≠' => words.push("!="),
            '×' | '·' | '∙' | '⋅' => words.push("*"),
            '÷' => words.push("/"),
            '…' => words.push("..."),
            '!' if words.factor_before => words.push("!"),
            '.' if rest.starts_with("...") => {
                length = 3;
                words.push("...");
            }
            '+' | '*' | '/' | '=' | '<' | '>' | '^' | '_' | '|' | '%' | '(' | ')' | '[' | ']' | '&' => {
                words.push(c.encode_utf8(&mut [0; 4]));
            }
            _ if c.is_ascii() || c.is_whitespace() || is_punctuation(c) => {}
            _ => words.push(&rest[..length]),
        }
        let taken = &rest[..length];
        words.word_before = length > 1 && taken.ends_with(char::is_alphabetic) && !taken.starts_with('\\');
        words.factor_before = taken.ends_with(|c: char| c.is_numeric() || c == ')');
        rest = &rest[length..];
    }
    words.text
}

#[derive(Default)]
struct Words {
    text: String,
    word_before: bool,
    factor_before: bool,
}

impl Words {
    fn push(&mut self, word: &str) {
        if word.is_empty() {
            return;
        }
        if !self.text.is_empty() {
            self.text.push(' ');
        }
        self.text.extend(word.chars().flat_map(char::to_lowercase));
    }
}

/// Reads a LaTeX command and returns its length.
fn command(rest: &str, words: &mut Words) -> usize {
    let after = &rest[1..];
    let letters = after.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(after.len());
    if letters == 0 {
        // `\,`, `\[`, `\$` and the like: the backslash and what it escapes, or only itself.
        return 1 + after.chars().next().filter(|c| !"\\%|&_".contains(*c)).map_or(0, char::len_utf8);
    }
    let name = &after[..letters];
    if !SILENT.contains(&name.to_ascii_lowercase().as_str()) {
        words.push(SAME.iter().find(|(other, _)| *other == name).map_or(name, |(_, same)| same));
    }
    let mut length = 1 + letters;
    // `\frac12` is one half: without braces, an argument is a single digit.
    if name.ends_with("frac") {
        for _ in 0..2 {
            let spaces = rest[length..].len() - rest[length..].trim_start_matches(' ').len();
            let Some(digit) = rest[length + spaces..].chars().next().filter(char::is_ascii_digit) else {
                break;
            };
            words.push(digit.encode_utf8(&mut [0; 4]));
            length += spaces + 1;
        }
    }
    length
}

/// Reads a number such as `1,000.5`, `1{,}000` or `1,\!000` and returns its length.
fn number(rest: &str, words: &mut Words) -> usize {
    let mut digits = String::new();
    let mut at = 0;
    loop {
        let run = rest[at..].find(|c: char| !c.is_numeric()).unwrap_or(rest.len() - at);
        digits.push_str(&rest[at..at + run]);
        at += run;
        let tail = &rest[at..];
        let comma = ["{,}", ",\\!", ","].into_iter().find(|comma| tail.starts_with(comma));
        let point = tail.strip_prefix('.').is_some_and(|tail| tail.starts_with(|c: char| c.is_ascii_digit()));
        if let Some(comma) = comma
            && !digits.contains('.')
            && tail[comma.len()..].bytes().take_while(u8::is_ascii_digit).take(4).count() == 3
        {
            at += comma.len();
        } else if point && !digits.contains('.') {
            digits.push('.');
            at += 1;
        } else {
            words.push(&digits);
            return at;
        }
    }
}

fn is_punctuation(c: char) -> bool {
    matches!(c, '\u{2010}'..='\u{203e}' | '、'..='】' | '！'..='／' | '：'..='＠' | '«' | '»' | '¿' | '¡' | '\u{200b}' | '\u{feff}')
}
