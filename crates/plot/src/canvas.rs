//! The SVG of a chart in one of its two sizes: marks with classes for the style sheet and titles for the pointer.

use std::fmt::Write as _;

use crate::escape::escaped;

/// A chart is drawn for a page and again for a phone; the style sheet shows one of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Size {
    Wide,
    Narrow,
}

impl Size {
    /// The width of most charts, about that at which they are shown.
    pub(crate) fn width(self) -> f64 {
        match self {
            Size::Wide => 900.0,
            Size::Narrow => 360.0,
        }
    }

    /// Of texts; smaller ones would be under 10 pixels on a phone 390 pixels wide.
    pub(crate) fn font(self) -> f64 {
        match self {
            Size::Wide => 13.0,
            Size::Narrow => 11.0,
        }
    }

    pub(crate) fn is_wide(self) -> bool {
        self == Size::Wide
    }
}

/// Where a text stands relative to its point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

impl Anchor {
    fn name(self) -> &'static str {
        match self {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        }
    }
}

/// An SVG in the making.
#[derive(Debug)]
pub(crate) struct Canvas {
    pub(crate) width: f64,
    pub(crate) height: f64,
    pub(crate) font: f64,
    body: String,
}

impl Canvas {
    pub(crate) fn new(width: f64, height: f64, font: f64) -> Self {
        Canvas { width, height, font, body: String::new() }
    }

    /// Finished SVG from elsewhere.
    pub(crate) fn raw(&mut self, svg: &str) {
        self.body += svg;
    }

    /// Marks that belong together, with a text under the pointer where one is given.
    pub(crate) fn group(&mut self, class: &str, title: Option<&str>, draw: impl FnOnce(&mut Self)) {
        let tip = if title.is_some() { " tip" } else { "" };
        let _ = write!(self.body, "<g class=\"{class}{tip}\">");
        if let Some(title) = title {
            let _ = write!(self.body, "<title>{}</title>", escaped(title));
        }
        draw(self);
        self.body += "</g>\n";
    }

    /// A group whose text names a series on each line after the first; the script puts their colors beside them.
    pub(crate) fn keyed(&mut self, class: &str, title: &str, colors: &[usize], draw: impl FnOnce(&mut Self)) {
        let colors: Vec<String> = colors.iter().map(usize::to_string).collect();
        let (colors, title) = (colors.join(" "), escaped(title));
        let _ = write!(self.body, "<g class=\"{class} tip\" data-colors=\"{colors}\"><title>{title}</title>");
        draw(self);
        self.body += "</g>\n";
    }

    pub(crate) fn rect(&mut self, class: &str, (x, y): (f64, f64), (width, height): (f64, f64)) {
        let (x, y, width, height) = (at(x), at(y), at(width.max(0.0)), at(height.max(0.0)));
        let _ = write!(
            self.body,
            "<rect class=\"{class}\" x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\"/>"
        );
    }

    /// A rectangle whose fill is so strong, from 0 to 1.
    pub(crate) fn shade(
        &mut self,
        class: &str,
        (x, y): (f64, f64),
        (width, height): (f64, f64),
        strength: f64,
    ) {
        let (x, y, width, height) = (at(x), at(y), at(width), at(height));
        let _ = write!(
            self.body,
            "<rect class=\"{class}\" x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" fill-opacity=\"{strength:.3}\"/>"
        );
    }

    pub(crate) fn line(&mut self, class: &str, (x1, y1): (f64, f64), (x2, y2): (f64, f64)) {
        let (x1, y1, x2, y2) = (at(x1), at(y1), at(x2), at(y2));
        let _ =
            write!(self.body, "<line class=\"{class}\" x1=\"{x1}\" y1=\"{y1}\" x2=\"{x2}\" y2=\"{y2}\"/>");
    }

    /// An interval from one point to another, level or upright, with caps; it can be seen on any ground.
    pub(crate) fn whisker(&mut self, (x1, y1): (f64, f64), (x2, y2): (f64, f64), cap: f64) {
        let (dx, dy) = if (y1 - y2).abs() > (x1 - x2).abs() { (cap, 0.0) } else { (0.0, cap) };
        let stroke = |(x1, y1), (x2, y2)| format!("M{} {}L{} {}", at(x1), at(y1), at(x2), at(y2));
        let path = [
            stroke((x1, y1), (x2, y2)),
            stroke((x1 - dx, y1 - dy), (x1 + dx, y1 + dy)),
            stroke((x2 - dx, y2 - dy), (x2 + dx, y2 + dy)),
        ];
        let path = path.concat();
        let _ =
            write!(self.body, "<path class=\"under\" d=\"{path}\"/><path class=\"whisker\" d=\"{path}\"/>");
    }

