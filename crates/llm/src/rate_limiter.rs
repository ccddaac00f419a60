//! Rate limits of an endpoint: requests and tokens per minute.
//!
//! Requests are spaced by the generic cell rate algorithm: each books the next free moment and sleeps until then; what
//! was not used is kept for at most one second, so a burst is at most what one second allows. Tokens are known only from
//! an answer, which leaves a debt that later requests wait for. A request books the mean of the answers so far when it
//! starts and is set right when its own comes, so that many at once do not all start before the first debt is known.
//! A request that is dropped while it waits leaves its moment unused.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use crate::Endpoint;

/// How much of the past may be made up for.
const BURST: Duration = Duration::from_secs(1);
/// How much one answer moves the expected number of tokens.
const WEIGHT: f64 = 0.1;

pub(crate) struct RateLimiter {
    requests: Option<Mutex<Clock>>,
    tokens: Option<Mutex<Clock>>,
    expected: Mutex<Option<f64>>,
}

/// When everything booked so far will have been paid for, at `seconds` apiece.
struct Clock {
    paid: Instant,
    seconds: f64,
}

impl Clock {
    fn new(per_minute: f64) -> Mutex<Self> {
        Mutex::new(Self { paid: Instant::now(), seconds: 60.0 / per_minute })
    }

    /// Books `amount`, which may be negative to give some back, and says when it may be used.
    fn book(&mut self, amount: f64) -> Instant {
        let now = Instant::now();
        // Less than one piece's time is never kept: it would let a second request through at once.
        let kept = BURST.saturating_sub(Duration::from_secs_f64(self.seconds.min(1.0)));
        let start = self.paid.max(now.checked_sub(kept).unwrap_or(now));
        let time = Duration::from_secs_f64((amount.abs() * self.seconds).min(31_536_000.0));
        self.paid = if amount < 0.0 { start.checked_sub(time).unwrap_or(start) } else { start + time };
        start.max(now)
    }
}

impl RateLimiter {
    pub(crate) fn new(endpoint: &Endpoint) -> Self {
        Self {
            requests: endpoint.requests_per_minute.map(Clock::new),
            tokens: endpoint.tokens_per_minute.map(Clock::new),
            expected: Mutex::new(None),
        }
    }

    /// Waits until the next request may be sent. The result is what [`RateLimiter::charge`] takes back.
    pub(crate) async fn wait(&self) -> f64 {
        let mut booked = 0.0;
        if let Some(tokens) = &self.tokens {
            booked = lock(&self.expected).unwrap_or(0.0);
            let start = lock(tokens).book(booked);
            sleep_until(start).await;
        }
        if let Some(requests) = &self.requests {
            let start = lock(requests).book(1.0);
            sleep_until(start).await;
        }
        booked
    }

    /// Charges the tokens of an answer in place of what was `booked`; 0 where none came.
    pub(crate) fn charge(&self, booked: f64, used: u64) {
        let Some(tokens) = &self.tokens else { return };
        let used = used as f64;
        if used > 0.0 {
            let mut expected = lock(&self.expected);
            *expected = Some(expected.map_or(used, |mean| mean + WEIGHT * (used - mean)));
        }
        lock(tokens).book(used - booked);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limiter(requests_per_minute: Option<f64>, tokens_per_minute: Option<f64>) -> RateLimiter {
        RateLimiter::new(&Endpoint {
            requests_per_minute,
            tokens_per_minute,
            ..Endpoint::new("http://x", "m")
        })
    }

    async fn starts(limiter: &RateLimiter, requests: usize, tokens: u64) -> Vec<f64> {
        let began = Instant::now();
        let mut starts = Vec::new();
        for _ in 0..requests {
            let booked = limiter.wait().await;
            starts.push((began.elapsed().as_secs_f64() * 100.0).round() / 100.0);
            limiter.charge(booked, tokens);
        }
        starts
    }

    #[tokio::test(start_paused = true)]
    async fn requests_are_spaced() {
        assert_eq!(starts(&limiter(Some(60.0), None), 4, 500).await, [0.0, 1.0, 2.0, 3.0]);
        assert_eq!(starts(&limiter(Some(6.0), None), 3, 500).await, [0.0, 10.0, 20.0]);
        assert_eq!(starts(&limiter(None, None), 3, 500).await, [0.0; 3]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_pause_allows_a_burst_of_one_second_and_no_more() {
        let limiter = limiter(Some(240.0), None);
        assert_eq!(starts(&limiter, 2, 0).await, [0.0, 0.25]);
        tokio::time::sleep(Duration::from_secs(3600)).await;
        assert_eq!(starts(&limiter, 6, 0).await, [0.0, 0.0, 0.0, 0.0, 0.25, 0.5]);
    }

    #[tokio::test(start_paused = true)]
    async fn tokens_are_a_debt() {
        let one = limiter(None, Some(60_000.0));
        assert_eq!(starts(&one, 4, 5_000).await, [0.0, 5.0, 10.0, 15.0]);
        // An answer that never came costs nothing.
        let booked = one.wait().await;
        one.charge(booked, 0);
        assert_eq!(starts(&one, 2, 5_000).await, [0.0, 5.0]);
    }

    #[tokio::test(start_paused = true)]
    async fn many_at_once_are_spread_once_one_answer_is_known() {
        let limiter = limiter(None, Some(60_000.0));
        starts(&limiter, 1, 1_000).await;
        let began = Instant::now();
        let all = futures_util::future::join_all((0..10).map(|_| async {
            let booked = limiter.wait().await;
            let start = began.elapsed().as_secs_f64().round();
            limiter.charge(booked, 1_000);
            start
        }));
        assert_eq!(all.await, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0]);
    }
}
