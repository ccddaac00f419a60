//! Usage: requests, tokens and latencies.
//!
//! Latencies go into buckets whose bounds grow by 5 %, from 0.1 ms to more than an hour; a quantile is the middle of its
//! bucket, so it is off by at most 2.5 %. The maximum is exact.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use gradus_core::contracts::Usage;
use serde::{Deserialize, Serialize};

/// Requests, tokens and time so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Counters {
    /// Requests sent, retries included.
    pub requests: u64,
    /// Of these, retries.
    pub retries: u64,
    /// Calls that ended without an answer.
    pub failures: u64,
    /// Answers that came from the cache; nothing was sent for them.
    pub cached: u64,
    /// Tokens of prompts that were sent now, as servers state them.
    pub prompt_tokens: u64,
    /// Tokens of samples that came now, as servers state them.
    pub completion_tokens: u64,
    /// Tokens of prompts whose answers came from the cache.
    pub cached_prompt_tokens: u64,
    /// Tokens of samples that came from the cache.
    pub cached_completion_tokens: u64,
    /// Time in which requests were in flight, added up over requests; waits between attempts do not count.
    pub seconds: f64,
}

/// How long requests took that were answered, from sending to the last byte; waiting for a permit does not count.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// Half of the answers were faster; seconds, like the others. 0 without an answer.
    pub median: f64,
    /// 95 % were faster.
    pub p95: f64,
    /// 99 % were faster.
    pub p99: f64,
    /// The slowest.
    pub max: f64,
    /// Answers, those from the cache not included.
    pub count: u64,
}

/// [`Counters`] that many threads add to.
#[derive(Default)]
pub(crate) struct SharedCounters(Mutex<Counters>);

impl SharedCounters {
    pub(crate) fn add(&self, change: impl FnOnce(&mut Counters)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }

    pub(crate) fn paid(&self, usage: Usage) {
        self.add(|counters| {
            counters.prompt_tokens += usage.prompt_tokens;
            counters.completion_tokens += usage.completion_tokens;
        });
    }

    pub(crate) fn cached(&self, usage: Usage) {
        self.add(|counters| {
            counters.cached += 1;
            counters.cached_prompt_tokens += usage.prompt_tokens;
            counters.cached_completion_tokens += usage.completion_tokens;
        });
    }

    pub(crate) fn read(&self) -> Counters {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Counters {
    /// The sum of both.
    pub(crate) fn plus(&self, other: &Self) -> Self {
        Self {
            requests: self.requests + other.requests,
            retries: self.retries + other.retries,
            failures: self.failures + other.failures,
            cached: self.cached + other.cached,
            prompt_tokens: self.prompt_tokens + other.prompt_tokens,
            completion_tokens: self.completion_tokens + other.completion_tokens,
            cached_prompt_tokens: self.cached_prompt_tokens + other.cached_prompt_tokens,
            cached_completion_tokens: self.cached_completion_tokens + other.cached_completion_tokens,
            seconds: self.seconds + other.seconds,
        }
    }
}

const BUCKETS: usize = 360;
/// Where the first bucket begins, in nanoseconds.
const FIRST: f64 = 1e5;
const GROWTH: f64 = 1.05;

/// Latencies in buckets.
pub(crate) struct Histogram {
    buckets: Box<[AtomicU64]>,
    longest: AtomicU64,
}

impl Histogram {
    pub(crate) fn new() -> Self {
        Self { buckets: (0..BUCKETS).map(|_| AtomicU64::new(0)).collect(), longest: AtomicU64::new(0) }
    }

    pub(crate) fn record(&self, time: Duration) {
        let time = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        // A cast of a negative number is 0, so what is faster than the first bucket is in it.
        let bucket = ((time.max(1) as f64 / FIRST).ln() / GROWTH.ln()) as usize;
        self.buckets[bucket.min(BUCKETS - 1)].fetch_add(1, Ordering::Relaxed);
        self.longest.fetch_max(time, Ordering::Relaxed);
    }

    pub(crate) fn read(&self) -> Latency {
        let counts: Vec<u64> = self.buckets.iter().map(|bucket| bucket.load(Ordering::Relaxed)).collect();
        let count: u64 = counts.iter().sum();
        let max = self.longest.load(Ordering::Relaxed) as f64 / 1e9;
        let quantile = |share: f64| {
            let rank = ((count as f64 * share).ceil() as u64).max(1);
            let mut seen = 0;
            let bucket = counts.iter().position(|&in_it| {
                seen += in_it;
                seen >= rank
            });
            bucket.map_or(0.0, |bucket| (FIRST * GROWTH.powf(bucket as f64 + 0.5) / 1e9).min(max))
        };
        Latency { median: quantile(0.5), p95: quantile(0.95), p99: quantile(0.99), max, count }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_add_up() {
        let one = Counters { requests: 2, seconds: 0.5, ..Counters::default() };
        assert_eq!(one.plus(&one), Counters { requests: 4, seconds: 1.0, ..Counters::default() });
    }

    #[test]
    fn quantiles_are_within_a_bucket() {
        let histogram = Histogram::new();
        assert_eq!(histogram.read(), Latency::default());
        for millisecond in 1..=1000 {
            histogram.record(Duration::from_millis(millisecond));
        }
        let latency = histogram.read();
        assert_eq!((latency.count, latency.max), (1000, 1.0));
        for (found, expected) in [(latency.median, 0.5), (latency.p95, 0.95), (latency.p99, 0.99)] {
            assert!((found / expected - 1.0).abs() < 0.03, "{found} instead of {expected}");
        }
    }

    #[test]
    fn the_fastest_and_the_slowest_have_a_bucket() {
        let histogram = Histogram::new();
        histogram.record(Duration::ZERO);
        histogram.record(Duration::from_secs(1_000_000));
        let latency = histogram.read();
        assert_eq!((latency.count, latency.max), (2, 1e6));
        assert!(latency.median < 2e-4 && latency.p99 > 3600.0, "{latency:?}");
    }
}
