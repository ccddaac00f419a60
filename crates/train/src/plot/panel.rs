//! One panel: axes and curves as SVG, and the values for the pointer.

use std::fmt::Write as _;
use std::ops::{Range, RangeInclusive};

use plotters::prelude::*;
use serde_json::json;

use super::curves::{Curve, Legend, Panel};
use super::{COLOURS, escaped};

/// Twice the size at which a panel is shown: the backend puts points on whole pixels.
const SIZE: (u32, u32) = (1040, 560);
/// Curves with fewer points than this show them as dots.
const SPARSE: usize = 40;
/// Of axes and texts; the style sheet replaces it.
const INK: RGBColor = RGBColor(1, 1, 1);
/// Of the grid; the style sheet replaces it.
const GRID: RGBColor = RGBColor(2, 2, 2);

/// Draws a panel as a `figure`.
pub(super) fn draw(panel: &Panel, legend: &Legend, steps: &RangeInclusive<u64>) -> String {
    let title = panel.metric.replace('_', " ");
    let mut figure = format!("<figure>\n<figcaption>{}", escaped(&title));
    if panel.missing > 0 {
        let values = if panel.missing == 1 { "value is" } else { "values are" };
        let _ = write!(figure, " <small>{} {values} not finite</small>", panel.missing);
    }
    figure += "</figcaption>\n";
    if !panel.curves.is_empty() {
        let mut svg = String::new();
        let across = chart(&mut svg, panel, steps).expect("drawing into memory does not fail");
        figure += &svg;
        let _ =
            writeln!(figure, "<script type=\"application/json\">{}</script>", values(panel, legend, &across));
    }
    figure + "<output></output>\n</figure>\n"
}

/// Draws the chart, and returns the pixels and the steps that its width stands for.
fn chart(
    svg: &mut String,
    panel: &Panel,
    steps: &RangeInclusive<u64>,
) -> Result<(Range<i32>, Range<f64>), Box<dyn std::error::Error>> {
    let values = || panel.curves.iter().flat_map(|curve| &curve.points).map(|(_, value)| *value);
    let wide = span([*steps.start() as f64, *steps.end() as f64].into_iter(), 0.0);
    let high = span(values(), 0.05);
    let root = SVGBackend::with_string(svg, SIZE).into_drawing_area();
    let mut chart = ChartBuilder::on(&root)
        .margin(16)
        .margin_right(40)
        .x_label_area_size(44)
        .y_label_area_size(110)
        .build_cartesian_2d(wide.clone(), high)?;
    chart
        .configure_mesh()
        .axis_style(INK.mix(0.5))
        .bold_line_style(GRID.mix(0.5))
        .light_line_style(TRANSPARENT)
        .label_style(("sans-serif", 24).into_font().color(&INK))
        .x_labels(8)
        .y_labels(6)
        .x_label_formatter(&|step| if step.fract() == 0.0 { tick(*step) } else { String::new() })
        .y_label_formatter(&|value| tick(*value))
        .draw()?;
    for curve in &panel.curves {
        let colour = colour(curve.key);
        let points = || curve.points.iter().map(|(step, value)| (*step as f64, *value));
        match &curve.smooth {
            Some(smooth) => {
                chart.draw_series(LineSeries::new(points(), colour.mix(0.3).stroke_width(2)))?;
                let smooth = smooth.iter().map(|(step, value)| (*step as f64, *value));
                chart.draw_series(LineSeries::new(smooth, colour.stroke_width(4)))?;
            }
            None => {
                chart.draw_series(LineSeries::new(points(), colour.stroke_width(4)))?;
            }
        }
        if curve.points.len() < SPARSE {
            chart.draw_series(points().map(|point| Circle::new(point, 6, colour.filled())))?;
        }
    }
    let (pixels, _) = chart.plotting_area().get_pixel_range();
    root.present()?;
    Ok((pixels, wide))
}

/// What the script needs: where steps are, and all values.
fn values(panel: &Panel, legend: &Legend, (pixels, steps): &(Range<i32>, Range<f64>)) -> String {
    let curve = |curve: &Curve| {
        let (run, split) = &legend[curve.key];
        json!({"run": run, "split": split, "colour": curve.key % COLOURS.len(), "points": curve.points})
    };
    let curves: Vec<_> = panel.curves.iter().map(curve).collect();
    let all = json!({"left": pixels.start, "right": pixels.end, "from": steps.start, "to": steps.end, "curves": curves});
    // A name must not end the script element.
    all.to_string().replace('<', "\\u003c")
}

/// From the lowest to the highest value and a little more, never nothing.
fn span(values: impl Iterator<Item = f64>, margin: f64) -> Range<f64> {
    let (low, high) = values
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)));
    let around = if high > low { (high - low) * margin } else { (low.abs() * 0.1).max(1e-9) };
    low - around..high + around
}

fn colour(key: usize) -> RGBColor {
    let hex = u32::from_str_radix(&COLOURS[key % COLOURS.len()].0[1..], 16).expect("colours are #RRGGBB");
    let [_, red, green, blue] = hex.to_be_bytes();
    RGBColor(red, green, blue)
}

/// A number beside an axis: `0.25`, `1200`, `2e-5`.
fn tick(value: f64) -> String {
    let size = value.abs();
    // Sums of steps miss 0 by a little.
    if size < 1e-15 {
        return "0".to_owned();
    }
    let trimmed = |text: &str| text.trim_end_matches('0').trim_end_matches('.').to_owned();
    if (1e-3..1e5).contains(&size) {
        return trimmed(&format!("{value:.4}"));
    }
    let text = format!("{value:.2e}");
    text.split_once('e').map_or(text.clone(), |(digits, power)| format!("{}e{power}", trimmed(digits)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks() {
        let shown = [0.0, 1e-17, 0.25, 1200.0, 2.1e-5 - 0.1e-5, -1.25e6, 10.0].map(tick);
        assert_eq!(shown, ["0", "0", "0.25", "1200", "2e-5", "-1.25e6", "10"]);
    }

    #[test]
    fn spans_are_never_nothing() {
        assert_eq!(span([1.0, 3.0].into_iter(), 0.0), 1.0..3.0);
        let one = span([5.0].into_iter(), 0.05);
        assert!(one.start < 5.0 && one.end > 5.0);
        let zero = span([0.0].into_iter(), 0.0);
        assert!(zero.start < zero.end);
    }
}
