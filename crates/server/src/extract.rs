//! What handlers need of a request: a place in the queue, and a body that is JSON within limits.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::request::Parts;
use axum::http::{StatusCode, header};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::body::Body as _;
use serde::de::DeserializeOwned;

use crate::app::App;
use crate::error::ApiError;
use crate::limits::QueuePlace;

/// A place in the queue, taken before the body is read: past the queue a body is read only to be thrown away.
pub(crate) struct Place(#[expect(dead_code, reason = "it is held, not read")] QueuePlace);

impl FromRequestParts<Arc<App>> for Place {
    type Rejection = ApiError;

    async fn from_request_parts(_parts: &mut Parts, app: &Arc<App>) -> Result<Self, ApiError> {
        if !app.is_ready() {
            return Err(ApiError { retry_after: Some(5), ..stopping() });
        }
        app.queue.enter().map(Self)
    }
}

fn stopping() -> ApiError {
    ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "the server is stopping")
}

/// A body in JSON of at most so many bytes, and never more than `--max-body-bytes`.
pub(crate) struct JsonBody<T, const MOST: usize = { usize::MAX }>(pub(crate) T);

/// A short body in JSON, of a path that takes no place in the queue.
pub(crate) type ShortJsonBody<T> = JsonBody<T, { 1 << 20 }>;

impl<T: DeserializeOwned, const MOST: usize> FromRequest<Arc<App>> for JsonBody<T, MOST> {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Self, ApiError> {
        let kind = request.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        if !kind.is_some_and(is_json) {
            let message = "the body must be JSON: send `Content-Type: application/json`";
            return Err(ApiError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, message));
        }
        let bytes = read_up_to(MOST, request.into_body(), app).await?;
        parse(&bytes).map(Self)
    }
}

fn is_json(kind: &str) -> bool {
    let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    kind == "application/json" || (kind.starts_with("application/") && kind.ends_with("+json"))
}

/// The whole body, within the limits on its size and time.
pub(crate) async fn read(body: Body, app: &App) -> Result<Vec<u8>, ApiError> {
    read_up_to(usize::MAX, body, app).await
}

async fn read_up_to(most: usize, body: Body, app: &App) -> Result<Vec<u8>, ApiError> {
    let (most, whose) = match app.limits.body_bytes {
        limit if limit <= most => (limit, "--max-body-bytes"),
        _ => (most, "the limit of this path"),
    };
    let too_large = || {
        let message = format!("the body has more than {most} bytes ({whose})");
        ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, message)
    };
    // What is announced need not be waited for.
    if body.size_hint().lower() > most as u64 {
        return Err(too_large());
    }
    let whole = Limited::new(body, most).collect();
    match tokio::time::timeout(app.limits.read_timeout, whole).await {
        Err(_) => Err(ApiError::new(
            StatusCode::REQUEST_TIMEOUT,
            format!("the body took longer than {} s (--read-timeout)", app.limits.read_timeout.as_secs()),
        )),
        Ok(Err(error)) if error.downcast_ref::<LengthLimitError>().is_some() => Err(too_large()),
        Ok(Err(error)) => Err(ApiError::invalid(format!("the body could not be read: {error}"))),
        Ok(Ok(whole)) => Ok(whole.to_bytes().into()),
    }
}

/// Work that takes long, beside the threads that answer.
pub(crate) async fn beside<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, ApiError> {
    let failed =
        |_| ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "the server failed: this is a bug of Gradus");
    tokio::task::spawn_blocking(work).await.map_err(failed)
}

/// JSON, with the place of what is wrong with it.
pub(crate) fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, ApiError> {
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let parsed = serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let path = error.path().to_string();
        let place = if path == "." { String::new() } else { format!("{path}: ") };
        ApiError::invalid(format!("the body is not what is expected here: {place}{}", error.into_inner()))
    })?;
    json.end().map_err(|error| ApiError::invalid(format!("the body is not one JSON value: {error}")))?;
    Ok(parsed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, serde::Deserialize)]
    struct Steps {
        #[allow(dead_code)]
        steps: Vec<String>,
    }

    #[test]
    fn what_is_wrong_is_named() {
        let words = |text: &[u8]| parse::<Steps>(text).unwrap_err().message;
        assert!(words(b"{\"steps\": [\"a\", 3]}").contains("steps[1]: invalid type: integer `3`"));
        assert!(words(b"{\"steps\": []} x").contains("not one JSON value"));
        assert!(words(b"{\"steps\": [\"\xff\"]}").contains("invalid unicode"));
        let deep = [b"[".repeat(100_000), b"]".repeat(100_000)].concat();
        assert!(words(&deep).contains("recursion limit") || words(&deep).contains("invalid type"));
    }

    #[test]
    fn kinds_of_json() {
        assert!(is_json("application/json; charset=utf-8") && is_json("application/problem+json"));
        assert!(!is_json("text/plain") && !is_json("application/x-www-form-urlencoded"));
    }
}
