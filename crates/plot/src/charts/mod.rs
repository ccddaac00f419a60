//! The kinds of charts, one file each; [`Block`] is any of them.

mod axes;
pub mod bars;
pub mod cloud;
pub mod dumbbell;
pub mod heatmap;
pub mod histogram;
pub mod lines;
pub mod mistakes;
pub mod radar;
pub mod reliability;
pub mod scatter;
pub mod table;

pub use axes::Marker;

use crate::escape::escaped;

/// Something in a section of a page.
#[derive(Debug, Clone, PartialEq)]
pub enum Block {
    /// Plain text; an empty line begins a new paragraph.
    Text(String),
    /// Bars with intervals.
    Bars(bars::Bars),
    /// Lines with bands.
    Lines(lines::Lines),
    /// Counts in a matrix.
    Heatmap(heatmap::Heatmap),
    /// Scores against what came true.
    Reliability(reliability::Reliability),
    /// Distributions over each other.
    Histogram(histogram::Histogram),
    /// Series over axes in a circle.
    Radar(radar::Radar),
    /// Two values a row and the distance between them.
    Dumbbell(dumbbell::Dumbbell),
    /// Points, with a line fitted to them.
    Scatter(scatter::Scatter),
    /// Thousands of dots.
    Cloud(cloud::Cloud),
    /// Solutions that were judged wrongly, to read.
    Mistakes(mistakes::Mistakes),
    /// A table that can be sorted.
    Table(table::Table),
}

impl Block {
    /// The block as HTML, for a page with the style sheet and the script of [`crate::Page`].
    pub(crate) fn draw(&self) -> String {
        match self {
            Block::Text(text) => paragraphs(text),
            Block::Bars(chart) => bars::draw(chart),
            Block::Lines(chart) => lines::draw(chart),
            Block::Heatmap(chart) => heatmap::draw(chart),
            Block::Reliability(chart) => reliability::draw(chart),
            Block::Histogram(chart) => histogram::draw(chart),
            Block::Radar(chart) => radar::draw(chart),
            Block::Dumbbell(chart) => dumbbell::draw(chart),
            Block::Scatter(chart) => scatter::draw(chart),
            Block::Cloud(chart) => cloud::draw(chart),
            Block::Mistakes(chart) => mistakes::draw(chart),
            Block::Table(chart) => table::draw(chart),
        }
    }
}

/// Plain text as paragraphs.
pub(crate) fn paragraphs(text: &str) -> String {
    text.split("\n\n")
        .map(str::trim)
        .filter(|paragraph| !paragraph.is_empty())
        .map(|paragraph| format!("<p class=\"text\">{}</p>\n", escaped(paragraph)))
        .collect()
}

#[cfg(test)]
mod tests;
