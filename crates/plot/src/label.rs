//! Room for text: how wide it is about, how it is cut, and how labels keep clear of each other.
//!
//! A page does not know which font its reader has, so widths are those of a wide one (DejaVu Sans, Verdana).

use std::ops::Range;

/// About how wide a text is in a font of this size.
pub(crate) fn width(text: &str, size: f64) -> f64 {
    text.chars().map(advance).sum::<f64>() * size
}

/// The width of one character, in parts of the font's size.
fn advance(character: char) -> f64 {
    match character {
        'i' | 'l' | 'j' | '.' | ',' | ':' | ';' | '\'' | '|' | '!' | 'I' => 0.32,
        ' ' | 't' | 'f' | 'r' | '(' | ')' | '[' | ']' | '-' | '/' | '"' => 0.4,
        '\u{202f}' => 0.2,
        'm' | 'w' | 'M' | 'W' | '@' | '%' | '—' | '…' => 0.96,
        'A'..='Z' | '+' | '=' | '<' | '>' | '~' | '≤' | '≥' => 0.74,
        '0'..='9' => 0.64,
        '\u{0300}'..='\u{036f}' | '\u{200b}'..='\u{200f}' => 0.0,
        '\u{1100}'..='\u{11ff}' | '\u{2e80}'..='\u{ffe6}' | '\u{1f000}'..='\u{3ffff}' => 1.05,
        _ => 0.61,
    }
}

/// The text, its end cut for an ellipsis where it is too wide.
pub(crate) fn shortened(text: &str, most: f64, size: f64) -> String {
    if width(text, size) <= most {
        return text.to_owned();
    }
    let mut left = most - width("…", size);
    let mut out = String::new();
    for character in text.chars() {
        left -= advance(character) * size;
        if left < 0.0 {
            break;
        }
        out.push(character);
    }
    out.truncate(out.trim_end().len());
    out + "…"
}

/// The text in lines, cut at spaces (and behind hyphens, slashes and underscores), the last one shortened.
pub(crate) fn wrapped(text: &str, most: f64, size: f64, lines: usize) -> Vec<String> {
    let mut out: Vec<String> = vec![String::new()];
    for word in text.split_inclusive([' ', '-', '/', '_']) {
        let full = out.len() == lines;
        let last = out.last_mut().expect("there is always a line");
        if !full && !last.is_empty() && width(last, size) + width(word.trim_end(), size) > most {
            out.push(word.to_owned());
        } else {
            last.push_str(word);
        }
    }
    out.iter().map(|line| shortened(line.trim(), most, size)).collect()
}

/// Moves labels apart until they are `gap` from each other and in the range, as little as possible and in order
/// (least squares under order: pool adjacent violators). Where there is no room for all, they are spread evenly.
pub(crate) fn spread(wanted: &[f64], gap: f64, within: Range<f64>) -> Vec<f64> {
    let mut order: Vec<usize> = (0..wanted.len()).collect();
    order.sort_by(|a, b| wanted[*a].total_cmp(&wanted[*b]));
    let count = wanted.len().saturating_sub(1) as f64;
    let gap = gap.min((within.end - within.start) / count.max(1.0));
    // Blocks of labels that touch: the sum of where their first label would be, and how many they are.
    let mut blocks: Vec<(f64, usize)> = Vec::new();
    for (rank, index) in order.iter().enumerate() {
        blocks.push((wanted[*index] - rank as f64 * gap, 1));
        while let [.., (before, many), (sum, few)] = blocks[..] {
            if before / many as f64 <= sum / few as f64 {
                break;
            }
            blocks.pop();
            *blocks.last_mut().expect("there were two") = (before + sum, many + few);
        }
    }
    let last = within.end - count * gap;
    let starts = blocks.iter().flat_map(|(sum, many)| std::iter::repeat_n(sum / *many as f64, *many));
    let mut places = vec![0.0; wanted.len()];
    for (rank, (index, start)) in order.iter().zip(starts).enumerate() {
        places[*index] = start.clamp(within.start, last.max(within.start)) + rank as f64 * gap;
    }
    places
}

