//! What a service has done: queue length, passes and how full they were, tokens and seconds.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use serde::Serialize;

/// Counters that the worker writes and anyone may read.
#[derive(Debug)]
pub(crate) struct Metrics {
    budget: u64,
    queued: AtomicU64,
    running: AtomicU64,
    passes: AtomicU64,
    pass_tokens: AtomicU64,
    generated_tokens: AtomicU64,
    generation_steps: AtomicU64,
    busy_micros: AtomicU64,
    cancelled: AtomicU64,
    failed: AtomicU64,
    tokenization: Histogram,
    waiting: Histogram,
    inference: Histogram,
    batches: Histogram,
}

/// The counters at one moment.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct EngineMetrics {
    /// Requests waiting in the queue.
    pub queue_length: u64,
    /// Sequences being generated.
    pub running_sequences: u64,
    /// Passes over prompts.
    pub passes: u64,
    /// Tokens in those passes.
    pub prompt_tokens: u64,
    /// Mean share of the token budget that a pass used; above 1 when single prompts exceeded it.
    pub batch_fill: f64,
    /// Tokens generated.
    pub generated_tokens: u64,
    /// Steps of generation, each one token for every running sequence.
    pub generation_steps: u64,
    /// Seconds spent in passes and steps.
    pub busy_seconds: f64,
    /// Prompt and generated tokens per busy second.
    pub tokens_per_second: f64,
    /// Requests dropped because their caller went away.
    pub cancelled: u64,
    /// Requests answered with an error.
    pub failed: u64,
    /// Seconds to write each request out as tokens.
    pub tokenization_seconds: HistogramCounts,
    /// Seconds from each request's arrival until it was taken in.
    pub queue_seconds: HistogramCounts,
    /// Seconds of each pass and each step of generation.
    pub inference_seconds: HistogramCounts,
    /// Tokens of each pass.
    pub batch_tokens: HistogramCounts,
}

/// Counts of numbers by size: anyone may add one, and anyone may read.
///
/// ```
/// let seconds = gradus_engine::Histogram::default();
/// seconds.observe(0.3);
/// seconds.observe(2.0);
/// let counts = seconds.read();
/// assert_eq!(counts.sum, 2.3);
/// assert_eq!(counts.buckets.iter().filter(|(_, count)| *count > 0).count(), 2);
/// ```
#[derive(Debug)]
pub struct Histogram {
    bounds: Vec<f64>,
    counts: Vec<AtomicU64>,
    sum_millionths: AtomicU64,
}

/// A histogram at one moment.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HistogramCounts {
    /// Upper bounds, the last one infinite, and how many numbers are at most that and above the one before.
    pub buckets: Vec<(f64, u64)>,
    /// The sum of all numbers.
    pub sum: f64,
}

impl Histogram {
    /// Buckets that double from `first`, so many of them, and one for all that is larger.
    pub fn doubling(first: f64, buckets: usize) -> Self {
        let bounds: Vec<f64> = (0..buckets).map(|power| first * 2f64.powi(power as i32)).collect();
        let counts = (0..=buckets).map(|_| AtomicU64::new(0)).collect();
        Self { bounds, counts, sum_millionths: AtomicU64::new(0) }
    }

    /// Adds a number.
    pub fn observe(&self, value: f64) {
        let place = self.bounds.partition_point(|bound| *bound < value);
        self.counts[place].fetch_add(1, Relaxed);
        self.sum_millionths.fetch_add((value * 1e6) as u64, Relaxed);
    }

    /// What has been added so far.
    pub fn read(&self) -> HistogramCounts {
        let bounds = self.bounds.iter().copied().chain([f64::INFINITY]);
        let buckets = bounds.zip(self.counts.iter().map(|count| count.load(Relaxed))).collect();
        HistogramCounts { buckets, sum: self.sum_millionths.load(Relaxed) as f64 / 1e6 }
    }
}

impl Default for Histogram {
    /// Seconds: from a tenth of a millisecond to about a quarter of an hour.
    fn default() -> Self {
        Self::doubling(1e-4, 24)
    }
}

impl Metrics {
    pub(super) fn new(budget: usize) -> Self {
        let zero = || AtomicU64::new(0);
        Self {
            budget: budget.max(1) as u64,
            queued: zero(),
            running: zero(),
            passes: zero(),
            pass_tokens: zero(),
            generated_tokens: zero(),
            generation_steps: zero(),
            busy_micros: zero(),
            cancelled: zero(),
            failed: zero(),
            tokenization: Histogram::default(),
            waiting: Histogram::default(),
            inference: Histogram::default(),
            batches: Histogram::doubling(16.0, 14),
        }
    }

    pub(super) fn queue(&self) {
        self.queued.fetch_add(1, Relaxed);
    }

    pub(super) fn dequeue(&self) {
        self.queued.fetch_sub(1, Relaxed);
    }

    pub(super) fn cancel(&self) {
        self.cancelled.fetch_add(1, Relaxed);
    }

    pub(super) fn fail(&self, requests: usize) {
        self.failed.fetch_add(requests as u64, Relaxed);
    }

    pub(super) fn tokenize(&self, time: Duration) {
        self.tokenization.observe(time.as_secs_f64());
    }

    pub(super) fn wait(&self, time: Duration) {
        self.waiting.observe(time.as_secs_f64());
    }

    pub(super) fn pass(&self, tokens: usize, time: Duration) {
        self.inference.observe(time.as_secs_f64());
        self.batches.observe(tokens as f64);
        self.passes.fetch_add(1, Relaxed);
        self.pass_tokens.fetch_add(tokens as u64, Relaxed);
        self.busy_micros.fetch_add(time.as_micros() as u64, Relaxed);
    }

    pub(super) fn step(&self, sequences: usize, time: Duration) {
        self.inference.observe(time.as_secs_f64());
        self.generation_steps.fetch_add(1, Relaxed);
        self.generated_tokens.fetch_add(sequences as u64, Relaxed);
        self.busy_micros.fetch_add(time.as_micros() as u64, Relaxed);
    }

    pub(super) fn running(&self, sequences: usize) {
        self.running.store(sequences as u64, Relaxed);
    }

    pub(super) fn read(&self) -> EngineMetrics {
        let (passes, prompt_tokens) = (self.passes.load(Relaxed), self.pass_tokens.load(Relaxed));
        let generated_tokens = self.generated_tokens.load(Relaxed);
        let busy_seconds = self.busy_micros.load(Relaxed) as f64 / 1e6;
        let tokens = (prompt_tokens + generated_tokens) as f64;
        EngineMetrics {
            queue_length: self.queued.load(Relaxed),
            running_sequences: self.running.load(Relaxed),
            passes,
            prompt_tokens,
            batch_fill: prompt_tokens as f64 / (passes.max(1) * self.budget) as f64,
            generated_tokens,
            generation_steps: self.generation_steps.load(Relaxed),
            busy_seconds,
            tokens_per_second: if busy_seconds > 0.0 { tokens / busy_seconds } else { 0.0 },
            cancelled: self.cancelled.load(Relaxed),
            failed: self.failed.load(Relaxed),
            tokenization_seconds: self.tokenization.read(),
            queue_seconds: self.waiting.read(),
            inference_seconds: self.inference.read(),
            batch_tokens: self.batches.read(),
        }
    }
}
