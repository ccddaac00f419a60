//! Blocks of a text that no cut may fall into.
//!
//! Fenced code, display math (`\[ \]`, `$$ $$`, `\begin{} \end{}`), inline math (`$ $`, `\( \)`), inline code,
//! `[asy]` figures, Markdown tables. An opener without a closer is plain text, so it never swallows what follows.
//! One pass over the bytes: every search for a closer stops at the next opener of its kind, so no byte is looked
//! at more than a fixed number of times. What is left out: verbatim text and comments of LaTeX.

use std::collections::HashMap;
use std::ops::Range;

/// What a block is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Code,
    Display,
    Figure,
    Inline,
    Table,
}

/// A block: cuts are allowed at its ends, not between them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Block {
    pub(super) range: Range<usize>,
    pub(super) kind: Kind,
}

/// The blocks of `text`, in order and apart from each other.
pub(super) fn blocks(text: &str) -> Vec<Block> {
    let mut found = delimited(text);
    let tables = tables(text, &found);
    if tables.is_empty() {
        return found;
    }
    found.extend(tables);
    found.sort_by_key(|block| (block.range.start, usize::MAX - block.range.end));
    let mut apart: Vec<Block> = Vec::with_capacity(found.len());
    for block in found {
        match apart.last_mut() {
            Some(last) if block.range.start < last.range.end => {
                last.range.end = last.range.end.max(block.range.end);
            }
            _ => apart.push(block),
        }
    }
    apart
}

fn delimited(text: &str) -> Vec<Block> {
    let bytes = text.as_bytes();
    let fences = fences(text);
    let environments = environments(text);
    let dollars = double_dollars(bytes);
    let mut next_fence = 0;
    let mut next_dollars = 0;
    let mut found = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        while next_fence < fences.len() && fences[next_fence].start < at {
            next_fence += 1;
        }
        if fences.get(next_fence).is_some_and(|fence| fence.start == at) {
            found.push(Block { range: fences[next_fence].clone(), kind: Kind::Code });
            at = fences[next_fence].end;
            continue;
        }
        let block = match bytes[at] {
            b'\\' => match bytes.get(at + 1) {
                Some(b'[') => closed(bytes, at, b'[', b']', true).map(|end| (end, Kind::Display)),
                Some(b'(') => closed(bytes, at, b'(', b')', false).map(|end| (end, Kind::Inline)),
                Some(b'b') => environments
                    .binary_search_by_key(&at, |range| range.start)
                    .ok()
                    .map(|index| (environments[index].end, Kind::Display)),
                _ => None,
            },
            b'$' if bytes.get(at + 1) == Some(&b'$') => {
                while next_dollars < dollars.len() && dollars[next_dollars] < at + 2 {
                    next_dollars += 1;
                }
                display_dollars(text, at, &dollars[next_dollars..]).map(|end| (end, Kind::Display))
            }
            b'$' => inline_dollar(bytes, at).map(|end| (end, Kind::Inline)),
            b'`' => inline_code(bytes, at).map(|end| (end, Kind::Inline)),
            b'[' if bytes[at..].starts_with(b"[asy]") => figure(bytes, at).map(|end| (end, Kind::Figure)),
            _ => None,
        };
        if let Some((end, kind)) = block {
            found.push(Block { range: at..end, kind });
            at = end;
        } else {
            at += skip(bytes, at);
        }
    }
    found
}

/// Bytes to move on by: an escaped character and a `$$` that opens nothing are passed as a whole.
fn skip(bytes: &[u8], at: usize) -> usize {
    match (bytes[at], bytes.get(at + 1)) {
        (b'\\', Some(next)) if next.is_ascii() => 2,
        (b'$', Some(b'$')) => 2,
        (b'`', Some(b'`')) => bytes[at..].iter().take_while(|&&byte| byte == b'`').count(),
        _ => 1,
    }
}

/// The end of `\[ … \]` or `\( … \)`, unless another one opens first.
fn closed(bytes: &[u8], start: usize, open: u8, close: u8, blank_lines: bool) -> Option<usize> {
    let mut at = start + 2;
    while at < bytes.len() {
        match (bytes[at], bytes.get(at + 1)) {
            (b'\\', Some(&next)) if next == close => return Some(at + 2),
            (b'\\', Some(&next)) if next == open => return None,
            (b'\\', Some(_)) => at += 2,
            (b'\n', _) if !blank_lines && blank_line_at(bytes, at + 1) => return None,
            _ => at += 1,
        }
    }
    None
}

