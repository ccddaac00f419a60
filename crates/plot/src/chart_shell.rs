//! What every chart has around its drawing: title, caption, notes on missing values, legend; the drawing in two sizes.

use std::fmt::Write as _;

use crate::canvas::{Canvas, Size};
use crate::colors;
use crate::escape::escaped;

/// The outside of a chart.
#[derive(Debug, Default)]
pub(crate) struct ChartShell<'a> {
    /// The class of the chart.
    pub(crate) kind: &'static str,
    pub(crate) title: &'a str,
    pub(crate) caption: &'a str,
    /// Sentences that follow the caption: what is missing, what was found.
    pub(crate) notes: Vec<String>,
    pub(crate) legend: Vec<Key>,
    /// The wide drawing has its own labels and needs no legend.
    pub(crate) legend_on_phones_only: bool,
    /// The drawing in words, for those who do not see it.
    pub(crate) summary: String,
}

/// One entry of a legend.
#[derive(Debug, Clone)]
pub(crate) struct Key {
    pub(crate) mark: Mark,
    pub(crate) name: String,
}

/// How an entry of a legend is marked.
#[derive(Debug, Clone)]
pub(crate) enum Mark {
    /// A filled square in the color of this series.
    Box(usize),
    /// A piece of line as this series is drawn.
    Line(usize),
    Circle(usize),
    Diamond(usize),
    Letter(String),
}

/// The chart, or a sentence in its place when there is nothing to draw.
pub(crate) fn in_two_sizes(shell: &ChartShell, draw: Option<&dyn Fn(Size) -> Canvas>) -> String {
    let Some(draw) = draw else {
        return enclosed(shell, NOTHING);
    };
    let mut inside = legend(shell);
    for size in [Size::Wide, Size::Narrow] {
        inside += &draw(size).finish(Some(size), shell.title, &shell.summary);
    }
    enclosed(shell, &inside)
}

/// A chart with one drawing, which does for all widths because it has no text.
pub(crate) fn single(shell: &ChartShell, drawing: Option<Canvas>) -> String {
    match drawing {
        Some(canvas) => enclosed(shell, &(legend(shell) + &canvas.finish(None, shell.title, &shell.summary))),
        None => enclosed(shell, NOTHING),
    }
}

const NOTHING: &str = "<p class=\"empty\">There is nothing to draw.</p>\n";

/// A chart around any HTML.
pub(crate) fn enclosed(shell: &ChartShell, inside: &str) -> String {
    let mut caption = escaped(shell.caption);
    for note in &shell.notes {
        let _ = write!(caption, " <span class=\"note\">{}</span>", escaped(note));
    }
    format!(
        "<figure class=\"{}\">\n<figcaption><h3>{}</h3><p>{}</p></figcaption>\n{inside}</figure>\n",
        shell.kind,
        escaped(shell.title),
        caption.trim()
    )
}

fn legend(shell: &ChartShell) -> String {
    if shell.legend.is_empty() {
        return String::new();
    }
    let class = if shell.legend_on_phones_only { "legend narrow" } else { "legend" };
    let mut out = format!("<ul class=\"{class}\">\n");
    for Key { mark, name } in &shell.legend {
        let (series, shape) = match mark {
            Mark::Box(series) => {
                (*series, "<rect class=\"fill\" x=\"6\" width=\"12\" height=\"12\" rx=\"2\"/>")
            }
            Mark::Line(series) => (*series, "<line class=\"sample\" x1=\"0\" y1=\"6\" x2=\"24\" y2=\"6\"/>"),
            Mark::Circle(series) => (*series, "<circle class=\"fill\" cx=\"12\" cy=\"6\" r=\"5\"/>"),
            Mark::Diamond(series) => (*series, "<polygon class=\"fill\" points=\"12,0 18,6 12,12 6,6\"/>"),
            Mark::Letter(letter) => {
                let _ = writeln!(out, "<li><kbd>{}</kbd>{}</li>", escaped(letter), escaped(name));
                continue;
            }
        };
        let class = colors::class(series);
        let _ = writeln!(
            out,
            "<li><svg class=\"key {class}\" viewBox=\"0 0 24 12\" aria-hidden=\"true\">{shape}</svg>{}</li>",
            escaped(name)
        );
    }
    out + "</ul>\n"
}
