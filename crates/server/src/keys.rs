//! Bearer keys: who may ask, how often, and for what.
//!
//! A file of keys is TOML:
//!
//! ```toml
//! [[key]]
//! name = "trainer"
//! key_env = "TRAINER_KEY"      # or key = "…"
//! requests_per_minute = 6000   # default: unlimited
//! manage = true                # may start and stop jobs from the page; default: false
//! ```

use std::fmt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use axum::http::StatusCode;
use serde::Deserialize;

use crate::error::ApiError;
use crate::{Error, Result};

/// Shorter keys can be guessed.
const SHORTEST: usize = 16;

/// The keys that a server knows; without any, everybody who reaches it may ask.
#[derive(Debug, Default)]
pub struct Keys(Vec<Key>);

struct Key {
    name: String,
    hash: blake3::Hash,
    manage: bool,
    bucket: Option<Mutex<Bucket>>,
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Key").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Whose key a request has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Caller {
    pub(crate) name: String,
    /// Whether it may start and stop jobs.
    pub(crate) manage: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct KeyFile {
    #[serde(default)]
    key: Vec<KeyEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct KeyEntry {
    name: String,
    key: Option<String>,
    key_env: Option<String>,
    requests_per_minute: Option<f64>,
    #[serde(default)]
    manage: bool,
}

impl Keys {
    /// One key without a limit that may do everything.
    pub fn single(name: &str, secret: &str) -> Result<Self> {
        let mut keys = Self::default();
        keys.add(name, secret, None, true)?;
        Ok(keys)
    }

    /// Reads a file of keys.
    pub fn read(path: &Path) -> Result<Self> {
        let refused = |message: String| Error::Keys(format!("{}: {message}", path.display()));
        let text = std::fs::read_to_string(path).map_err(|error| refused(error.to_string()))?;
        // The message of a syntax error would quote the line, and with it the key.
        let file: KeyFile = toml::from_str(&text).map_err(|error| {
            let line = error.span().map_or(1, |span| text[..span.start].lines().count().max(1));
            refused(format!(
                "line {line} is no [[key]] with name, key or key_env, requests_per_minute, manage"
            ))
        })?;
        let mut keys = Self::default();
        for entry in file.key {
            let secret = match (entry.key, entry.key_env) {
                (Some(secret), None) => secret,
                // Someone may have pasted the key itself in place of the name.
                (None, Some(variable)) => std::env::var(variable).map_err(|_| {
                    refused(format!("key {}: the environment variable of key_env is not set", entry.name))
                })?,
                _ => return Err(refused(format!("key {}: give either key or key_env", entry.name))),
            };
            keys.add(&entry.name, &secret, entry.requests_per_minute, entry.manage)
                .map_err(|error| refused(error.to_string()))?;
        }
        if keys.0.is_empty() {
            return Err(refused("it has no [[key]]".to_owned()));
        }
        Ok(keys)
    }

    fn add(&mut self, name: &str, secret: &str, per_minute: Option<f64>, manage: bool) -> Result<()> {
        let secret = secret.trim();
        let refused = |message: String| Err(Error::Keys(format!("key {name} {message}")));
        if secret.len() < SHORTEST || !secret.bytes().all(|byte| byte.is_ascii_graphic()) {
            return refused(format!("must have at least {SHORTEST} visible ASCII characters and no space"));
        }
        if per_minute.is_some_and(|rate| !(rate.is_finite() && rate > 0.0)) {
            return refused("has requests_per_minute that is no number above 0".to_owned());
        }
        let hash = blake3::hash(secret.as_bytes());
        if self.0.iter().any(|key| key.name == name || key.hash == hash) {
            return refused("is there twice".to_owned());
        }
        let bucket = per_minute.map(|rate| Mutex::new(Bucket::full(rate)));
        self.0.push(Key { name: name.to_owned(), hash, manage, bucket });
        Ok(())
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whose key it is; what is compared are hashes, in constant time.
    pub(crate) fn check(&self, bearer: Option<&str>) -> std::result::Result<Caller, ApiError> {
        if self.0.is_empty() {
            return Ok(Caller { name: String::new(), manage: true });
        }
        let Some(bearer) = bearer else {
            let message = "this server needs a key: send `Authorization: Bearer KEY`";
            return Err(ApiError::new(StatusCode::UNAUTHORIZED, message));
        };
        let hash = blake3::hash(bearer.as_bytes());
        // All are looked at, so that the time says nothing about which one it is.
        let mut found = None;
        for key in &self.0 {
            if key.hash == hash {
                found = Some(key);
            }
        }
        let Some(key) = found else {
            return Err(ApiError::new(StatusCode::UNAUTHORIZED, "this server does not know the key"));
        };
        if let Some(bucket) = &key.bucket {
            let wait = bucket.lock().unwrap_or_else(PoisonError::into_inner).take(Instant::now());
            if let Err(seconds) = wait {
                let message = format!("key {} is at its limit of requests per minute", key.name);
                return Err(ApiError::busy(message, seconds.ceil() as u64));
            }
        }
        Ok(Caller { name: key.name.clone(), manage: key.manage })
    }
}

/// A token bucket that holds a minute's requests.
#[derive(Debug)]
struct Bucket {
    per_second: f64,
    most: f64,
    left: f64,
    at: Instant,
}

impl Bucket {
    fn full(per_minute: f64) -> Self {
        let most = per_minute.max(1.0);
        Self { per_second: per_minute / 60.0, most, left: most, at: Instant::now() }
    }

    /// Takes one, or says in how many seconds there will be one.
    fn take(&mut self, now: Instant) -> std::result::Result<(), f64> {
        let passed = now.saturating_duration_since(self.at).as_secs_f64();
        self.left = (self.left + passed * self.per_second).min(self.most);
        self.at = now;
        if self.left < 1.0 {
            return Err((1.0 - self.left) / self.per_second);
        }
        self.left -= 1.0;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn keys_are_told_apart_and_limited() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys.toml");
        let file = "[[key]]\nname = \"a\"\nkey = \"aaaaaaaaaaaaaaaaaaaa\"\nrequests_per_minute = 2\n\
                    [[key]]\nname = \"b\"\nkey = \"bbbbbbbbbbbbbbbbbbbb\"\nmanage = true\n";
        std::fs::write(&path, file).unwrap();
        let keys = Keys::read(&path).unwrap();
        let caller = |name: &str, manage| Ok(Caller { name: name.to_owned(), manage });
        assert_eq!(keys.check(Some("aaaaaaaaaaaaaaaaaaaa")), caller("a", false));
        assert_eq!(keys.check(Some("bbbbbbbbbbbbbbbbbbbb")), caller("b", true));
        assert_eq!(keys.check(Some("aaaaaaaaaaaaaaaaaaab")).unwrap_err().status, StatusCode::UNAUTHORIZED);
        assert_eq!(keys.check(None).unwrap_err().status, StatusCode::UNAUTHORIZED);
        keys.check(Some("aaaaaaaaaaaaaaaaaaaa")).unwrap();
        let limited = keys.check(Some("aaaaaaaaaaaaaaaaaaaa")).unwrap_err();
        assert_eq!((limited.status, limited.retry_after), (StatusCode::TOO_MANY_REQUESTS, Some(30)));
    }

    #[test]
    fn a_bad_file_is_refused_without_showing_a_key() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys.toml");
        for file in [
            "",
            "[[key]]\nname = \"a\"\n",
            "[[key]]\nname = \"a\"\nkey = \"secret\"\n",
            "[[key]]\nname = \"a\"\nkey = \"secretsecretsecretsecret\nmanage = 1\n",
            "[[key]]\nname = \"a\"\nkey = \"secretsecretsecretsecret\"\nmanage = 1\n",
            "[[key]]\nname = \"a\"\nkey = \"secretsecretsecretsecret\"\nrequests_per_minute = 0\n",
        ] {
            std::fs::write(&path, file).unwrap();
            let error = Keys::read(&path).unwrap_err().to_string();
            assert!(error.contains("keys.toml") && !error.contains("secret"), "{error}");
        }
    }

    #[test]
    fn a_bucket_fills_up_again() {
        let mut bucket = Bucket::full(60.0);
        let now = bucket.at;
        (0..60).for_each(|_| bucket.take(now).unwrap());
        assert!((bucket.take(now).unwrap_err() - 1.0).abs() < 1e-9);
        bucket.take(now + Duration::from_secs(1)).unwrap();
    }
}
