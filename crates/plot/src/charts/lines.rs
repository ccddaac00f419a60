//! Lines with bands: a threshold sweep, best-of-N curves.
//!
//! In a wide page every line has its name at its end, moved apart where ends are close; on a phone, and with more
//! lines than there is room for, a legend has the names.

use super::axes::{self, Axes, Marker};
use crate::canvas::{Anchor, Canvas, Size};
use crate::chart_shell::{ChartShell, Key, Mark, in_two_sizes};
use crate::colors;
use crate::frame::Frame;
use crate::label;
use crate::number::{Estimate, Unit, counted, drawable, gaps};
use crate::scale::Spacing;

/// Lines with fewer points than this show them as dots.
const SPARSE: usize = 40;
/// More lines than this are named in a legend.
const NAMED: usize = 26;

/// Lines over a common axis.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Lines {
    /// The heading.
    pub title: String,
    /// What is shown and how to read it.
    pub caption: String,
    /// The name of the horizontal axis.
    pub x_label: String,
    /// How its numbers are written.
    pub x_unit: Unit,
    /// How it is spaced.
    pub x_spacing: Spacing,
    /// The name of the vertical axis.
    pub y_label: String,
    /// How its numbers are written.
    pub y_unit: Unit,
    /// The lines.
    pub series: Vec<LineSeries>,
    /// Vertical lines with a label.
    pub markers: Vec<Marker>,
}

/// One line.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LineSeries {
    /// Its name.
    pub name: String,
    /// Horizontal place, and value; the intervals are the band. `None` is a gap.
    pub points: Vec<(f64, Option<Estimate>)>,
}

/// A line as it can be drawn: sorted, `None` where it is broken.
type Run = Vec<(f64, Option<Estimate>)>;

/// The chart as HTML.
pub(super) fn draw(lines: &Lines) -> String {
    let (runs, lost) = drawable_runs(lines);
    let values = lines.series.iter().flat_map(|line| line.points.iter().map(|(_, value)| *value));
    let mut notes = gaps(values);
    notes.extend(
        (lost > 0).then(|| {
            format!("{} no place on the horizontal axis.", counted(lost, "point has", "points have"))
        }),
    );
    let empty = runs.iter().flatten().all(|(_, value)| value.is_none());
    let named = lines.series.len() <= NAMED;
    let key = |(index, line): (usize, &LineSeries)| Key { mark: Mark::Line(index), name: line.name.clone() };
    let shell = ChartShell {
        kind: "lines",
        title: &lines.title,
        caption: &lines.caption,
        notes: notes.into_iter().chain(beyond(lines, &runs)).collect(),
        legend: lines.series.iter().enumerate().map(key).collect(),
        legend_on_phones_only: named,
        summary: summary(lines),
    };
    in_two_sizes(&shell, (!empty).then_some(&|size| chart(lines, &runs, size, named)))
}

fn drawable_runs(lines: &Lines) -> (Vec<Run>, usize) {
    let mut lost = 0;
    let runs = lines.series.iter().map(|line| {
        let place = |(x, _): &&(f64, Option<Estimate>)| lines.x_spacing.position(*x).is_some();
        let mut run: Run =
            line.points.iter().filter(place).map(|(x, value)| (*x, drawable(*value))).collect();
        lost += line.points.len() - run.len();
        run.sort_by(|a, b| a.0.total_cmp(&b.0));
        run
    });
    (runs.collect(), lost)
}

/// The sentence about markers that are not on the axis.
fn beyond(lines: &Lines, runs: &[Run]) -> Option<String> {
    let side = axes::tight(runs.iter().flatten().map(|(x, _)| *x), lines.x_spacing, lines.x_unit, Size::Wide);
    let out = lines.markers.len() - axes::markers_on(&lines.markers, &side).len();
    (out > 0).then(|| format!("{} outside the chart.", counted(out, "marker is", "markers are")))
}

fn summary(lines: &Lines) -> String {
    let ends = lines.series.iter().map(|line| {
        let last = line.points.iter().rev().find_map(|(x, value)| Some((*x, drawable(*value)?)));
        last.map_or(format!("{}: no value", line.name), |(x, value)| {
            let (x, value) = (lines.x_unit.exact(x), value.exact(lines.y_unit));
            format!("{} ends at {x} with {value}", line.name)
        })
    });
    let ends: Vec<String> = ends.collect();
    format!("{} over {}. {}.", lines.y_label, lines.x_label, ends.join("; "))
}

fn chart(lines: &Lines, runs: &[Run], size: Size, named: bool) -> Canvas {
    let font = size.font();
    let named = named && size.is_wide();
    let width = size.width();
    let widest = lines.series.iter().map(|line| label::width(&line.name, font)).fold(0.0, f64::max);
    let right = if named { widest.min(210.0) + 50.0 } else { 14.0 };
    let x = axes::tight(runs.iter().flatten().map(|(x, _)| *x), lines.x_spacing, lines.x_unit, size);
    let all = runs.iter().flatten().filter_map(|(_, value)| *value).flat_map(Estimate::all);
    let y = axes::round(all, lines.y_unit, if size.is_wide() { 7 } else { 6 });
    let markers = axes::markers_on(&lines.markers, &x);
    // The left end is known only with the ticks; labels of markers are placed well enough without.
    let rows = axes::marker_places(&markers, &x, (50.0, width - right), font);
    let rows = rows.iter().map(|(_, row)| row + 1).max().unwrap_or(0) as f64;
    let top = rows * font * 1.3;
    let room = if named { lines.series.len() as f64 * font * 1.25 } else { 0.0 };
    let data = room.max(if size.is_wide() { 310.0 } else { 240.0 });
    let mut canvas = Canvas::new(width, data + top + font * 5.0, font);
    let axes =
        Axes { right, top, bottom: 0.0, left: None, x, y, x_label: &lines.x_label, y_label: &lines.y_label };
    let frame = axes.draw(&mut canvas);
    for (index, run) in runs.iter().enumerate() {
        series(&mut canvas, &frame, index, run);
    }
    columns(&mut canvas, &frame, lines, runs);
    axes::draw_markers(&mut canvas, &frame, &markers, lines.x_unit);
    if named {
        names(&mut canvas, &frame, lines, runs);
    }
    canvas
}

