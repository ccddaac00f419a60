//! The tokens of a step: numbers, operators, brackets, relations, and what stands around them.
//!
//! LaTeX, Unicode and plain text are written in one alphabet: `\times`, `×`, `*` and an `x` between numbers are one kind
//! of token. Nothing is evaluated here, and nothing is refused: what is no arithmetic is a word, a gap or
//! [`Other`](Kind::Other). One pass, a few nanoseconds a byte.

use std::ops::Range;

use super::spoken;

/// What a token is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// `12`, `1,000`, `0.5`, `0.\overline{3}`.
    Number,
    /// `½`.
    Vulgar,
    Plus,
    Minus,
    PlusMinus,
    Times,
    Divide,
    Caret,
    /// `²`, with its digit.
    Raised(u8),
    Bang,
    Percent,
    Degree,
    Open,
    Close,
    Equal,
    Approx,
    /// `<`, `≠`, `≡`, `⇒` and other relations.
    Relation,
    /// Letters.
    Word,
    /// `\text{…}` without digits.
    Text,
    Frac,
    Sqrt,
    Binom,
    /// `\sin`, `\cos`, `\tan`.
    Function,
    Pi,
    /// A command that is not known, such as `\sum`.
    Command,
    /// A currency's sign before or after a number.
    Money,
    /// `$`, `\(`, `\]`: mathematics begins or ends, or a dollar.
    Dollar,
    /// `&`.
    Align,
    /// A line's end.
    Break,
    /// `\\`.
    Row,
    /// `\quad`, `**` around words, `|`-free white space with a meaning.
    Gap,
    Comma,
    Stop,
    Semicolon,
    Colon,
    Question,
    Dots,
    /// `<<48/2=24>>`, which GSM8K writes before a result.
    Mark,
    Other,
}

/// A piece of the text.
#[derive(Debug, Clone, Copy)]
pub(super) struct Token {
    pub(super) kind: Kind,
    /// White space stands before it.
    pub(super) spaced: bool,
    pub(super) start: u32,
    pub(super) end: u32,
}

impl Token {
    pub(super) fn range(self) -> Range<usize> {
        self.start as usize..self.end as usize
    }
}

/// How far the end of a `<<…>>` is looked for.
const MAX_MARK: usize = 160;

/// The tokens of `text` into `out`.
pub(super) fn lex(text: &str, out: &mut Vec<Token>) {
    debug_assert!(u32::try_from(text.len()).is_ok(), "a piece of text fits u32");
    out.clear();
    out.reserve(text.len() / 3 + 8);
    let mut lexer = Lexer { text, bytes: text.as_bytes(), at: 0, spaced: true, out };
    while lexer.at < lexer.bytes.len() {
        lexer.step();
    }
    spoken::name_operators(text, out);
}

struct Lexer<'a, 'o> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
    spaced: bool,
    out: &'o mut Vec<Token>,
}

impl Lexer<'_, '_> {
    fn peek(&self, ahead: usize) -> u8 {
        self.bytes.get(self.at + ahead).copied().unwrap_or(0)
    }

    fn push(&mut self, kind: Kind, length: usize) {
        let start = self.at;
        self.at += length;
        self.out.push(Token { kind, spaced: self.spaced, start: start as u32, end: self.at as u32 });
        self.spaced = false;
    }

    fn space(&mut self, length: usize) {
        self.at += length;
        self.spaced = true;
    }

