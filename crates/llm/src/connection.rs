//! One endpoint's connections: an attempt is one request and its answer's bytes, or why there is none.
//!
//! Redirects are not followed: the key would travel with them. What a server says goes on from here without the key.

use std::borrow::Cow;
use std::time::Duration;

use gradus_core::contracts::CallError;
use gradus_core::limits::Limit;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue, LOCATION, RETRY_AFTER};
use reqwest::{Client, StatusCode, redirect, retry};
use serde_json::Value;

use crate::counters::SharedCounters;
use crate::rate_limiter::RateLimiter;
use crate::secrets::Secret;
use crate::server_error::{cause, error_body, refusal, server_message, wait};
use crate::{Endpoint, Error, Result, tls};

pub(crate) struct Connection {
    pub(crate) endpoint: Endpoint,
    /// Where `/v1` paths are, and where the others are; neither ends in a slash.
    pub(crate) api: String,
    root: String,
    pub(crate) key: Option<Secret>,
    client: Client,
    pub(crate) rate_limiter: RateLimiter,
    pub(crate) counters: SharedCounters,
}

/// Why an attempt failed.
pub(crate) enum AttemptError {
    /// Another attempt may succeed; the server may have said when.
    Retryable {
        why: String,
        after: Option<Duration>,
        /// Whether the endpoint itself failed, rather than refused one request too many.
        endpoint_failed: bool,
    },
    /// Another attempt will not succeed.
    Final(CallError),
}

