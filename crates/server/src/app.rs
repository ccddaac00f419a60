//! What every handler sees: models, limits, keys, and what has been counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use gradus_label::Labeling;

use crate::hosts::Hosts;
use crate::jobs::Jobs;
use crate::keys::Keys;
use crate::limits::{Limits, Queue};
use crate::metrics::ServerMetrics;
use crate::models::Models;
use crate::telemetry::Telemetry;
use crate::tickets::Tickets;

/// A server's state.
pub(crate) struct App {
    pub(crate) models: Models,
    pub(crate) limits: Limits,
    pub(crate) keys: Keys,
    pub(crate) hosts: Hosts,
    pub(crate) queue: Queue,
    pub(crate) metrics: ServerMetrics,
    pub(crate) jobs: Jobs,
    pub(crate) tickets: Tickets,
    /// What people label, if they do.
    pub(crate) labeling: Option<Labeling>,
    /// Where spans of requests go, if anywhere.
    pub(crate) telemetry: Option<Telemetry>,
    ready: AtomicBool,
}

impl App {
    pub(crate) fn new(
        models: Models,
        limits: Limits,
        keys: Keys,
        hosts: Hosts,
        labeling: Option<Labeling>,
        telemetry: Option<Telemetry>,
    ) -> Arc<Self> {
        Arc::new(Self {
            queue: Queue::new(limits.queue),
            models,
            limits,
            keys,
            hosts,
            metrics: ServerMetrics::default(),
            jobs: Jobs::default(),
            tickets: Tickets::default(),
            labeling,
            telemetry,
            ready: AtomicBool::new(true),
        })
    }

    /// Whether new work is taken.
    pub(crate) fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Acquire)
    }

    /// Takes no new work from now on.
    pub(crate) fn stop(&self) {
        self.ready.store(false, Ordering::Release);
    }
}
