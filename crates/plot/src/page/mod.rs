//! The report: one HTML page with its style sheet, its script and its data inside.
//!
//! A content security policy forbids the page to load anything at all, so it is the same page offline, in an archive
//! and in ten years. Template: `page.html`; look: `theme.css`, `page.css`; values under the pointer, sorting, filters: `page.js`.

use std::fmt::Write as _;

use crate::charts::{Block, paragraphs};
use crate::colors;
use crate::escape::{escaped, in_script};
use crate::prose::MATH_STYLE;

/// Colors, fonts and controls of [`Page`], light and dark, for pages that look like it.
pub const THEME_STYLE: &str = include_str!("theme.css");

/// A report.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Page {
    /// The heading.
    pub title: String,
    /// A line below it: what was run, when, with what.
    pub subtitle: String,
    /// The parts.
    pub sections: Vec<Section>,
    /// JSON that stands behind the page: it is kept inside (`script#data`), and a button saves it.
    pub data_json: Option<String>,
}

/// A part of a report, with an entry in the table of contents.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Section {
    /// Its heading.
    pub heading: String,
    /// Plain text before the charts; an empty line begins a new paragraph.
    pub intro: String,
    /// Charts and text.
    pub blocks: Vec<Block>,
}

impl Page {
    /// The whole page.
    pub fn html(&self) -> String {
        let mut contents = String::new();
        let mut body = String::new();
        for (index, section) in self.sections.iter().enumerate() {
            let heading = escaped(&section.heading);
            let _ = writeln!(contents, "<li><a href=\"#section-{index}\">{heading}</a></li>");
            let _ = writeln!(body, "<section id=\"section-{index}\">\n<h2>{heading}</h2>");
            body += &paragraphs(&section.intro);
            body.extend(section.blocks.iter().map(Block::draw));
            body += "</section>\n";
        }
        if self.sections.is_empty() {
            body += "<p>There is nothing in this report.</p>\n";
        }
        let contents = if self.sections.len() > 1 {
            format!("<nav aria-label=\"Contents\">\n<ol>\n{contents}</ol>\n</nav>\n")
        } else {
            String::new()
        };
        let data = self.data_json.as_ref().map_or(String::new(), |json| {
            let button = "<p><button type=\"button\" id=\"save\" hidden>Save the data as JSON</button></p>";
            format!("{button}\n<script type=\"application/json\" id=\"data\">{}</script>\n", in_script(json))
        });
        let subtitle = match self.subtitle.as_str() {
            "" => String::new(),
            text => format!("<p class=\"subtitle\">{}</p>\n", escaped(text)),
        };
        let (title, colors) = (escaped(&self.title), colors::style());
        // One pass over the template, so that nothing in the texts is taken for a place in it.
        let mut html = String::new();
        let mut rest = include_str!("page.html");
        while let Some((before, after)) = rest.split_once("{{") {
            let (name, after) = after.split_once("}}").expect("the template closes what it opens");
            html += before;
            html += match name {
                "title" => &title,
                "theme" => THEME_STYLE,
                "style" => include_str!("page.css"),
                "math" => MATH_STYLE,
                "colors" => &colors,
                "script" => include_str!("page.js"),
                "subtitle" => &subtitle,
                "contents" => &contents,
                "body" => &body,
                "data" => &data,
                other => unreachable!("the template has no place {other}"),
            };
            rest = after;
        }
        html + rest
    }
}