/// The first row for each label in which it overlaps none before it. Labels are `(start, end)`.
pub(crate) fn rows(labels: &[(f64, f64)], gap: f64) -> Vec<usize> {
    let mut ends: Vec<Vec<(f64, f64)>> = Vec::new();
    let clear = |row: &Vec<(f64, f64)>, (start, end): (f64, f64)| {
        row.iter().all(|(left, right)| start >= right + gap || end + gap <= *left)
    };
    labels
        .iter()
        .map(|label| {
            let row = ends.iter().position(|row| clear(row, *label)).unwrap_or_else(|| {
                ends.push(Vec::new());
                ends.len() - 1
            });
            ends[row].push(*label);
            row
        })
        .collect()
}

/// A rectangle that text or a mark takes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Area {
    pub(crate) left: f64,
    pub(crate) top: f64,
    pub(crate) right: f64,
    pub(crate) bottom: f64,
}

impl Area {
    pub(crate) fn overlaps(&self, other: &Area) -> bool {
        self.left < other.right
            && other.left < self.right
            && self.top < other.bottom
            && other.top < self.bottom
    }

    pub(crate) fn inside(&self, other: &Area) -> bool {
        self.left >= other.left
            && self.right <= other.right
            && self.top >= other.top
            && self.bottom <= other.bottom
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn text_is_cut_to_its_room() {
        assert_eq!(shortened("GSM8K", 100.0, 12.0), "GSM8K");
        let cut = shortened("Qwen2.5-Math-7B-Instruct", 80.0, 12.0);
        assert!(cut.starts_with("Qwen") && cut.ends_with('…') && width(&cut, 12.0) <= 80.0, "{cut}");
        assert_eq!(shortened("数学数学数学", 40.0, 12.0), "数学…");
        assert_eq!(shortened("anything", 0.0, 12.0), "…");
    }

    #[test]
    fn text_is_wrapped_at_words_and_hyphens() {
        assert_eq!(wrapped("first error position", 80.0, 12.0, 3), ["first error", "position"]);
        assert_eq!(wrapped("Qwen2.5-Math-PRM", 70.0, 12.0, 2), ["Qwen2.5-", "Math-PRM"]);
        let cut = wrapped("one two three four five six", 40.0, 12.0, 2);
        assert!(cut.len() == 2 && cut[1].ends_with('…'), "{cut:?}");
        assert_eq!(wrapped("", 40.0, 12.0, 2), [""]);
    }

    #[test]
    fn labels_that_touch_move_apart() {
        assert_eq!(spread(&[10.0, 11.0], 10.0, 0.0..100.0), [5.5, 15.5]);
        assert_eq!(spread(&[50.0, 10.0], 10.0, 0.0..100.0), [50.0, 10.0]);
        assert_eq!(spread(&[99.0, 98.0, 97.0], 10.0, 0.0..100.0), [100.0, 90.0, 80.0]);
        assert_eq!(spread(&[], 10.0, 0.0..100.0), [] as [f64; 0]);
    }

    #[test]
    fn labels_in_rows() {
        assert_eq!(rows(&[(0.0, 10.0), (5.0, 15.0), (12.0, 20.0)], 1.0), [0, 1, 0]);
    }

    proptest! {
        #[test]
        fn spread_labels_never_overlap(wanted in proptest::collection::vec(-50.0f64..150.0, 0..30), gap in 1.0f64..20.0) {
            let places = spread(&wanted, gap, 0.0..100.0);
            let room = 100.0 / (wanted.len().saturating_sub(1).max(1)) as f64;
            let mut sorted = places.clone();
            sorted.sort_by(f64::total_cmp);
            prop_assert!(sorted.windows(2).all(|pair| pair[1] - pair[0] >= gap.min(room) - 1e-6));
            prop_assert!(places.iter().all(|place| (-1e-6..=100.0 + 1e-6).contains(place)));
            for (a, b) in (0..wanted.len()).zip(1..wanted.len()) {
                prop_assert!(wanted[a] == wanted[b] || (wanted[a] < wanted[b]) == (places[a] < places[b]));
            }
        }

        #[test]
        fn shortened_text_fits(text in ".{0,60}", most in 12.0f64..200.0) {
            prop_assert!(width(&shortened(&text, most, 12.0), 12.0) <= most + 1e-9);
        }
    }
}
