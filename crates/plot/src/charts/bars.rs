//! Bars with intervals: categories by series, and published values of others as ticks.
//!
//! Bars stand upright while every label and number has room; otherwise they lie.

use super::axes::{self, Axes};
use crate::canvas::{Anchor, Canvas, Size};
use crate::chart_shell::{ChartShell, Key, Mark, in_two_sizes};
use crate::colors;
use crate::frame::{Frame, Side};
use crate::label;
use crate::number::{Estimate, Unit, counted, drawable, gaps};
use crate::scale::{Scale, Spacing};

/// Bars side by side in categories.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Bars {
    /// The heading.
    pub title: String,
    /// What is shown and how to read it.
    pub caption: String,
    /// The name of the axis of values.
    pub value_label: String,
    /// How values are written.
    pub unit: Unit,
    /// The groups of bars.
    pub categories: Vec<String>,
    /// The bars of each group.
    pub series: Vec<BarSeries>,
    /// Values of others, drawn as ticks across a group.
    pub references: Vec<Reference>,
}

/// Bars of one color.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct BarSeries {
    /// Its name in the legend.
    pub name: String,
    /// A value for each category.
    pub values: Vec<Option<Estimate>>,
}

/// A published value to compare with.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Reference {
    /// Which category it belongs to.
    pub category: usize,
    /// Whose value it is; the same name has the same letter in every category.
    pub name: String,
    /// The value.
    pub value: f64,
}

/// The chart as HTML.
pub(super) fn draw(bars: &Bars) -> String {
    let count = bars.categories.len();
    // A value without a category is as lost as a category without a value.
    let values = bars.series.iter().flat_map(|series| {
        (0..count.max(series.values.len()))
            .map(move |at| series.values.get(at).copied().flatten().filter(|_| at < count))
    });
    let mut notes = gaps(values);
    let lost = bars.references.len() - references(bars).count();
    notes.extend(
        (lost > 0).then(|| format!("{} not drawn.", counted(lost, "reference is", "references are"))),
    );
    let mut legend: Vec<Key> = Vec::new();
    if bars.series.len() > 1 {
        let key =
            |(index, series): (usize, &BarSeries)| Key { mark: Mark::Box(index), name: series.name.clone() };
        legend.extend(bars.series.iter().enumerate().map(key));
    }
    let names = reference_names(bars);
    legend.extend(
        names
            .iter()
            .enumerate()
            .map(|(index, name)| Key { mark: Mark::Letter(letter(index)), name: (*name).to_owned() }),
    );
    let shell = ChartShell {
        kind: "bars",
        title: &bars.title,
        caption: &bars.caption,
        notes,
        legend,
        summary: summary(bars),
        ..ChartShell::default()
    };
    let empty = (0..count).all(|category| bars.series.iter().all(|series| value(series, category).is_none()));
    in_two_sizes(&shell, (!empty).then_some(&|size| chart(bars, size)))
}

fn value(series: &BarSeries, category: usize) -> Option<Estimate> {
    drawable(series.values.get(category).copied().flatten())
}

/// References that can be drawn.
fn references(bars: &Bars) -> impl Iterator<Item = &Reference> {
    let known =
        |reference: &&Reference| reference.value.is_finite() && reference.category < bars.categories.len();
    bars.references.iter().filter(known)
}

fn reference_names(bars: &Bars) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for reference in references(bars) {
        if !names.contains(&reference.name.as_str()) {
            names.push(&reference.name);
        }
    }
    names
}

/// `a` to `z`, then `a1` and so on.
fn letter(index: usize) -> String {
    let letter = char::from(b'a' + (index % 26) as u8);
    if index < 26 { letter.to_string() } else { format!("{letter}{}", index / 26) }
}

