//! Failures as responses: a status and `{"error": {"message", "type", "code"}}`, as OpenAI and vLLM answer.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use gradus_core::contracts::CallError;
use serde::Serialize;
use utoipa::ToSchema;

/// Why a request has no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ApiError {
    pub(crate) status: StatusCode,
    pub(crate) message: String,
    /// Seconds after which to try again.
    pub(crate) retry_after: Option<u64>,
}

/// The body of every response that is no success.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ErrorBody {
    error: ErrorDetail,
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ErrorDetail {
    /// What is wrong, where, and what to do about it.
    message: String,
    /// `invalid_request_error`, `authentication_error`, `rate_limit_error` or `server_error`.
    r#type: &'static str,
    /// The status once more.
    code: u16,
}

impl ApiError {
    pub(crate) fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self { status, message: message.into(), retry_after: None }
    }

    /// The request itself is at fault.
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message)
    }

    /// The server is at its limit, and will not be in so many seconds.
    pub(crate) fn busy(message: impl Into<String>, seconds: u64) -> Self {
        Self { retry_after: Some(seconds.max(1)), ..Self::new(StatusCode::TOO_MANY_REQUESTS, message) }
    }

    fn kind(&self) -> &'static str {
        match self.status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => "authentication_error",
            StatusCode::TOO_MANY_REQUESTS => "rate_limit_error",
            status if status.is_client_error() => "invalid_request_error",
            _ => "server_error",
        }
    }
}

impl From<CallError> for ApiError {
    fn from(error: CallError) -> Self {
        let status = match error {
            CallError::Invalid(_) => StatusCode::BAD_REQUEST,
            CallError::Refused(_) | CallError::Failed(_) => StatusCode::BAD_GATEWAY,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Self::new(status, error.to_string())
    }
}

impl From<gradus_engine::Error> for ApiError {
    fn from(error: gradus_engine::Error) -> Self {
        Self::from(CallError::from(error))
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let kind = self.kind();
        let detail = ErrorDetail { message: self.message, r#type: kind, code: self.status.as_u16() };
        let mut response = (self.status, Json(ErrorBody { error: detail })).into_response();
        if let Some(seconds) = self.retry_after {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if self.status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}
