//! One endpoint's connections: JSON in, JSON out.
//!
//! - Status 408, 429 and 5xx, time-outs and broken connections are tried again after a random wait of up to
//!   `backoff × 2^attempt` ("full jitter", so that many clients do not come back together), on top of what
//!   `Retry-After` asks for.
//! - Other statuses from 300 on are `CallError::Invalid` with the server's own words.
//! - A body that is not the expected JSON is `CallError::Failed` with the field's path; it is not asked for again.
//!
//! A request keeps its place among those in flight while it waits, so a server that is overloaded gets fewer.
//! Redirects are not followed: the key would travel with them.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use gradus_core::contracts::{CallError, Usage};
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue, LOCATION, RETRY_AFTER};
use reqwest::{Client, Response, StatusCode, Url, redirect, retry};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::Semaphore;

use crate::{Endpoint, Error, Result, tls};

/// Answers beyond this are refused instead of filling the memory.
const LONGEST_BODY: usize = 256 << 20;
/// How much is read of the body that comes with an error.
const LONGEST_ERROR: usize = 64 << 10;

/// What was spent on an endpoint so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Counters {
    /// Requests sent, repeated ones included.
    pub requests: u64,
    /// Requests that repeated another.
    pub retries: u64,
    /// Calls that ended without an answer.
    pub failures: u64,
    /// Tokens of prompts, as servers state them.
    pub prompt_tokens: u64,
    /// Tokens of samples, as servers state them.
    pub completion_tokens: u64,
    /// Time in which requests were in flight, added up over requests; waits between attempts do not count.
    pub seconds: f64,
}

#[derive(Default)]
struct Tally {
    requests: AtomicU64,
    retries: AtomicU64,
    failures: AtomicU64,
    prompt_tokens: AtomicU64,
    completion_tokens: AtomicU64,
    nanoseconds: AtomicU64,
}

struct Inner {
    endpoint: Endpoint,
    /// Where `/v1` paths are, and where the others are; neither ends in a slash.
    api: String,
    root: String,
    key: Option<String>,
    client: Client,
    permits: Semaphore,
    tally: Tally,
}

/// An open endpoint. Clones share connections, the limit on requests in flight, and counters.
#[derive(Clone)]
pub struct Http(Arc<Inner>);

impl fmt::Debug for Http {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Http")
            .field("endpoint", &self.0.endpoint)
            .field("counters", &self.counters())
            .finish_non_exhaustive()
    }
}

/// Why an attempt brought nothing.
enum Trouble {
    /// Another one may; the server may have said when.
    Passing { why: String, after: Option<Duration> },
    /// Another one will not.
    Final(CallError),
}

impl Http {
    /// Reads the key and prepares connections; nothing is sent yet.
    ///
    /// ```
    /// use gradus_llm::{Endpoint, Http, Key};
    /// let endpoint = Endpoint { key: Some(Key::Env("NO_SUCH_KEY".into())), ..Endpoint::new("http://127.0.0.1:1", "m") };
    /// assert!(Http::open(&endpoint).unwrap_err().to_string().contains("NO_SUCH_KEY is not set"));
    /// ```
    pub fn open(endpoint: &Endpoint) -> Result<Self> {
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
            .user_agent(concat!("gradus/", env!("CARGO_PKG_VERSION")))
            .default_headers(headers)
            .timeout(endpoint.timeout())
            .pool_max_idle_per_host(endpoint.concurrency)
            .redirect(redirect::Policy::none())
            .retry(retry::never());
        if is_loopback(&address) {
            client = client.no_proxy();
        }
        let client = client.build().map_err(|error| Error::Client(cause(&error)))?;
        let api = address.as_str().trim_end_matches('/').to_owned();
        let root = api.strip_suffix("/v1").unwrap_or(&api).to_owned();
        let permits = Semaphore::new(endpoint.concurrency);
        let endpoint = endpoint.clone();
        Ok(Self(Arc::new(Inner { endpoint, api, root, key, client, permits, tally: Tally::default() })))
    }

    /// What was opened.
    pub fn endpoint(&self) -> &Endpoint {
        &self.0.endpoint
    }

    /// What was spent so far, by all clones together.
    pub fn counters(&self) -> Counters {
        let tally = &self.0.tally;
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counters {
            requests: read(&tally.requests),
            retries: read(&tally.retries),
            failures: read(&tally.failures),
            prompt_tokens: read(&tally.prompt_tokens),
            completion_tokens: read(&tally.completion_tokens),
            seconds: read(&tally.nanoseconds) as f64 / 1e9,
        }
    }