fn summary(bars: &Bars) -> String {
    let category = |(index, name): (usize, &String)| {
        let values = bars.series.iter().map(|series| {
            let value = value(series, index).map_or("missing".to_owned(), |value| value.exact(bars.unit));
            format!("{} {value}", series.name)
        });
        format!("{name}: {}", values.collect::<Vec<_>>().join(", "))
    };
    bars.categories.iter().enumerate().map(category).collect::<Vec<_>>().join(". ")
}

fn chart(bars: &Bars, size: Size) -> Canvas {
    let font = size.font();
    let widest = widest_number(bars, font);
    let group = (size.width() - 60.0) / bars.categories.len() as f64;
    let bar = (group * 0.82 / bars.series.len() as f64).min(70.0);
    let fits = |name: &String| {
        let lines = label::wrapped(name, group - 8.0, font, 2);
        lines.iter().all(|line| !line.ends_with('…'))
    };
    if bar >= widest + 2.0 && bars.categories.iter().all(fits) {
        upright(bars, size, bar)
    } else {
        lying(bars, size, widest)
    }
}

fn widest_number(bars: &Bars, font: f64) -> f64 {
    let values = bars.series.iter().flat_map(|series| &series.values).filter_map(|value| drawable(*value));
    values
        .map(|value| label::width(&bars.unit.short(value.value), font))
        .fold(label::width("n/a", font), f64::max)
}

/// The axis of values: from zero, or from below it.
fn values(bars: &Bars, most: usize) -> Side {
    let all = bars.series.iter().flat_map(|series| &series.values).filter_map(|value| drawable(*value));
    let others = references(bars).map(|reference| reference.value);
    axes::round(all.flat_map(Estimate::all).chain(others).chain([0.0]), bars.unit, most)
}

/// An axis of categories: each is one unit long.
fn categories(bars: &Bars) -> Side {
    let ends = [0.0, bars.categories.len() as f64];
    Side {
        scale: Scale { spacing: Spacing::Linear, low: ends[0], high: ends[1], ticks: Vec::new() },
        unit: None,
    }
}

fn title(bars: &Bars, series: usize, category: usize) -> String {
    let estimate = value(&bars.series[series], category);
    let estimate = estimate.map_or("missing".to_owned(), |value| value.exact(bars.unit));
    format!("{}\n{}: {estimate}", bars.categories[category], bars.series[series].name)
}

