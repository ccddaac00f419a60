//! JSON in, JSON out, over one endpoint or several that serve the same model.
//!
//! - Status 408, 429 and 5xx, time-outs and broken connections are tried again: at another healthy endpoint at once where
//!   one has room, otherwise after a random wait of up to `backoff × 2^attempt` ("full jitter", so that many clients do
//!   not come back together), on top of what `Retry-After` asks for.
//! - Other statuses from 300 on are refusals with the server's own words: of this request (`CallError::Invalid`), such as
//!   a prompt that is too long, or of every request (`CallError::Refused`), such as one with a wrong key.
//! - A body that is not the expected JSON is `CallError::Failed` with the field's path; it is not asked for again.
//!
//! A request keeps its permit while it waits, so a server that is overloaded gets fewer. How often,
//! and how long, requests of several endpoints are tried again is what the first of these endpoints says.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::{Duration, Instant};

use gradus_core::contracts::{CallError, Usage};
use gradus_core::json;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::balancer::Balancer;
use crate::connection::{AttemptError, Connection};
use crate::counters::{Histogram, SharedCounters};
use crate::roster::Roster;
use crate::server_error::{one_line, server_message};
use crate::{Cache, Counters, Endpoint, Error, Latency, Result};

struct Inner {
    balancer: Arc<Balancer>,
    /// What was opened; the first of several.
    first: Endpoint,
    roster: Option<Roster>,
    latency: Histogram,
    /// What belongs to no endpoint, such as answers from the cache.
    counters: SharedCounters,
}

/// Open endpoints. Clones share connections, the limit on requests in flight, and counters.
#[derive(Clone)]
pub struct Http {
    inner: Arc<Inner>,
    cache: Option<Cache>,
}

impl fmt::Debug for Http {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Http")
            .field("endpoints", &self.endpoints())
            .field("cache", &self.cache)
            .field("counters", &self.counters())
            .finish_non_exhaustive()
    }
}

/// Bytes of an answer, and where they came from.
struct Raw {
    endpoint: usize,
    /// What the endpoint's rate limiter has to take back.
    booked: f64,
    bytes: Vec<u8>,
}

/// Why there is no answer, and at which endpoint.
type Missing = (Option<usize>, CallError);

impl Http {
    /// Reads the key and prepares connections; nothing is sent yet.
    ///
    /// ```
    /// use gradus_llm::{Endpoint, Http, Key};
    /// let endpoint = Endpoint { key: Some(Key::Env("NO_SUCH_KEY".into())), ..Endpoint::new("http://127.0.0.1:1", "m") };
    /// assert!(Http::open(&endpoint).unwrap_err().to_string().contains("NO_SUCH_KEY is not set"));
    /// ```
    pub fn open(endpoint: &Endpoint) -> Result<Self> {
        Self::open_all(std::slice::from_ref(endpoint))
    }

    /// Several endpoints that serve the same model, perhaps under other names and with other keys.
    ///
    /// ```
    /// use gradus_llm::{Endpoint, Http};
    /// let http = Http::open_all(&[
    ///     Endpoint { concurrency: 64, ..Endpoint::new("http://127.0.0.1:8000", "qwen") },
    ///     Endpoint { concurrency: 16, ..Endpoint::new("http://127.0.0.1:8001", "Qwen/Qwen2.5-7B-Instruct") },
    /// ]).unwrap();
    /// assert_eq!(http.endpoint().concurrency, 64);
    /// ```
    pub fn open_all(endpoints: &[Endpoint]) -> Result<Self> {
        Self::open_these(endpoints, None)
    }

    fn open_these(endpoints: &[Endpoint], roster: Option<Roster>) -> Result<Self> {
        let first = endpoints.first().ok_or(Error::NoEndpoint)?;
        if endpoints.iter().any(|endpoint| endpoint.dialect != first.dialect) {
            let found = "not the same for all endpoints".to_owned();
            let expected = "one dialect for the endpoints of one model, as a request is written once";
            return Err(Error::Setting { setting: "dialect", found, expected });
        }
        let connections = endpoints.iter().map(Connection::open).collect::<Result<Vec<_>>>()?;
        let balancer = Arc::new(Balancer::new(connections, roster.is_some()));
        let (first, latency) = (first.clone(), Histogram::new());
        let inner = Inner { balancer, first, roster, latency, counters: SharedCounters::default() };
        Ok(Self { inner: Arc::new(inner), cache: None })
    }

