//! A text as lines and blocks, and what all strategies share: turning cuts into steps.
//!
//! A formula continues the sentence before it even when a blank line stands between them, a heading belongs to
//! what it heads, and a figure at the very top to what explains it. [`Layout::tidy`] sees to that.

use std::ops::Range;

use super::protect::{Block, Kind, blocks};

/// One line.
#[derive(Debug, Clone)]
pub(super) struct TextLine {
    /// Where its first character that is not white space stands.
    pub(super) start: usize,
    /// Where its last such character ends.
    pub(super) end: usize,
    /// White space before it, in characters.
    pub(super) indent: usize,
    /// It does not begin inside a block.
    pub(super) free: bool,
}

impl TextLine {
    pub(super) fn is_blank(&self) -> bool {
        self.start == self.end
    }
}

/// Where a strategy cuts.
#[derive(Debug, Default)]
pub(super) struct Cuts {
    /// In ascending order.
    pub(super) starts: Vec<usize>,
    /// Those at which an item begins that numbers itself. It is a step even where it is written as a heading.
    pub(super) items: Vec<usize>,
}

impl From<Vec<usize>> for Cuts {
    fn from(starts: Vec<usize>) -> Self {
        Self { starts, items: Vec::new() }
    }
}

/// A text, its lines and its blocks.
pub(super) struct Layout<'a> {
    pub(super) text: &'a str,
    pub(super) lines: Vec<TextLine>,
    pub(super) blocks: Vec<Block>,
}

impl<'a> Layout<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        let blocks = blocks(text);
        let mut lines = Vec::new();
        let mut at = 0;
        let mut next = 0;
        for line in text.split_inclusive('\n') {
            let content = line.trim_start();
            let blank = content.is_empty();
            let start = if blank { at } else { at + line.len() - content.len() };
            while next < blocks.len() && blocks[next].range.end <= start {
                next += 1;
            }
            let free = blocks.get(next).is_none_or(|block| block.range.start >= start);
            let indent = if blank { 0 } else { line[..line.len() - content.len()].chars().count() };
            lines.push(TextLine { start, end: start + content.trim_end().len(), indent, free });
            at += line.len();
        }
        // A model's text often begins with a stray space, which says nothing about nesting.
        if let Some(first) = lines.iter_mut().find(|line| !line.is_blank()) {
            first.indent = 0;
        }
        Self { text, lines, blocks }
    }

    /// The text of a line without the white space around it.
    pub(super) fn content(&self, line: &TextLine) -> &'a str {
        &self.text[line.start..line.end]
    }

    /// True for a line that a paragraph begins with.
    pub(super) fn begins_paragraph(&self, index: usize) -> bool {
        let line = &self.lines[index];
        let after_blank = index == 0 || (self.lines[index - 1].is_blank() && self.lines[index - 1].free);
        !line.is_blank() && line.free && after_blank
    }

    /// Where paragraphs begin.
    pub(super) fn paragraphs(&self) -> Vec<usize> {
        let starts = (0..self.lines.len()).filter(|&index| self.begins_paragraph(index));
        starts.map(|index| self.lines[index].start).collect()
    }

    /// Where lines begin.
    pub(super) fn line_starts(&self) -> Vec<usize> {
        let lines = self.lines.iter().filter(|line| !line.is_blank() && line.free);
        lines.map(|line| line.start).collect()
    }

    /// The block that begins at `at`.
    pub(super) fn block_at(&self, at: usize) -> Option<&Block> {
        let index = self.blocks.binary_search_by_key(&at, |block| block.range.start).ok()?;
        Some(&self.blocks[index])
    }

    /// True when `at` lies strictly inside a block.
    pub(super) fn is_inside_block(&self, at: usize) -> bool {
        let index = self.blocks.partition_point(|block| block.range.end <= at);
        self.blocks.get(index).is_some_and(|block| block.range.start < at)
    }

    /// Turns cuts into steps.
    pub(super) fn tidy(&self, cuts: &Cuts) -> Vec<Range<usize>> {
        let mut starts = vec![0];
        let mut reached = 0;
        for &cut in &cuts.starts {
            if cut <= reached || self.is_inside_block(cut) {
                continue;
            }
            reached = self.past_formulas(cut);
            // In lower case it goes on with the formula's own sentence.
            let goes_on = reached > cut && self.text[reached..].chars().next().is_none_or(char::is_lowercase);
            if !goes_on {
                starts.push(reached);
            }
        }
        let ends = starts.iter().skip(1).copied().chain([self.text.len()]);
        let pieces = starts.iter().zip(ends).filter_map(|(&start, end)| trimmed(self.text, start..end));
        self.join_fragments(pieces, &cuts.items)
    }

    /// Where the text goes on after the formulas that stand at `cut`.
    fn past_formulas(&self, cut: usize) -> usize {
        let mut at = cut;
        while let Some(block) = self.block_at(at)
            && (block.kind == Kind::Display || block.kind == Kind::Figure)
        {
            let rest = self.text[block.range.end..].trim_start_matches(['.', ',', ';', ':']).trim_start();
            at = self.text.len() - rest.len();
        }
        at
    }

    /// Headings and figures on top join what follows, pieces without a letter or digit what goes before.
    fn join_fragments(
        &self,
        pieces: impl Iterator<Item = Range<usize>>,
        items: &[usize],
    ) -> Vec<Range<usize>> {
        let mut joined: Vec<Range<usize>> = Vec::new();
        let mut wants_next = false;
        for piece in pieces {
            let body = &self.text[piece.clone()];
            let mute = !body.contains(char::is_alphanumeric);
            let first = joined.is_empty();
            let item = items.binary_search(&piece.start).is_ok();
            let open = (is_heading(body) && !item)
                || (first
                    && (mute || self.block_at(piece.start).is_some_and(|block| is_figure(block, &piece))));
            match joined.last_mut() {
                Some(last) if wants_next || mute => {
                    last.end = piece.end;
                    wants_next &= mute || open;
                }
                _ => {
                    joined.push(piece);
                    wants_next = open;
                }
            }
        }
        joined
    }
}

fn is_figure(block: &Block, piece: &Range<usize>) -> bool {
    block.kind == Kind::Figure && block.range == *piece
}

fn trimmed(text: &str, range: Range<usize>) -> Option<Range<usize>> {
    let piece = &text[range.clone()];
    let start = range.end - piece.trim_start().len();
    let end = range.start + piece.trim_end().len();
    (start < end).then_some(start..end)
}

/// A line such as `## Setting up`, `**Setting up:**` or `2. **Setting up**`, and nothing else.
pub(super) fn is_heading(body: &str) -> bool {
    if body.contains('\n') {
        return false;
    }
    if heading_level(body).is_some() {
        return true;
    }
    let body =
        body.trim_start_matches(|c: char| c.is_ascii_digit() || ".) ".contains(c)).trim_end_matches(':');
    let bold = body.strip_prefix("**").and_then(|rest| rest.strip_suffix("**"));
    bold.is_some_and(|inside| !inside.is_empty() && !inside.contains("**") && !inside.contains("\\boxed"))
}

/// The level of a Markdown heading.
pub(super) fn heading_level(line: &str) -> Option<usize> {
    let level = line.bytes().take_while(|&byte| byte == b'#').count();
    ((1..=6).contains(&level) && line[level..].starts_with([' ', '\t'])).then_some(level)
}
