//! An endpoint: a model's address and how it is called.
//!
//! ```toml
//! base_url = "https://api.example.com/v1"   # without a path, /v1 is added
//! model = "Qwen/Qwen2.5-7B-Instruct"
//! key = { env = "EXAMPLE_API_KEY" }         # or { file = "key.txt" }; the key itself never stands here
//! concurrency = 32
//! requests_per_minute = 500.0               # what the account allows; no limit without it
//! tokens_per_minute = 200000.0
//! ```

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use reqwest::Url;
use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// Where a key is found. The key itself is read by [`crate::Http::open`] and kept there.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Key {
    /// An environment variable's name.
    Env(String),
    /// A file that holds the key and nothing else.
    File(PathBuf),
}

impl Key {
    /// The variable's name if it is plainly one. Someone who pastes the key itself must not find it in a log.
    fn shown(name: &str) -> &str {
        let plain = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
        if name.starts_with(|c: char| plain(c) && !c.is_ascii_digit()) && name.chars().all(plain) {
            name
        } else {
            "[hidden]"
        }
    }

    pub(crate) fn read(&self) -> Result<String> {
        let text = match self {
            Self::Env(name) => std::env::var(name)
                .ok()
                .filter(|value| !value.trim().is_empty())
                .ok_or_else(|| Error::KeyVariable { name: Self::shown(name).to_owned() })?,
            Self::File(path) => std::fs::read_to_string(path)
                .map_err(|source| Error::KeyFile { path: path.clone(), source })?,
        };
        Ok(text.trim().to_owned())
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Env(name) => f.debug_tuple("Env").field(&Self::shown(name)).finish(),
            Self::File(path) => f.debug_tuple("File").field(path).finish(),
        }
    }
}

/// Which request fields a server knows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Dialect {
    /// OpenAI's and those of open servers: `top_k`, `min_p` and `repetition_penalty` are always sent, because vLLM
    /// otherwise takes them from the model's `generation_config.json`.
    #[default]
    Open,
    /// OpenAI's alone: fields that it refuses stay out, and a request that needs them is refused.
    OpenAi,
}

/// A server, the model on it, and its limits, retries and timeouts.
///
/// ```
/// use gradus_llm::{Endpoint, Key};
/// let endpoint: Endpoint = toml::from_str(r#"
///     base_url = "http://127.0.0.1:8000"
///     model = "qwen"
///     key = { env = "QWEN_KEY" }
///     retries = 2
/// "#).unwrap();
/// assert_eq!(endpoint.key, Some(Key::Env("QWEN_KEY".into())));
/// assert_eq!(endpoint, Endpoint { key: endpoint.key.clone(), retries: 2, ..Endpoint::new("http://127.0.0.1:8000", "qwen") });
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Endpoint {
    /// `http://` or `https://`, a host, and perhaps a path; the path is where `chat/completions` is, `/v1` if empty.
    pub base_url: String,
    /// The model's name on the server; empty where a server has only one and wants no name.
    #[serde(default)]
    pub model: String,
    /// The key that is sent as a bearer token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<Key>,
    /// Which request fields the server knows.
    #[serde(default)]
    pub dialect: Dialect,
    /// Whether requests carry a seed; some servers fail on one.
    #[serde(default = "default::request_seed")]
    pub request_seed: bool,
    /// Timeout of one attempt, from connecting to the last byte of the response.
    #[serde(default = "default::timeout_seconds")]
    pub timeout_seconds: f64,
    /// Retries after the first attempt.
    #[serde(default = "default::retries")]
    pub retries: u32,
    /// Attempt `k` waits a random time up to this × 2^k before the next.
    #[serde(default = "default::backoff_seconds")]
    pub backoff_seconds: f64,
    /// The longest wait between two attempts; a server that asks for more is not asked again.
    #[serde(default = "default::longest_wait_seconds")]
    pub longest_wait_seconds: f64,
    /// Maximum requests in flight.
    #[serde(default = "default::concurrency")]
    pub concurrency: usize,
    /// Maximum requests per minute, evenly spaced; unlimited without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests_per_minute: Option<f64>,
    /// Maximum tokens per minute, prompts and completions together; unlimited without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens_per_minute: Option<f64>,
}

mod default {
    pub(super) fn request_seed() -> bool {
        true
    }
    pub(super) fn timeout_seconds() -> f64 {
        600.0
    }
    pub(super) fn retries() -> u32 {
        5
    }
    pub(super) fn backoff_seconds() -> f64 {
        0.5
    }
    pub(super) fn longest_wait_seconds() -> f64 {
        60.0
    }
    pub(super) fn concurrency() -> usize {
        16
    }
}

impl Endpoint {
    /// `model` at `base_url`, without a key, everything else at its default.
    pub fn new(base_url: impl Into<String>, model: impl Into<String>) -> Self {
        Self {
            base_url: base_url.into(),
            model: model.into(),
            key: None,
            dialect: Dialect::default(),
            request_seed: default::request_seed(),
            timeout_seconds: default::timeout_seconds(),
            retries: default::retries(),
            backoff_seconds: default::backoff_seconds(),
            longest_wait_seconds: default::longest_wait_seconds(),
            concurrency: default::concurrency(),
            requests_per_minute: None,
            tokens_per_minute: None,
        }
    }