fn upright(bars: &Bars, size: Size, bar: f64) -> Canvas {
    let font = size.font();
    let group = (size.width() - 60.0) / bars.categories.len() as f64;
    let lines = |name: &String| label::wrapped(name, group - 8.0, font, 2);
    let most = bars.categories.iter().map(|name| lines(name).len()).max().unwrap_or(1) as f64;
    let below = most * font * 1.25 + 6.0;
    let mut canvas = Canvas::new(size.width(), 300.0 + below + font * 3.0, font);
    let axes = Axes {
        right: 4.0,
        top: font * 0.5,
        bottom: below,
        left: None,
        x: categories(bars),
        y: values(bars, 6),
        x_label: "",
        y_label: &bars.value_label,
    };
    let frame = axes.draw(&mut canvas);
    let all = bar * bars.series.len() as f64;
    let mut numbers: Vec<((f64, f64), String)> = Vec::new();
    for (category, name) in bars.categories.iter().enumerate() {
        let (middle, zero) = frame.at(category as f64 + 0.5, 0.0);
        for (index, series) in bars.series.iter().enumerate() {
            let left = middle - all / 2.0 + index as f64 * bar;
            let class = format!("bar {}", colors::class(index));
            let title = title(bars, index, category);
            canvas.keyed(&class, &title, &[colors::color(index)], |canvas| {
                let center = left + bar / 2.0;
                let Some(estimate) = value(series, category) else {
                    canvas.rect("hit", (left, frame.plot.top), (bar, zero - frame.plot.top));
                    canvas.text("faint", (center, zero - 4.0), Anchor::Middle, "n/a");
                    return;
                };
                let (_, y) = frame.at(0.0, estimate.value);
                canvas.rect("fill", (left + 1.0, y.min(zero)), (bar - 2.0, (zero - y).abs()));
                let mut top = y;
                if let Some((low, high)) = estimate.interval {
                    let ((_, low), (_, high)) = (frame.at(0.0, low), frame.at(0.0, high));
                    canvas.whisker((center, low), (center, high), 4.0);
                    top = if estimate.value < 0.0 { low } else { high };
                }
                let y = if estimate.value < 0.0 { top + font } else { top - 4.0 };
                numbers.push(((center, y), bars.unit.short(estimate.value)));
            });
        }
        for (row, line) in lines(name).iter().enumerate() {
            let y = frame.plot.bottom + font * 1.25 * (row as f64 + 1.0) + 4.0;
            canvas.text("", (middle, y), Anchor::Middle, line);
        }
        let (left, right) = (middle - all / 2.0 - 3.0, middle + all / 2.0 + 3.0);
        let marks: Vec<(&Reference, f64)> = references(bars)
            .filter(|reference| reference.category == category)
            .map(|reference| (reference, frame.at(0.0, reference.value).1))
            .collect();
        let places: Vec<f64> = marks.iter().map(|(_, y)| *y).collect();
        let places = label::spread(&places, font * 1.15, frame.plot.top..frame.plot.bottom);
        for ((reference, y), place) in marks.into_iter().zip(places) {
            reference_mark(
                &mut canvas,
                bars,
                reference,
                [(left, y), (right + 4.0, y)],
                (right + 11.0, place),
            );
        }
    }
    let (_, zero) = frame.at(0.0, 0.0);
    canvas.line("base", (frame.plot.left, zero), (frame.plot.right, zero));
    write_numbers(&mut canvas, &numbers, Anchor::Middle);
    canvas
}

fn lying(bars: &Bars, size: Size, widest: f64) -> Canvas {
    let font = size.font();
    let width = size.width();
    let names = bars.categories.iter().map(|name| label::width(name, font)).fold(0.0, f64::max);
    let beside = names <= width * 0.3;
    let thick = if size.is_wide() { 17.0 } else { 15.0 };
    let head = if beside { 0.0 } else { font * 1.35 + 2.0 };
    let marks = if references(bars).next().is_some() { font * 1.2 } else { 0.0 };
    let row = head
        + marks
        + thick * bars.series.len() as f64
        + if bars.series.len() > 1 {
            12.0
        } else if beside {
            6.0
        } else {
            10.0
        };
    let height =
        row * bars.categories.len() as f64 + font * if bars.value_label.is_empty() { 3.0 } else { 4.5 };
    let mut canvas = Canvas::new(width, height, font);
    let right = widest + 14.0;
    let left = if beside { names + 12.0 } else { 20.0 };
    let most = axes::most_ticks(width - left - right, 40.0).min(7);
    let axes = Axes {
        right,
        top: 0.0,
        bottom: 0.0,
        left: Some(left),
        x: values(bars, most),
        y: categories(bars),
        x_label: &bars.value_label,
        y_label: "",
    };
    let frame = axes.draw(&mut canvas);
    let mut numbers: Vec<((f64, f64), String)> = Vec::new();
    for (category, name) in bars.categories.iter().enumerate() {
        // The vertical axis goes up, categories go down.
        let (_, top) = frame.at(0.0, (bars.categories.len() - category) as f64);
        let first = top + 4.0 + head + marks;
        if beside {
            let middle = first + thick * bars.series.len() as f64 / 2.0;
            canvas.centered("", (left - 8.0, middle), Anchor::End, name);
        } else {
            let text = label::shortened(name, width - left - 4.0, font);
            canvas.group("", Some(name), |canvas| {
                canvas.text("halo", (left + 4.0, top + font + 3.0), Anchor::Start, &text);
            });
        }
        for index in 0..bars.series.len() {
            let top = first + thick * index as f64;
            numbers.extend(lying_bar(&mut canvas, bars, &frame, (category, index), (top, thick)));
        }
        let group = (first - 5.0, first + thick * bars.series.len() as f64 + 2.0);
        let marks: Vec<(&Reference, f64)> = references(bars)
            .filter(|reference| reference.category == category)
            .map(|reference| (reference, frame.at(reference.value, 0.0).0))
            .collect();
        let places: Vec<f64> = marks.iter().map(|(_, x)| *x).collect();
        let places = label::spread(&places, font, frame.plot.left + 4.0..frame.plot.right);
        for ((reference, x), place) in marks.into_iter().zip(places) {
            reference_mark(
                &mut canvas,
                bars,
                reference,
                [(x, group.1), (x, group.0)],
                (place, group.0 - font * 0.55),
            );
        }
    }
    let (zero, _) = frame.at(0.0, 0.0);
    canvas.line("base", (zero, frame.plot.top), (zero, frame.plot.bottom));
    write_numbers(&mut canvas, &numbers, Anchor::Start);
    canvas
}