    fn step(&mut self) {
        match self.bytes[self.at] {
            b' ' | b'\t' | b'\r' | b'~' => self.space(1),
            b'\n' => {
                self.push(Kind::Break, 1);
                self.spaced = true;
            }
            b'a'..=b'z' | b'A'..=b'Z' => self.word(),
            b'0'..=b'9' => self.number(),
            b'.' => self.point(),
            b'\\' => self.command(),
            b'+' => self.plus(),
            b'-' => self.minus(),
            b'*' => self.star(),
            b'/' => self.push(Kind::Divide, if self.peek(1) == b'/' { 2 } else { 1 }),
            b'^' => self.push(Kind::Caret, 1),
            b'!' => self.bang(),
            b'%' => self.push(Kind::Percent, 1),
            b'(' | b'[' | b'{' => self.push(Kind::Open, 1),
            b')' | b']' | b'}' => self.push(Kind::Close, 1),
            b'=' => self.equals(),
            b'<' => self.less(),
            b'>' => self.push(Kind::Relation, if self.peek(1) == b'=' { 2 } else { 1 }),
            b'$' => self.push(Kind::Dollar, if self.peek(1) == b'$' { 2 } else { 1 }),
            b'&' => self.push(Kind::Align, 1),
            b',' => self.push(Kind::Comma, 1),
            b';' => self.push(Kind::Semicolon, 1),
            b':' => self.colon(),
            b'?' => self.push(Kind::Question, 1),
            b'`' | b'"' => self.push(Kind::Gap, 1),
            0x80.. => self.unicode(),
            _ => self.push(Kind::Other, 1),
        }
    }

    /// Letters, with an apostrophe or hyphen inside words: `Tom's`.
    fn word(&mut self) {
        let rest = &self.bytes[self.at..];
        let mut length = letters(rest);
        if rest.get(length) == Some(&b'\'')
            && rest.get(length + 1).is_some_and(u8::is_ascii_alphabetic)
            && length > 1
        {
            length += 1 + letters(&rest[length + 1..]);
        }
        self.push(Kind::Word, length);
    }

    fn number(&mut self) {
        let rest = &self.bytes[self.at..];
        let mut length = digits(rest);
        if length <= 3 && rest[0] != b'0' {
            length = thousands(rest, length);
        }
        if rest.get(length) == Some(&b'.') && rest.get(length + 1) != Some(&b'.') {
            let point = length;
            length = decimals(rest, length);
            if length > point {
                length += dots(&rest[length..]);
            }
        }
        self.push(Kind::Number, length);
        // `1.2.3` is no number.
        if self.peek(0) == b'.' && self.peek(1).is_ascii_digit() {
            self.push(Kind::Other, 1);
        }
    }

    fn point(&mut self) {
        if self.peek(1) == b'.' {
            let length = self.bytes[self.at..].iter().take_while(|byte| **byte == b'.').count();
            self.push(Kind::Dots, length);
        } else if self.peek(1).is_ascii_digit() {
            let length = decimals(&self.bytes[self.at..], 0);
            self.push(Kind::Number, length);
        } else {
            self.push(Kind::Stop, 1);
        }
    }

    fn plus(&mut self) {
        match (self.peek(1), self.peek(2)) {
            (b'/', b'-') => self.push(Kind::PlusMinus, 3),
            (b'-', _) => self.push(Kind::PlusMinus, 2),
            _ => self.push(Kind::Plus, 1),
        }
    }

    fn minus(&mut self) {
        match (self.peek(1), self.peek(2)) {
            (b'-', b'>') => self.push(Kind::Relation, 3),
            (b'>', _) => self.push(Kind::Relation, 2),
            (b'-', _) => {
                let length = self.bytes[self.at..].iter().take_while(|byte| **byte == b'-').count();
                self.push(Kind::Gap, length);
            }
            _ => self.push(Kind::Minus, 1),
        }
    }

    /// A product, the power of `2**3`, or Markdown.
    fn star(&mut self) {
        let length = self.bytes[self.at..].iter().take_while(|byte| **byte == b'*').count();
        let operand_before = !self.spaced && self.after_value();
        let after = self.peek(length);
        let operand_after = after.is_ascii_digit() || matches!(after, b'(' | b'-');
        let kind = match length {
            1 => Kind::Times,
            2 if operand_before && operand_after => Kind::Caret,
            _ => Kind::Gap,
        };
        self.push(kind, length);
    }

    fn after_value(&self) -> bool {
        self.out.last().is_some_and(|token| matches!(token.kind, Kind::Number | Kind::Close))
    }