    pub(crate) fn circle(&mut self, class: &str, (x, y): (f64, f64), radius: f64) {
        let (x, y, radius) = (at(x), at(y), at(radius));
        let _ = write!(self.body, "<circle class=\"{class}\" cx=\"{x}\" cy=\"{y}\" r=\"{radius}\"/>");
    }

    /// A circle that has its text under the pointer itself, without a group around it: there are thousands.
    pub(crate) fn dot(&mut self, class: &str, (x, y): (f64, f64), radius: f64, title: &str) {
        let (x, y, radius) = (at(x), at(y), at(radius));
        let tip = if title.is_empty() { "" } else { " tip" };
        let _ = write!(self.body, "<circle class=\"{class}{tip}\" cx=\"{x}\" cy=\"{y}\" r=\"{radius}\"");
        if title.is_empty() {
            self.body += "/>\n";
        } else {
            let _ = writeln!(self.body, "><title>{}</title></circle>", escaped(title));
        }
    }

    /// A square on its corner: told from a circle without color.
    pub(crate) fn diamond(&mut self, class: &str, (x, y): (f64, f64), radius: f64) {
        self.polygon(class, &[(x, y - radius), (x + radius, y), (x, y + radius), (x - radius, y)]);
    }

    pub(crate) fn polygon(&mut self, class: &str, points: &[(f64, f64)]) {
        let _ = write!(self.body, "<polygon class=\"{class}\" points=\"{}\"/>", listed(points));
    }

    pub(crate) fn polyline(&mut self, class: &str, points: &[(f64, f64)]) {
        let _ = write!(self.body, "<polyline class=\"{class}\" points=\"{}\"/>", listed(points));
    }

    /// A text whose baseline is at `y`.
    pub(crate) fn text(&mut self, class: &str, (x, y): (f64, f64), anchor: Anchor, text: &str) {
        self.turned(class, (x, y), anchor, 0.0, text);
    }

    /// A text that is centered upon `y`.
    pub(crate) fn centered(&mut self, class: &str, (x, y): (f64, f64), anchor: Anchor, text: &str) {
        self.turned(class, (x, y + self.font * 0.36), anchor, 0.0, text);
    }

    /// A text turned about its point, in degrees clockwise.
    pub(crate) fn turned(
        &mut self,
        class: &str,
        (x, y): (f64, f64),
        anchor: Anchor,
        degrees: f64,
        text: &str,
    ) {
        let (x, y, anchor, text) = (at(x), at(y), anchor.name(), escaped(text));
        let turn =
            if degrees == 0.0 { String::new() } else { format!(" transform=\"rotate({degrees} {x} {y})\"") };
        let class = if class.is_empty() { String::new() } else { format!(" class=\"{class}\"") };
        let _ = write!(
            self.body,
            "<text{class} x=\"{x}\" y=\"{y}\" text-anchor=\"{anchor}\"{turn}>{text}</text>"
        );
    }

    /// The whole, named and described for those who do not see it; without a size it is shown at all widths.
    pub(crate) fn finish(self, size: Option<Size>, title: &str, summary: &str) -> String {
        let (class, growth) = match size {
            Some(Size::Wide) => ("wide", 1.1),
            Some(Size::Narrow) => ("narrow", 1.4),
            None => ("any", 1.1),
        };
        let (width, height, font) = (at(self.width), at(self.height), at(self.font));
        // A chart is not blown up beyond what it was drawn for by more than a little.
        let most = at(self.width * growth);
        format!(
            "<svg class=\"{class}\" role=\"img\" viewBox=\"0 0 {width} {height}\" font-size=\"{font}\" \
             style=\"max-width: {most}px\">\n<title>{}</title><desc>{}</desc>\n{}</svg>\n",
            escaped(title),
            escaped(summary),
            self.body
        )
    }
}

fn listed(points: &[(f64, f64)]) -> String {
    let points: Vec<String> = points.iter().map(|(x, y)| format!("{},{}", at(*x), at(*y))).collect();
    points.join(" ")
}

/// A coordinate to a tenth, as short as it can be written.
fn at(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_escaped_and_short() {
        let mut canvas = Canvas::new(10.0, 10.0, 12.0);
        canvas.group("point", Some("a < b"), |canvas| canvas.circle("dot", (1.04, 2.0), 3.25));
        canvas.turned("", (1.0, 2.0), Anchor::End, -45.0, "R&D");
        let svg = canvas.finish(Some(Size::Wide), "T", "D");
        assert!(
            svg.contains("<title>a &lt; b</title><circle class=\"dot\" cx=\"1\" cy=\"2\" r=\"3.2\"/>"),
            "{svg}"
        );
        assert!(svg.contains("text-anchor=\"end\" transform=\"rotate(-45 1 2)\">R&amp;D</text>"), "{svg}");
    }
}
