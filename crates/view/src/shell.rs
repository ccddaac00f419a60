//! The served page's frame: files that the server sends as they are. What they show comes as fragments.
//!
//! Its paths: `GET /v1/models` (those whose `kind` is `reward` can be chosen), `POST /page/score` and
//! `POST /page/file?name=FILE[&models=A,B]` answer with a fragment, or with `{"error": {"message": …}}`.

use gradus_plot::{MATH_STYLE, THEME_STYLE};

/// The tabs of the navigation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tab {
    /// Paste or open, and look at steps.
    Look,
    /// Label steps.
    Label,
    /// Watch jobs and runs.
    Watch,
}

impl Tab {
    const ALL: [(Self, &'static str, &'static str); 3] =
        [(Self::Look, "/", "Look"), (Self::Label, "/label", "Label"), (Self::Watch, "/watch", "Watch")];
}

/// A file of the page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asset {
    /// Where it is served.
    pub path: &'static str,
    /// Its media type.
    pub content_type: &'static str,
    /// The file.
    pub body: String,
}

/// The script of records: keyboard and filter.
pub(crate) const RECORDS_SCRIPT: &str = include_str!("../page/records.js");
/// The dialog that lists the keys.
pub(crate) const HELP: &str = include_str!("../page/help.html");

/// The style sheet of fragments and of the frame.
pub fn style() -> String {
    format!("{THEME_STYLE}\n{MATH_STYLE}\n{}", include_str!("../page/page.css"))
}

/// The navigation, with the tab that is open.
///
/// ```
/// use gradus_view::shell::{Tab, navigation};
/// assert!(navigation(Tab::Label).contains("<a href=\"/label\" aria-current=\"page\">Label</a>"));
/// ```
pub fn navigation(open: Tab) -> String {
    let links: String = Tab::ALL
        .iter()
        .map(|(tab, path, name)| {
            let current = if *tab == open { " aria-current=\"page\"" } else { "" };
            format!("<a href=\"{path}\"{current}>{name}</a>\n")
        })
        .collect();
    format!("<nav class=\"tabs\" aria-label=\"Gradus\">\n<b class=\"brand\">Gradus</b>\n{links}</nav>\n")
}

/// The page Look and the files that it loads.
pub fn assets() -> [Asset; 4] {
    let look = filled(include_str!("../page/look.html"), |name| match name {
        "navigation" => navigation(Tab::Look),
        "help" => HELP.to_owned(),
        other => unreachable!("the template has no place {other}"),
    });
    let script = "text/javascript; charset=utf-8";
    [
        Asset { path: "/", content_type: "text/html; charset=utf-8", body: look },
        Asset { path: "/page/page.css", content_type: "text/css; charset=utf-8", body: style() },
        Asset { path: "/page/records.js", content_type: script, body: RECORDS_SCRIPT.to_owned() },
        Asset {
            path: "/page/look.js",
            content_type: script,
            body: include_str!("../page/look.js").to_owned(),
        },
    ]
}

/// A template with its places filled, in one pass: nothing in the texts is taken for a place.
pub(crate) fn filled(template: &str, place: impl Fn(&str) -> String) -> String {
    let mut out = String::new();
    let mut rest = template;
    while let Some((before, after)) = rest.split_once("{{") {
        let (name, after) = after.split_once("}}").expect("the template closes what it opens");
        out += before;
        out += &place(name);
        rest = after;
    }
    out + rest
}
