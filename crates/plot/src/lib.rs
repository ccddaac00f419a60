//! Reports of benchmarks as one HTML page that needs no network: charts, tables and a browser of mistakes.
//!
//! A chart is a plain struct, and its module's `draw` gives it as an HTML `<figure>`. [`Page`] puts charts into
//! sections and brings the style sheet and the script that they share; without scripts only sorting, filtering and the
//! quick values under the pointer are missing (browsers show the same values slowly, from the titles of the marks).
//!
//! - [`Page`], [`Section`], [`Block`]: the report
//! - [`bars`], [`lines`], [`heatmap`], [`reliability`], [`histogram`], [`radar`], [`dumbbell`], [`scatter`],
//!   [`cloud`]: charts
//! - [`mistakes`], [`table`]: text
//! - [`prose()`]: text with its mathematics as MathML; [`escaped`]: text without
//! - [`Estimate`], [`Unit`]: numbers with intervals, and how they are written
//!
//! What is missing (`None`, NaN, infinite) is a gap in the chart and is counted under it; nothing is dropped in silence.
//!
//! ```
//! use gradus_plot::bars::{BarSeries, Bars};
//! use gradus_plot::{Block, Estimate, Page, Section, Unit};
//!
//! let f1 = Bars {
//!     title: "F1 by subset".to_owned(),
//!     caption: "Higher is better; whiskers are 95 % intervals.".to_owned(),
//!     unit: Unit::Score,
//!     categories: vec!["GSM8K".to_owned(), "MATH".to_owned()],
//!     series: vec![BarSeries {
//!         name: "ours".to_owned(),
//!         values: vec![Some(Estimate::between(71.3, 69.8, 72.9)), None],
//!     }],
//!     ..Bars::default()
//! };
//! let section = Section { heading: "Results".to_owned(), intro: String::new(), blocks: vec![Block::Bars(f1)] };
//! let page = Page { title: "ProcessBench".to_owned(), sections: vec![section], ..Page::default() };
//! assert!(page.html().contains("1 value is missing"));
//! ```

mod canvas;
mod chart_shell;
mod charts;
mod colors;
mod escape;
mod frame;
mod label;
mod number;
mod page;
mod prose;
mod scale;

pub use charts::{
    Block, Marker, bars, cloud, dumbbell, heatmap, histogram, lines, mistakes, radar, reliability, scatter,
    table,
};
pub use escape::escaped;
pub use number::{Estimate, Unit};
pub use page::{Page, Section, THEME_STYLE};
pub use prose::{MATH_STYLE, prose, prose_excerpt};
pub use scale::Spacing;
