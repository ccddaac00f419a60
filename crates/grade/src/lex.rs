//! Tokens of an answer, from LaTeX and plain text alike.
//!
//! Spacing commands, sizes and dollar signs vanish here; the many spellings of one symbol become one token. Some
//! notation is read in two ways: [`Reading`] says how, and [`Lexed`] says which other readings are possible.

use dashu_int::IBig;
use dashu_ratio::RBig;

use super::expr::Relation;
use super::symbols::{
    FONT, FUNCTIONS, IGNORED, TEXT, relation, split_calls, subscript, superscript, symbol_command, unicode,
};

/// How notation is read that writers use in two ways.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reading {
    /// `1,234` is a number, `(1,234)` a pair, `1/2x` is x/2, `log` is decimal.
    Usual,
    /// `1,234` is a pair, `(1,234)` a number.
    OtherCommas,
    /// `1/2x` is 1/(2x), `log` is natural, `x(2)` is 2x, `3e+2` is 3·e + 2, `3,14` is 3.14.
    Unusual,
    /// `f(x + y)` is a value of f, not the product fx + fy.
    Functions,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Token {
    /// A number with its digits as written (for bases) and the count of digits after the point.
    Number {
        value: RBig,
        decimals: u32,
        digits: String,
    },
    /// A run of letters outside `\text`.
    Word(String),
    /// The content of `\text{…}` and its kin, trimmed.
    Text(String),
    /// A command that the parser knows, without the backslash.
    Command(String),
    Relation(Relation),
    /// `{`, `}`, `(`, `)`, `[`, `]`, `,`, `;`, `:`, `+`, `-`, `*`, `×`, `/`, `^`, `_`, `!`, `|`, `%`, `&`, `'`, `∪`, `∩`, `∈`, `±`, `∓`, `∞`, `°`,
    /// `√`, and `\` for a row break.
    Symbol(char),
    /// `\{` and `\}`.
    SetOpen,
    SetClose,
}

#[derive(Debug)]
pub(super) struct Lexed {
    pub(super) tokens: Vec<Token>,
    /// [`Reading::OtherCommas`] could differ.
    pub(super) ambiguous: bool,
    /// [`Reading::Unusual`] could differ.
    pub(super) doubtful: bool,
}

/// Longest answer that is read; a longer one is text.
const MAX_BYTES: usize = 4_000;
/// Longest number that is read as one.
const MAX_DIGITS: usize = 4_000;
/// Largest power of ten in scientific notation.
const MAX_EXPONENT: i64 = 400;

/// Cuts `text` into tokens; `None` when it is too long or holds a character that no answer has.
pub(super) fn lex(text: &str, reading: Reading) -> Option<Lexed> {
    if text.len() > MAX_BYTES {
        return None;
    }
    let mut lexer =
        Lexer { text, at: 0, reading, depth: 0, out: Vec::new(), ambiguous: false, doubtful: false };
    while lexer.at < text.len() {
        lexer.step()?;
    }
    Some(Lexed { tokens: lexer.out, ambiguous: lexer.ambiguous, doubtful: lexer.doubtful })
}

struct Lexer<'a> {
    text: &'a str,
    at: usize,
    reading: Reading,
    /// Open round and square brackets and sets.
    depth: usize,
    out: Vec<Token>,
    ambiguous: bool,
    doubtful: bool,
}