    fn bang(&mut self) {
        match self.peek(1) {
            b'=' if self.peek(2) == b'=' => self.push(Kind::Relation, 3),
            // `5 != 6` and `2 + 2!= 5`, but `4!=24`.
            b'=' if self.spaced || !self.after_value() || self.peek(2) == b' ' => {
                self.push(Kind::Relation, 2);
            }
            b'!' => self.push(Kind::Other, 2),
            _ => self.push(Kind::Bang, 1),
        }
    }

    fn equals(&mut self) {
        match (self.peek(1), self.peek(2)) {
            (b'>', _) => self.push(Kind::Relation, 2),
            (b'=', b'>') | (b'/', b'=') => self.push(Kind::Relation, 3),
            (b'=', b'=') => {
                let length = self.bytes[self.at..].iter().take_while(|byte| **byte == b'=').count();
                self.push(Kind::Gap, length);
            }
            (b'=', _) => self.push(Kind::Equal, 2),
            _ => self.push(Kind::Equal, 1),
        }
    }

    fn less(&mut self) {
        if self.peek(1) == b'<' {
            let rest = &self.bytes[self.at..(self.at + MAX_MARK).min(self.bytes.len())];
            if let Some(end) = rest.windows(2).position(|pair| pair == b">>") {
                let spaced = self.spaced;
                self.push(Kind::Mark, end + 2);
                self.spaced = spaced;
                return;
            }
        }
        self.push(Kind::Relation, if matches!(self.peek(1), b'=' | b'>') { 2 } else { 1 });
    }

    fn colon(&mut self) {
        let kind = if self.peek(1) == b'=' { Kind::Relation } else { Kind::Colon };
        self.push(kind, if kind == Kind::Relation { 2 } else { 1 });
    }

    fn unicode(&mut self) {
        let Some(first) = self.text[self.at..].chars().next() else { return };
        let length = first.len_utf8();
        let kind = match first {
            '\u{a0}' | '\u{2009}' | '\u{202f}' | '\u{2002}' | '\u{2003}' | '\u{200b}' | '\u{2061}' => {
                return self.space(length);
            }
            '×' | '⋅' | '·' | '∙' | '∗' | '✕' | '✖' => Kind::Times,
            '÷' | '⁄' | '∕' => Kind::Divide,
            '−' | '–' | '‑' => Kind::Minus,
            '±' => Kind::PlusMinus,
            '≈' | '≃' | '≅' => Kind::Approx,
            '≠' | '≤' | '≥' | '⩽' | '⩾' | '≡' | '→' | '⇒' | '⟹' | '⟶' | '⇔' | '∈' | '∼' | '∝' => {
                Kind::Relation
            }
            '²' => Kind::Raised(2),
            '³' => Kind::Raised(3),
            '⁴'..='⁹' => Kind::Raised(first as u32 as u8 & 0x0f),
            '°' | 'º' => Kind::Degree,
            '½' | '⅓' | '⅔' | '¼' | '¾' | '⅕' | '⅖' | '⅗' | '⅘' | '⅙' | '⅚' | '⅛' | '⅜' | '⅝' | '⅞' => {
                Kind::Vulgar
            }
            '√' => Kind::Sqrt,
            'π' => Kind::Pi,
            '£' | '€' | '¥' | '₹' | '¢' => Kind::Money,
            '…' | '⋯' => Kind::Dots,
            '“' | '”' | '‘' | '’' | '—' | '•' | '✓' | '✔' | '∴' => Kind::Gap,
            letter if letter.is_alphabetic() => Kind::Word,
            _ => Kind::Other,
        };
        self.push(kind, length);
    }

