//! Counts in a matrix, such as true against predicted places of the first error.
//!
//! Cells whose row and column have the same label (the prediction is right) are outlined.

use super::axes::most_ticks;
use crate::canvas::{Anchor, Canvas, Size};
use crate::chart_shell::{ChartShell, in_two_sizes};
use crate::label;
use crate::number::{Unit, abbreviated, missing_note};

/// How counts become colors.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Shade {
    /// In proportion.
    Linear,
    /// By the square root: small counts can still be seen.
    #[default]
    Sqrt,
    /// By the logarithm of one more: also counts thousands of times smaller than the largest.
    Log,
}

impl Shade {
    /// How strong the color of a count is, from 0 to 1.
    fn strength(self, count: u64, most: u64) -> f64 {
        let (count, most) = (count as f64, most.max(1) as f64);
        match self {
            Shade::Linear => count / most,
            Shade::Sqrt => (count / most).sqrt(),
            Shade::Log => count.ln_1p() / most.ln_1p(),
        }
    }
}

/// A matrix of counts.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Heatmap {
    /// The heading.
    pub title: String,
    /// What is shown and how to read it.
    pub caption: String,
    /// What rows are, such as `true first error`.
    pub row_label: String,
    /// What columns are, such as `predicted first error`.
    pub column_label: String,
    /// Labels of the rows.
    pub rows: Vec<String>,
    /// Labels of the columns.
    pub columns: Vec<String>,
    /// Rows of counts.
    pub counts: Vec<Vec<Option<u64>>>,
    /// How counts become colors.
    pub shade: Shade,
}

/// The chart as HTML.
pub(super) fn draw(map: &Heatmap) -> String {
    let (height, width) = (map.rows.len(), map.columns.len());
    let known = |row: &Vec<Option<u64>>| row.iter().take(width).flatten().count();
    let drawn: usize = map.counts.iter().take(height).map(known).sum();
    let given: usize = map.counts.iter().map(Vec::len).sum::<usize>().max(height * width);
    let shell = ChartShell {
        kind: "heatmap",
        title: &map.title,
        caption: &map.caption,
        notes: missing_note(given - drawn).into_iter().collect(),
        summary: summary(map),
        ..ChartShell::default()
    };
    in_two_sizes(&shell, (drawn > 0).then_some(&|size| chart(map, size)))
}

fn count(map: &Heatmap, row: usize, column: usize) -> Option<u64> {
    map.counts.get(row)?.get(column).copied()?
}

fn summary(map: &Heatmap) -> String {
    let row = |(index, name): (usize, &String)| {
        let cells: Vec<String> = (0..map.columns.len())
            .filter_map(|column| Some((column, count(map, index, column)?)))
            .filter(|(_, count)| *count > 0)
            .map(|(column, count)| format!("{} {count}", map.columns[column]))
            .collect();
        format!("{} {name}: {}", map.row_label, cells.join(", "))
    };
    let rows: Vec<String> = map.rows.iter().enumerate().map(row).collect();
    format!("Counts by {} and {}. {}", map.row_label, map.column_label, rows.join(". "))
}

fn chart(map: &Heatmap, size: Size) -> Canvas {
    let font = size.font();
    let width = size.width();
    let names = map.rows.iter().map(|name| label::width(name, font)).fold(0.0, f64::max);
    let left = names.min(width * 0.28) + 8.0;
    let tall = map.columns.iter().map(|name| label::width(name, font)).fold(0.0, f64::max).min(110.0);
    let cell = ((width - left - 2.0) / map.columns.len() as f64).min(72.0);
    // Labels that do not fit their column are turned: upright where room is dear, else easier to read at a slant,
    // with room for the last of them beyond the matrix.
    let turned = |name: &str| label::width(name, font) > cell - 3.0;
    let any = map.columns.iter().any(|name| turned(name));
    let slope = std::f64::consts::FRAC_1_SQRT_2;
    let steep = !size.is_wide();
    let over = if any && !steep { tall * slope } else { 0.0 };
    let cell = if any { ((width - left - over) / map.columns.len() as f64).min(72.0) } else { cell };
    let high = cell.clamp(if size.is_wide() { 18.0 } else { 20.0 }, 30.0);
    let above = if steep { tall + 4.0 } else { over };
    let head = font * 3.0 + if any { above } else { 0.0 };
    let bar = font * 4.2;
    let mut canvas = Canvas::new(width, head + high * map.rows.len() as f64 + bar, font);
    let titled =
        |name: &str, arrow: &str| if name.is_empty() { String::new() } else { format!("{name} {arrow}") };
    let names = format!("{}   {}", titled(&map.row_label, "↓"), titled(&map.column_label, "→"));
    canvas.text("axis", (0.0, font), Anchor::Start, &label::shortened(names.trim(), width, font));
    let every = (font * 1.1 / cell).ceil().max(1.0) as usize;
    for (index, name) in map.columns.iter().enumerate().filter(|(index, _)| index.is_multiple_of(every)) {
        let x = left + cell * (index as f64 + 0.5);
        let shown = label::shortened(name, tall.max(cell), font);
        let (place, anchor, degrees) = if turned(name) {
            (
                (x + font * if steep { 0.36 } else { 0.2 }, head - 4.0),
                Anchor::Start,
                if steep { -90.0 } else { -45.0 },
            )
        } else {
            ((x, head - 5.0), Anchor::Middle, 0.0)
        };
        canvas.group("", Some(name), |canvas| canvas.turned("", place, anchor, degrees, &shown));
    }
    let most = map.counts.iter().flatten().flatten().copied().max().unwrap_or(0);
    for (row, name) in map.rows.iter().enumerate() {
        let y = head + high * row as f64;
        let shown = label::shortened(name, left - 8.0, font);
        canvas.group("", Some(name), |canvas| {
            canvas.centered("", (left - 6.0, y + high / 2.0), Anchor::End, &shown);
        });
        for column in 0..map.columns.len() {
            cells(&mut canvas, map, (row, column), (left + cell * column as f64, y), (cell, high), most);
        }
    }
    scale(&mut canvas, map.shade, most, left);
    canvas
}

