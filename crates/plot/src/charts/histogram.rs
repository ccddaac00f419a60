//! Two or three distributions over each other, in the same bins, each as shares of its own total.

use super::axes::{self, Axes, Marker};
use crate::canvas::{Canvas, Size};
use crate::chart_shell::{ChartShell, Key, Mark, in_two_sizes};
use crate::colors;
use crate::frame::Side;
use crate::number::{Unit, missing_note};
use crate::scale::{Scale, Spacing};

/// Distributions over the same bins.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Histogram {
    /// The heading.
    pub title: String,
    /// What is shown and how to read it.
    pub caption: String,
    /// The name of the horizontal axis.
    pub x_label: String,
    /// How its numbers are written.
    pub x_unit: Unit,
    /// Edges of the bins, rising: one more than there are bins.
    pub edges: Vec<f64>,
    /// The distributions.
    pub series: Vec<Distribution>,
    /// Vertical lines with a label.
    pub markers: Vec<Marker>,
}

/// One distribution.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Distribution {
    /// Its name in the legend.
    pub name: String,
    /// How many values are in each bin.
    pub counts: Vec<u64>,
    /// How many values are in no bin, such as those that are not finite.
    pub missing: u64,
}

impl Distribution {
    fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    fn share(&self, bin: usize) -> f64 {
        self.counts.get(bin).copied().unwrap_or(0) as f64 / self.total().max(1) as f64
    }
}

/// The chart as HTML.
pub(super) fn draw(histogram: &Histogram) -> String {
    let bins = histogram.edges.len().saturating_sub(1);
    let mut notes = Vec::new();
    for series in &histogram.series {
        notes.extend((series.missing > 0).then(|| {
            let count = Unit::Count.exact(series.missing as f64);
            format!("{}: {count} in no bin, not drawn.", series.name)
        }));
    }
    let ragged: usize = histogram.series.iter().map(|series| series.counts.len().abs_diff(bins)).sum();
    notes.extend(missing_note(ragged));
    let rising = histogram.edges.windows(2).all(|pair| pair[0] < pair[1]);
    if !rising {
        notes.push("The edges of the bins do not rise.".to_owned());
    }
    let all: u64 = histogram.series.iter().map(Distribution::total).sum();
    let key = |(index, series): (usize, &Distribution)| Key {
        mark: Mark::Box(index),
        name: format!("{} ({})", series.name, Unit::Count.exact(series.total() as f64)),
    };
    let shell = ChartShell {
        kind: "histogram",
        title: &histogram.title,
        caption: &histogram.caption,
        notes,
        legend: histogram.series.iter().enumerate().map(key).collect(),
        summary: (0..bins)
            .map(|bin| title(histogram, bin).replace('\n', ", "))
            .collect::<Vec<_>>()
            .join(". "),
        ..ChartShell::default()
    };
    in_two_sizes(&shell, (bins > 0 && rising && all > 0).then_some(&|size| chart(histogram, size)))
}

fn title(histogram: &Histogram, bin: usize) -> String {
    let edge = |index: usize| histogram.x_unit.exact(histogram.edges[index]);
    let mut title = format!("{} {} to {}", histogram.x_label, edge(bin), edge(bin + 1)).trim().to_owned();
    for series in &histogram.series {
        let count =
            series.counts.get(bin).map_or("missing".to_owned(), |count| Unit::Count.exact(*count as f64));
        title += &format!("\n{}: {} ({count})", series.name, Unit::Share.exact(series.share(bin)));
    }
    title
}

fn chart(histogram: &Histogram, size: Size) -> Canvas {
    let font = size.font();
    let width = size.width();
    let bins = histogram.edges.len() - 1;
    let x = axes::tight(histogram.edges.iter().copied(), Spacing::Linear, histogram.x_unit, size);
    let shares = histogram.series.iter().flat_map(|series| (0..bins).map(|bin| series.share(bin)));
    let y = Side { scale: Scale::round(shares.chain([0.0]), Unit::Share, 6), unit: Some(Unit::Share) };
    let markers = axes::markers_on(&histogram.markers, &x);
    let rows = axes::marker_places(&markers, &x, (50.0, width - 14.0), font);
    let top = rows.iter().map(|(_, row)| row + 1).max().unwrap_or(0) as f64 * font * 1.3;
    let height = top + if size.is_wide() { 340.0 } else { 260.0 };
    let mut canvas = Canvas::new(width, height, font);
    let axes = Axes {
        right: 14.0,
        top,
        bottom: 0.0,
        left: None,
        x,
        y,
        x_label: &histogram.x_label,
        y_label: "share",
    };
    let frame = axes.draw(&mut canvas);
    for (index, series) in histogram.series.iter().enumerate() {
        let class = colors::class(index);
        let tops = (0..bins).flat_map(|bin| {
            let share = series.share(bin);
            [(histogram.edges[bin], share), (histogram.edges[bin + 1], share)]
        });
        let ends = [(histogram.edges[0], 0.0), (histogram.edges[bins], 0.0)];
        let outline: Vec<(f64, f64)> = std::iter::once(ends[0]).chain(tops).chain([ends[1]]).collect();
        canvas.raw(&frame.area(&format!("band {class}"), &outline));
        canvas.raw(&frame.line(&format!("line {class}"), &outline, 2.0));
    }
    let colors: Vec<usize> = (0..histogram.series.len()).map(colors::color).collect();
    for bin in 0..bins {
        let (left, _) = frame.at(histogram.edges[bin], 0.0);
        let (right, _) = frame.at(histogram.edges[bin + 1], 0.0);
        canvas.keyed("column", &title(histogram, bin), &colors, |canvas| {
            canvas.rect("", (left, frame.plot.top), (right - left, frame.plot.bottom - frame.plot.top));
        });
    }
    axes::draw_markers(&mut canvas, &frame, &markers, histogram.x_unit);
    canvas
}
