//! What charts with two axes share: margins that fit the ticks, names of the axes, markers, columns for the pointer.

use crate::canvas::{Anchor, Canvas, Size};
use crate::frame::{Frame, Side};
use crate::label::{self, Area};
use crate::number::Unit;
use crate::scale::{Scale, Spacing};

/// A vertical line across a chart, such as a chosen threshold.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Marker {
    /// Where it stands.
    pub x: f64,
    /// What it says.
    pub label: String,
}

/// What a chart needs to know for its axes.
pub(super) struct Axes<'a> {
    /// Room to the right of the data.
    pub(super) right: f64,
    /// Room above the data, beyond that for the name of the vertical axis.
    pub(super) top: f64,
    /// Room below the horizontal axis and its name.
    pub(super) bottom: f64,
    /// Room at the left in place of that for the ticks.
    pub(super) left: Option<f64>,
    pub(super) x: Side,
    pub(super) y: Side,
    pub(super) x_label: &'a str,
    pub(super) y_label: &'a str,
}

impl Axes<'_> {
    /// Draws grid, ticks and the names of the axes.
    pub(super) fn draw(self, canvas: &mut Canvas) -> Frame {
        let font = canvas.font;
        let written = |side: &Side| -> Vec<String> {
            side.unit
                .map_or(Vec::new(), |unit| side.scale.tick_values().map(|value| unit.tick(value)).collect())
        };
        let widest = written(&self.y).iter().map(|text| label::width(text, font)).fold(0.0, f64::max);
        let left = self.left.unwrap_or(widest + 16.0);
        let named = |name: &str| if name.is_empty() { 0.0 } else { font * 1.5 };
        let ticks = if self.x.unit.is_some() { font * 1.2 + 8.0 } else { 4.0 };
        let frame = Frame {
            size: (canvas.width, canvas.height),
            plot: Area {
                left,
                top: named(self.y_label) + self.top + font * 0.7,
                right: canvas.width - self.right,
                bottom: canvas.height - named(self.x_label) - ticks - self.bottom,
            },
            x: self.x,
            y: self.y,
            font,
        };
        canvas.raw(&frame.mesh());
        let plot = frame.plot;
        if !self.x_label.is_empty() {
            let middle = (plot.left + plot.right) / 2.0;
            let y = plot.bottom + ticks + font * 1.1;
            let room = 2.0 * (middle.min(canvas.width - middle));
            canvas.text("axis", (middle, y), Anchor::Middle, &label::shortened(self.x_label, room, font));
        }
        if !self.y_label.is_empty() {
            let text = label::shortened(self.y_label, canvas.width, font);
            canvas.text("axis", (0.0, font), Anchor::Start, &text);
        }
        frame
    }
}

/// How many ticks an axis of this length has at most, if each needs so much room.
pub(super) fn most_ticks(length: f64, room: f64) -> usize {
    ((length / room) as usize).clamp(2, 11)
}

/// A horizontal axis that ends at its first and last value.
pub(super) fn tight(values: impl Iterator<Item = f64>, spacing: Spacing, unit: Unit, size: Size) -> Side {
    let most = if size.is_wide() { 11 } else { 6 };
    Side { scale: Scale::tight(values, spacing, most), unit: Some(unit) }
}

/// An axis from a round number to a round number.
pub(super) fn round(values: impl Iterator<Item = f64>, unit: Unit, most: usize) -> Side {
    Side { scale: Scale::round(values, unit, most), unit: Some(unit) }
}

/// Where the label of a marker stands: its middle, and its row above the data.
///
/// A marker alone has its label above it. Of several the first has it at its left and the others at their right, each
/// in a row above all that it reaches over, so that no line goes through a label.
pub(super) fn marker_places(
    markers: &[Marker],
    side: &Side,
    (left, right): (f64, f64),
    font: f64,
) -> Vec<(f64, usize)> {
    let at = |marker: &Marker| left + side.scale.share(marker.x) * (right - left);
    let mut order: Vec<usize> = (0..markers.len()).collect();
    order.sort_by(|a, b| markers[*b].x.total_cmp(&markers[*a].x));
    let first = order.last().copied();
    let span = |index: usize| {
        let (x, wide) = (at(&markers[index]), label::width(&markers[index].label, font) * 1.06);
        let start = if markers.len() == 1 {
            x - wide / 2.0
        } else if first == Some(index) && x - wide - 4.0 > left {
            x - wide - 4.0
        } else {
            x + 4.0
        };
        let start = start.min(right - wide).max(0.0);
        (start, start + wide)
    };
    let spans: Vec<(f64, f64)> = order.iter().map(|index| span(*index)).collect();
    let rows = label::rows(&spans, 8.0);
    let mut places = vec![(0.0, 0); markers.len()];
    for ((index, (start, end)), row) in order.iter().zip(spans).zip(rows) {
        places[*index] = ((start + end) / 2.0, row);
    }
    places
}

/// Markers that stand on this axis; the others are counted as missing.
pub(super) fn markers_on(markers: &[Marker], side: &Side) -> Vec<Marker> {
    let inside = |marker: &&Marker| {
        side.scale
            .spacing
            .position(marker.x)
            .is_some_and(|at| (side.scale.low..=side.scale.high).contains(&at))
    };
    markers.iter().filter(inside).cloned().collect()
}

/// Draws markers, their labels in rows above the data.
pub(super) fn draw_markers(canvas: &mut Canvas, frame: &Frame, markers: &[Marker], unit: Unit) {
    let font = canvas.font;
    let plot = frame.plot;
    let places = marker_places(markers, &frame.x, (plot.left, plot.right), font);
    for (marker, (middle, row)) in markers.iter().zip(places) {
        let x = plot.left + frame.x.scale.share(marker.x) * (plot.right - plot.left);
        let y = plot.top - 5.0 - row as f64 * font * 1.3;
        let title = format!("{}: {}", marker.label, unit.exact(marker.x));
        canvas.group("marker", Some(&title), |canvas| {
            let top = if markers.len() == 1 { y + 3.0 } else { y - font * 0.8 };
            canvas.line("", (x, top), (x, plot.bottom));
            let text = label::shortened(&marker.label, plot.right - plot.left, font);
            canvas.text("halo", (middle, y), Anchor::Middle, &text);
        });
    }
}

/// The stretch of the horizontal axis that is nearest to each of these sorted places.
pub(super) fn columns(places: &[f64], plot: Area) -> Vec<(f64, f64)> {
    let between = |a: f64, b: f64| (a + b) / 2.0;
    (0..places.len())
        .map(|index| {
            let start = if index == 0 { plot.left } else { between(places[index - 1], places[index]) };
            let end = places.get(index + 1).map_or(plot.right, |next| between(places[index], *next));
            (start, end)
        })
        .collect()
}