fn blank_line_at(bytes: &[u8], start: usize) -> bool {
    bytes[start..].iter().find(|byte| !matches!(byte, b' ' | b'\t' | b'\r')) == Some(&b'\n')
}

/// The end of the figure that opens at `start`, unless another one opens first.
fn figure(bytes: &[u8], start: usize) -> Option<usize> {
    let mut at = start + 5;
    while at < bytes.len() {
        if bytes[at] == b'[' {
            if bytes[at..].starts_with(b"[/asy]") {
                return Some(at + 6);
            }
            if bytes[at..].starts_with(b"[asy]") {
                return None;
            }
        }
        at += 1;
    }
    None
}

fn double_dollars(bytes: &[u8]) -> Vec<usize> {
    let mut found = Vec::new();
    let mut at = 0;
    while at + 1 < bytes.len() {
        if bytes[at] == b'$' && bytes[at + 1] == b'$' {
            found.push(at);
        }
        at += skip(bytes, at);
    }
    found
}

/// The end of `$$ … $$`. `later` are the `$$` after this one.
///
/// Opener and closer look alike, so one that is missing would turn the rest of the text inside out. A block may
/// therefore span a blank line, which TeX forbids anyway, only when the `$$` left are even in number and it
/// stands on lines of its own.
fn display_dollars(text: &str, start: usize, later: &[usize]) -> Option<usize> {
    let close = *later.first()?;
    let inside = &text.as_bytes()[start + 2..close];
    let blank = inside
        .iter()
        .enumerate()
        .any(|(index, &byte)| byte == b'\n' && blank_line_at(&text.as_bytes()[..close], start + 3 + index));
    let alone = || {
        let before = text[..start].rsplit('\n').next().unwrap_or("");
        let after = text[close + 2..].split('\n').next().unwrap_or("");
        before.trim().is_empty() && after.trim_matches([' ', '\t', '\r', '.', ',', ';']).is_empty()
    };
    (!blank || (later.len() % 2 == 1 && alone())).then_some(close + 2)
}

/// The end of `$ … $` on one line, if it is mathematics and not two prices.
fn inline_dollar(bytes: &[u8], start: usize) -> Option<usize> {
    let mut at = start + 1;
    while at < bytes.len() && bytes[at] != b'$' {
        if bytes[at] == b'\n' {
            return None;
        }
        at += if bytes[at] == b'\\' && bytes.get(at + 1).is_some_and(|&next| next != b'\n') { 2 } else { 1 };
    }
    if at >= bytes.len() {
        return None;
    }
    let (content, after) = (&bytes[start + 1..at], bytes.get(at + 1).copied().unwrap_or(b' '));
    let (&first, &last) = (content.first()?, content.last()?);
    let signs = content.iter().any(|byte| b"\\^_={}<>+".contains(byte));
    let is_math = match (first.is_ascii_whitespace(), last.is_ascii_whitespace()) {
        (false, false) if first.is_ascii_digit() => !after.is_ascii_digit() && (signs || !has_word(content)),
        (false, false) => !after.is_ascii_digit(),
        (true, true) => !after.is_ascii_alphanumeric() && (signs || !has_word(content)),
        _ => signs && !after.is_ascii_alphanumeric() && after != b'<' && after != b'\\',
    };
    is_math.then_some(at + 1)
}

fn has_word(content: &[u8]) -> bool {
    content.split(|byte| !byte.is_ascii_alphabetic()).any(|word| word.len() >= 3)
}

/// The end of `` `code` `` on one line.
fn inline_code(bytes: &[u8], start: usize) -> Option<usize> {
    if bytes.get(start + 1) == Some(&b'`') {
        return None;
    }
    let length = bytes[start + 1..].iter().position(|&byte| byte == b'`' || byte == b'\n')?;
    (bytes[start + 1 + length] == b'`').then_some(start + length + 2)
}