    /// The address without a slash at its end, the path `/v1` added where there is none.
    pub(crate) fn address(&self) -> Result<Url> {
        let refuse = |reason: &str| Err(Error::Address { reason: reason.to_owned() });
        let mut url = match Url::parse(self.base_url.trim()) {
            Ok(url) => url,
            Err(error) => return refuse(&format!("it is not an address ({error})")),
        };
        if !matches!(url.scheme(), "http" | "https") || url.host().is_none() {
            return refuse("it does not start with http:// or https:// and a host");
        }
        // Errors and logs show the address.
        if !url.username().is_empty() || url.password().is_some() {
            return refuse("it holds a password; name a variable or a file in `key` instead");
        }
        if url.query().is_some() || url.fragment().is_some() {
            return refuse("it holds a `?` or `#`, but paths are added to it");
        }
        let path = url.path().trim_end_matches('/').to_owned();
        url.set_path(if path.is_empty() { "/v1" } else { &path });
        Ok(url)
    }

    /// Validates the numbers.
    pub(crate) fn check(&self) -> Result<()> {
        let seconds = |setting, value: f64, least: f64, expected| {
            // A year: beyond that, sums of instants may overflow.
            if value >= least && value <= 31_536_000.0 {
                Ok(())
            } else {
                Err(Error::Setting { setting, found: value.to_string(), expected })
            }
        };
        seconds("timeout_seconds", self.timeout_seconds, 1e-3, "seconds, at least 0.001")?;
        seconds("backoff_seconds", self.backoff_seconds, 0.0, "seconds, 0 or more")?;
        seconds("longest_wait_seconds", self.longest_wait_seconds, 0.0, "seconds, 0 or more")?;
        if self.concurrency == 0 || self.concurrency > tokio::sync::Semaphore::MAX_PERMITS {
            return Err(Error::Setting {
                setting: "concurrency",
                found: self.concurrency.to_string(),
                expected: "the most requests in flight, 1 or more",
            });
        }
        let limits = [
            ("requests_per_minute", self.requests_per_minute),
            ("tokens_per_minute", self.tokens_per_minute),
        ];
        for (setting, limit) in limits {
            // A limit below once a year cannot be meant either.
            if let Some(limit) = limit.filter(|limit| !(limit.is_finite() && *limit >= 2e-6)) {
                let expected = "a number above 0, or leave it out";
                return Err(Error::Setting { setting, found: limit.to_string(), expected });
            }
        }
        Ok(())
    }

    pub(crate) fn timeout(&self) -> Duration {
        Duration::from_secs_f64(self.timeout_seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        let address = |text: &str| Endpoint::new(text, "").address().map(String::from);
        assert_eq!(address("http://127.0.0.1:8000").unwrap(), "http://127.0.0.1:8000/v1");
        assert_eq!(
            address("https://api.example.com/openai/v1/").unwrap(),
            "https://api.example.com/openai/v1"
        );
        assert_eq!(address("https://x.example/v1beta/openai").unwrap(), "https://x.example/v1beta/openai");
        for bad in ["", "127.0.0.1:8000", "ftp://x", "http://x?k=1", "http://"] {
            assert!(address(bad).unwrap_err().to_string().starts_with("`base_url`: it "), "{bad}");
        }
        let error = address("https://me:sesame@x.example").unwrap_err();
        assert!(!format!("{error} {error:?}").contains("sesame"));
    }

    #[test]
    fn settings_that_cannot_be_meant_are_refused() {
        let endpoint = Endpoint::new("http://x", "m");
        endpoint.check().unwrap();
        for bad in [
            Endpoint { concurrency: 0, ..endpoint.clone() },
            Endpoint { timeout_seconds: 0.0, ..endpoint.clone() },
            Endpoint { backoff_seconds: f64::NAN, ..endpoint.clone() },
            Endpoint { longest_wait_seconds: f64::INFINITY, ..endpoint.clone() },
            Endpoint { requests_per_minute: Some(0.0), ..endpoint.clone() },
            Endpoint { requests_per_minute: Some(f64::INFINITY), ..endpoint.clone() },
            Endpoint { tokens_per_minute: Some(f64::NAN), ..endpoint.clone() },
            Endpoint { tokens_per_minute: Some(-1.0), ..endpoint.clone() },
        ] {
            assert!(matches!(bad.check(), Err(Error::Setting { .. })), "{bad:?}");
        }
        assert!(toml::from_str::<Endpoint>("base_url = 'http://x'\nretires = 3").is_err());
    }

    #[test]
    fn a_key_in_place_of_its_name_is_not_shown() {
        let key = Key::Env("sk-sesame".into());
        let error = key.read().unwrap_err();
        assert!(!format!("{key:?} {error} {error:?}").contains("sesame"));
        assert_eq!(format!("{:?}", Key::Env("MY_KEY2".into())), r#"Env("MY_KEY2")"#);
    }
}
