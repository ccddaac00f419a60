//! Series over axes in a circle, from 0 at the center to 100 at the rim.

use std::f64::consts::TAU;

use crate::canvas::{Anchor, Canvas, Size};
use crate::chart_shell::{ChartShell, Key, Mark, in_two_sizes};
use crate::colors;
use crate::label;
use crate::number::{Unit, counted, missing_note};

/// Series over axes in a circle.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Radar {
    /// The heading.
    pub title: String,
    /// What is shown and how to read it.
    pub caption: String,
    /// Names of the axes, clockwise from the top.
    pub axes: Vec<String>,
    /// What is drawn.
    pub series: Vec<RadarSeries>,
}

/// One outline.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RadarSeries {
    /// Its name in the legend.
    pub name: String,
    /// A value from 0 to 100 for each axis.
    pub values: Vec<Option<f64>>,
}

impl RadarSeries {
    fn value(&self, axis: usize) -> Option<f64> {
        self.values.get(axis).copied().flatten().filter(|value| value.is_finite())
    }
}

/// The chart as HTML.
pub(super) fn draw(radar: &Radar) -> String {
    let axes = radar.axes.len();
    let values = || radar.series.iter().flat_map(|series| (0..axes).filter_map(|axis| series.value(axis)));
    let given: usize = radar.series.iter().map(|series| series.values.len().max(axes)).sum();
    let mut notes: Vec<String> = missing_note(given - values().count()).into_iter().collect();
    let out = values().filter(|value| !(0.0..=100.0).contains(value)).count();
    notes.extend((out > 0).then(|| {
        format!("{} outside 0 to 100, drawn at the end of the axis.", counted(out, "value is", "values are"))
    }));
    let key =
        |(index, series): (usize, &RadarSeries)| Key { mark: Mark::Line(index), name: series.name.clone() };
    let summary = radar.series.iter().map(|series| {
        let value = |axis: usize| format!("{} {}", radar.axes[axis], written(series.value(axis)));
        format!("{}: {}", series.name, (0..axes).map(value).collect::<Vec<_>>().join(", "))
    });
    let shell = ChartShell {
        kind: "radar",
        title: &radar.title,
        caption: &radar.caption,
        notes,
        legend: radar.series.iter().enumerate().map(key).collect(),
        summary: summary.collect::<Vec<_>>().join(". "),
        ..ChartShell::default()
    };
    in_two_sizes(&shell, (values().count() > 0).then_some(&|size| chart(radar, size)))
}

fn written(value: Option<f64>) -> String {
    value.map_or("missing".to_owned(), |value| Unit::Score.exact(value))
}