impl<'a> Lexer<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn push(&mut self, token: Token, length: usize) {
        self.out.push(token);
        self.at += length;
    }

    fn step(&mut self) -> Option<()> {
        let rest = self.rest();
        let first = rest.chars().next()?;
        match first {
            '\\' => return self.command(),
            '0'..='9' => return self.number(),
            '.' if rest[1..].starts_with(|c: char| c.is_ascii_digit()) => return self.number(),
            'a'..='z' | 'A'..='Z' => {
                if first.is_ascii_uppercase() && self.based_number() {
                    return Some(());
                }
                let length = rest.bytes().take_while(u8::is_ascii_alphabetic).count();
                let word = &rest[..length];
                // `5 x 10^3`.
                let times = word == "x"
                    && matches!(self.out.last(), Some(Token::Number { .. }))
                    && rest[1..].trim_start().starts_with("10^");
                match split_calls(word) {
                    _ if times => self.push(Token::Symbol('*'), 1),
                    Some(words) => {
                        self.out.extend(words.into_iter().map(|word| Token::Word(word.to_owned())));
                        self.at += length;
                    }
                    None => self.push(Token::Word(word.to_owned()), length),
                }
            }
            // `5'6"` are feet and inches, `5°30'` is degrees and minutes.
            '\'' | '’' | '′' | '″' | '"' if self.after_digit() && self.mark(first) => {}
            c if c.is_whitespace() || matches!(c, '$' | '~' | '\u{200b}' | '"' | '`') => {
                self.at += c.len_utf8();
            }
            '<' | '>' | '=' | '≤' | '≥' | '≠' | '⩽' | '⩾' | '≈' => {
                let (relation, length) = relation(rest);
                self.push(Token::Relation(relation), length);
            }
            '*' if rest.starts_with("**") => self.push(Token::Symbol('^'), 2),
            '(' | '[' => {
                self.depth += 1;
                self.push(Token::Symbol(first), 1);
            }
            ')' | ']' => {
                self.depth = self.depth.saturating_sub(1);
                self.push(Token::Symbol(first), 1);
            }
            '+' | '-' | '*' | '/' | '^' | '_' | '{' | '}' | ',' | ';' | ':' | '!' | '|' | '%' | '&'
            | '\'' => {
                self.push(Token::Symbol(first), 1);
            }
            // What three dots leave out is not known.
            '.' if rest.starts_with("..") => return None,
            // A full stop between or after things that are not digits ends a sentence.
            '.' | '?' => self.at += 1,
            c if superscript(c).is_some() || subscript(c).is_some() => self.raised_or_lowered(),
            other => {
                let token = unicode(other)?;
                self.push(token, other.len_utf8());
            }
        }
        Some(())
    }

    fn after_digit(&self) -> bool {
        self.at > 0 && self.text.as_bytes()[self.at - 1].is_ascii_digit()
    }

    /// Reads the mark of feet, inches or minutes after a number; false when it may be something else.
    fn mark(&mut self, first: char) -> bool {
        let doubled = self.rest().starts_with("''");
        let is_quote = first == '"' && self.text.matches('"').count() != 1;
        if is_quote {
            return false;
        }
        let small = doubled || matches!(first, '"' | '″');
        let of_angle = self.out.contains(&Token::Symbol('°'));
        let unit = match (of_angle, small) {
            (true, false) => "arcmin",
            (true, true) => "arcsec",
            (false, false) => "ft",
            (false, true) => "in",
        };
        self.push(Token::Text(unit.into()), if doubled { 2 } else { first.len_utf8() });
        true
    }

    /// A run of small digits, `x²` or `log₂`, as `^{…}` or `_{…}`.
    fn raised_or_lowered(&mut self) {
        let raised = self.rest().chars().next().is_some_and(|c| superscript(c).is_some());
        let normal = if raised { superscript } else { subscript };
        let run: String = self.rest().chars().map_while(normal).collect();
        self.at +=
            self.rest().chars().take_while(|c| normal(*c).is_some()).map(char::len_utf8).sum::<usize>();
        self.out.push(Token::Symbol(if raised { '^' } else { '_' }));
        self.out.push(Token::Symbol('{'));
        if let Some(inner) = lex(&run, Reading::Usual) {
            self.out.extend(inner.tokens);
        }
        self.out.push(Token::Symbol('}'));
    }

    fn command(&mut self) -> Option<()> {
        let rest = self.rest();
        let name_length = rest[1..].bytes().take_while(u8::is_ascii_alphabetic).count();
        if name_length == 0 {
            let symbol = rest[1..].chars().next()?;
            let length = 1 + symbol.len_utf8();
            match symbol {
                '{' => {
                    self.depth += 1;
                    self.push(Token::SetOpen, length);
                }
                '}' => {
                    self.depth = self.depth.saturating_sub(1);
                    self.push(Token::SetClose, length);
                }
                '\\' => self.push(Token::Symbol('\\'), length),
                '%' => self.push(Token::Symbol('%'), length),
                '|' => self.push(Token::Symbol('|'), length),
                '&' => self.push(Token::Word("and".into()), length),
                '$' => self.push(Token::Text("$".into()), length),
                '(' | ')' | '[' | ']' | ',' | ';' | ':' | '!' | ' ' | '#' | '_' | '\n' | '>' | '/' => {
                    self.at += length;
                }
                _ => return None,
            }
            return Some(());
        }
        let name = &rest[1..=name_length];
        let length = 1 + name_length;
        if IGNORED.contains(&name) {
            self.at += length;
            // `\left.` and `\right.` are invisible brackets.
            if matches!(name, "left" | "right") && self.rest().starts_with('.') {
                self.at += 1;
            }
        } else if TEXT.contains(&name) || FONT.contains(&name) {
            self.at += length;
            let content = self.group()?;
            let content = content.trim_matches(|c: char| c.is_whitespace() || c == '~' || c == '$');
            match number_set(content).filter(|_| matches!(name, "mathbb" | "mathbf")) {
                Some(set) => self.out.push(Token::Command(set.into())),
                None => self.word_or_text(content, FONT.contains(&name)),
            }
        } else if matches!(name, "phantom" | "hspace" | "vspace" | "label" | "tag" | "color") {
            self.at += length;
            self.group()?;
        } else if let Some(token) = symbol_command(name) {
            self.depth = match name {
                "langle" | "lbrace" => self.depth + 1,
                "rangle" | "rbrace" => self.depth.saturating_sub(1),
                _ => self.depth,
            };
            self.push(token, length);
        } else {
            let name = match name {
                "dfrac" | "tfrac" | "cfrac" => "frac",
                "dbinom" | "tbinom" => "binom",
                "operatorname" => "text",
                other => other,
            };
            self.push(Token::Command(name.to_owned()), length);
        }
        Some(())
    }

    /// `\mathbf{x}` is the letter x; `\text{ cm}` is words; a function name is a function in either.
    fn word_or_text(&mut self, content: &str, font: bool) {
        if content.is_empty() {
            return;
        }
        let is_letter = content.len() == 1 && content.chars().all(|c| c.is_ascii_alphabetic());
        let token = if (font && is_letter) || FUNCTIONS.contains(&content) {
            Token::Word(content.to_owned())
        } else if let Some(names) = short_names(content) {
            // `\text{A and C}` is a list.
            for (index, name) in names.into_iter().enumerate() {
                if index > 0 {
                    self.out.push(Token::Symbol(','));
                }
                self.out.push(Token::Word(name.to_owned()));
            }
            return;
        } else if content.contains(|c: char| c.is_ascii_digit())
            && let Some(inner) = lex(content, self.reading)
        {
            // `\text{1:03 PM}` is a time, not words.
            self.out.extend(inner.tokens);
            return;
        } else {
            Token::Text(content.to_owned())
        };
        self.out.push(token);
    }

    /// The text of the `{…}` or the single character that follows, and moves past it.
    fn group(&mut self) -> Option<&'a str> {
        let skipped = self.rest().len() - self.rest().trim_start().len();
        self.at += skipped;
        let rest = self.rest();
        if !rest.starts_with('{') {
            let length = rest.chars().next()?.len_utf8();
            self.at += length;
            return Some(&rest[..length]);
        }
        let mut depth = 0usize;
        for (index, byte) in rest.bytes().enumerate() {
            match byte {
                b'{' => depth += 1,
                b'}' => {
                    depth -= 1;
                    if depth == 0 {
                        self.at += index + 1;
                        return Some(&rest[1..index]);
                    }
                }
                _ => {}
            }
        }
        self.at = self.text.len();
        Some(&rest[1..])
    }

    /// `1A_{16}`, `FF_{16}`: digits and capital letters before a base above ten. One letter alone is a variable.
    fn based_number(&mut self) -> bool {
        let rest = self.rest();
        let length = rest.bytes().take_while(|b| b.is_ascii_digit() || b.is_ascii_uppercase()).count();
        let digits = &rest[..length];
        if length < 2 || !digits.contains(|c: char| c.is_ascii_uppercase()) {
            return false;
        }
        let base: String = match rest[length..].strip_prefix('_') {
            Some(base) => base.trim_start_matches('{').chars().take_while(char::is_ascii_digit).collect(),
            None => rest[length..].chars().map_while(subscript).collect(),
        };
        let fits = |base: u32| (11..=36).contains(&base) && digits.chars().all(|digit| digit.is_digit(base));
        if !base.parse::<u32>().is_ok_and(fits) {
            return false;
        }
        self.push(Token::Number { value: RBig::ZERO, decimals: 0, digits: digits.to_owned() }, length);
        true
    }

    /// `0xFF`; `0x2` is a product.
    fn hexadecimal(&mut self) -> bool {
        let Some(rest) = self.rest().strip_prefix("0x") else { return false };
        let length = rest.bytes().take_while(u8::is_ascii_hexdigit).count();
        let Ok(value) = u64::from_str_radix(&rest[..length], 16) else { return false };
        let ends = !rest[length..].starts_with(|c: char| c.is_ascii_alphanumeric() || c == '.');
        if length < 2 || !ends {
            return false;
        }
        self.push(
            Token::Number { value: RBig::from(value), decimals: 0, digits: value.to_string() },
            length + 2,
        );
        true
    }

    fn number(&mut self) -> Option<()> {
        if self.based_number() || self.hexadecimal() {
            return Some(());
        }
        let mut digits = String::new();
        let mut at = self.at;
        let bytes = self.text.as_bytes();
        let run = |from: usize| bytes[from..].iter().take_while(|b| b.is_ascii_digit()).count();
        let first = run(at);
        digits.push_str(&self.text[at..at + first]);
        at += first;
        if (1..=3).contains(&first) {
            at = self.thousands(at, &mut digits);
        }
        let mut fraction = String::new();
        let mut repeating = String::new();
        if bytes.get(at) == Some(&b'.') || self.decimal_comma(at) {
            let length = run(at + 1);
            // `3.` ends a sentence unless digits or a repeating block follow.
            let after = &self.text[at + 1 + length..];
            let repeats = repeating_block(after).or_else(|| bracketed_block(after).filter(|_| length == 0));
            if length > 0 || repeats.is_some() {
                fraction.push_str(&self.text[at + 1..at + 1 + length]);
                at += 1 + length;
            }
            if let Some((block, skip)) = repeats {
                repeating.push_str(block);
                at += skip;
            }
        }
        let mut exponent = 0i64;
        if matches!(bytes.get(at), Some(b'e' | b'E')) {
            let sign = usize::from(matches!(bytes.get(at + 1), Some(b'+' | b'-')));
            let length = run(at + 1 + sign);
            let letter_after = bytes.get(at + 1 + sign + length).is_some_and(u8::is_ascii_alphabetic);
            // `3e+2` may be a number or a sum; before a factor it is a sum.
            let signed = sign == 1 && bytes[at] == b'e';
            self.doubtful |= signed && length > 0;
            let next = &self.text[at + 1 + sign + length..];
            let factor_after = ["\\pi", "\\sqrt", "\\frac", "\\ln", "π", "(", "^"]
                .iter()
                .any(|factor| next.trim_start().starts_with(factor));
            let is_sum = signed && (factor_after || self.reading == Reading::Unusual);
            if length > 0 && !letter_after && !is_sum {
                exponent = self.text[at + 1..at + 1 + sign + length].trim_start_matches('+').parse().ok()?;
                at += 1 + sign + length;
            }
        }
        if digits.len() + fraction.len() > MAX_DIGITS || exponent.abs() > MAX_EXPONENT {
            return None;
        }
        let value = parse_number(&format!("{digits}.{fraction}"), &repeating, exponent)?;
        let decimals = if repeating.is_empty() && exponent == 0 { fraction.len() as u32 } else { 0 };
        self.at = at;
        self.out.push(Token::Number { value, decimals, digits });
        Some(())
    }

    /// A comma that may stand for a decimal point: `3,14` outside brackets.
    fn decimal_comma(&mut self, at: usize) -> bool {
        let Some(rest) = self.text[at..].strip_prefix(',') else { return false };
        let length = rest.bytes().take_while(u8::is_ascii_digit).count();
        let possible = self.depth == 0 && length > 0 && !rest[length..].contains(',');
        self.doubtful |= possible;
        possible && self.reading == Reading::Unusual
    }

    /// Reads `,234,567` after the leading digits, when the commas separate thousands.
    fn thousands(&mut self, start: usize, digits: &mut String) -> usize {
        let mut groups = Vec::new();
        let mut at = start;
        let mut certain = false;
        loop {
            let rest = &self.text[at..];
            // `{,}` and `,\!` are how LaTeX writers mark a thousands comma.
            let skip = if let Some(tail) = rest.strip_prefix("{,}") {
                certain = true;
                rest.len() - tail.len()
            } else if let Some(tail) = rest.strip_prefix(",\\!") {
                certain = true;
                rest.len() - tail.trim_start().len()
            } else if let Some(tail) = rest.strip_prefix("\\,") {
                certain = true;
                rest.len() - tail.len()
            } else if rest.starts_with(',') {
                1
            } else {
                break;
            };
            let group = &rest[skip..];
            let length = group.bytes().take_while(u8::is_ascii_digit).count();
            if length == 0 {
                break;
            }
            if length != 3 {
                return start;
            }
            groups.push(&group[..3]);
            at += skip + 3;
        }
        if groups.is_empty() || digits.starts_with('0') {
            return start;
        }
        if !certain {
            self.ambiguous = true;
            // Inside brackets a comma separates, unless told otherwise.
            let separates = (self.depth > 0) == (self.reading != Reading::OtherCommas);
            if separates {
                return start;
            }
        }
        digits.push_str(&groups.concat());
        at
    }
}