/// Fenced code, from the line that opens it to the line that closes it.
fn fences(text: &str) -> Vec<Range<usize>> {
    struct Fence {
        start: usize,
        end: usize,
        mark: u8,
        length: usize,
        /// Nothing but the marks on the line: only such a fence can close.
        bare: bool,
    }
    let mut lines = Vec::new();
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        let content = line.trim_start_matches([' ', '\t']);
        if let Some(&mark @ (b'`' | b'~')) = content.as_bytes().first() {
            let length = content.bytes().take_while(|&byte| byte == mark).count();
            if length >= 3 && !(mark == b'`' && content[length..].contains('`')) {
                let bare = content[length..].trim().is_empty();
                let at = start + line.len() - content.len();
                lines.push(Fence { start: at, end: at + content.trim_end().len(), mark, length, bare });
            }
        }
        start += line.len();
    }
    // The longest closer from each fence line on, for both marks: tells at once whether a fence is ever closed.
    let mut longest = vec![[0, 0]; lines.len() + 1];
    for (index, line) in lines.iter().enumerate().rev() {
        longest[index] = longest[index + 1];
        let side = usize::from(line.mark == b'~');
        if line.bare {
            longest[index][side] = longest[index][side].max(line.length);
        }
    }
    let mut found = Vec::new();
    let mut index = 0;
    while let Some(open) = lines.get(index) {
        index += 1;
        if longest[index][usize::from(open.mark == b'~')] < open.length {
            continue;
        }
        while let Some(close) = lines.get(index) {
            index += 1;
            if close.bare && close.mark == open.mark && close.length >= open.length {
                found.push(open.start..close.end);
                break;
            }
        }
    }
    found
}

/// Pairs of `\begin{name}` and `\end{name}`, sorted by where they begin; pairs may lie inside each other.
fn environments(text: &str) -> Vec<Range<usize>> {
    let mut open: Vec<(&str, usize)> = Vec::new();
    let mut depth: HashMap<&str, usize> = HashMap::new();
    let mut found = Vec::new();
    for (at, _) in text.match_indices('\\') {
        let rest = &text[at + 1..];
        let (name, begins) = match (rest.strip_prefix("begin{"), rest.strip_prefix("end{")) {
            (Some(name), _) => (name, true),
            (_, Some(name)) => (name, false),
            _ => continue,
        };
        // No environment has a longer name, and a bound keeps the search for the brace linear.
        let Some(length) = name.bytes().take(40).position(|byte| byte == b'}') else { continue };
        let name = &name[..length];
        if begins {
            open.push((name, at));
            *depth.entry(name).or_default() += 1;
        } else if depth.get(name).is_some_and(|&depth| depth > 0) {
            while let Some((inner, start)) = open.pop() {
                *depth.entry(inner).or_default() -= 1;
                if inner == name {
                    found.push(start..at + "\\end{}".len() + length);
                    break;
                }
            }
        }
    }
    found.sort_by_key(|range| range.start);
    found
}

/// Runs of lines with `|` that hold a rule (`|---|---|`), or all begin and end with `|`.
fn tables(text: &str, blocks: &[Block]) -> Vec<Block> {
    let mut found = Vec::new();
    let mut run: Option<Run> = None;
    let mut next_block = 0;
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        while next_block < blocks.len() && blocks[next_block].range.end <= start {
            next_block += 1;
        }
        let inside = blocks.get(next_block).is_some_and(|block| block.range.start < start);
        let content = line.trim();
        if !inside && content.contains('|') {
            let at = start + line.len() - line.trim_start().len();
            let run = run.get_or_insert(Run { range: at..at, lines: 0, rule: false, framed: true });
            run.range.end = at + content.len();
            run.lines += 1;
            run.rule |= content.contains('-') && content.bytes().all(|byte| b"|-: \t".contains(&byte));
            run.framed &= content.len() > 1 && content.starts_with('|') && content.ends_with('|');
        } else if let Some(run) = run.take() {
            found.extend(run.table());
        }
        start += line.len();
    }
    found.extend(run.and_then(Run::table));
    found
}

struct Run {
    range: Range<usize>,
    lines: usize,
    rule: bool,
    framed: bool,
}

impl Run {
    fn table(self) -> Option<Block> {
        (self.lines >= 2 && (self.rule || self.framed))
            .then_some(Block { range: self.range, kind: Kind::Table })
    }
}
