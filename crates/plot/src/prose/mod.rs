//! Text of problems and solutions as HTML, its mathematics as MathML.
//!
//! LaTeX stands between `$…$`, `$$…$$`, `\(…\)`, `\[…\]` or in an environment such as `align`; money is no mathematics
//! ([`mod@pieces`]). A formula that cannot be converted is shown as its source in `<code>` ([`mathml`]). Everything else
//! is escaped. The elements need the style sheet [`MATH_STYLE`].

mod latex;
mod mathml;
mod pieces;
mod rewrite;

use crate::escape::escaped;
use pieces::{Piece, pieces};

/// The style sheet of [`prose()`].
pub const MATH_STYLE: &str = include_str!("math.css");

/// A text as HTML that may stand in any element with text: escaped, with its formulas as MathML.
///
/// ```
/// use gradus_plot::prose;
/// assert!(prose("If $x<1$, then …").starts_with("If <math>"));
/// assert_eq!(prose("It costs $5 & $6."), "It costs $5 &amp; $6.");
/// assert_eq!(prose(r"$\nosuch$"), r#"<code class="latex">$\nosuch$</code>"#);
/// ```
pub fn prose(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    // Line breaks around a formula of its own line would be empty lines.
    let mut after_display = false;
    let mut all = pieces(text).into_iter().peekable();
    while let Some(piece) = all.next() {
        let mut displayed = false;
        match piece {
            Piece::Text(text) => {
                let text = if after_display { text.trim_start_matches([' ', '\n', '\r']) } else { text };
                let next_display = matches!(all.peek(), Some(Piece::Formula { display: true, .. }));
                let text = if next_display { text.trim_end_matches([' ', '\n', '\r']) } else { text };
                out += &escaped(&text.replace("\\$", "$"));
            }
            Piece::Source(source) => {
                out += &format!("<code class=\"latex drawing\">{}</code>", escaped(source));
            }
            Piece::Formula { source, latex, display } => match latex::mathml(latex, display) {
                Some(formula) if display => {
                    displayed = true;
                    out += &format!("<span class=\"formula\">{formula}</span>");
                }
                Some(formula) => out += &formula,
                None => out += &source_code(source),
            },
        }
        after_display = displayed;
    }
    out
}

/// The beginning of a text as [`prose()`]: about `width` characters on one line, no formula cut in the middle.
///
/// ```
/// use gradus_plot::prose_excerpt;
/// assert!(prose_excerpt(r"Solve $\frac{x}{2} = 1$ for $x$.", 12).starts_with("Solve <math>"));
/// assert_eq!(prose_excerpt(r"A long text with $\frac{1}{2}$", 6), "A lon…");
/// ```
pub fn prose_excerpt(text: &str, width: usize) -> String {
    let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut kept = 0;
    let mut left = width;
    for piece in pieces(&flat) {
        let (source, whole) = match piece {
            Piece::Text(text) => (text, false),
            Piece::Source(source) | Piece::Formula { source, .. } => (source, true),
        };
        let length = source.chars().count();
        // A formula's source is longer than what is drawn.
        let cost = if whole { length / 3 } else { length };
        if cost > left || (whole && length > 2 * width) {
            let cut: String = source.chars().take(if whole { 0 } else { left.saturating_sub(1) }).collect();
            return prose(&format!("{}{cut}…", &flat[..kept]));
        }
        left -= cost;
        kept += source.len();
    }
    prose(&flat)
}

fn source_code(source: &str) -> String {
    format!("<code class=\"latex\">{}</code>", escaped(source))
}

#[cfg(test)]
mod tests;
