//! A reliability diagram: the share that came true against the score, bin by bin, over the number in each bin.

use super::axes::{self, Axes};
use crate::canvas::{Anchor, Canvas, Size};
use crate::chart_shell::{ChartShell, in_two_sizes};
use crate::frame::{Frame, Side};
use crate::label;
use crate::number::{Estimate, Unit, abbreviated, counted, drawable};
use crate::scale::{Scale, Spacing};

/// Scores against what came true.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Reliability {
    /// The heading.
    pub title: String,
    /// What is shown and how to read it.
    pub caption: String,
    /// The name of the score.
    pub score_label: String,
    /// The name of the share that came true.
    pub observed_label: String,
    /// What is counted, such as `steps`.
    pub noun: String,
    /// The bins, in order.
    pub bins: Vec<Bin>,
}

/// One bin of scores.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Bin {
    /// Its lowest and its highest score, from 0 to 1.
    pub edges: (f64, f64),
    /// The mean of the scores in it.
    pub score: Option<f64>,
    /// The share of them that came true.
    pub observed: Option<Estimate>,
    /// How many there are.
    pub count: u64,
}

/// The chart as HTML.
pub(super) fn draw(diagram: &Reliability) -> String {
    let empty = diagram.bins.iter().filter(|bin| bin.count == 0).count();
    let lost = diagram.bins.iter().filter(|bin| bin.count > 0 && point(bin).is_none()).count();
    let odd = diagram.bins.iter().filter(|bin| !has_edges(bin)).count();
    let notes = [
        (empty > 0).then(|| format!("{} empty: a gap.", counted(empty, "bin is", "bins are"))),
        (lost > 0).then(|| format!("{} missing: a gap.", counted(lost, "value is", "values are"))),
        (odd > 0).then(|| format!("{} no edges and cannot be drawn.", counted(odd, "bin has", "bins have"))),
    ];
    let shell = ChartShell {
        kind: "reliability",
        title: &diagram.title,
        caption: &diagram.caption,
        notes: notes.into_iter().flatten().collect(),
        summary: diagram
            .bins
            .iter()
            .map(|bin| title(diagram, bin).replace('\n', ", "))
            .collect::<Vec<_>>()
            .join(". "),
        ..ChartShell::default()
    };
    let drawn = diagram.bins.iter().any(|bin| has_edges(bin) && point(bin).is_some());
    in_two_sizes(&shell, drawn.then_some(&|size| chart(diagram, size)))
}

/// Where a bin's point is: its mean score and what came true.
fn point(bin: &Bin) -> Option<(f64, Estimate)> {
    Some((bin.score.filter(|score| score.is_finite())?, drawable(bin.observed)?))
}

fn has_edges(bin: &Bin) -> bool {
    bin.edges.0.is_finite() && bin.edges.1.is_finite() && bin.edges.0 < bin.edges.1
}

fn title(diagram: &Reliability, bin: &Bin) -> String {
    let noun = if diagram.noun.is_empty() { "values" } else { &diagram.noun };
    let edge = |value| Unit::Number.exact(value);
    let count = Unit::Count.exact(bin.count as f64);
    let score = bin.score.filter(|score| score.is_finite()).map_or("missing".to_owned(), edge);
    let observed =
        drawable(bin.observed).map_or("missing".to_owned(), |observed| observed.exact(Unit::Share));
    let (low, high) = bin.edges;
    format!("{} to {}: {count} {noun}\nmean score: {score}\ncame true: {observed}", edge(low), edge(high))
}

fn chart(diagram: &Reliability, size: Size) -> Canvas {
    let font = size.font();
    let width = if size.is_wide() { 620.0 } else { size.width() };
    let strip = font * 9.0;
    let height = if size.is_wide() { 640.0 } else { 440.0 };
    let mut canvas = Canvas::new(width, height, font);
    let unit = |unit| {
        let scale = Scale {
            spacing: Spacing::Linear,
            low: 0.0,
            high: 1.0,
            ticks: vec![0.0, 0.2, 0.4, 0.6, 0.8, 1.0],
        };
        Side { scale, unit: Some(unit) }
    };
    // Points or intervals beyond 0 and 1 would be mistakes, and would be seen as such.
    let scores = diagram.bins.iter().filter(|bin| has_edges(bin)).flat_map(|bin| [bin.edges.0, bin.edges.1]);
    let x = if scores.clone().all(|edge| (0.0..=1.0).contains(&edge)) {
        unit(Unit::Number)
    } else {
        axes::round(scores.chain([0.0, 1.0]), Unit::Number, 6)
    };
    let axes = Axes {
        right: 14.0,
        top: 0.0,
        bottom: strip,
        left: None,
        x,
        y: unit(Unit::Share),
        x_label: "",
        y_label: &diagram.observed_label,
    };
    let frame = axes.draw(&mut canvas);
    canvas.line("diagonal", frame.at(0.0, 0.0), frame.at(1.0, 1.0));
    let bins: Vec<&Bin> = diagram.bins.iter().filter(|bin| has_edges(bin)).collect();
    for run in bins.split(|bin| point(bin).is_none()) {
        let line: Vec<(f64, f64)> =
            run.iter().filter_map(|bin| point(bin)).map(|(x, y)| (x, y.value)).collect();
        if line.len() > 1 {
            canvas.raw(&frame.line("line c0", &line, 2.0));
        }
    }
    let most = bins.iter().map(|bin| bin.count).max().unwrap_or(1).max(1) as f64;
    let base = height - font * 1.6;
    let tall = base - (frame.plot.bottom + font * 2.6 + 8.0) - font;
    for bin in bins {
        let (left, _) = frame.at(bin.edges.0, 0.0);
        let (right, _) = frame.at(bin.edges.1, 0.0);
        canvas.group("column", Some(&title(diagram, bin)), |canvas| {
            canvas.rect("", (left, frame.plot.top), (right - left, base - frame.plot.top));
            let bar = bin.count as f64 / most * tall;
            let bar = if bin.count > 0 { bar.max(1.5) } else { 0.0 };
            canvas.rect("count", (left + 1.0, base - bar), (right - left - 2.0, bar));
            let number = |text: &String| label::width(text, font) <= right - left + 2.0;
            let texts = [Unit::Count.exact(bin.count as f64), abbreviated(bin.count as f64, 2)];
            if let Some(text) = texts.into_iter().find(number) {
                canvas.text("", ((left + right) / 2.0, base - bar - 3.0), Anchor::Middle, &text);
            }
            dot(canvas, &frame, bin);
        });
    }
    let below = frame.plot.bottom + font * 1.2 + 8.0;
    let noun =
        if diagram.noun.is_empty() { String::new() } else { format!(" (below: number of {})", diagram.noun) };
    let text = label::shortened(&format!("{}{noun}", diagram.score_label), width - frame.plot.left, font);
    let middle = (frame.plot.left + frame.plot.right) / 2.0;
    canvas.text("axis", (middle, below + font), Anchor::Middle, &text);
    canvas.line("base", (frame.plot.left, base), (frame.plot.right, base));
    canvas
}

fn dot(canvas: &mut Canvas, frame: &Frame, bin: &Bin) {
    let Some((score, observed)) = point(bin) else { return };
    let (x, y) = frame.at(score, observed.value);
    if let Some((low, high)) = observed.interval {
        let ((_, low), (_, high)) = (frame.at(score, low), frame.at(score, high));
        canvas.whisker((x, low), (x, high), 4.0);
    }
    canvas.circle("fill c0", (x, y), 4.5);
}
