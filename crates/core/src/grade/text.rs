//! Answers as strings: the form in which two are equal whatever they mean, and words.

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
                    if !matches!(symbol, Some('!' | ',' | ';' | ':' | ' ' | '$' | '(' | ')')) {
                        out.push_str(&rest[..length]);
                    }
                    rest = &rest[length..];
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
            // `1 2` is not 12.
            let digit = |c: Option<char>| c.is_some_and(|c| c.is_ascii_digit());
            if digit(out.chars().next_back()) && digit(rest.trim_start().chars().next()) {
                out.push(' ');
                rest = rest.trim_start();
            }
        } else if !matches!(first, '$' | '~') {
            out.push(first);
        }
    }
    out
}

/// White space, dollars and sentence punctuation off both ends.
pub(super) fn strip(text: &str) -> &str {
    text.trim_matches(|c: char| c.is_whitespace() || matches!(c, '$' | '*' | '`'))
        .trim_end_matches(|c: char| c.is_whitespace() || matches!(c, '.' | ',' | ';' | ':' | '。'))
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
    out.split_whitespace().filter(|word| !matches!(*word, "the" | "a" | "an")).collect::<Vec<_>>().join(" ")
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
    words.chars().any(|c| c.is_alphabetic())
        && !words.chars().any(|c| c.is_ascii_digit())
        && !text.contains(['=', '+', '^', '<', '>', '_'])
        && words.split(' ').any(|word| word.chars().count() > 1)
}