fn chart(radar: &Radar, size: Size) -> Canvas {
    let font = size.font();
    let width = if size.is_wide() { 700.0 } else { size.width() };
    let radius = radius(radar, size, width);
    let room = |axis: usize| width / 2.0 - reach(radar, axis) * (radius + 8.0);
    let lines: Vec<Vec<String>> = (0..radar.axes.len())
        .map(|axis| label::wrapped(&radar.axes[axis], room(axis).min(150.0), font, 3))
        .collect();
    let most = lines.iter().map(Vec::len).max().unwrap_or(1) as f64;
    let center = (width / 2.0, radius + 16.0 + most * font * 1.2);
    let mut canvas = Canvas::new(width, center.1 * 2.0, font);
    let count = radar.axes.len();
    let direction = |axis: usize| {
        let angle = TAU * axis as f64 / count as f64;
        (angle.sin(), -angle.cos())
    };
    let place = |axis: usize, value: f64| {
        let (dx, dy) = direction(axis);
        let length = radius * value.clamp(0.0, 100.0) / 100.0;
        (center.0 + dx * length, center.1 + dy * length)
    };
    for ring in [25.0, 50.0, 75.0, 100.0] {
        let corners: Vec<(f64, f64)> = (0..count).map(|axis| place(axis, ring)).collect();
        canvas.polygon("ring", &corners);
    }
    for (axis, lines) in lines.iter().enumerate() {
        canvas.line("spoke", center, place(axis, 100.0));
        let (dx, dy) = direction(axis);
        let (x, y) = (center.0 + dx * (radius + 8.0), center.1 + dy * (radius + 8.0));
        let anchor = if dx > 0.15 {
            Anchor::Start
        } else if dx < -0.15 {
            Anchor::End
        } else {
            Anchor::Middle
        };
        // Above the center labels end at the rim, below it they begin there.
        let tall = lines.len() as f64 * font * 1.2;
        let top = y - tall * (1.0 - dy) / 2.0;
        canvas.group("", Some(&radar.axes[axis]), |canvas| {
            for (row, line) in lines.iter().enumerate() {
                canvas.text("", (x, top + font * (0.95 + 1.2 * row as f64)), anchor, line);
            }
        });
    }
    for (index, series) in radar.series.iter().enumerate() {
        outline(
            &mut canvas,
            &colors::class(index),
            &place,
            &(0..count).map(|axis| series.value(axis)).collect::<Vec<_>>(),
        );
    }
    for ring in [25.0, 50.0, 75.0, 100.0] {
        let (x, y) = place(0, ring);
        canvas.text("faint halo", (x + 3.0, y + font * 0.36), Anchor::Start, &Unit::Score.tick(ring));
    }
    for axis in 0..count {
        let mut known: Vec<(usize, Option<f64>)> =
            radar.series.iter().enumerate().map(|(index, series)| (index, series.value(axis))).collect();
        known.sort_by(|a, b| b.1.unwrap_or(-1.0).total_cmp(&a.1.unwrap_or(-1.0)));
        let lines: Vec<String> = known
            .iter()
            .map(|(index, value)| format!("{}: {}", radar.series[*index].name, written(*value)))
            .collect();
        let keys: Vec<usize> = known.iter().map(|(index, _)| colors::color(*index)).collect();
        // A kite around the axis answers for it.
        let half = TAU / count.max(3) as f64 / 2.0;
        let angle = TAU * axis as f64 / count as f64;
        let corner = |turn: f64, length: f64| {
            (center.0 + (angle + turn).sin() * length, center.1 - (angle + turn).cos() * length)
        };
        let kite = [center, corner(-half, radius), corner(0.0, radius + 12.0), corner(half, radius)];
        let title = format!("{}\n{}", radar.axes[axis], lines.join("\n"));
        canvas.keyed("column", &title, &keys, |canvas| {
            canvas.polygon("hit", &kite);
            canvas.line("", center, place(axis, 100.0));
        });
    }
    canvas
}

/// How far to the side an axis points, from 0 to 1.
fn reach(radar: &Radar, axis: usize) -> f64 {
    (TAU * axis as f64 / radar.axes.len() as f64).sin().abs()
}

/// The largest radius, within reason, that leaves the words of the labels whole.
fn radius(radar: &Radar, size: Size, width: f64) -> f64 {
    let (largest, smallest) = if size.is_wide() { (190, 120) } else { (115, 70) };
    let words = |name: &str| {
        let words = name.split([' ', '-', '/', '_']);
        words.map(|word| label::width(word, size.font())).fold(0.0, f64::max)
    };
    let whole = |radius: &i32| {
        let fits = |(axis, name): (usize, &String)| {
            words(name) + 4.0 <= width / 2.0 - reach(radar, axis) * (f64::from(*radius) + 8.0)
        };
        radar.axes.iter().enumerate().all(fits)
    };
    f64::from((smallest..=largest).rev().find(whole).unwrap_or(smallest))
}

/// A closed outline, open where a value is missing.
fn outline(
    canvas: &mut Canvas,
    class: &str,
    place: &dyn Fn(usize, f64) -> (f64, f64),
    values: &[Option<f64>],
) {
    let points: Vec<Option<(f64, f64)>> =
        values.iter().enumerate().map(|(axis, value)| value.map(|value| place(axis, value))).collect();
    let all: Vec<(f64, f64)> = points.iter().copied().flatten().collect();
    canvas.group(&format!("outline {class}"), None, |canvas| {
        if all.len() == points.len() {
            canvas.polygon("", &all);
        } else {
            for (index, point) in points.iter().enumerate() {
                let next = points[(index + 1) % points.len()];
                if let (Some(from), Some(to)) = (point, next) {
                    canvas.polyline("", &[*from, to]);
                }
            }
        }
        for point in all {
            canvas.circle("fill", point, 3.0);
        }
    });
}
