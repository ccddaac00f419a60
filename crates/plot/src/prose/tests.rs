use proptest::prelude::*;

use super::pieces::{Piece, pieces};
use super::*;

fn formulas(text: &str) -> Vec<&str> {
    pieces(text)
        .into_iter()
        .filter_map(|piece| if let Piece::Formula { latex, .. } = piece { Some(latex) } else { None })
        .collect()
}

#[test]
fn every_delimiter_opens_a_formula() {
    assert_eq!(formulas("If $x$ and \\(y\\), then $$z$$ or \\[w\\]."), ["x", "y", "z", "w"]);
    let align = "\\begin{align*}a&=b\\\\\\begin{align*}c\\end{align*}\\end{align*}";
    assert_eq!(formulas(&format!("So {align} holds.")), [align]);
    assert_eq!(
        formulas("$ x = 5 $, $5$, $5 + 3 = 8$, $12x + 5y = 3$, $-3$, $1,000$"),
        [" x = 5 ", "5", "5 + 3 = 8", "12x + 5y = 3", "-3", "1,000"]
    );
    assert_eq!(formulas("$ADE, BCG, CDH$ and $4a, br, cr$"), ["ADE, BCG, CDH", "4a, br, cr"]);
    assert_eq!(formulas("$distance = speed * time$ and $5 \\text{ apples and pears}$").len(), 2);
}

#[test]
fn money_is_no_mathematics() {
    for text in [
        "It costs $5 and $6.",
        "It costs $5, $6 or $7.",
        "They pay $3*$4 = $12.",
        "$20-$15 is $5",
        "$5 + $6 = $11",
        "between $5 million and $6 million",
        "US$ and A$ are dollars",
        "$1,000.50 per year; $2 per day",
        "a $ sign",
        "\\$5 and \\$6$",
        "$5\n\nThen $6 are left.",
        "$$",
        "$ $",
        "She has 5$ left",
        "It is $2. So \\boxed{$2}",
    ] {
        assert_eq!(formulas(text), [] as [&str; 0], "{text}");
    }
    assert_eq!(formulas("It is $2. Let \\(x\\) be $5."), ["x"]);
    assert_eq!(formulas("It costs $5 per $1$ unit."), ["1"]);
    assert_eq!(formulas("Each is \\$3, so $3 \\cdot 4 = 12$ dollars."), ["3 \\cdot 4 = 12"]);
    assert_eq!(prose("Each is \\$3."), "Each is $3.");
}

#[test]
fn drawings_are_shown_as_source() {
    let drawing = "[asy]\nlabel(\"$A$\", (0,0));\n[/asy]";
    assert_eq!(pieces(drawing), [Piece::Source(drawing)]);
}

#[test]
fn what_cannot_be_converted_is_source() {
    for text in ["$\\nosuch{x}$", "\\(x^{2\\)", "$\\href{javascript:alert(1)}{x}$", "\\[\\boxed{a & b}\\]"] {
        let html = prose(text);
        assert!(html.contains("<code class=\"latex\">") && !html.contains("<math"), "{html}");
    }
}

#[test]
fn real_latex_is_converted() {
    for latex in [
        r"\boxed{x=\frac{1}{2}}",
        r"\begin{align*} a &= b \tag{1} \\ c &= d \end{align*}",
        r"\begin{array}{@{}c@{\;}c|r@{}} 1 & 2 & 3 \\ \hline 4 & 5 & 6 \end{array}",
        r"f(x) = \begin{cases} 1 & \text{if } x > 0, \\ 0 & \mbox{otherwise} \end{cases}",
        r"\sum_{\substack{p<q \\ q}} p \dotsm q",
        r"\mathbf{A} = \renewcommand{\arraystretch}{1.5} \begin{pmatrix} 1 & x \\ y & -\frac{9}{5} \end{pmatrix}",
        r"\frac{\cancelto{2}{8}}{7}, \textcolor{red}{x}, \binom{n}{k} \pmod{7}, \overline{AB}, 90^\circ, \$5",
        r"\left\lfloor \sqrt[3]{x} \right\rfloor \!\!\sim \vec{v} \cdot \mathbb{R}",
    ] {
        let html = prose(&format!("$${latex}$$"));
        assert!(html.starts_with("<span class=\"formula\"><math display=\"block\">"), "{latex}: {html}");
        assert!(!html.contains(" style="), "{html}");
    }
    assert!(prose(r"$\boxed{7}$").contains("<mrow class=\"m-frame\">"), "{}", prose(r"$\boxed{7}$"));
}