fn cells(
    canvas: &mut Canvas,
    map: &Heatmap,
    (row, column): (usize, usize),
    (x, y): (f64, f64),
    (width, height): (f64, f64),
    most: u64,
) {
    let found = count(map, row, column);
    let total: u64 = (0..map.columns.len()).filter_map(|column| count(map, row, column)).sum();
    let written = found.map_or("missing".to_owned(), |found| {
        let share = found as f64 / total.max(1) as f64;
        format!("{} ({} of the row)", Unit::Count.exact(found as f64), Unit::Share.exact(share))
    });
    let name = |name: &str, value: &str| format!("{name} {value}").trim().to_owned();
    let title = format!(
        "{}\n{}\n{written}",
        name(&map.row_label, &map.rows[row]),
        name(&map.column_label, &map.columns[column])
    );
    let right = if map.rows[row] == map.columns[column] { "cell right" } else { "cell" };
    canvas.group(right, Some(&title), |canvas| {
        let (corner, inner) = ((x + 0.75, y + 0.75), (width - 1.5, height - 1.5));
        let Some(found) = found else {
            canvas.rect("gap", corner, inner);
            canvas.line("gap", (x + 2.0, y + height - 2.0), (x + width - 2.0, y + 2.0));
            return;
        };
        let strength = map.shade.strength(found, most);
        canvas.shade("heat", corner, inner, strength.max(0.03));
        let font = canvas.font;
        let fits = |text: &String| label::width(text, font) <= width - 0.5 && font <= height - 4.0;
        let count = found as f64;
        let number =
            [Unit::Count.exact(count), abbreviated(count, 2), abbreviated(count, 1)].into_iter().find(fits);
        if let Some(number) = number {
            let class = if found == 0 {
                "faint"
            } else if strength > 0.72 {
                "strong"
            } else if strength > 0.51 {
                "middle"
            } else {
                ""
            };
            canvas.centered(class, (x + width / 2.0, y + height / 2.0), Anchor::Middle, &number);
        }
    });
}

/// Which color is which count.
fn scale(canvas: &mut Canvas, shade: Shade, most: u64, left: f64) {
    let font = canvas.font;
    // Whole steps, so that neighbors meet exactly.
    let steps = 32;
    let (y, left) = ((canvas.height - font * 2.6).round(), left.round());
    let step = ((canvas.width - left - 20.0).min(320.0) / f64::from(steps)).floor();
    let long = step * f64::from(steps);
    for index in 0..steps {
        let strength = (f64::from(index) + 0.5) / f64::from(steps);
        canvas.shade(
            "heat ramp",
            (left + step * f64::from(index), y),
            (step, (font * 0.8).round()),
            strength,
        );
    }
    let ticks = most_ticks(long, 70.0).min(5);
    let mut written = String::new();
    for index in 0..ticks {
        let strength = index as f64 / (ticks - 1) as f64;
        let value = match shade {
            Shade::Linear => strength * most as f64,
            Shade::Sqrt => strength * strength * most as f64,
            Shade::Log => ((most as f64).ln_1p() * strength).exp_m1(),
        };
        let text = Unit::Count.exact(value.round());
        if text != written {
            canvas.text("", (left + long * strength, y + font * 2.0), Anchor::Middle, &text);
        }
        written = text;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shades_go_from_none_to_all() {
        for shade in [Shade::Linear, Shade::Sqrt, Shade::Log] {
            assert_eq!((shade.strength(0, 500), shade.strength(500, 500)), (0.0, 1.0));
            assert!(shade.strength(10, 500) < shade.strength(20, 500));
            assert_eq!(shade.strength(0, 0), 0.0);
        }
        assert!(Shade::Log.strength(1, 500) > Shade::Sqrt.strength(1, 500));
    }
}
