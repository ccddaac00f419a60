//! LaTeX of real problems and solutions as the converter knows it: old and rare commands become common ones.

/// Commands that are written out. `\boxed` is a color that [`super::mathml`] makes a frame of: MathML has none.
pub(super) const MACROS: [(&str, &str); 16] = [
    ("boxed", r"{\color{RawSienna}#1}"),
    ("allowbreak", "{}"),
    ("cancelto", r"\overset{#1}{\cancel{#2}}"),
    ("dotsb", r"\cdots"),
    ("dotsc", r"\ldots"),
    ("dotsi", r"\cdots"),
    ("dotsm", r"\cdots"),
    ("dotso", r"\ldots"),
    ("equal", "="),
    ("gradustag", r"\qquad(\mathrm{#1})"),
    ("minus", "-"),
    ("nobreak", "{}"),
    ("plus", "+"),
    ("substack", r"\begin{matrix}#1\end{matrix}"),
    ("textdegree", r"^\circ"),
    ("textcolor", r"{\color{#1}#2}"),
];

/// Environments with equation numbers are written without them; text in a box is text.
const NAMES: [(&str, &str); 20] = [
    (r"\begin{align}", r"\begin{aligned}"),
    (r"\end{align}", r"\end{aligned}"),
    (r"\begin{align*}", r"\begin{aligned}"),
    (r"\end{align*}", r"\end{aligned}"),
    (r"\begin{eqnarray}", r"\begin{aligned}"),
    (r"\end{eqnarray}", r"\end{aligned}"),
    (r"\begin{eqnarray*}", r"\begin{aligned}"),
    (r"\end{eqnarray*}", r"\end{aligned}"),
    (r"\begin{gather}", r"\begin{gathered}"),
    (r"\end{gather}", r"\end{gathered}"),
    (r"\begin{gather*}", r"\begin{gathered}"),
    (r"\end{gather*}", r"\end{gathered}"),
    (r"\tag*{", r"\gradustag{"),
    (r"\tag{", r"\gradustag{"),
    (r"\mbox{", r"\text{"),
    (r"\hbox{", r"\text{"),
    (r"\fbox{", r"\text{"),
    (r"\textnormal{", r"\text{"),
    (r"\nonumber", ""),
    (r"\renewcommand{\arraystretch}", r"\ignored"),
];

/// The formula with the names that the converter knows.
pub(super) fn rewritten(latex: &str) -> String {
    let mut out = latex.to_owned();
    for (old, new) in NAMES {
        if out.contains(old) {
            out = out.replace(old, new);
        }
    }
    out = without_groups(&out, r"\ignored");
    out = without_groups(&out, r"\label");
    without_groups(&out, "@")
}

/// The text without every `command{…}`; what is not followed by a group stays.
fn without_groups(text: &str, command: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(command) {
        out += before;
        match after.strip_prefix('{').and_then(|group| group.split_once('}')) {
            Some((group, after)) if !group.contains('{') => rest = after,
            _ => {
                out += command;
                rest = after;
            }
        }
    }
    out + rest
}

/// Whether a formula nests more than `most`: in braces, environments and `\left`, or as commands that take each other
/// as arguments (`\sqrt\sqrt\sqrt…`). The converter is recursive, and a stack is finite.
pub(super) fn nests_deeper(latex: &str, most: usize) -> bool {
    let (mut depth, mut run) = (0_usize, 0_usize);
    let mut rest = latex;
    while let Some(letter) = rest.chars().next() {
        let mut length = letter.len_utf8();
        match letter {
            '{' | '[' => depth += 1,
            '}' | ']' => depth = depth.saturating_sub(1),
            '\\' => {
                let name = rest[1..].bytes().take_while(u8::is_ascii_alphabetic).count();
                length += name.max(rest[1..].chars().next().map_or(0, char::len_utf8));
                match &rest[1..1 + name] {
                    "begin" | "left" => depth += 1,
                    "end" | "right" => depth = depth.saturating_sub(1),
                    _ => {}
                }
                run += 1;
            }
            '^' | '_' | '\'' => run += 1,
            ' ' | '\n' | '\t' | '\r' => {}
            _ => run = 0,
        }
        if depth + run > most {
            return true;
        }
        rest = &rest[length..];
    }
    false
}
