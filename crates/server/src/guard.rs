//! What happens to every request before and after its handler: an id, who may ask, how long it may take, what is counted
//! and logged. Texts of users are not logged.

use std::hash::{BuildHasher, RandomState};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;
use http_body_util::{BodyExt as _, Limited};
use tracing::Instrument;

use crate::app::App;
use crate::error::ApiError;
use crate::page;
use crate::telemetry::RequestSpan;

/// The id of a request, given by its sender or by the server, and returned with the answer.
pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// Longer ids are replaced.
const LONGEST_ID: usize = 128;
/// How much of a refused request's body is read, and for how long.
const DRAIN_BYTES: usize = 1 << 20;
const DRAIN_TIME: Duration = Duration::from_secs(1);

/// Paths that everybody may ask for, besides the page's files: they hold nothing of anyone.
const OPEN: [&str; 2] = ["/healthz", "/readyz"];

/// Wraps every handler.
pub(crate) async fn guard(State(app): State<Arc<App>>, mut request: Request, next: Next) -> Response {
    let started = Instant::now();
    let id = request_id(request.headers());
    let path = request.extensions().get::<MatchedPath>().map_or("unknown", MatchedPath::as_str).to_owned();
    let span = tracing::info_span!("request", id = %id.to_str().unwrap_or_default(), method = %request.method(), path);
    let traced = RequestSpan::begin(
        app.telemetry.as_ref(),
        request.method(),
        &path,
        request.headers(),
        id.to_str().unwrap_or_default(),
    );
    let handled = async {
        let admitted = admit(&app, &request);
        let admitted = admitted.and_then(|caller| full(&app, &request).map_or(Ok(caller), Err));
        match admitted {
            Err(error) => {
                drain(request.into_body()).await;
                error.into_response()
            }
            Ok(caller) => {
                request.extensions_mut().insert(caller);
                run(&app, request, next).await
            }
        }
    };
    let mut response = handled.instrument(span.clone()).await;
    let status = response.status();
    app.metrics.request(&path, status, started.elapsed());
    traced.end(status);
    span.in_scope(|| {
        tracing::info!(status = status.as_u16(), seconds = started.elapsed().as_secs_f64(), "answered");
    });
    let headers = response.headers_mut();
    headers.insert(REQUEST_ID, id);
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}

/// The response that the queue is full, to a request that would need a place in it.
fn full(app: &App, request: &Request) -> Option<ApiError> {
    let path = request.uri().path();
    let needs_place = request.method() == Method::POST && !path.starts_with("/v1/label/");
    if needs_place { app.queue.refusal() } else { None }
}

/// Reads what a refused request still sends, a little and not for long, so that its connection can be used again.
async fn drain(body: Body) {
    drop(tokio::time::timeout(DRAIN_TIME, Limited::new(body, DRAIN_BYTES).collect()).await);
}

/// Whose request it is, or why it is refused.
fn admit(app: &App, request: &Request) -> Result<crate::keys::Caller, ApiError> {
    app.hosts.check(request.uri(), request.headers())?;
    let path = request.uri().path();
    let open = OPEN.contains(&path) || (page::is_file(path) && request.method() == Method::GET);
    let has_ticket = || {
        let may_open = request.method() == Method::GET && path.starts_with(page::watch::PAGES);
        may_open && app.tickets.redeem(path, request.uri().query())
    };
    match app.keys.check(bearer(request.headers())) {
        Err(_) if open || has_ticket() => Ok(crate::keys::Caller { name: String::new(), manage: false }),
        other => other,
    }
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, key) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| key.trim())
}

/// The handler within its time. A handler that panics is a bug, and takes no other request with it.
async fn run(app: &App, request: Request, next: Next) -> Response {
    let handled = AssertUnwindSafe(next.run(request)).catch_unwind();
    match tokio::time::timeout(app.limits.timeout, handled).await {
        Ok(Ok(response)) => response,
        Ok(Err(_)) => {
            tracing::error!("a handler panicked");
            ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "the server failed: this is a bug of Gradus")
                .into_response()
        }
        Err(_) => {
            let seconds = app.limits.timeout.as_secs();
            let message = format!("the answer took longer than {seconds} s (--timeout)");
            ApiError::new(StatusCode::GATEWAY_TIMEOUT, message).into_response()
        }
    }
}

/// The sender's id, where it is one that can be written to a log.
fn request_id(headers: &HeaderMap) -> HeaderValue {
    let is_plain = |value: &&HeaderValue| {
        let bytes = value.as_bytes();
        (1..=LONGEST_ID).contains(&bytes.len()) && bytes.iter().all(u8::is_ascii_graphic)
    };
    let given = headers.get(REQUEST_ID).filter(is_plain).cloned();
    given.unwrap_or_else(|| HeaderValue::try_from(new_id("req")).expect("ids are plain"))
}

/// A new id: a kind and 128 random bits.
pub(crate) fn new_id(kind: &str) -> String {
    format!("{kind}-{:016x}{:016x}", random(), random())
}

/// Random bits, from what keeps hash tables from being attacked.
pub(crate) fn random() -> u64 {
    RandomState::new().hash_one(Instant::now())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_that_could_harm_a_log_are_replaced() {
        let asked = |id: &[u8]| {
            let mut headers = HeaderMap::new();
            headers.insert(REQUEST_ID, HeaderValue::from_bytes(id).unwrap());
            request_id(&headers)
        };
        assert_eq!(asked(b"abc-123"), "abc-123");
        for bad in [&b"a b"[..], b"", b"\xff\xfe", &[b'x'; 129]] {
            assert!(asked(bad).to_str().unwrap().starts_with("req-"));
        }
    }
}
