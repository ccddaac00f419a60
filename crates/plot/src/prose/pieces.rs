//! Where a text has mathematics: delimiters, environments, and the dollar signs that mean money.
//!
//! A `$` opens a formula when another one closes it in the same paragraph and what is between them can be one
//! ([`is_inline`]): `$5 and $6`, `$3*$4` and `US$ and A$` are no formulas.

/// A longer formula is not looked for: its delimiter is text.
const LONGEST: usize = 4096;

/// No environment has a longer name.
const LONGEST_NAME: usize = 32;

/// Environments that are formulas without delimiters.
const ENVIRONMENTS: [&str; 15] = [
    "align", "aligned", "alignat", "array", "bmatrix", "cases", "eqnarray", "equation", "gather", "gathered",
    "matrix", "multline", "pmatrix", "split", "vmatrix",
];

/// A part of a text.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece<'a> {
    /// Words.
    Text(&'a str),
    /// A drawing in Asymptote, as MATH's problems have them: shown as it is.
    Source(&'a str),
    /// Mathematics.
    Formula {
        /// With its delimiters.
        source: &'a str,
        /// Without them.
        latex: &'a str,
        /// Whether it stands on a line of its own.
        display: bool,
    },
}

/// The parts of a text, in order; together they are the text.
pub(super) fn pieces(text: &str) -> Vec<Piece<'_>> {
    let mut out = Vec::new();
    let (mut start, mut at) = (0, 0);
    while let Some(offset) = text[at..].find(['$', '\\', '[']) {
        let here = at + offset;
        let before = text[..here].chars().next_back();
        match piece_at(&text[here..], before) {
            Some((piece, length)) => {
                if start < here {
                    out.push(Piece::Text(&text[start..here]));
                }
                out.push(piece);
                (start, at) = (here + length, here + length);
            }
            None => at = here + plain(&text[here..]),
        }
    }
    if start < text.len() {
        out.push(Piece::Text(&text[start..]));
    }
    out
}

/// Bytes of a delimiter that opens nothing; `\$` and `\\` hide what follows the backslash.
fn plain(rest: &str) -> usize {
    match rest.as_bytes() {
        [b'\\', b'$' | b'\\', ..] => 2,
        _ => 1,
    }
}

/// The formula that `rest` begins with, and its length; `before` is the character before it.
fn piece_at(rest: &str, before: Option<char>) -> Option<(Piece<'_>, usize)> {
    if rest.starts_with("$$") {
        return enclosed(rest, "$$", "$$", true);
    }
    if rest.starts_with('$') {
        return inline(rest, before);
    }
    if rest.starts_with("\\(") {
        return enclosed(rest, "\\(", "\\)", false);
    }
    if rest.starts_with("\\[") {
        return enclosed(rest, "\\[", "\\]", true);
    }
    if rest.starts_with("[asy]") {
        let end = closer(rest, "[asy]", "[/asy]", 16 * LONGEST)? + "[/asy]".len();
        return Some((Piece::Source(&rest[..end]), end));
    }
    environment(rest)
}

/// The first `limit` bytes, to a character's end.
fn within(text: &str, limit: usize) -> &str {
    &text[..text.floor_char_boundary(limit)]
}

/// Where `close` follows the opener that `rest` begins with, before the next opener: so a text of openers is looked through
/// once, not once for each.
fn closer(rest: &str, open: &str, close: &str, limit: usize) -> Option<usize> {
    let inside = within(&rest[open.len()..], limit);
    let next = if open == close { None } else { inside.find(open) };
    Some(open.len() + inside[..next.unwrap_or(inside.len())].find(close)?)
}

fn enclosed<'a>(rest: &'a str, open: &str, close: &str, display: bool) -> Option<(Piece<'a>, usize)> {
    let end = closer(rest, open, close, LONGEST)?;
    let latex = &rest[open.len()..end];
    let length = end + close.len();
    (!latex.trim().is_empty()).then_some((Piece::Formula { source: &rest[..length], latex, display }, length))
}

/// `$…$`, if it is a formula.
fn inline(rest: &str, before: Option<char>) -> Option<(Piece<'_>, usize)> {
    let inside = within(&rest[1..], LONGEST);
    let mut escaped = false;
    let end = inside.bytes().position(|byte| {
        let closes = byte == b'$' && !escaped;
        escaped = byte == b'\\' && !escaped;
        closes
    })?;
    let latex = &inside[..end];
    // `US$ and A$`: the sign belongs to what is before it.
    if before.is_some_and(char::is_alphanumeric) && latex.starts_with(' ') {
        return None;
    }
    let after = rest[1 + end + 1..].chars().next();
    is_inline(latex, after)
        .then_some((Piece::Formula { source: &rest[..end + 2], latex, display: false }, end + 2))
}

/// Whether the text between two dollar signs is a formula and not what stands between two prices.
fn is_inline(latex: &str, after: Option<char>) -> bool {
    let balanced = latex.matches('{').count() == latex.matches('}').count();
    // `$5. Let \(x\) …$`: a formula has no delimiters of another.
    if latex.trim().is_empty()
        || latex.contains("\n\n")
        || !balanced
        || latex.contains("\\(")
        || latex.contains("\\[")
    {
        return false;
    }
    if latex.contains('\\') {
        return true;
    }
    let price = latex.starts_with(|first: char| first.is_ascii_digit());
    // `$3*$4`, `$20-$15`, `$5 to $6`: the second sign begins a price of its own.
    if after.is_some_and(|after| after.is_ascii_digit()) && (price || latex.ends_with(' ')) {
        return false;
    }
    let words = latex.split(|letter: char| !letter.is_alphabetic()).filter(|word| word.chars().count() > 2);
    let sentence = latex.split_whitespace().collect::<Vec<_>>();
    let neighbors = sentence.windows(2).any(|pair| pair.iter().all(|word| is_word(word)));
    let marks = latex.contains(['=', '^', '_', '{', '<', '>', '+', '*', '/']);
    !neighbors && (marks || !price || words.count() == 0)
}

/// Words of two letters; other pairs, such as `br`, are products.
const SHORT_WORDS: [&str; 16] =
    ["an", "as", "at", "be", "by", "he", "if", "in", "is", "it", "of", "on", "or", "so", "to", "we"];

/// Whether it reads like a word of a sentence, with a comma or not; `ABC` is a triangle.
fn is_word(text: &str) -> bool {
    let letters = text.trim_matches(|letter: char| letter.is_ascii_punctuation());
    let is_long = letters.chars().count() > 2 && letters.chars().any(char::is_lowercase);
    (is_long && letters.chars().all(char::is_alphabetic)) || SHORT_WORDS.contains(&letters)
}

/// `\begin{align}…\end{align}`, with environments of the same name inside it.
fn environment(rest: &str) -> Option<(Piece<'_>, usize)> {
    let name = within(rest.strip_prefix("\\begin{")?, LONGEST_NAME).split_once('}')?.0;
    ENVIRONMENTS.contains(&name.strip_suffix('*').unwrap_or(name)).then_some(())?;
    let (open, close) = (format!("\\begin{{{name}}}"), format!("\\end{{{name}}}"));
    let all = within(rest, LONGEST);
    let (mut depth, mut at) = (0_usize, 0);
    loop {
        let end = at + all[at..].find(&close)?;
        depth += all[at..end].matches(&open).count();
        at = end + close.len();
        depth -= 1;
        if depth == 0 {
            break;
        }
    }
    Some((Piece::Formula { source: &rest[..at], latex: &rest[..at], display: true }, at))
}