    /// Sends `body` to `path` and returns the answer with its `usage`, zeros where it has none. Paths under `/v1/` are put behind the endpoint's address, others
    /// behind it without its `/v1`. Fields of the answer that `R` does not name are ignored.
    pub async fn post<B, R>(&self, path: &str, body: &B) -> std::result::Result<(R, Usage), CallError>
    where
        B: Serialize + Sync + ?Sized,
        R: DeserializeOwned,
    {
        let url = match path.strip_prefix("/v1/") {
            Some(rest) => format!("{}/{rest}", self.0.api),
            None => format!("{}{path}", self.0.root),
        };
        let answer = match serde_json::to_vec(body) {
            Ok(body) => self.exchange(&url, &body).await.and_then(|bytes| self.read(&url, &bytes)),
            Err(error) => Err(CallError::Invalid(format!("the request cannot be written as JSON: {error}"))),
        };
        answer.map_err(|error| {
            count(&self.0.tally.failures, 1);
            match error {
                CallError::Invalid(message) => CallError::Invalid(self.redact(&message)),
                CallError::Failed(message) => CallError::Failed(self.redact(&message)),
                other => other,
            }
        })
    }

    /// The body of the first attempt that works.
    async fn exchange(&self, url: &str, body: &[u8]) -> std::result::Result<Vec<u8>, CallError> {
        let Inner { endpoint, permits, tally, .. } = &*self.0;
        let _permit = permits.acquire().await.map_err(|error| CallError::Failed(error.to_string()))?;
        let mut attempt = 0;
        loop {
            count(&tally.requests, 1);
            let started = Instant::now();
            let outcome = self.attempt(url, body).await;
            count(&tally.nanoseconds, u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX));
            let (why, after) = match outcome {
                Ok(bytes) => return Ok(bytes),
                Err(Trouble::Final(error)) => return Err(error),
                Err(Trouble::Passing { why, after }) => (why, after.unwrap_or_default()),
            };
            if attempt == endpoint.retries {
                let tries = if attempt == 0 { String::new() } else { format!(" ({} attempts)", attempt + 1) };
                return Err(CallError::Failed(format!("{url} {why}{tries}")));
            }
            let longest = endpoint.longest_wait_seconds;
            if after.as_secs_f64() > longest {
                let wait =
                    format!("it asks to wait {} s, `longest_wait_seconds` is {longest}", after.as_secs());
                return Err(CallError::Failed(format!("{url} {why}; {wait}")));
            }
            let backoff = endpoint.backoff_seconds * f64::from(1u32 << attempt.min(30));
            tokio::time::sleep(after + Duration::from_secs_f64(random() * backoff.min(longest))).await;
            attempt += 1;
            count(&tally.retries, 1);
        }
    }

    async fn attempt(&self, url: &str, body: &[u8]) -> std::result::Result<Vec<u8>, Trouble> {
        let broken = |error: reqwest::Error| Trouble::Passing {
            why: if error.is_timeout() {
                format!("gave no answer within {} s", self.0.endpoint.timeout_seconds)
            } else if error.is_connect() {
                format!("cannot be reached: {}", cause(&error))
            } else {
                format!("broke the connection: {}", cause(&error))
            },
            after: None,
        };
        let mut response = self.0.client.post(url).body(body.to_vec()).send().await.map_err(broken)?;
        let status = response.status();
        if status.is_success() {
            let mut bytes = Vec::new();
            while let Some(chunk) = response.chunk().await.map_err(broken)? {
                if bytes.len() + chunk.len() > LONGEST_BODY {
                    let message = format!("{url} answered more than {} MiB", LONGEST_BODY >> 20);
                    return Err(Trouble::Final(CallError::Failed(message)));
                }
                bytes.extend_from_slice(&chunk);
            }
            return Ok(bytes);
        }
        if status.is_redirection() {
            let target = response.headers().get(LOCATION).and_then(|value| value.to_str().ok());
            let target = target.unwrap_or("another address");
            let message = format!("{url} redirects to {target}; put the right address into `base_url`");
            return Err(Trouble::Final(CallError::Invalid(message)));
        }
        let after = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()).and_then(wait);
        let words = said(&error_body(&mut response).await);
        let why = format!("answered {status}{}{words}", if words.is_empty() { "" } else { ": " });
        let passing = matches!(status, StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS);
        Err(if passing || status.is_server_error() {
            Trouble::Passing { why, after }
        } else {
            Trouble::Final(CallError::Invalid(format!("{url} {why}")))
        })
    }

    /// Counts the tokens of an answer and takes its fields out.
    fn read<R: DeserializeOwned>(
        &self,
        url: &str,
        bytes: &[u8],
    ) -> std::result::Result<(R, Usage), CallError> {
        let value: Value = serde_json::from_slice(bytes).map_err(|error| {
            let start = one_line(&String::from_utf8_lossy(&bytes[..bytes.len().min(80)]));
            CallError::Failed(format!("{url} did not answer with JSON ({error}): {start}"))
        })?;
        let usage = usage(&value);
        count(&self.0.tally.prompt_tokens, usage.prompt_tokens);
        count(&self.0.tally.completion_tokens, usage.completion_tokens);
        let answer = serde_path_to_error::deserialize(&value).map_err(|error| {
            let path = error.path().to_string();
            let place = if path == "." { String::new() } else { format!("`{path}`: ") };
            // Some gateways wrap a failure into status 200.
            let words = said(bytes);
            let words = if words.is_empty() { words } else { format!("; it says: {words}") };
            CallError::Failed(format!(
                "{url} answered other JSON than expected: {place}{}{words}",
                error.inner()
            ))
        })?;
        Ok((answer, usage))
    }

    /// Servers like to repeat the key that they refuse.
    fn redact(&self, message: &str) -> String {
        match &self.0.key {
            Some(key) => message.replace(key.as_str(), "[key]"),
            None => message.to_owned(),
        }
    }
}

