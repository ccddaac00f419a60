//! What one request, and all of them together, may cost.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::http::StatusCode;
use gradus_core::count::grouped;

use crate::error::ApiError;

/// What a request may become in memory, as a multiple of the largest body: its inputs, each with its own copy of what
/// they share, and the records of an upload.
const GROWTH: usize = 4;

/// Limits of a server. Each has an option of `gradus serve`.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Maximum size of a request body in bytes.
    pub body_bytes: usize,
    /// Maximum number of solutions or prompts in a request.
    pub inputs: usize,
    /// Maximum number of steps in a request, over all its solutions.
    pub steps: usize,
    /// Maximum number of tokens that a request may generate, over all its samples.
    pub generated_tokens: usize,
    /// Maximum number of requests that wait for a model or are being computed; more are answered with 429.
    pub queue: usize,
    /// Maximum duration of a request, from its header to its answer, or to the beginning of one that is a stream.
    pub timeout: Duration,
    /// Maximum duration of a request's header, of its body, and of a client's not reading its answer.
    pub read_timeout: Duration,
    /// Maximum number of connections.
    pub connections: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            body_bytes: 32 << 20,
            inputs: 4096,
            steps: 100_000,
            generated_tokens: 1 << 20,
            queue: 1024,
            timeout: Duration::from_secs(600),
            read_timeout: Duration::from_secs(30),
            connections: 4096,
        }
    }
}

impl Limits {
    /// Refuses a request whose inputs would take too many bytes if each had its own copy of what they share; `bytes` is
    /// what one copy takes.
    pub(crate) fn copies(&self, bytes: usize, inputs: usize) -> Result<(), ApiError> {
        self.grows_to(bytes.saturating_mul(inputs), "with what its inputs share, once for each of them")
    }

    /// Refuses a request that becomes too large in memory.
    pub(crate) fn grows_to(&self, bytes: usize, how: &str) -> Result<(), ApiError> {
        let most = self.body_bytes.saturating_mul(GROWTH);
        if bytes <= most {
            return Ok(());
        }
        let message = format!(
            "the request takes {} bytes {how}, more than {}, {GROWTH} times --max-body-bytes: send less in a request",
            grouped(bytes as u64),
            grouped(most as u64)
        );
        Err(ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, message))
    }
}

/// Counts the requests that wait for a model or are being computed.
#[derive(Debug)]
pub(crate) struct Queue {
    inside: Arc<AtomicUsize>,
    most: usize,
}

/// A place in the queue, given back when it is dropped.
#[derive(Debug)]
pub(crate) struct QueuePlace(Arc<AtomicUsize>);

impl Queue {
    pub(crate) fn new(most: usize) -> Self {
        Self { inside: Arc::default(), most }
    }

    /// A place, or the response that there is none.
    pub(crate) fn enter(&self) -> Result<QueuePlace, ApiError> {
        let entered = self.inside.fetch_update(Ordering::AcqRel, Ordering::Acquire, |inside| {
            (inside < self.most).then_some(inside + 1)
        });
        match entered {
            Ok(_) => Ok(QueuePlace(Arc::clone(&self.inside))),
            Err(_) => {
                Err(ApiError::busy(format!("{} requests are waiting already: try again later", self.most), 1))
            }
        }
    }

    /// The response that there is no place, if there is none.
    pub(crate) fn refusal(&self) -> Option<ApiError> {
        self.enter().err()
    }

    pub(crate) fn len(&self) -> usize {
        self.inside.load(Ordering::Acquire)
    }
}

impl Drop for QueuePlace {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_inputs_share_counts_once_for_each() {
        let limits = Limits { body_bytes: 100, ..Limits::default() };
        limits.copies(100, 4).unwrap();
        for (bytes, inputs) in [(100, 5), (1, 401), (usize::MAX, 2)] {
            let refused = limits.copies(bytes, inputs).unwrap_err();
            assert_eq!(refused.status, StatusCode::PAYLOAD_TOO_LARGE);
            assert!(refused.message.contains("400, 4 times --max-body-bytes"), "{}", refused.message);
        }
    }

    #[test]
    fn past_the_queue_is_429_until_a_place_is_given_back() {
        let queue = Queue::new(2);
        let (first, second) = (queue.enter().unwrap(), queue.enter().unwrap());
        let refused = queue.enter().unwrap_err();
        assert_eq!((refused.status, refused.retry_after), (StatusCode::TOO_MANY_REQUESTS, Some(1)));
        drop(first);
        assert_eq!(queue.len(), 1);
        let _third = queue.enter().unwrap();
        assert!(queue.enter().is_err());
        drop(second);
    }
}
