//! Points with their names, and a line fitted to them with its band.

use super::axes::{self, Axes};
use crate::canvas::{Anchor, Canvas, Size};
use crate::chart_shell::{ChartShell, Key, Mark, in_two_sizes};
use crate::colors;
use crate::frame::Frame;
use crate::label::{self, Area};
use crate::number::{Unit, counted};

/// Points in a plane.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Scatter {
    /// The heading.
    pub title: String,
    /// What is shown and how to read it; what the fit says is added.
    pub caption: String,
    /// The name of the horizontal axis.
    pub x_label: String,
    /// How its numbers are written.
    pub x_unit: Unit,
    /// The name of the vertical axis.
    pub y_label: String,
    /// How its numbers are written.
    pub y_unit: Unit,
    /// Points by color.
    pub series: Vec<PointSeries>,
    /// A line fitted to the points.
    pub fit: Option<Fit>,
}

/// Points of one color.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PointSeries {
    /// Their name in the legend.
    pub name: String,
    /// The points.
    pub points: Vec<Point>,
}

/// One point.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Point {
    /// Its name; it is printed where there is room.
    pub name: String,
    /// Its horizontal value; not finite is missing.
    pub x: f64,
    /// Its vertical value; not finite is missing.
    pub y: f64,
}

/// A fitted line.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Fit {
    /// Points of the line, by rising `x`.
    pub line: Vec<(f64, f64)>,
    /// The band around it: `x`, low and high.
    pub band: Vec<(f64, f64, f64)>,
    /// Pearson's r.
    pub r: f64,
    /// The probability of so strong a correlation by chance.
    pub p: f64,
}

/// The chart as HTML.
pub(super) fn draw(scatter: &Scatter) -> String {
    let all: usize = scatter.series.iter().map(|cloud| cloud.points.len()).sum();
    let drawn: usize = scatter.series.iter().map(|cloud| cloud.points.iter().filter(finite).count()).sum();
    let mut notes = Vec::new();
    if let Some(fit) = &scatter.fit {
        let p = if fit.p < 0.001 {
            "p\u{a0}<\u{a0}0.001".to_owned()
        } else {
            format!("p\u{a0}=\u{a0}{:.3}", fit.p)
        };
        notes.push(format!("r\u{a0}=\u{a0}{:.2}, {p}, n\u{a0}=\u{a0}{drawn}.", fit.r));
    }
    notes.extend(
        (all > drawn).then(|| {
            format!("{} missing and cannot be drawn.", counted(all - drawn, "point is", "points are"))
        }),
    );
    let key =
        |(index, cloud): (usize, &PointSeries)| Key { mark: Mark::Circle(index), name: cloud.name.clone() };
    let many = scatter.series.len() > 1;
    let legend = scatter.series.iter().enumerate().filter(|_| many).map(key).collect();
    let points = scatter.series.iter().flat_map(|cloud| &cloud.points);
    let shell = ChartShell {
        kind: "scatter",
        title: &scatter.title,
        caption: &scatter.caption,
        notes,
        legend,
        summary: points.map(|point| title(scatter, point).replace('\n', ", ")).collect::<Vec<_>>().join(". "),
        ..ChartShell::default()
    };
    in_two_sizes(&shell, (drawn > 0).then_some(&|size| chart(scatter, size)))
}

fn finite(point: &&Point) -> bool {
    point.x.is_finite() && point.y.is_finite()
}

fn title(scatter: &Scatter, point: &Point) -> String {
    let written =
        |unit: Unit, value: f64| if value.is_finite() { unit.exact(value) } else { "missing".to_owned() };
    let (x, y) = (written(scatter.x_unit, point.x), written(scatter.y_unit, point.y));
    format!("{}\n{}: {x}\n{}: {y}", point.name, scatter.x_label, scatter.y_label)
}

fn chart(scatter: &Scatter, size: Size) -> Canvas {
    let font = size.font();
    let (width, height) = if size.is_wide() { (900.0, 470.0) } else { (360.0, 340.0) };
    let mut canvas = Canvas::new(width, height, font);
    let points: Vec<(usize, &Point)> = scatter
        .series
        .iter()
        .enumerate()
        .flat_map(|(index, cloud)| cloud.points.iter().filter(finite).map(move |point| (index, point)))
        .collect();
    let axes = Axes {
        right: 14.0,
        top: 0.0,
        bottom: 0.0,
        left: None,
        x: axes::round(
            points.iter().map(|(_, point)| point.x),
            scatter.x_unit,
            if size.is_wide() { 9 } else { 7 },
        ),
        y: axes::round(points.iter().map(|(_, point)| point.y), scatter.y_unit, 6),
        x_label: &scatter.x_label,
        y_label: &scatter.y_label,
    };
    let frame = axes.draw(&mut canvas);
    if let Some(fit) = &scatter.fit {
        fitted(&mut canvas, &frame, fit);
    }
    let places: Vec<(f64, f64)> = points.iter().map(|(_, point)| frame.at(point.x, point.y)).collect();
    let names: Vec<&str> = points.iter().map(|(_, point)| point.name.as_str()).collect();
    let inside = Area { left: frame.plot.left, right: width, ..frame.plot };
    let texts = label_places(&names, &places, inside, font);
    let unnamed = texts.iter().filter(|text| text.is_none()).count();
    if unnamed > 0 {
        let text = format!("{} under the pointer", counted(unnamed, "name is", "names are"));
        canvas.text("faint", (frame.plot.right, font), Anchor::End, &text);
    }
    for (((index, point), place), text) in points.iter().zip(&places).zip(texts) {
        canvas.group(&format!("point {}", colors::class(*index)), Some(&title(scatter, point)), |canvas| {
            canvas.circle("hit", *place, 12.0);
            canvas.circle("fill", *place, 5.0);
            if let Some((at, anchor, far)) = text {
                if far {
                    canvas.line("leader", *place, (at.0, at.1 - font * 0.36));
                }
                canvas.text("halo", at, anchor, &point.name);
            }
        });
    }
    canvas
}