impl Connection {
    pub(crate) fn open(endpoint: &Endpoint) -> Result<Self> {
        endpoint.check()?;
        let address = endpoint.address()?;
        let key = endpoint.key.as_ref().map(crate::Key::read).transpose()?;
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(key) = &key {
            let sendable = !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_graphic());
            let bearer = HeaderValue::from_str(&format!("Bearer {key}"));
            let mut bearer = bearer.ok().filter(|_| sendable).ok_or(Error::KeyText)?;
            bearer.set_sensitive(true);
            headers.insert(AUTHORIZATION, bearer);
        }
        let mut client = Client::builder()
            .tls_backend_preconfigured(tls::config(address.scheme() == "https")?)
            .user_agent(gradus_http::USER_AGENT)
            .default_headers(headers)
            .timeout(endpoint.timeout())
            .pool_max_idle_per_host(endpoint.concurrency)
            .redirect(redirect::Policy::none())
            .retry(retry::never());
        if gradus_http::is_loopback(&address) {
            client = client.no_proxy();
        }
        let client = client.build().map_err(|error| Error::Client(cause(&error)))?;
        let api = address.as_str().trim_end_matches('/').to_owned();
        let root = api.strip_suffix("/v1").unwrap_or(&api).to_owned();
        let rate_limiter = RateLimiter::new(endpoint);
        Ok(Self {
            endpoint: endpoint.clone(),
            api,
            root,
            key: key.as_deref().map(Secret::new),
            client,
            rate_limiter,
            counters: SharedCounters::default(),
        })
    }

    /// Paths under `/v1/` are behind the endpoint's address, others behind it without its `/v1`.
    pub(crate) fn url(&self, path: &str) -> String {
        match path.strip_prefix("/v1/") {
            Some(rest) => format!("{}/{rest}", self.api),
            None => format!("{}{path}", self.root),
        }
    }

    /// A body that was written for the model `from`, as this endpoint wants it: with its name of the model, and without
    /// a seed where it takes none.
    pub(crate) fn adapted<'a>(&self, body: &'a [u8], from: &str) -> Cow<'a, [u8]> {
        let Endpoint { model: to, request_seed, .. } = &self.endpoint;
        if from == to && *request_seed {
            return Cow::Borrowed(body);
        }
        let Ok(Value::Object(mut fields)) = serde_json::from_slice::<Value>(body) else {
            return Cow::Borrowed(body);
        };
        if !request_seed {
            fields.shift_remove("seed");
        }
        match fields.get("model").map(Value::as_str) {
            Some(Some(model)) if model == from && to.is_empty() => drop(fields.shift_remove("model")),
            Some(Some(model)) if model == from => drop(fields.insert("model".into(), to.as_str().into())),
            None if from.is_empty() && !to.is_empty() => {
                fields.shift_insert(0, "model".into(), to.as_str().into());
            }
            _ => {}
        }
        Cow::Owned(Value::Object(fields).to_string().into_bytes())
    }

    /// What a server says of a failure, without the key.
    fn without_key(&self, text: &[u8]) -> Vec<u8> {
        self.key.as_ref().map_or_else(|| text.to_owned(), |key| key.hide_in_error(text))
    }

    pub(crate) async fn attempt(
        &self,
        url: &str,
        body: Vec<u8>,
    ) -> std::result::Result<Vec<u8>, AttemptError> {
        let broken = |error: reqwest::Error| AttemptError::Retryable {
            why: if error.is_timeout() {
                format!("gave no answer within {} s", self.endpoint.timeout_seconds)
            } else if error.is_connect() {
                format!("cannot be reached: {}", cause(&error))
            } else {
                format!("broke the connection: {}", cause(&error))
            },
            after: None,
            endpoint_failed: true,
        };
        let mut response = self.client.post(url).body(body).send().await.map_err(broken)?;
        let status = response.status();
        if status.is_success() {
            let mut bytes = Vec::new();
            while let Some(chunk) = response.chunk().await.map_err(broken)? {
                if (bytes.len() + chunk.len()) as u64 > Limit::AnswerBytes.value() {
                    let message = format!("{url} answered {}", Limit::AnswerBytes.exceeded());
                    return Err(AttemptError::Final(CallError::Failed(message)));
                }
                bytes.extend_from_slice(&chunk);
            }
            return Ok(match &self.key {
                Some(key) => key.hide_in_answer(bytes),
                None => bytes,
            });
        }
        if status.is_redirection() {
            let target = response.headers().get(LOCATION).and_then(|value| value.to_str().ok());
            let target = self.without_key(target.unwrap_or("another address").as_bytes());
            let target = String::from_utf8_lossy(&target);
            let message = format!("{url} redirects to {target}; put the right address into `base_url`");
            return Err(AttemptError::Final(CallError::Refused(message)));
        }
        let after = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()).and_then(wait);
        let words = server_message(&self.without_key(&error_body(&mut response).await));
        let why = format!("answered {status}{}{words}", if words.is_empty() { "" } else { ": " });
        let retryable = matches!(status, StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS);
        Err(if retryable || status.is_server_error() {
            AttemptError::Retryable { why, after, endpoint_failed: !retryable }
        } else {
            AttemptError::Final(refusal(status, &words, format!("{url} {why}")))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn https_clients_open_without_a_process_wide_provider() {
        Connection::open(&Endpoint::new("https://api.example.com/v1", "m")).unwrap();
    }

    #[test]
    fn a_seed_is_sent_only_where_it_is_taken() {
        let endpoint = Endpoint { request_seed: false, ..Endpoint::new("http://127.0.0.1:1", "m") };
        let connection = Connection::open(&endpoint).unwrap();
        let sent = connection.adapted(br#"{"model": "m", "seed": 7, "n": 2}"#, "m").into_owned();
        assert_eq!(String::from_utf8(sent).unwrap(), r#"{"model":"m","n":2}"#);
    }

    #[test]
    fn the_model_is_named_as_each_endpoint_names_it() {
        let named = |body: &str, from: &str, to: &str| {
            let connection = Connection::open(&Endpoint::new("http://127.0.0.1:1", to)).unwrap();
            String::from_utf8(connection.adapted(body.as_bytes(), from).into_owned()).unwrap()
        };
        assert_eq!(named(r#"{"model": "a", "t": 0.7}"#, "a", "a"), r#"{"model": "a", "t": 0.7}"#);
        assert_eq!(named(r#"{"model": "a", "t": 0.7}"#, "a", "b"), r#"{"model":"b","t":0.7}"#);
        assert_eq!(named(r#"{"model": "a", "t": 0.7}"#, "a", ""), r#"{"t":0.7}"#);
        assert_eq!(named(r#"{"t": 0.7}"#, "", "b"), r#"{"model":"b","t":0.7}"#);
        assert_eq!(named(r#"{"t": 0.7}"#, "a", "b"), r#"{"t":0.7}"#);
    }
}
