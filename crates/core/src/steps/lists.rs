//! Steps that number themselves: `Step 2: …` and `2. …`.
//!
//! Text outside the items is cut at blank lines. The last item of a numbered list ends at the first paragraph
//! that is neither indented nor a bullet, but keeps as many such paragraphs as every item before it has.

use std::collections::BTreeMap;

use super::layout::{Cuts, Layout, heading_level};
use super::protect::Kind;

/// Cuts at `Step n`.
pub(super) fn step_markers(layout: &Layout<'_>) -> Cuts {
    let markers = layout.lines.iter().filter(|line| line.free && is_step_marker(layout.content(line)));
    let markers: Vec<_> = markers.collect();
    let mut items: Vec<usize> = markers.iter().map(|line| line.start).collect();
    items.extend(inline_markers(layout));
    items.sort_unstable();
    items.dedup();
    let Some(&first) = items.first() else { return layout.paragraphs().into() };
    let last = items[items.len() - 1];
    let level = markers.iter().filter_map(|line| heading_level(layout.content(line))).max();

    let mut cuts = items.clone();
    cuts.extend(layout.paragraphs().into_iter().filter(|&start| start < first));
    for (index, line) in layout.lines.iter().enumerate().filter(|(_, line)| line.free && line.start > first) {
        let content = layout.content(line);
        let heads = level.is_some_and(|level| heading_level(content).is_some_and(|other| other <= level));
        let closes = line.start > last && layout.begins_paragraph(index) && is_closing(content);
        if heads || closes {
            cuts.push(line.start);
        }
    }
    cuts.sort_unstable();
    cuts.dedup();
    Cuts { starts: cuts, items }
}

/// `Step 2`, `## Step 2: …`, `**Step 2.**`, `- [Step 2]`, `\textbf{Step 2:}`, `步骤2`, `第二步`.
fn is_step_marker(line: &str) -> bool {
    let line = line.trim_start_matches(['#', '*', '_', '>', '-', '•', '[', '(', '<', ' ', '\t']);
    let line = line.strip_prefix("\\textbf{").or_else(|| line.strip_prefix("\\section*{")).unwrap_or(line);
    if let Some(rest) = line.strip_prefix("步骤") {
        return rest.trim_start().starts_with(is_numeral);
    }
    if let Some(rest) = line.strip_prefix('第') {
        let after = rest.trim_start_matches(is_numeral);
        return after.len() < rest.len() && after.starts_with('步');
    }
    let Some(word) = line.get(..4) else { return false };
    word.eq_ignore_ascii_case("step") && {
        let rest = line[4..].trim_start_matches([' ', '\t', '#', '_', '-']);
        let after = rest.trim_start_matches(|c: char| c.is_ascii_digit());
        after.len() < rest.len() && !after.starts_with(char::is_alphanumeric)
    }
}

fn is_numeral(c: char) -> bool {
    c.is_ascii_digit() || "一二三四五六七八九十".contains(c)
}

/// `Step 2:` after the end of a sentence, inside a line.
fn inline_markers(layout: &Layout<'_>) -> impl Iterator<Item = usize> {
    let text = layout.text;
    text.match_indices("Step ").map(|(at, _)| at).filter(move |&at| {
        let after = text[at + 5..].trim_start_matches(|c: char| c.is_ascii_digit());
        let numbered = after.len() < text.len() - at - 5 && after.starts_with(':');
        // Two characters back suffice: an emphasis mark or bracket would belong to the marker, not before it.
        let mut before = text[..at].chars().rev();
        let spaced = before.next() == Some(' ');
        let ended = before.find(|c| *c != ' ').is_some_and(|c| ".!?。)]$".contains(c));
        numbered && spaced && ended && !layout.is_inside_block(at)
    })
}

fn is_closing(line: &str) -> bool {
    const OPENINGS: [&str; 4] =
        ["the final answer", "final answer", "conclusion", "therefore, the final answer"];
    let words = line.trim_start_matches(['#', '*', '_', ' ']);
    OPENINGS
        .iter()
        .any(|opening| words.get(..opening.len()).is_some_and(|start| start.eq_ignore_ascii_case(opening)))
}

/// A numbered item: the look it shares with its siblings, and its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Item {
    line: usize,
    number: u32,
}