/// Numbers come last, so that no tick of a reference strikes them through.
fn write_numbers(canvas: &mut Canvas, numbers: &[((f64, f64), String)], anchor: Anchor) {
    canvas.group("numbers", None, |canvas| {
        for (place, text) in numbers {
            canvas.text("halo", *place, anchor, text);
        }
    });
}

/// One lying bar of a category and a series, its upper edge at `top`; returns its number and the place for it.
fn lying_bar(
    canvas: &mut Canvas,
    bars: &Bars,
    frame: &Frame,
    (category, index): (usize, usize),
    (top, thick): (f64, f64),
) -> Option<((f64, f64), String)> {
    let (zero, _) = frame.at(0.0, 0.0);
    let mut number = None;
    let class = format!("bar {}", colors::class(index));
    canvas.keyed(&class, &title(bars, index, category), &[colors::color(index)], |canvas| {
        let middle = top + thick / 2.0;
        canvas.rect("hit", (frame.plot.left, top), (canvas.width - frame.plot.left, thick));
        let Some(estimate) = value(&bars.series[index], category) else {
            canvas.centered("faint", (zero + 5.0, middle), Anchor::Start, "n/a");
            return;
        };
        let (x, _) = frame.at(estimate.value, 0.0);
        canvas.rect("fill", (x.min(zero), top + 1.0), ((x - zero).abs(), thick - 2.0));
        let mut end = x.max(zero);
        if let Some((low, high)) = estimate.interval {
            let ((low, _), (high, _)) = (frame.at(low, 0.0), frame.at(high, 0.0));
            canvas.whisker((low, middle), (high, middle), 3.0);
            end = end.max(high);
        }
        number = Some(((end + 5.0, middle + canvas.font * 0.36), bars.unit.short(estimate.value)));
    });
    number
}

/// A tick across a group and its letter.
fn reference_mark(
    canvas: &mut Canvas,
    bars: &Bars,
    reference: &Reference,
    line: [(f64, f64); 2],
    place: (f64, f64),
) {
    let index = reference_names(bars).iter().position(|name| *name == reference.name).unwrap_or_default();
    let category = &bars.categories[reference.category];
    let title = format!("{category}\n{}: {}", reference.name, bars.unit.exact(reference.value));
    // The end that is nearest to the letter is drawn strong, the rest only guides the eye.
    let towards = |from: f64, to: f64| to - (to - from).clamp(-9.0, 9.0);
    let tick = (towards(line[0].0, line[1].0), towards(line[0].1, line[1].1));
    canvas.group("reference", Some(&title), |canvas| {
        canvas.line("halo", line[0], line[1]);
        canvas.line("", line[0], line[1]);
        canvas.line("tick", tick, line[1]);
        canvas.centered("halo", place, Anchor::Middle, &letter(index));
    });
}