#[test]
fn hostile_formulas_are_harmless() {
    let html = prose(r"$\text{<script>alert(1)</script>} \mathrm{<b>}$ and $<img src=x onerror=1>$");
    assert!(!html.contains("<script") && !html.contains("<img") && !html.contains("<b>"), "{html}");
    let link = mathml::cleaned("<math><mtext><a href=\"javascript:x\">y</a></mtext></math>");
    assert_eq!(link.unwrap(), "<math><mtext>y</mtext></math>");
    for unknown in ["<math><script>x</script></math>", "<math onclick=\"x\"", "<iframe>", "a > b"] {
        assert_eq!(mathml::cleaned(unknown), None, "{unknown}");
    }
    assert_eq!(mathml::cleaned("<mi onclick=\"x\" width=\"1\">y</mi>").unwrap(), "<mi width=\"1\">y</mi>");
}

/// Looking for the end of each opener from the start takes minutes.
#[test]
fn openers_that_nothing_closes_are_text() {
    for opener in ["[asy]", "\\[", "\\(", "$ $", "\\begin{"] {
        let text = opener.repeat(100_000);
        assert!(formulas(&text).is_empty(), "{opener}");
    }
    assert_eq!(formulas(r"\[ a \[ b \]"), [" b "]);
}

/// On a test's thread of two megabytes, without optimization.
#[test]
fn deep_and_huge_formulas_are_bounded() {
    for (open, close) in [
        ("{", "}"),
        ("\\sqrt", ""),
        ("\\sqrt{", "}"),
        ("\\left(", "\\right)"),
        ("x^", ""),
        ("x^{", "}"),
        ("x_{", "}"),
        ("\\frac", ""),
        ("\\hat ", ""),
        ("\\begin{matrix}", "\\end{matrix}"),
        ("\\boxed", ""),
        ("\\boxed{", "}"),
        ("\\sqrt[", "]x"),
        ("\\overset", ""),
        ("\\text{", "}"),
        ("^", ""),
        ("\\not", ""),
        ("&", ""),
        ("\\cancelto{", "}{}"),
        ("'", ""),
    ] {
        for depth in [19, 39, 90, 700, 10_000] {
            let latex = open.repeat(depth) + "x" + &close.repeat(depth);
            let html = prose(&format!("$$ {latex} $$"));
            assert!(html.len() < 60 * latex.len() + 1000, "{open}: {}", html.len());
        }
    }
    assert_eq!(formulas(&"\\[".repeat(50_000)).len(), 0);
    assert_eq!(formulas(&"\\begin{align}".repeat(10_000)).len(), 0);
}

proptest! {
    /// Anything is well-formed: the page's other tests parse it as XML.
    #[test]
    fn anything_becomes_balanced_elements(text in "([$\\\\{}\\[\\]()^_&<>\"' a-z0-9=+]|\\\\frac|\\\\text|\\\\left|\\\\right|\\$\\$|\\\\begin\\{align\\}|\\\\end\\{align\\}|\u{202e}|\u{1b}){0,60}") {
        let html = prose(&text);
        let page = format!("<div>{html}</div>");
        let parsed = roxmltree::Document::parse(&page);
        prop_assert!(parsed.is_ok(), "{html}");
        let known = ["div", "span", "code", "math"];
        for node in parsed.unwrap().descendants().filter(roxmltree::Node::is_element) {
            let name = node.tag_name().name();
            prop_assert!(known.contains(&name) || name.starts_with('m') || ["b", "i", "em", "s", "u"].contains(&name));
        }
    }

    #[test]
    fn the_pieces_are_the_text(text in "[$\\\\a-z0-9 \n\\[\\]()]{0,80}") {
        let joined: String = pieces(&text)
            .iter()
            .map(|piece| match piece {
                Piece::Text(text) | Piece::Source(text) | Piece::Formula { source: text, .. } => *text,
            })
            .collect();
        prop_assert_eq!(joined, text);
    }
}
