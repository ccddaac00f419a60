//! `/metrics` in the text format of Prometheus: the set that text-embeddings-inference has, under our prefix.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use axum::http::StatusCode;
use gradus_engine::{EngineMetrics, Histogram, HistogramCounts};

use crate::app::App;

/// Counts of requests by path.
#[derive(Debug, Default)]
pub(crate) struct ServerMetrics {
    paths: Mutex<BTreeMap<String, PathCounts>>,
}

#[derive(Debug, Default)]
struct PathCounts {
    requests: u64,
    success: u64,
    /// By status.
    failure: BTreeMap<u16, u64>,
    seconds: Histogram,
}

impl ServerMetrics {
    pub(crate) fn request(&self, path: &str, status: StatusCode, time: Duration) {
        let mut paths = self.paths.lock().unwrap_or_else(PoisonError::into_inner);
        let counts = paths.entry(path.to_owned()).or_default();
        counts.requests += 1;
        if status.is_success() {
            counts.success += 1;
        } else {
            *counts.failure.entry(status.as_u16()).or_default() += 1;
        }
        counts.seconds.observe(time.as_secs_f64());
    }
}

/// Name, help, and where an engine has it.
type HistogramFamily = (&'static str, &'static str, fn(&EngineMetrics) -> &HistogramCounts);
/// Name, kind, help, and where an engine has it.
type NumberFamily = (&'static str, &'static str, &'static str, fn(&EngineMetrics) -> f64);

/// The whole text.
pub(crate) fn text(app: &App) -> String {
    let mut out = Exposition::default();
    {
        let paths = app.metrics.paths.lock().unwrap_or_else(PoisonError::into_inner);
        out.family("gradus_request_count", "counter", "Requests received.");
        paths.iter().for_each(|(path, counts)| out.sample(&[("path", path)], counts.requests as f64));
        out.family("gradus_request_success", "counter", "Requests answered with success.");
        paths.iter().for_each(|(path, counts)| out.sample(&[("path", path)], counts.success as f64));
        out.family("gradus_request_failure", "counter", "Requests answered with an error, by status.");
        for (path, counts) in &*paths {
            for (status, count) in &counts.failure {
                out.sample(&[("path", path), ("status", &status.to_string())], *count as f64);
            }
        }
        out.family("gradus_request_duration_seconds", "histogram", "Time from request to answer.");
        paths.iter().for_each(|(path, counts)| out.histogram(("path", path), &counts.seconds.read()));
    }
    out.family("gradus_queue_size", "gauge", "Requests that wait for a model or are being computed.");
    out.sample(&[], app.queue.len() as f64);
    let engines: Vec<(&str, EngineMetrics)> = app.models.engines().collect();
    let histograms: [HistogramFamily; 4] = [
        ("gradus_request_tokenization_duration_seconds", "Time to write a request out as tokens.", |m| {
            &m.tokenization_seconds
        }),
        (
            "gradus_request_queue_duration_seconds",
            "Time from a request's arrival at the model to its first pass.",
            |m| &m.queue_seconds,
        ),
        ("gradus_request_inference_duration_seconds", "Time of a pass through the model.", |m| {
            &m.inference_seconds
        }),
        ("gradus_batch_tokens", "Tokens of a pass through the model.", |m| &m.batch_tokens),
    ];
    for (name, help, of) in histograms {
        out.family(name, "histogram", help);
        engines.iter().for_each(|(model, metrics)| out.histogram(("model", model), of(metrics)));
    }
    let numbers: [NumberFamily; 6] = [
        ("gradus_engine_queue_size", "gauge", "Requests that the model has not begun with.", |m| {
            m.queue_length as f64
        }),
        ("gradus_running_sequences", "gauge", "Sequences being generated.", |m| m.running_sequences as f64),
        ("gradus_prompt_tokens", "counter", "Prompt tokens processed.", |m| m.prompt_tokens as f64),
        ("gradus_generated_tokens", "counter", "Tokens generated.", |m| m.generated_tokens as f64),
        ("gradus_cancelled", "counter", "Pieces of work dropped because their client went away.", |m| {
            m.cancelled as f64
        }),
        ("gradus_busy_seconds", "counter", "Seconds spent in passes through the model.", |m| m.busy_seconds),
    ];
    for (name, kind, help, of) in numbers {
        out.family(name, kind, help);
        engines.iter().for_each(|(model, metrics)| out.sample(&[("model", model)], of(metrics)));
    }
    out.text
}

/// Writes the text format, version 0.0.4.
#[derive(Default)]
struct Exposition {
    text: String,
    family: &'static str,
}

impl Exposition {
    fn family(&mut self, name: &'static str, kind: &str, help: &str) {
        self.family = name;
        let _ = write!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
    }

    fn sample(&mut self, labels: &[(&str, &str)], value: f64) {
        let family = self.family;
        self.line(family, labels, value);
    }

    fn line(&mut self, name: &str, labels: &[(&str, &str)], value: f64) {
        let labels: Vec<String> =
            labels.iter().map(|(label, value)| format!("{label}=\"{}\"", escaped(value))).collect();
        let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
        let _ = writeln!(self.text, "{name}{labels} {value}");
    }

    fn histogram(&mut self, label: (&str, &str), counts: &HistogramCounts) {
        let name = self.family;
        let mut sum = 0;
        for (bound, count) in &counts.buckets {
            sum += count;
            let bound = if bound.is_finite() { bound.to_string() } else { "+Inf".to_owned() };
            self.line(&format!("{name}_bucket"), &[label, ("le", &bound)], sum as f64);
        }
        self.line(&format!("{name}_sum"), &[label], counts.sum);
        self.line(&format!("{name}_count"), &[label], sum as f64);
    }
}

/// As a label's value is written.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn histograms_are_cumulative_and_labels_escaped() {
        let seconds = Histogram::default();
        [0.0005, 0.02, 1e9].iter().for_each(|time| seconds.observe(*time));
        let mut out = Exposition::default();
        out.family("t", "histogram", "Times.");
        out.histogram(("path", "/a\"\n"), &seconds.read());
        let text = out.text;
        assert!(text.starts_with("# HELP t Times.\n# TYPE t histogram\n"), "{text}");
        assert!(text.contains("t_bucket{path=\"/a\\\"\\n\",le=\"+Inf\"} 3\n"), "{text}");
        assert!(text.contains("t_count{path=\"/a\\\"\\n\"} 3\n"), "{text}");
        let counts: Vec<f64> = (text.lines().filter(|line| line.contains("_bucket")))
            .map(|line| line.rsplit(' ').next().unwrap().parse().unwrap())
            .collect();
        assert!(counts.is_sorted() && counts.last() == Some(&3.0));
    }
}
