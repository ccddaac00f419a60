//! The page: Look, Label and Watch. HTML is made here and in crates `view` and `label`, with everything from data escaped;
//! scripts only ask and show. A content security policy lets the browser load nothing from elsewhere.

pub(crate) mod label;
pub(crate) mod look;
pub(crate) mod watch;

use std::sync::Arc;

use axum::Router;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use crate::app::App;

/// What the page may load and where it may send: this server.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// Files of the page, by their path: type and text.
fn files() -> Vec<(&'static str, &'static str, String)> {
    let (html, script, style) =
        ("text/html; charset=utf-8", "text/javascript; charset=utf-8", "text/css; charset=utf-8");
    let look = gradus_view::shell::assets().map(|asset| (asset.path, asset.content_type, asset.body));
    let mut files: Vec<_> = look.into_iter().collect();
    files.extend([
        ("/label", html, gradus_label::page::HTML.to_owned()),
        ("/label.js", script, gradus_label::page::SCRIPT.to_owned()),
        ("/label.css", style, gradus_label::page::STYLE.to_owned()),
        ("/watch", html, watch::shell()),
        ("/page/watch.js", script, include_str!("../../page/watch.js").to_owned()),
    ]);
    files
}

/// Whether a path is a file of the page, which holds nothing of anyone.
pub(crate) fn is_file(path: &str) -> bool {
    matches!(path, "/" | "/label" | "/watch" | "/label.js" | "/label.css")
        || (path.starts_with("/page/") && (path.ends_with(".js") || path.ends_with(".css")))
}

/// The files' routes.
pub(crate) fn routes() -> Router<Arc<App>> {
    files().into_iter().fold(Router::new(), |router, (path, kind, text)| {
        let text: Arc<str> = text.into();
        router.route(path, get(async move || served(kind, &text)))
    })
}

fn served(kind: &'static str, text: &str) -> Response {
    let mut response = ([(header::CONTENT_TYPE, kind)], text.to_owned()).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    response
}

/// A fragment that a script puts into the page.
pub(crate) struct Fragment(pub(crate) String);

impl IntoResponse for Fragment {
    fn into_response(self) -> Response {
        served("text/html; charset=utf-8", &self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_is_open_and_nothing_is_inline() {
        for (path, kind, text) in files() {
            assert!(is_file(path), "{path}");
            if kind.starts_with("text/html") {
                let inline = text.matches("<script").count() - text.matches("<script src=\"/").count();
                assert_eq!((inline, text.matches("<style").count()), (0, 0), "{path}");
                assert!(!text.contains("http://") && !text.contains("https://"), "{path}");
            }
        }
        assert!(!is_file("/page/score") && !is_file("/page/file") && !is_file("/v1/models.js"));
    }
}