/// The line and its band, cut where they leave the chart.
fn fitted(canvas: &mut Canvas, frame: &Frame, fit: &Fit) {
    let (x, y) = (&frame.x.scale, &frame.y.scale);
    let across = |at: &f64| at.is_finite() && (x.low..=x.high).contains(at);
    let within = |at: f64| at.clamp(y.low, y.high);
    let band = || fit.band.iter().filter(|(at, low, high)| across(at) && low.is_finite() && high.is_finite());
    let high = band().map(|(at, _, high)| (*at, within(*high)));
    let low = band().map(|(at, low, _)| (*at, within(*low)));
    let outline: Vec<(f64, f64)> = high.chain(low.collect::<Vec<_>>().into_iter().rev()).collect();
    if outline.len() > 3 {
        canvas.raw(&frame.area("band fit", &outline));
    }
    let inside = |(at, value): &&(f64, f64)| across(at) && (y.low..=y.high).contains(value);
    let line: Vec<(f64, f64)> = fit.line.iter().filter(inside).copied().collect();
    if line.len() > 1 {
        canvas.raw(&frame.line("line fit", &line, 1.5));
    }
}

/// Where a name stands, how it is anchored, and whether it needs a line to its point.
type LabelPlace = ((f64, f64), Anchor, bool);

/// Places for names around their points, clear of points and of each other, where there are any.
fn label_places(names: &[&str], points: &[(f64, f64)], inside: Area, font: f64) -> Vec<Option<LabelPlace>> {
    let around = |(x, y): (f64, f64), radius: f64| Area {
        left: x - radius,
        top: y - radius,
        right: x + radius,
        bottom: y + radius,
    };
    let mut taken: Vec<Area> = points.iter().map(|point| around(*point, 6.0)).collect();
    let place = |(own, (name, (x, y))): (usize, (&&str, &(f64, f64)))| {
        let wide = label::width(name, font);
        for far in [9.0, 22.0, 36.0] {
            for (dx, dy) in [
                (1.0, 0.0),
                (-1.0, 0.0),
                (0.0, -1.0),
                (0.0, 1.0),
                (0.7, -0.8),
                (-0.7, -0.8),
                (0.7, 0.8),
                (-0.7, 0.8),
            ] {
                let (at, middle) = (x + dx * far, y + dy * (far + font * 0.2));
                let (left, anchor) = if dx > 0.0 {
                    (at, Anchor::Start)
                } else if dx < 0.0 {
                    (at - wide, Anchor::End)
                } else {
                    (at - wide / 2.0, Anchor::Middle)
                };
                let area =
                    Area { left, top: middle - font * 0.6, right: left + wide, bottom: middle + font * 0.6 };
                let clear =
                    taken.iter().enumerate().all(|(index, other)| index == own || !area.overlaps(other));
                if clear && area.inside(&inside) {
                    taken.push(area);
                    return Some(((at, middle + font * 0.36), anchor, far > 9.0));
                }
            }
        }
        None
    };
    names.iter().zip(points).enumerate().map(place).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_keep_clear_of_each_other() {
        let points: Vec<(f64, f64)> = (0..6).map(|index| (100.0 + f64::from(index) * 4.0, 100.0)).collect();
        let names = ["first", "second", "third", "fourth", "fifth", "sixth"];
        let inside = Area { left: 0.0, top: 0.0, right: 300.0, bottom: 200.0 };
        let places = label_places(&names, &points, inside, 12.0);
        let boxes: Vec<Area> = names
            .iter()
            .zip(&places)
            .filter_map(|(name, place)| {
                let ((x, y), anchor, _) = (*place)?;
                let wide = label::width(name, 12.0);
                let left = match anchor {
                    Anchor::Start => x,
                    Anchor::Middle => x - wide / 2.0,
                    Anchor::End => x - wide,
                };
                Some(Area { left, top: y - 10.0, right: left + wide, bottom: y + 2.0 })
            })
            .collect();
        assert!(boxes.len() >= 4, "{boxes:?}");
        for (index, one) in boxes.iter().enumerate() {
            assert!(boxes[..index].iter().all(|other| !one.overlaps(other)), "{boxes:?}");
        }
    }

    #[test]
    fn a_name_without_room_is_left_to_the_pointer() {
        let inside = Area { left: 0.0, top: 0.0, right: 30.0, bottom: 30.0 };
        assert_eq!(label_places(&["a very long name indeed"], &[(15.0, 15.0)], inside, 12.0), [None]);
    }
}