/// How an item is written: items of one list look alike.
type Look = (bool, bool, bool, char);

/// Cuts at `n.`.
pub(super) fn numbered(layout: &Layout<'_>) -> Cuts {
    let mut by_look: BTreeMap<(usize, Look), Vec<Item>> = BTreeMap::new();
    for (index, line) in layout.lines.iter().enumerate().filter(|(_, line)| line.free && !line.is_blank()) {
        if let Some((look, number)) = parse_item(layout.content(line)) {
            by_look.entry((line.indent, look)).or_default().push(Item { line: index, number });
        }
    }
    let lists = by_look.into_iter().map(|((indent, _), items)| (indent, runs(items)));
    let lists = lists.filter(|(_, runs)| !runs.is_empty());
    // The outermost list; among several of the same depth, the one with the most items.
    let chosen =
        lists.min_by_key(|(indent, runs)| (*indent, usize::MAX - runs.iter().map(Vec::len).sum::<usize>()));
    let Some((indent, runs)) = chosen else { return layout.paragraphs().into() };

    let (mut cuts, mut items) = (Vec::new(), Vec::new());
    let mut outside = 0;
    for (index, run) in runs.iter().enumerate() {
        let end = runs.get(index + 1).map_or(layout.lines.len(), |next| next[0].line);
        cuts.extend(paragraphs_in(layout, outside..run[0].line));
        let starts = run.iter().map(|item| layout.lines[item.line].start);
        items.extend(starts.clone());
        cuts.extend(starts);
        outside = end_of_run(layout, run, indent, end);
    }
    cuts.extend(paragraphs_in(layout, outside..layout.lines.len()));
    Cuts { starts: cuts, items }
}

fn paragraphs_in(layout: &Layout<'_>, lines: std::ops::Range<usize>) -> impl Iterator<Item = usize> {
    lines.filter(|&index| layout.begins_paragraph(index)).map(|index| layout.lines[index].start)
}

/// Lists that count up from 1 to at least 2.
fn runs(items: Vec<Item>) -> Vec<Vec<Item>> {
    let mut runs: Vec<Vec<Item>> = Vec::new();
    for item in items {
        match runs.last_mut() {
            Some(run) if item.number == run[run.len() - 1].number + 1 => run.push(item),
            _ if item.number == 1 => runs.push(vec![item]),
            _ => {}
        }
    }
    runs.retain(|run| run.len() >= 2);
    runs
}

fn parse_item(line: &str) -> Option<(Look, u32)> {
    let after_marks = line.trim_start_matches('#').trim_start();
    let heading = after_marks.len() < line.len();
    let rest = after_marks.trim_start_matches(['*', '_']);
    let bold = rest.len() < after_marks.len();
    let (rest, bracket) = rest.strip_prefix('(').map_or((rest, false), |rest| (rest, true));
    let after = rest.trim_start_matches(|c: char| c.is_ascii_digit());
    let digits = &rest[..rest.len() - after.len()];
    if digits.is_empty() || digits.len() > 3 {
        return None;
    }
    let mut tail = after.chars();
    let close = tail.next().filter(|c| ".)、".contains(*c) || (bold && *c == ':'))?;
    // `1.5` is a number, not an item.
    let free = tail.next().is_none_or(|c| c.is_whitespace() || "*_$\\".contains(c) || !c.is_ascii());
    (free && bracket <= (close == ')')).then_some(((heading, bold, bracket, close), digits.parse().ok()?))
}

/// The line on which the text after the run's last item begins, or `end`.
fn end_of_run(layout: &Layout<'_>, run: &[Item], indent: usize, end: usize) -> usize {
    let outer = |index: &usize| {
        let line = &layout.lines[*index];
        let formula = layout.block_at(line.start).is_some_and(|block| block.kind == Kind::Display);
        let bullet = layout.content(line).starts_with(['-', '*', '+', '•'])
            && layout.content(line).chars().nth(1).is_some_and(char::is_whitespace);
        layout.begins_paragraph(*index) && line.indent <= indent && !formula && !bullet
    };
    let kept = run.windows(2).map(|pair| (pair[0].line + 1..pair[1].line).filter(outer).count()).min();
    let last = run[run.len() - 1].line;
    (last + 1..end).filter(outer).nth(kept.unwrap_or(0)).unwrap_or(end)
}
