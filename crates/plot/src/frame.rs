//! Axes, grid, lines and areas of charts with two axes, drawn by `plotters`.
//!
//! `plotters` puts points on whole pixels and knows neither classes nor titles. So it draws ten times as large into
//! a group that is scaled back, each group has a class from which the style sheet takes colors, and whatever
//! answers to the pointer is drawn by [`crate::canvas`] at the same places.

use std::ops::Range;

use plotters::coord::Shift;
use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, ValueFormatter};
use plotters::prelude::*;

use crate::label::Area;
use crate::number::Unit;
use crate::scale::Scale;

/// How much larger `plotters` draws.
const FINE: f64 = 10.0;
/// Of axes and texts; the style sheet replaces it.
const INK: RGBColor = RGBColor(1, 1, 1);
/// Of the grid; the style sheet replaces it.
const GRID: RGBColor = RGBColor(2, 2, 2);

type Chart<'a> = ChartContext<'a, SVGBackend<'a>, Cartesian2d<Side, Side>>;
type Drawn = Result<(), DrawingAreaErrorKind<std::io::Error>>;

/// One axis.
#[derive(Debug, Clone)]
pub(crate) struct Side {
    pub(crate) scale: Scale,
    /// How the ticks are written; `None` for an axis without ticks.
    pub(crate) unit: Option<Unit>,
}

impl Ranged for Side {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        limit.0 + (self.scale.share(*value) * f64::from(limit.1 - limit.0)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        // The finer grid between the ticks is not drawn.
        if hint.weight().allow_light_points() || self.unit.is_none() {
            Vec::new()
        } else {
            self.scale.tick_values().collect()
        }
    }

    fn range(&self) -> Range<f64> {
        self.scale.spacing.value(self.scale.low)..self.scale.spacing.value(self.scale.high)
    }
}

impl ValueFormatter<f64> for Side {
    fn format_ext(&self, value: &f64) -> String {
        self.unit.map_or(String::new(), |unit| unit.tick(*value))
    }
}

/// A chart's axes and where they are.
#[derive(Debug, Clone)]
pub(crate) struct Frame {
    /// Of the whole drawing.
    pub(crate) size: (f64, f64),
    /// Where the data is.
    pub(crate) plot: Area,
    pub(crate) x: Side,
    pub(crate) y: Side,
    /// The size of the ticks' texts.
    pub(crate) font: f64,
}

impl Frame {
    /// The place of a value on each axis.
    pub(crate) fn at(&self, x: f64, y: f64) -> (f64, f64) {
        let Area { left, top, right, bottom } = self.plot;
        (left + self.x.scale.share(x) * (right - left), bottom - self.y.scale.share(y) * (bottom - top))
    }

    /// Grid, axes and ticks.
    pub(crate) fn mesh(&self) -> String {
        self.layer("mesh", |chart| {
            let mut mesh = chart.configure_mesh();
            mesh.axis_style(INK.mix(0.5).stroke_width(FINE as u32))
                .bold_line_style(GRID.mix(0.6).stroke_width(FINE as u32))
                .light_line_style(TRANSPARENT)
                .set_all_tick_mark_size((4.0 * FINE) as i32)
                .label_style(("sans-serif", self.font * FINE * 1.24).into_font().color(&INK));
            mesh.draw()
        })
    }

    /// A line through these points, in the color of the class.
    pub(crate) fn line(&self, class: &str, points: &[(f64, f64)], thick: f64) -> String {
        let style = INK.stroke_width((thick * FINE) as u32);
        self.layer(class, |chart| {
            chart.draw_series(LineSeries::new(points.iter().copied(), style)).map(|_| ())
        })
    }

    /// A filled outline, in the color of the class.
    pub(crate) fn area(&self, class: &str, points: &[(f64, f64)]) -> String {
        self.layer(class, |chart| {
            chart.draw_series(std::iter::once(Polygon::new(points.to_vec(), INK.filled()))).map(|_| ())
        })
    }

    /// What `draw` draws, as a group of its own.
    fn layer(&self, class: &str, draw: impl FnOnce(&mut Chart<'_>) -> Drawn) -> String {
        let mut svg = String::new();
        let size = ((self.size.0 * FINE) as u32, (self.size.1 * FINE) as u32);
        let root = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        self.chart(&root).and_then(|mut chart| draw(&mut chart)).expect("drawing into memory does not fail");
        root.present().expect("drawing into memory does not fail");
        drop(root);
        let start = svg.find('>').map_or(0, |end| end + 1);
        let end = svg.rfind("</svg>").unwrap_or(svg.len());
        format!("<g class=\"{class}\" transform=\"scale({})\">{}</g>\n", 1.0 / FINE, svg[start..end].trim())
    }

    fn chart<'a>(
        &self,
        root: &DrawingArea<SVGBackend<'a>, Shift>,
    ) -> Result<Chart<'a>, DrawingAreaErrorKind<std::io::Error>> {
        let fine = |length: f64| (length * FINE) as u32;
        ChartBuilder::on(root)
            .margin_top(fine(self.plot.top))
            .margin_right(fine(self.size.0 - self.plot.right))
            .x_label_area_size(fine(self.size.1 - self.plot.bottom))
            .y_label_area_size(fine(self.plot.left))
            .build_cartesian_2d(self.x.clone(), self.y.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scale::Spacing;

    fn frame() -> Frame {
        let side = |values: [f64; 2], spacing| Side {
            scale: Scale::tight(values.into_iter(), spacing, 5),
            unit: Some(Unit::Number),
        };
        Frame {
            size: (400.0, 200.0),
            plot: Area { left: 40.0, top: 10.0, right: 380.0, bottom: 170.0 },
            x: side([1.0, 16.0], Spacing::Log2),
            y: side([0.0, 1.0], Spacing::Linear),
            font: 12.0,
        }
    }

    #[test]
    fn plotters_puts_points_where_we_put_marks() {
        let frame = frame();
        let points = [(1.0, 0.0), (4.0, 0.3), (16.0, 1.0)];
        let svg = frame.line("line", &points, 2.0);
        let drawn =
            svg.split("points=\"").nth(1).and_then(|rest| rest.split('"').next()).expect("a polyline");
        let drawn = drawn.split_whitespace().map(|pair| pair.split_once(',').expect("x,y"));
        for ((x, y), (ours_x, ours_y)) in drawn.zip(points.map(|(x, y)| frame.at(x, y))) {
            let (x, y): (f64, f64) = (x.parse().expect("a number"), y.parse().expect("a number"));
            assert!((x / FINE - ours_x).abs() < 0.3, "{x} {ours_x}");
            assert!((y / FINE - ours_y).abs() < 0.3, "{y} {ours_y}");
        }
    }

    #[test]
    fn ticks_are_written() {
        let svg = frame().mesh();
        for tick in ["1", "2", "4", "8", "16", "0.25"] {
            assert!(svg.contains(&format!(">\n{tick}\n</text>")), "{tick} in {svg}");
        }
    }
}
