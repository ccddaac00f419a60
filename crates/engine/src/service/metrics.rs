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
}

/// The counters at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
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

    pub(super) fn pass(&self, tokens: usize, time: Duration) {
        self.passes.fetch_add(1, Relaxed);
        self.pass_tokens.fetch_add(tokens as u64, Relaxed);
        self.busy_micros.fetch_add(time.as_micros() as u64, Relaxed);
    }

    pub(super) fn step(&self, sequences: usize, time: Duration) {
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
        }
    }
}