/// The parts of `A and C` or `I, II`: capitals with separators between them.
fn short_names(content: &str) -> Option<Vec<&str>> {
    let parts: Vec<&str> = content
        .split([',', ' '])
        .map(|part| part.trim_matches(['(', ')']))
        .filter(|part| !matches!(*part, "" | "and"))
        .collect();
    let is_name = |part: &&str| part.len() <= 3 && part.bytes().all(|b| b.is_ascii_uppercase());
    (parts.len() > 1 && parts.iter().all(is_name)).then_some(parts)
}

/// The name of a set of numbers by its letter.
fn number_set(letter: &str) -> Option<&'static str> {
    Some(match letter {
        "R" => "reals",
        "Z" => "integers",
        "N" => "naturals",
        "Q" => "rationals",
        "C" => "complexes",
        _ => return None,
    })
}

/// `\overline{36}` or `\dot3` right after a decimal point's digits: the block and the bytes it takes.
fn repeating_block(rest: &str) -> Option<(&str, usize)> {
    let starts = ["\\overline{", "\\bar{", "\\dot{", "\\overline ", "\\bar ", "\\dot ", "\\dot"];
    let inner = starts.iter().find_map(|start| rest.strip_prefix(start))?;
    let length = inner.bytes().take_while(u8::is_ascii_digit).count();
    let closed = rest.as_bytes()[rest.len() - inner.len() - 1] == b'{';
    if length == 0 || length > 40 || (closed && inner.as_bytes().get(length) != Some(&b'}')) {
        return None;
    }
    Some((&inner[..length], rest.len() - inner.len() + length + usize::from(closed)))
}

