//! Two values a row as points on one line, with a number that sums them up: false positives and false negatives of
//! each generator with its bias index, the highest first.

use super::axes::{self, Axes};
use crate::canvas::{Anchor, Canvas, Size};
use crate::chart_shell::{ChartShell, Key, Mark, in_two_sizes};
use crate::frame::{Frame, Side};
use crate::label;
use crate::number::{Estimate, Unit, counted, drawable, gaps};
use crate::scale::{Scale, Spacing};

/// Rows of two points.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Dumbbell {
    /// The heading.
    pub title: String,
    /// What is shown and how to read it.
    pub caption: String,
    /// The name of the axis.
    pub value_label: String,
    /// How the points' values are written.
    pub unit: Unit,
    /// The name of the first point, such as `FPR`; a circle.
    pub first: String,
    /// The name of the second point, such as `FNR`; a diamond.
    pub second: String,
    /// The name of the number of each row, such as `BI`.
    pub index: String,
    /// How it is written.
    pub index_unit: Unit,
    /// The rows; they are drawn by index, the highest first.
    pub rows: Vec<DumbbellRow>,
}

/// One row.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DumbbellRow {
    /// Its name.
    pub name: String,
    /// The first value.
    pub first: Option<Estimate>,
    /// The second value.
    pub second: Option<Estimate>,
    /// The number that is printed at the end, and sorted by.
    pub index: Option<f64>,
}

impl DumbbellRow {
    fn index(&self) -> Option<f64> {
        self.index.filter(|index| index.is_finite())
    }
}

/// The chart as HTML.
pub(super) fn draw(dumbbell: &Dumbbell) -> String {
    let mut rows: Vec<&DumbbellRow> = dumbbell.rows.iter().collect();
    let key = |row: &DumbbellRow| row.index().unwrap_or(f64::NEG_INFINITY);
    rows.sort_by(|a, b| key(b).total_cmp(&key(a)));
    let mut notes = gaps(rows.iter().flat_map(|row| [row.first, row.second]));
    let lost = rows.iter().filter(|row| row.index().is_none()).count();
    notes.extend(
        (lost > 0).then(|| {
            format!("{} without {}, at the end.", counted(lost, "row is", "rows are"), dumbbell.index)
        }),
    );
    let legend = [Mark::Circle(0), Mark::Diamond(1)].into_iter().zip([&dumbbell.first, &dumbbell.second]);
    let shell = ChartShell {
        kind: "dumbbell",
        title: &dumbbell.title,
        caption: &dumbbell.caption,
        notes,
        legend: legend.map(|(mark, name)| Key { mark, name: name.clone() }).collect(),
        summary: rows
            .iter()
            .map(|row| title(dumbbell, row).replace('\n', ", "))
            .collect::<Vec<_>>()
            .join(". "),
        ..ChartShell::default()
    };
    let empty = rows.iter().all(|row| points(row).iter().all(Option::is_none));
    in_two_sizes(&shell, (!empty).then_some(&|size| chart(dumbbell, &rows, size)))
}

fn points(row: &DumbbellRow) -> [Option<Estimate>; 2] {
    [drawable(row.first), drawable(row.second)]
}

fn title(dumbbell: &Dumbbell, row: &DumbbellRow) -> String {
    let written =
        |value: Option<Estimate>| value.map_or("missing".to_owned(), |value| value.exact(dumbbell.unit));
    let [first, second] = points(row).map(written);
    let index = row.index().map_or("missing".to_owned(), |index| dumbbell.index_unit.exact(index));
    let Dumbbell { first: one, second: two, index: name, .. } = dumbbell;
    format!("{}\n{one}: {first}\n{two}: {second}\n{name}: {index}", row.name)
}

fn chart(dumbbell: &Dumbbell, rows: &[&DumbbellRow], size: Size) -> Canvas {
    let font = size.font();
    let width = size.width();
    let names = rows.iter().map(|row| label::width(&row.name, font)).fold(0.0, f64::max);
    let beside = names <= width * 0.3;
    let index =
        |row: &DumbbellRow| row.index().map_or("–".to_owned(), |index| dumbbell.index_unit.short(index));
    let numbers = rows.iter().map(|row| label::width(&index(row), font));
    let right = numbers.fold(label::width(&dumbbell.index, font), f64::max) + 26.0;
    let left = if beside { names + 14.0 } else { 20.0 };
    let tall = if beside { 26.0 } else { 36.0 };
    let head = font * 1.2;
    let height = head + tall * rows.len() as f64 + font * 5.0;
    let mut canvas = Canvas::new(width, height, font);
    let all = rows.iter().flat_map(|row| points(row)).flatten().flat_map(Estimate::all);
    let most = axes::most_ticks(width - left - right, 52.0).min(8);
    let ends = Scale { spacing: Spacing::Linear, low: 0.0, high: rows.len() as f64, ticks: Vec::new() };
    let axes = Axes {
        right,
        top: head,
        bottom: 0.0,
        left: Some(left),
        x: axes::round(all.chain([0.0]), dumbbell.unit, most),
        y: Side { scale: ends, unit: None },
        x_label: &dumbbell.value_label,
        y_label: "",
    };
    let frame = axes.draw(&mut canvas);
    canvas.text("axis", (width - 2.0, frame.plot.top - 4.0), Anchor::End, &dumbbell.index);
    for (place, row) in rows.iter().enumerate() {
        let (_, top) = frame.at(0.0, (rows.len() - place) as f64);
        canvas.keyed("row", &title(dumbbell, row), &[0, 1], |canvas| {
            canvas.rect("hit", (0.0, top), (width, tall));
            let y = if beside { top + tall / 2.0 } else { top + tall * 0.7 };
            if beside {
                canvas.centered("", (left - 10.0, y), Anchor::End, &row.name);
            } else {
                let text = label::shortened(&row.name, width - right, font);
                canvas.text("halo", (left + 4.0, top + font + 1.0), Anchor::Start, &text);
            }
            two_points(canvas, dumbbell, &frame, row, y);
            canvas.centered("", (width - 2.0, y), Anchor::End, &index(row));
        });
    }
    canvas
}

fn two_points(canvas: &mut Canvas, dumbbell: &Dumbbell, frame: &Frame, row: &DumbbellRow, y: f64) {
    let [first, second] = points(row);
    let at = |value: f64| frame.at(value, 0.0).0;
    if let (Some(first), Some(second)) = (first, second) {
        canvas.line("between", (at(first.value), y), (at(second.value), y));
    }
    // Intervals stand a little apart, so that they can be told from each other and from the line between.
    for (estimate, class, offset) in [(first, "whisker c0", -2.5), (second, "whisker c1", 2.5)] {
        if let Some((low, high)) = estimate.and_then(|estimate| estimate.interval) {
            canvas.line(class, (at(low), y + offset), (at(high), y + offset));
        }
    }
    if let Some(first) = first {
        canvas.circle("fill c0", (at(first.value), y), 5.0);
    }
    if let Some(second) = second {
        canvas.diamond("fill c1", (at(second.value), y), 6.0);
    }
    if first.is_none() || second.is_none() {
        let x = first.or(second).map_or(frame.plot.left, |known| at(known.value)) + 12.0;
        let text = match (first, second) {
            (None, None) => "n/a".to_owned(),
            (None, _) => format!("{} n/a", dumbbell.first),
            _ => format!("{} n/a", dumbbell.second),
        };
        canvas.centered("faint halo", (x, y), Anchor::Start, &text);
    }
}