    /// Several endpoints that come and go while requests are sent, as `roster` says every other second.
    pub fn open_roster(roster: Roster) -> Result<Self> {
        Self::open_these(&roster.read()?, Some(roster))
    }

    /// Looks answers up in `cache` first and keeps new ones there.
    #[must_use]
    pub fn with_cache(self, cache: Cache) -> Self {
        Self { cache: Some(cache), ..self }
    }

    /// What was opened; the first of several.
    pub fn endpoint(&self) -> &Endpoint {
        &self.inner.first
    }

    /// The endpoints one by one.
    pub fn endpoints(&self) -> Vec<Endpoint> {
        self.connections().iter().map(|connection| connection.endpoint.clone()).collect()
    }

    /// What was spent so far, by all clones together.
    pub fn counters(&self) -> Counters {
        let each = self.connections().into_iter().map(|connection| connection.counters.read());
        each.fold(self.inner.counters.read(), |sum, counters| sum.plus(&counters))
    }

    /// How many endpoints share the requests.
    pub(crate) fn number_of_endpoints(&self) -> usize {
        self.inner.balancer.count().max(1)
    }

    /// What was spent at each endpoint, in the order in which they were opened. A call without an answer is the failure
    /// of the endpoint that it was sent to last; answers from the cache belong to none.
    #[cfg(test)]
    pub(crate) fn by_endpoint(&self) -> Vec<(String, Counters)> {
        self.connections()
            .iter()
            .map(|connection| (connection.api.clone(), connection.counters.read()))
            .collect()
    }

    /// How long answers took so far, for all clones and endpoints together.
    pub fn latency(&self) -> Latency {
        self.inner.latency.read()
    }

    /// [`Http::post_and`] for tests that accept every answer.
    #[cfg(test)]
    pub(crate) async fn post<B, R>(&self, path: &str, body: &B) -> std::result::Result<(R, Usage), CallError>
    where
        B: Serialize + Sync + ?Sized,
        R: DeserializeOwned,
    {
        self.post_and(path, body, |answer, usage| Ok((answer, usage))).await
    }

    /// Sends `body` to `path` and returns what `accept` makes of the answer and its `usage`, zeros where it has none. Paths
    /// under `/v1/` are put behind the endpoint's address, others behind it without its `/v1`. Fields of the answer that `R`
    /// does not name are ignored. An answer from the cache has the `usage` that it had when it was paid for; one that
    /// `accept` refuses is not cached.
    pub(crate) async fn post_and<B, R, T>(
        &self,
        path: &str,
        body: &B,
        accept: impl Fn(R, Usage) -> std::result::Result<T, CallError>,
    ) -> std::result::Result<T, CallError>
    where
        B: Serialize + Sync + ?Sized,
        R: DeserializeOwned,
    {
        let answer = match serde_json::to_vec(body) {
            Ok(body) => self.answer(path, &body, accept).await,
            Err(error) => {
                Err((None, CallError::Invalid(format!("the request cannot be written as JSON: {error}"))))
            }
        };
        answer.map_err(|(endpoint, error)| {
            let failed = |counters: &mut Counters| counters.failures += 1;
            match endpoint {
                Some(endpoint) => self.inner.balancer.connection(endpoint).counters.add(failed),
                None => self.inner.counters.add(failed),
            }
            match error {
                CallError::Invalid(message) => CallError::Invalid(self.redact(message)),
                CallError::Refused(message) => CallError::Refused(self.redact(message)),
                CallError::Failed(message) => CallError::Failed(self.redact(message)),
                other => other,
            }
        })
    }

