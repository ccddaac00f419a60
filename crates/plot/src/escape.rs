//! Text as HTML and as SVG.

/// Text that may stand in an element or in a quoted attribute. Control characters and marks of writing direction are
/// shown as `\u{202e}`, so that nothing hides and no text is reordered.
///
/// ```
/// assert_eq!(gradus_plot::escaped("<b>\u{202e}"), "&lt;b&gt;\\u{202e}");
/// ```
pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '"' => out += "&quot;",
            '\'' => out += "&#39;",
            '\n' | '\t' => out.push(character),
            '\r' => {}
            '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
                out.extend(character.escape_unicode());
            }
            control if control.is_control() => out.extend(control.escape_unicode()),
            plain => out.push(plain),
        }
    }
    out
}

/// JSON that may stand in a script element: outside of strings JSON has no `<`, inside it may be written so.
pub(crate) fn in_script(json: &str) -> String {
    json.replace('<', "\\u003c")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_leaves_its_element_or_attribute() {
        let hostile = "<script>alert('&\"')</script>";
        assert_eq!(escaped(hostile), "&lt;script&gt;alert(&#39;&amp;&quot;&#39;)&lt;/script&gt;");
        assert_eq!(in_script(r#"{"a":"</script><!--"}"#), r#"{"a":"\u003c/script>\u003c!--"}"#);
    }

    #[test]
    fn control_characters_are_shown_escaped() {
        assert_eq!(escaped("a\0b\u{1b}[31m\r\n\tc\u{ffff}"), "a\\u{0}b\\u{1b}[31m\n\tc\u{fffd}");
        assert_eq!(escaped("1\u{202e}2\u{2066}3\u{200f}4"), "1\\u{202e}2\\u{2066}3\\u{200f}4");
    }

    #[test]
    fn other_scripts_and_mathematics_stay() {
        let text = "√2 ≤ 3, 数学, ∀ε>0".replace('>', "");
        assert_eq!(escaped(&text), text);
    }
}