fn series(canvas: &mut Canvas, frame: &Frame, index: usize, run: &Run) {
    let class = colors::class(index);
    for piece in run.split(|(_, value)| value.is_none()) {
        let points: Vec<(f64, Estimate)> =
            piece.iter().filter_map(|(x, value)| Some((*x, (*value)?))).collect();
        let low = points.iter().filter_map(|(x, value)| Some((*x, value.interval?.0)));
        let high = points.iter().filter_map(|(x, value)| Some((*x, value.interval?.1)));
        let outline: Vec<(f64, f64)> = high.chain(low.collect::<Vec<_>>().into_iter().rev()).collect();
        if outline.len() > 2 {
            canvas.raw(&frame.area(&format!("band {class}"), &outline));
        }
        if points.len() > 1 {
            let line: Vec<(f64, f64)> = points.iter().map(|(x, value)| (*x, value.value)).collect();
            canvas.raw(&frame.line(&format!("line {class}"), &line, 2.0));
        }
        // A point alone has no band: its interval stands upright.
        if let [(x, Estimate { interval: Some((low, high)), .. })] = points[..] {
            canvas.whisker(frame.at(x, low), frame.at(x, high), 3.0);
        }
        if run.len() < SPARSE || points.len() == 1 {
            for (x, value) in &points {
                canvas.circle(&format!("fill {class}"), frame.at(*x, value.value), 2.8);
            }
        }
    }
}

/// All values at one place of the axis, under the pointer.
fn columns(canvas: &mut Canvas, frame: &Frame, lines: &Lines, runs: &[Run]) {
    let mut all: Vec<(f64, usize, Option<Estimate>)> = Vec::new();
    for (index, run) in runs.iter().enumerate() {
        all.extend(run.iter().map(|(x, value)| (*x, index, *value)));
    }
    // At one place the highest value comes first, what is missing last.
    let height = |value: Option<Estimate>| value.map_or(f64::NEG_INFINITY, |value| value.value);
    all.sort_by(|a, b| a.0.total_cmp(&b.0).then(height(b.2).total_cmp(&height(a.2))));
    let by_place: Vec<_> = all.chunk_by(|a, b| a.0 == b.0).collect();
    let (left, right) = (frame.plot.left, frame.plot.right);
    let place =
        |values: &&[(f64, usize, Option<Estimate>)]| left + frame.x.scale.share(values[0].0) * (right - left);
    let places: Vec<f64> = by_place.iter().map(place).collect();
    let stretches = axes::columns(&places, frame.plot);
    for ((place, values), (start, end)) in places.iter().zip(by_place).zip(stretches) {
        let mut title = format!("{} {}", lines.x_label, lines.x_unit.exact(values[0].0)).trim().to_owned();
        for (_, index, value) in values {
            let value = value.map_or("missing".to_owned(), |value| value.exact(lines.y_unit));
            title += &format!("\n{}: {value}", lines.series[*index].name);
        }
        let keys: Vec<usize> = values.iter().map(|(_, index, _)| colors::color(*index)).collect();
        let (top, bottom) = (frame.plot.top, frame.plot.bottom);
        canvas.keyed("column", &title, &keys, |canvas| {
            canvas.rect("", (start, top), (end - start, bottom - top));
            canvas.line("", (*place, top), (*place, bottom));
        });
    }
}

/// The lines' names at their ends.
fn names(canvas: &mut Canvas, frame: &Frame, lines: &Lines, runs: &[Run]) {
    let ends: Vec<(usize, (f64, f64))> = runs
        .iter()
        .enumerate()
        .filter_map(|(index, run)| {
            let (x, value) = run.iter().rev().find_map(|(x, value)| Some((*x, (*value)?)))?;
            Some((index, frame.at(x, value.value)))
        })
        .collect();
    let wanted: Vec<f64> = ends.iter().map(|(_, (_, y))| *y).collect();
    let font = canvas.font;
    let places = label::spread(&wanted, font * 1.2, frame.plot.top..frame.plot.bottom);
    for ((index, end), y) in ends.into_iter().zip(places) {
        let x = frame.plot.right + 22.0;
        let name = &lines.series[index].name;
        canvas.group(&format!("name {}", colors::class(index)), Some(name), |canvas| {
            let shown = label::shortened(name, canvas.width - x - 23.0, font);
            canvas.polyline("leader", &[(end.0 + 4.0, end.1), (frame.plot.right + 6.0, end.1), (x, y)]);
            canvas.line("sample", (x, y), (x + 18.0, y));
            canvas.centered("", (x + 23.0, y), Anchor::Start, &shown);
        });
    }
}