    async fn answer<R: DeserializeOwned, T>(
        &self,
        path: &str,
        body: &[u8],
        accept: impl Fn(R, Usage) -> std::result::Result<T, CallError>,
    ) -> std::result::Result<T, Missing> {
        let first = self.inner.balancer.connection(0);
        // An endpoint without a model's name has one model, and only its address says which.
        let whose = if first.endpoint.model.is_empty() { first.api.as_str() } else { "" };
        // The seed is in the body all the same: it tells samples apart that are asked for with the same words.
        let unseeded = if first.endpoint.request_seed { "" } else { " without a seed" };
        let entry = self.cache.as_ref().map(|cache| cache.entry(path, &format!("{whose}{unseeded}"), body));
        if let Some(entry) = &entry
            && let Some(bytes) = entry.get().await
            && let Ok((answer, usage)) = parse(path, &bytes)
            && let Ok(answer) = accept(answer, usage)
        {
            self.inner.counters.cached(usage);
            return Ok(answer);
        }
        let Raw { endpoint, booked, bytes } = self.exchange(path, body).await?;
        let blame = |error| (Some(endpoint), error);
        let connection = self.inner.balancer.connection(endpoint);
        let url = connection.url(path);
        let parsed = check(&url, &bytes).map(|()| (fields(&url, &bytes), usage(&bytes)));
        let usage = parsed.as_ref().map(|(_, usage)| *usage).unwrap_or_default();
        connection.rate_limiter.charge(booked, usage.prompt_tokens + usage.completion_tokens);
        connection.counters.paid(usage);
        let answer = parsed.and_then(|(answer, _)| answer).map_err(blame)?;
        let answer = accept(answer, usage).map_err(blame)?;
        if let Some(entry) = &entry {
            entry.put(bytes).await.map_err(|error| (None, error))?;
        }
        Ok(answer)
    }

    /// The body of the first attempt that works.
    async fn exchange(&self, path: &str, body: &[u8]) -> std::result::Result<Raw, Missing> {
        let balancer = &self.inner.balancer;
        let Endpoint { retries, backoff_seconds, longest_wait_seconds: longest, model, .. } = self.endpoint();
        let alone = self.inner.roster.is_none() && self.connections().len() == 1;
        let mut attempt = 0;
        let mut tried = Vec::new();
        let look = || self.inner.roster.as_ref().map(|roster| roster.look(balancer));
        let take = |left: u32| async move {
            let permit = balancer.take(left, Duration::from_secs_f64(*longest), look).await;
            permit.map_err(|last| {
                let all = balancer.count();
                (
                    None,
                    CallError::Failed(format!("all {all} endpoints are unavailable; the last error: {last}")),
                )
            })
        };
        let mut permit = take(*retries).await?;
        loop {
            let connection = balancer.connection(permit.endpoint);
            let url = connection.url(path);
            let booked = connection.rate_limiter.wait().await;
            connection.counters.add(|counters| {
                counters.requests += 1;
                counters.retries += u64::from(attempt > 0);
            });
            let started = Instant::now();
            let outcome = connection.attempt(&url, connection.adapted(body, model).into_owned()).await;
            connection.counters.add(|counters| counters.seconds += started.elapsed().as_secs_f64());
            let (why, after, endpoint_failed) = match outcome {
                Ok(bytes) => {
                    self.inner.latency.record(started.elapsed());
                    balancer.succeeded(&mut permit);
                    return Ok(Raw { endpoint: permit.endpoint, booked, bytes });
                }
                Err(AttemptError::Final(error)) => {
                    connection.rate_limiter.charge(booked, 0);
                    balancer.succeeded(&mut permit);
                    return Err((Some(permit.endpoint), error));
                }
                Err(AttemptError::Retryable { why, after, endpoint_failed }) => (why, after, endpoint_failed),
            };
            connection.rate_limiter.charge(booked, 0);
            // Among several, who asks for a pause gets it from everyone; alone, from the request that was told.
            let pause = after.filter(|after| !alone && !after.is_zero());
            let asked = after.filter(|after| after.as_secs_f64() > *longest).map(|after| {
                let seconds = after.as_secs();
                format!("{why}; it asks to wait {seconds} s, but `longest_wait_seconds` is {longest}")
            });
            let shown = asked.as_ref().unwrap_or(&why);
            match pause {
                Some(pause) => balancer.pause(&mut permit, pause, format!("{url} {shown}")),
                None if endpoint_failed => balancer.failed(&mut permit, format!("{url} {why}")),
                None => balancer.succeeded(&mut permit),
            }
            let failed =
                |why: String| Err((Some(permit.endpoint), CallError::Failed(format!("{url} {why}"))));
            if attempt == *retries {
                let tries = if attempt == 0 { String::new() } else { format!(" ({} attempts)", attempt + 1) };
                return failed(format!("{why}{tries}"));
            }
            if alone && let Some(asked) = asked {
                return failed(asked);
            }
            attempt += 1;
            tried.resize(tried.len().max(permit.endpoint + 1), false);
            tried[permit.endpoint] = true;
            if let Some(other) = balancer.elsewhere(&tried) {
                permit = other;
                continue;
            }
            tried.fill(false);
            if pause.is_none() {
                let backoff = backoff_seconds * f64::from(1u32 << (attempt - 1).min(30));
                let jitter = Duration::from_secs_f64(random() * backoff.min(*longest));
                tokio::time::sleep(after.unwrap_or_default() + jitter).await;
            }
            if balancer.is_out(permit.endpoint) {
                drop(permit);
                permit = take(retries - attempt).await?;
            }
        }
    }

