//! Structured logs on standard error, as text or as a JSON object per line. What users send is never part of them.
//!
//! `GRADUS_LOG` sets the lowest level: error, warn, info (default), debug or trace.

use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

/// Logs to standard error from now on; a second call has no effect.
pub fn log_to_stderr(as_json: bool) {
    let level = std::env::var("GRADUS_LOG").ok().and_then(|level| level.parse().ok());
    let level = level.unwrap_or(LevelFilter::INFO);
    let lines = fmt::layer().with_writer(std::io::stderr).with_target(false);
    let all = tracing_subscriber::registry().with(level);
    drop(if as_json {
        all.with(lines.json()).try_init()
    } else {
        all.with(lines.with_ansi(false)).try_init()
    });
}
