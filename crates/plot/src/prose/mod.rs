//! Text of problems and solutions as HTML, its mathematics as MathML.
//!
//! LaTeX stands between `$…$`, `$$…$$`, `\(…\)`, `\[…\]` or in an environment such as `align`; money is no mathematics
//! ([`pieces`]). A formula that cannot be converted is shown as its source in `<code>` ([`mathml`]). Everything else
//! is escaped. The elements need the style sheet [`MATH_STYLE`].

mod latex;
mod mathml;
mod pieces;
mod rewrite;

use crate::escape::escaped;
use pieces::{Piece, pieces};

/// The style sheet of [`prose`].
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
            Piece::Source(source) => out += &source_code(source),
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

fn source_code(source: &str) -> String {
    format!("<code class=\"latex\">{}</code>", escaped(source))
}

#[cfg(test)]
mod tests;