    fn command(&mut self) {
        let name_length = letters(&self.bytes[self.at + 1..]);
        if name_length > 0 {
            let name = &self.text[self.at + 1..self.at + 1 + name_length];
            return self.named(name, 1 + name_length);
        }
        match self.peek(1) {
            b'\\' => self.push(Kind::Row, 2),
            b'%' => self.push(Kind::Percent, 2),
            b'$' => self.push(Kind::Money, 2),
            b'{' => self.push(Kind::Open, 2),
            b'}' => self.push(Kind::Close, 2),
            b'(' | b')' | b'[' | b']' => self.push(Kind::Dollar, 2),
            b',' | b';' | b':' | b'!' | b' ' => self.space(2),
            b'\n' => self.space(1),
            _ => self.push(Kind::Other, 1),
        }
    }

    fn named(&mut self, name: &str, length: usize) {
        let kind = match name {
            "times" | "cdot" => Kind::Times,
            "div" => Kind::Divide,
            "frac" | "dfrac" | "tfrac" | "cfrac" => Kind::Frac,
            "sqrt" => Kind::Sqrt,
            "binom" | "dbinom" | "tbinom" => Kind::Binom,
            "sin" | "cos" | "tan" => Kind::Function,
            "pi" => Kind::Pi,
            "pm" | "mp" => Kind::PlusMinus,
            "approx" | "approxeq" | "simeq" | "thickapprox" => Kind::Approx,
            "circ" | "degree" => Kind::Degree,
            "ldots" | "dots" | "cdots" | "dotsc" | "dotsb" | "dotsm" | "vdots" => Kind::Dots,
            "quad" | "qquad" | "therefore" | "because" => Kind::Gap,
            "hspace" | "vspace" | "phantom" | "hphantom" | "label" | "tag" | "color" => {
                return self.with_argument(length);
            }
            "left" | "right" | "big" | "Big" | "bigg" | "Bigg" | "bigl" | "bigr" | "Bigl" | "Bigr"
            | "biggl" | "biggr" | "displaystyle" | "textstyle" | "limits" | "mathopen" | "mathclose" => {
                return self.space_in_place(length);
            }
            "text" | "textrm" | "mathrm" | "textbf" | "textit" | "mbox" | "textsf" => {
                return self.words(length);
            }
            "begin" | "end" => return self.environment(length),
            "ne" | "neq" | "le" | "leq" | "leqslant" | "ge" | "geq" | "geqslant" | "lt" | "gt" | "equiv"
            | "cong" | "sim" | "propto" | "to" | "rightarrow" | "Rightarrow" | "longrightarrow"
            | "Longrightarrow" | "implies" | "iff" | "Leftrightarrow" | "mapsto" | "in" | "doteq" => {
                Kind::Relation
            }
            _ => Kind::Command,
        };
        self.push(kind, length);
    }

    /// A command that is only for the eye; `\left(` is attached to what stands before it as `(` is.
    fn space_in_place(&mut self, length: usize) {
        self.at += length;
    }

    /// A gap with its argument, `\hspace{6mm}`.
    fn with_argument(&mut self, length: usize) {
        let rest = &self.bytes[self.at + length..];
        let size = rest.iter().take(40).position(|byte| *byte == b'}').filter(|_| rest[0] == b'{');
        self.push(Kind::Gap, length + size.map_or(0, |end| end + 1));
    }

    /// `\text{ apples}`; with digits inside nobody knows what it means.
    fn words(&mut self, length: usize) {
        let rest = &self.bytes[self.at + length..];
        let content = rest
            .strip_prefix(b"{")
            .map(|inner| inner.iter().take_while(|byte| **byte != b'}').take(200).count());
        match content {
            Some(size) if rest.get(1 + size) == Some(&b'}') => {
                let inner = &rest[1..=size];
                let plain =
                    inner.iter().all(|byte| byte.is_ascii_alphabetic() || b" ~.,-/'()".contains(byte));
                let blank = inner.iter().all(|byte| b" ~".contains(byte));
                if blank {
                    return self.space(length + size + 2);
                }
                self.push(if plain { Kind::Text } else { Kind::Other }, length + size + 2);
            }
            _ => self.push(Kind::Command, length),
        }
    }

