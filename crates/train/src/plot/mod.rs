//! Curves of one or several runs as one HTML page: a panel for each metric, values under the pointer, light and dark.
//!
//! The page needs no network and no program to draw it: panels are SVG, drawn by `plotters`, which is the most used
//! plotting crate and with its SVG backend alone brings hardly anything along. Without scripts only the values under
//! the pointer are missing.

mod curves;
mod panel;

use std::fmt::Write as _;

use crate::run::Line;
use curves::{Curves, Legend};

/// Colours of curves, apart for most eyes (after Okabe and Ito), in a light and a dark page.
const COLOURS: [(&str, &str); 8] = [
    ("#0072B2", "#56B4E9"),
    ("#D55E00", "#FF8C42"),
    ("#009E73", "#34D399"),
    ("#CC79A7", "#F0A6CA"),
    ("#8A6D00", "#F0E442"),
    ("#5B4FCF", "#A79BFF"),
    ("#A61C28", "#FF7A85"),
    ("#555555", "#BBBBBB"),
];

/// A run to draw.
#[derive(Debug, Clone)]
pub struct RunCurves {
    /// Its name in the legend.
    pub name: String,
    /// Its metrics.
    pub lines: Vec<Line>,
}

/// The page of these runs' curves.
///
/// ```
/// use gradus_train::plot::{RunCurves, page};
/// use gradus_train::run::Line;
///
/// let lines = (1..=50).map(|step| Line::now(step, "train", [("loss", 1.0 / step as f64)])).collect();
/// let html = page(&[RunCurves { name: "first".to_owned(), lines }]);
/// assert!(html.contains("<svg"));
/// ```
pub fn page(runs: &[RunCurves]) -> String {
    let Curves { legend, steps, panels } = curves::collect(runs);
    let names: Vec<&str> = runs.iter().map(|run| run.name.as_str()).collect();
    let mut body = String::new();
    legend_of(&mut body, &legend);
    if panels.is_empty() {
        body += "<p>There are no metrics yet.</p>\n";
    }
    body += "<main>\n";
    for panel in &panels {
        body += &panel::draw(panel, &legend, &steps);
    }
    body += "</main>\n";
    include_str!("page.html")
        .replace("{{title}}", &escaped(&names.join(", ")))
        .replace("{{style}}", include_str!("page.css"))
        .replace("{{colours}}", &colours())
        .replace("{{script}}", include_str!("page.js"))
        .replace("{{body}}", &body)
}

fn legend_of(body: &mut String, legend: &Legend) {
    *body += "<ul class=\"legend\">\n";
    for (index, (run, split)) in legend.iter().enumerate() {
        let (colour, run, split) = (index % COLOURS.len(), escaped(run), escaped(split));
        let _ = writeln!(
            body,
            "<li><i style=\"background: var(--curve-{colour})\"></i>{run} <b>{split}</b></li>"
        );
    }
    *body += "</ul>\n";
}

/// Drawn curves have their light colours as attributes; the style sheet replaces them by what suits the page.
fn colours() -> String {
    let (mut light, mut dark, mut rules) = (String::new(), String::new(), String::new());
    for (index, (day, night)) in COLOURS.iter().enumerate() {
        let _ = write!(light, "--curve-{index}: {day}; ");
        let _ = write!(dark, "--curve-{index}: {night}; ");
        for what in ["stroke", "fill"] {
            let _ = writeln!(rules, "svg [{what}=\"{day}\"] {{ {what}: var(--curve-{index}) }}");
        }
    }
    format!(":root {{ {light}}}\n@media (prefers-color-scheme: dark) {{ :root {{ {dark}}} }}\n{rules}")
}

/// Text as HTML.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
        .replace('{', "&#123;")
}

#[cfg(test)]
mod tests;