    fn connections(&self) -> Vec<Arc<Connection>> {
        self.inner.balancer.connections()
    }

    /// An error without any endpoint's key: a word in place of a key may still stand in it.
    fn redact(&self, message: String) -> String {
        let connections = self.connections();
        let keys = connections.iter().filter_map(|connection| connection.key.as_ref());
        let text = keys.fold(message.into_bytes(), |text, key| key.hide_in_error(&text));
        String::from_utf8_lossy(&text).into_owned()
    }
}

/// An answer and what it cost. Only what is named in `R` is built: a server may send anything beside it.
fn parse<R: DeserializeOwned>(url: &str, bytes: &[u8]) -> std::result::Result<(R, Usage), CallError> {
    check(url, bytes)?;
    Ok((fields(url, bytes)?, usage(bytes)))
}

/// Refuses an answer of too many values before any of them is built.
fn check(url: &str, bytes: &[u8]) -> std::result::Result<(), CallError> {
    json::check_values(bytes).map_err(|limit| CallError::Failed(format!("{url} answered {limit}")))
}

fn fields<R: DeserializeOwned>(url: &str, bytes: &[u8]) -> std::result::Result<R, CallError> {
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let read = serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let path = error.path().to_string();
        (if path == "." { String::new() } else { format!("`{path}`: ") }, error.into_inner())
    });
    let read = read.and_then(|answer| json.end().map(|()| answer).map_err(|error| (String::new(), error)));
    read.map_err(|(field, error)| {
        if !error.is_data() {
            let start = one_line(&String::from_utf8_lossy(&bytes[..bytes.len().min(80)]));
            return CallError::Failed(format!("{url} did not answer with JSON ({error}): {start}"));
        }
        // Some gateways wrap a failure into status 200.
        let words = server_message(bytes);
        let words = if words.is_empty() { words } else { format!("; it says: {words}") };
        let reason = error.to_string();
        let reason = reason.split(" at line ").next().unwrap_or(&reason);
        CallError::Failed(format!("{url} answered other JSON than expected: {field}{reason}{words}"))
    })
}

/// What a server may say that one answer cost, prompt and completion each: later requests wait for it where tokens are
/// limited.
const MOST_TOKENS: u64 = 1 << 22;

/// What an answer says it cost; nothing where it does not say.
fn usage(answer: &[u8]) -> Usage {
    #[derive(Deserialize)]
    struct Paid {
        usage: Value,
    }
    let Ok(Paid { usage }) = serde_json::from_slice(answer) else { return Usage::default() };
    let field = |name| usage.get(name).and_then(Value::as_u64).unwrap_or(0).min(MOST_TOKENS);
    Usage { prompt_tokens: field("prompt_tokens"), completion_tokens: field("completion_tokens") }
}

/// Uniform in [0, 1); good enough to spread clients out.
pub(crate) fn random() -> f64 {
    (RandomState::new().hash_one(0u8) >> 11) as f64 / (1u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jitter_spreads() {
        let draws: Vec<f64> = (0..1000).map(|_| random()).collect();
        assert!(draws.iter().all(|draw| (0.0..1.0).contains(draw)));
        let mean = draws.iter().sum::<f64>() / 1000.0;
        assert!((mean - 0.5).abs() < 0.1, "{mean}");
    }

    #[test]
    fn endpoints_of_one_model_speak_alike() {
        assert!(matches!(Http::open_all(&[]), Err(Error::NoEndpoint)));
        let endpoint = Endpoint::new("http://127.0.0.1:1", "m");
        let other = Endpoint { dialect: crate::Dialect::OpenAi, ..endpoint.clone() };
        let error = Http::open_all(&[endpoint, other]).unwrap_err().to_string();
        assert!(error.contains("one dialect"), "{error}");
    }
}
