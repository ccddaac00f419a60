//! Exact checks: closed arithmetic inside a step, proved right or wrong.
//!
//! ```
//! use gradus_grade::checks::{Verdict, check};
//! let checks = check("Half of them is 48/2 = 26, so 26 + 48 = 74 clips.");
//! assert_eq!(checks.len(), 2);
//! assert_eq!(checks[0].verdict, Verdict::Wrong);
//! assert_eq!(checks[0].proof.as_deref(), Some("48/2 = 24, not 26"));
//! assert_eq!(checks[1].verdict, Verdict::Right);
//! // A side with a letter, an index or a function of a letter is not closed: there is nothing to check.
//! assert!(check("x + 2 = 5, f(2) = 26 and n = 2k + 1").is_empty());
//! ```
//!
//! From each `=` and `≈` the sides reach as far as the arithmetic does (`operands`). They are read as the grader's trees
//! (`read`) and compared exactly (`decide`). *Wrong* is only said when nothing explains the difference: no rounding, no
//! other reading of the notation, no unit that converts, no running total (`excuses`), and no words around that refute
//! the equality or mean another arithmetic (`doubt`). Everything else is *undecided*.
//!
//! Text without an equality costs a search for one byte. Each side has at most 240 tokens, each number 120 digits, and
//! nothing depends on the size of a number, so a text takes time in proportion to its length.
//!
//! Left out: letters even where the step says their values, absolute values, logarithms, sums with dots, tuples.

mod decide;
mod doubt;
mod excuses;
mod lex;
mod line;
mod operands;
mod proof;
mod quick;
mod read;
mod rounding;
mod solution;
mod spoken;
mod values;
mod words;

use std::ops::Range;

use decide::Agreement;
pub use doubt::Context;
use doubt::Surroundings;
use lex::{Kind, Token};
use operands::{Line, Operand};
use serde::{Deserialize, Serialize};
pub use solution::{Findings, Proof, examine, prove};

/// Longest piece of text that is read at once; an equality across the end of one is not seen.
const MAX_PIECE: usize = 64 * 1024;

/// Whether an equality holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The sides are equal, or one is the other rounded to the digits that are written.
    Right,
    /// The sides differ.
    Wrong,
    /// It cannot be told, or something explains the difference.
    Undecided,
}

/// An equality with closed sides, at least one of which computes something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check<'a> {
    /// Where it is in the text, in bytes.
    pub span: Range<usize>,
    /// The side before the sign, as it is written.
    pub left: &'a str,
    /// The side after the sign, as it is written.
    pub right: &'a str,
    /// Whether it holds.
    pub verdict: Verdict,
    /// Why it is wrong: `48/2 = 24, not 26`. Only of a wrong one.
    pub proof: Option<String>,
}

/// The equalities of a step whose sides are closed arithmetic, in the order of the text.
pub fn check(text: &str) -> Vec<Check<'_>> {
    check_in(text, &Context::default())
}

/// The same for a step of which the problem is known: arithmetic modulo a number, in another base or with an operation
/// of its own is not marked wrong.
pub fn check_in<'a>(text: &'a str, context: &Context) -> Vec<Check<'a>> {
    let mut checker = Checker {
        text,
        surroundings: Surroundings::new(text, context),
        found: Vec::new(),
        tokens: Vec::new(),
    };
    for piece in pieces(text) {
        if has_equality(&text[piece.clone()]) {
            checker.piece(piece, true);
        }
    }
    checker.found
}

/// The first equality of a step that is proved wrong.
///
/// ```
/// use gradus_grade::checks::{Context, first_wrong};
/// let wrong = first_wrong("2 + 2 = 4 and 7 \\times 8 = 54", &Context::default()).unwrap();
/// assert_eq!(wrong.proof.as_deref(), Some("7 \\times 8 = 56, not 54"));
/// ```
pub fn first_wrong<'a>(text: &'a str, context: &Context) -> Option<Check<'a>> {
    check_in(text, context).into_iter().find(|check| check.verdict == Verdict::Wrong)
}

fn has_equality(text: &str) -> bool {
    let bytes = text.as_bytes();
    let may = |byte: u8, sign: &str| bytes.contains(&byte) && text.contains(sign);
    bytes.contains(&b'=') || may(b'\xe2', "≈") || may(b'\\', "\\approx") || may(b'\\', "\\simeq")
}

/// Paragraphs, and parts of very long ones.
fn pieces(text: &str) -> impl Iterator<Item = Range<usize>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        if at == text.len() {
            return None;
        }
        let rest = &text[at..];
        let mut length = paragraph(rest.as_bytes());
        if length > MAX_PIECE {
            length = MAX_PIECE;
            while !rest.is_char_boundary(length) {
                length -= 1;
            }
            length = rest[..length].rfind(['\n', ' ']).map_or(length, |end| end + 1);
        }
        at += length;
        Some(at - length..at)
    })
}

/// The length of the text up to an empty line.
fn paragraph(bytes: &[u8]) -> usize {
    let mut at = 0;
    while let Some(end) = bytes[at..].iter().position(|byte| *byte == b'\n') {
        at += end + 1;
        if bytes.get(at) == Some(&b'\n') {
            return at + 1;
        }
    }
    bytes.len()
}

struct Checker<'a, 'c> {
    text: &'a str,
    surroundings: Surroundings<'a, 'c>,
    found: Vec<Check<'a>>,
    tokens: Vec<Token>,
}

impl Checker<'_, '_> {
    /// Checks a part of the text; `<<48/2=24>>` in it is a part of its own.
    fn piece(&mut self, piece: Range<usize>, marks: bool) {
        let text = &self.text[piece.clone()];
        let mut tokens = std::mem::take(&mut self.tokens);
        lex::lex(text, &mut tokens);
        let line = Line { text, tokens: &tokens };
        for (at, token) in tokens.iter().enumerate() {
            match token.kind {
                Kind::Equal | Kind::Approx => self.relation(piece.start, line, at),
                Kind::Mark if marks => {
                    self.piece(
                        piece.start + token.start as usize + 2..piece.start + token.end as usize - 2,
                        false,
                    );
                }
                _ => {}
            }
        }
        self.tokens = tokens;
    }

    /// Checks the equality at a token.
    fn relation(&mut self, offset: usize, line: Line<'_>, at: usize) {
        let approx = line.tokens[at].kind == Kind::Approx;
        let Some((left, right)) = line.left(at).and_then(|left| Some((left, line.right(at)?))) else {
            return;
        };
        let Some(decision) = decide::decide(line, &left, &right, approx) else { return };
        let (l, r) = (span(line, &left, offset), span(line, &right, offset));
        let span = l.start..r.end;
        let verdict = match decision.agreement {
            Agreement::Equal | Agreement::Rounded => Verdict::Right,
            Agreement::Different if !self.surroundings.are_doubtful(&span, &decision) => Verdict::Wrong,
            Agreement::Different | Agreement::Unsure => Verdict::Undecided,
        };
        let (left, right) = (&self.text[l], &self.text[r]);
        let proof = (verdict == Verdict::Wrong).then(|| proof::proof(left, right, &decision));
        self.found.push(Check { span, left, right, verdict, proof });
    }
}

/// Where a side is in the whole text.
fn span(line: Line<'_>, operand: &Operand, offset: usize) -> Range<usize> {
    let tokens = &line.tokens[operand.tokens.clone()];
    let (first, last) = (tokens[0], tokens[tokens.len() - 1]);
    offset + first.start as usize..offset + last.end as usize
}