    /// `\begin{aligned}` and `\end{aligned}` are line ends; a matrix is nothing that is read here.
    fn environment(&mut self, length: usize) {
        let rest = &self.bytes[self.at + length..];
        let size = rest.iter().take(24).position(|byte| *byte == b'}').map_or(0, |end| end + 1);
        let name = &rest[..size];
        let lines =
            [&b"{align"[..], b"{gather", b"{equation", b"{eqnarray", b"{split", b"{multline", b"{flalign"];
        let kind = if lines.iter().any(|line| name.starts_with(line)) { Kind::Row } else { Kind::Command };
        self.push(kind, length + size);
    }
}

fn letters(bytes: &[u8]) -> usize {
    bytes.iter().take_while(|byte| byte.is_ascii_alphabetic()).count()
}

fn digits(bytes: &[u8]) -> usize {
    bytes.iter().take_while(|byte| byte.is_ascii_digit()).count()
}

/// The dots after the decimals of `0.333…`.
fn dots(bytes: &[u8]) -> usize {
    let marks = ["...", "…", "\\ldots", "\\dots", "\\cdots"];
    marks.iter().find(|mark| bytes.starts_with(mark.as_bytes())).map_or(0, |mark| mark.len())
}

/// The end of `1,000,000`, `1{,}000` or `1\,000`, whose first group ends at `length`.
fn thousands(bytes: &[u8], mut length: usize) -> usize {
    loop {
        let rest = &bytes[length..];
        let marks = [&b"{,}"[..], b",\\!", b"\\,", b","];
        let Some(mark) = marks.iter().find(|mark| rest.starts_with(mark)) else { return length };
        if digits(&rest[mark.len()..]) != 3 {
            return length;
        }
        length += mark.len() + 3;
    }
}

/// The end of the digits after the point at `point`, with a repeated block; `point` itself when there are none.
fn decimals(bytes: &[u8], point: usize) -> usize {
    let length = digits(&bytes[point + 1..]);
    let end = point + 1 + length;
    for start in [&b"\\overline{"[..], b"\\bar{"] {
        if let Some(inner) = bytes[end..].strip_prefix(start) {
            let block = digits(inner);
            if (1..=12).contains(&block) && inner.get(block) == Some(&b'}') {
                return end + start.len() + block + 1;
            }
        }
    }
    if length == 0 { point } else { end }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(text: &str) -> Vec<Kind> {
        let mut tokens = Vec::new();
        lex(text, &mut tokens);
        tokens.iter().map(|token| token.kind).collect()
    }

    #[test]
    fn one_alphabet_for_latex_unicode_and_plain_text() {
        use Kind::{Equal, Number, Times};
        for text in ["7 \\times 8 = 56", "7 × 8 = 56", "7*8=56", "7\\cdot8 == 56"] {
            assert_eq!(kinds(text), [Number, Times, Number, Equal, Number], "{text}");
        }
    }

    #[test]
    fn numbers_with_their_separators_are_one_token() {
        for text in ["1,000", "1{,}000", "12,345.67", "0.\\overline{3}", ".5", "1,000,000", "3.14"] {
            assert_eq!(kinds(text), [Kind::Number], "{text}");
        }
        assert_eq!(kinds("1,2"), [Kind::Number, Kind::Comma, Kind::Number]);
        assert_eq!(kinds("12."), [Kind::Number, Kind::Stop]);
        assert_eq!(kinds("1.2.3"), [Kind::Number, Kind::Other, Kind::Number]);
    }

    #[test]
    fn tokens_lie_in_order_on_boundaries_of_characters() {
        for text in ["é=½·²…", "\\text{é}", "\\", "\\\\", "<<", "<<1=1>>", "\\begin", "3\u{301}"] {
            let mut tokens = Vec::new();
            lex(text, &mut tokens);
            let mut at = 0;
            for token in tokens {
                assert!(token.start as usize >= at && token.end > token.start, "{text}");
                assert!(text.get(token.range()).is_some(), "{text}");
                at = token.end as usize;
            }
        }
    }
}