/// What an answer says it cost; nothing where it does not say.
fn usage(answer: &Value) -> Usage {
    let field = |name| answer.get("usage").and_then(|usage| usage.get(name)).and_then(Value::as_u64);
    Usage {
        prompt_tokens: field("prompt_tokens").unwrap_or(0),
        completion_tokens: field("completion_tokens").unwrap_or(0),
    }
}

fn count(counter: &AtomicU64, amount: u64) {
    counter.fetch_add(amount, Ordering::Relaxed);
}

/// Uniform in [0, 1); good enough to spread clients out.
fn random() -> f64 {
    (RandomState::new().hash_one(0u8) >> 11) as f64 / (1u64 << 53) as f64
}

fn is_loopback(address: &Url) -> bool {
    let host = address.host_str().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// The innermost error: reqwest's own sentences only say at what stage it happened.
fn cause(error: &dyn std::error::Error) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    one_line(&innermost.to_string())
}

/// `Retry-After`: seconds, or a date.
fn wait(header: &str) -> Option<Duration> {
    let header = header.trim();
    match header.parse::<f64>() {
        Ok(seconds) => Duration::try_from_secs_f64(seconds).ok(),
        Err(_) => {
            let date = httpdate::parse_http_date(header).ok()?;
            Some(date.duration_since(SystemTime::now()).unwrap_or_default())
        }
    }
}

async fn error_body(response: &mut Response) -> Vec<u8> {
    let mut bytes = Vec::new();
    while bytes.len() < LONGEST_ERROR {
        match response.chunk().await {
            Ok(Some(chunk)) => bytes.extend_from_slice(&chunk),
            Ok(None) | Err(_) => break,
        }
    }
    bytes
}

/// A server's explanation: OpenAI's `error.message`, FastAPI's `detail`, a `message`, or the text itself where it is
/// neither JSON nor a page.
fn said(body: &[u8]) -> String {
    let Ok(value) = serde_json::from_slice::<Value>(body) else {
        let text = one_line(&String::from_utf8_lossy(body));
        return if text.starts_with('<') { String::new() } else { text };
    };
    let places = ["/error/message", "/error", "/message", "/detail/0/msg", "/detail"];
    let words = places.iter().find_map(|place| value.pointer(place)?.as_str()).unwrap_or_default();
    one_line(words)
}

/// At most 300 characters on one line, without a full stop at the end.
fn one_line(text: &str) -> String {
    let mut line = String::new();
    for word in text.split_whitespace() {
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
        if let Some((end, _)) = line.char_indices().nth(300) {
            line.truncate(end);
            line.push('…');
            return line;
        }
    }
    line.trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        assert_eq!(wait("2"), Some(Duration::from_secs(2)));
        assert_eq!(wait(" 0.25 "), Some(Duration::from_millis(250)));
        let soon = httpdate::fmt_http_date(SystemTime::now() + Duration::from_secs(30));
        assert!((28..=30).contains(&wait(&soon).unwrap().as_secs()));
        assert_eq!(wait("Wed, 21 Oct 2015 07:28:00 GMT"), Some(Duration::ZERO));
        for bad in ["-1", "soon", "nan", "1e300"] {
            assert_eq!(wait(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_server_s_words_become_one_line() {
        assert_eq!(said(br#"{"error": {"message": "too\n long."}}"#), "too long");
        assert_eq!(said(br#"{"error": "busy"}"#), "busy");
        assert_eq!(said(br#"{"detail": [{"loc": ["body"], "msg": "field required"}]}"#), "field required");
        assert_eq!(said(br#"{"object": "error", "message": "no such model"}"#), "no such model");
        assert_eq!(said(b"Bad Gateway\n"), "Bad Gateway");
        assert_eq!(said(b"<html><body>oops</body></html>"), "");
        assert_eq!(one_line(&"x".repeat(1000)).chars().count(), 301);
    }

    #[test]
    fn jitter_spreads() {
        let draws: Vec<f64> = (0..1000).map(|_| random()).collect();
        assert!(draws.iter().all(|draw| (0.0..1.0).contains(draw)));
        let mean = draws.iter().sum::<f64>() / 1000.0;
        assert!((mean - 0.5).abs() < 0.1, "{mean}");
    }

    #[test]
    fn loopback_needs_no_proxy() {
        for (url, expected) in [
            ("http://127.0.0.1:8000/v1", true),
            ("http://localhost", true),
            ("http://[::1]:80", true),
            ("https://api.example.com", false),
        ] {
            assert_eq!(is_loopback(&Url::parse(url).unwrap()), expected, "{url}");
        }
    }

    #[test]
    fn https_clients_open_without_a_process_wide_provider() {
        Http::open(&Endpoint::new("https://api.example.com/v1", "m")).unwrap();
    }
}