/// `(3)` right after a decimal point; after digits it may be a factor.
fn bracketed_block(rest: &str) -> Option<(&str, usize)> {
    let (block, after) = rest.strip_prefix('(')?.split_once(')')?;
    let is_block = (1..=40).contains(&block.len()) && block.bytes().all(|b| b.is_ascii_digit());
    (is_block && !after.starts_with(|c: char| c.is_ascii_digit())).then_some((block, block.len() + 2))
}

/// The exact value of `whole.fraction` with an endlessly repeated block, times a power of ten.
pub(super) fn parse_number(decimal: &str, repeating: &str, exponent: i64) -> Option<RBig> {
    let (whole, fraction) = decimal.split_once('.').unwrap_or((decimal, ""));
    if whole.len() + fraction.len() > MAX_DIGITS {
        return None;
    }
    let ten = |power: usize| IBig::from(10u8).pow(power);
    let digits = |text: &str| if text.is_empty() { Some(IBig::ZERO) } else { text.parse::<IBig>().ok() };
    let mut value = RBig::from(digits(&format!("{whole}{fraction}"))?) / RBig::from(ten(fraction.len()));
    if !repeating.is_empty() {
        let block = RBig::from(digits(repeating)?) / RBig::from(ten(repeating.len()) - IBig::ONE);
        value += block / RBig::from(ten(fraction.len()));
    }
    let scale = RBig::from(ten(exponent.unsigned_abs() as usize));
    Some(if exponent >= 0 { value * scale } else { value / scale })
}
