//! `metrics.jsonl`: one line for each step and split, in the order in which they happened.
//!
//! ```text
//! {"step":1,"time":1772366400.125,"split":"train","loss":0.693,"learning_rate":0.0001,"tokens_per_second":1210.0}
//! ```
//!
//! `step` counts the optimizer steps done so far, `time` is in seconds since 1970; all others are numbers with any
//! name. What is no number (a loss that is not finite) is written as null and read as NaN. Lines go to the file one
//! by one and at once. When a run is resumed, lines after the checkpoint are cut off, so the file ends up as if the
//! run had never stopped, but for `time` and speed.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use gradus_core::count::counted;
use gradus_core::time;
use serde::{Deserialize, Deserializer, Serialize};

use crate::Result;
use crate::error::io;

/// The split of evaluations; its metrics decide which checkpoint is the best.
pub(crate) const EVAL: &str = "eval";

/// Metrics of one split at one step: a line of `metrics.jsonl`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct MetricsLine {
    /// Optimizer steps done so far.
    pub step: u64,
    /// Seconds since 1970.
    pub time: f64,
    /// `train` or `eval`, or the name of another set that was evaluated on.
    pub split: String,
    /// The metrics by name.
    #[serde(flatten, deserialize_with = "numbers")]
    pub values: BTreeMap<String, f64>,
}

impl MetricsLine {
    /// A line with the current time.
    pub fn now<'a>(step: u64, split: &str, values: impl IntoIterator<Item = (&'a str, f64)>) -> Self {
        let values = values.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        Self { step, time: time::seconds(), split: split.to_owned(), values }
    }
}

fn numbers<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> std::result::Result<BTreeMap<String, f64>, D::Error> {
    let read = BTreeMap::<String, Option<f64>>::deserialize(deserializer)?;
    Ok(read.into_iter().map(|(name, value)| (name, value.unwrap_or(f64::NAN))).collect())
}

/// Adds lines to a `metrics.jsonl`.
#[derive(Debug)]
pub(crate) struct Metrics {
    path: PathBuf,
    file: File,
}

impl Metrics {
    /// Opens a file to add to, and makes it if there is none.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let file = OpenOptions::new().create(true).append(true).open(path).map_err(io(path))?;
        Ok(Self { path: path.to_owned(), file })
    }

    /// Adds a line, in one piece.
    pub(crate) fn append(&mut self, line: &MetricsLine) -> Result<()> {
        let mut text = serde_json::to_string(line).expect("a line has only what JSON can hold");
        text.push('\n');
        self.file.write_all(text.as_bytes()).map_err(io(&self.path))
    }

    /// Waits until all lines are on the disk.
    pub(crate) fn sync(&self) -> Result<()> {
        self.file.sync_data().map_err(io(&self.path))
    }
}

/// Reads all lines. A last line that was cut off by a kill is left out; a damaged one is left out and told (see
/// [`gradus_durable::on_damage`]), as its numbers cannot be had again. No file is no lines.
pub fn read(path: &Path) -> Result<Vec<MetricsLine>> {
    let text = match gradus_durable::read_plain(path, u64::MAX) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(error) if error.is_missing() => return Ok(Vec::new()),
        Err(error) => return Err(error.into()),
    };
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let whole: Vec<&str> = whole.lines().filter(|line| !line.trim().is_empty()).collect();
    let lines: Vec<MetricsLine> = whole.iter().filter_map(|line| serde_json::from_str(line).ok()).collect();
    if lines.len() < whole.len() {
        let damaged = counted(whole.len() - lines.len(), "damaged line");
        gradus_durable::report_damage(path, &format!("{damaged} skipped; the run itself is whole"));
    }
    Ok(lines)
}

/// Cuts off everything after `step`, and returns what stays.
pub(super) fn cut_after(path: &Path, step: u64) -> Result<Vec<MetricsLine>> {
    let mut lines = read(path)?;
    lines.retain(|line| line.step <= step);
    let mut text = String::new();
    for line in &lines {
        text += &serde_json::to_string(line).expect("a line has only what JSON can hold");
        text.push('\n');
    }
    gradus_durable::replace_plain_file(path, text.as_bytes())?;
    Ok(lines)
}

/// A smoothed curve as TensorBoard draws it: each value is a mean of those before it, older ones counting `weight`
/// times less with every step, without a bias towards 0 at the start. Values that are not finite are passed over.
pub(crate) fn smoothed(values: &[f64], weight: f64) -> Vec<f64> {
    let (mut sum, mut scale) = (0.0, 0.0);
    let smooth = |value: &f64| {
        if value.is_finite() {
            sum = weight * sum + (1.0 - weight) * value;
            scale = weight * scale + (1.0 - weight);
        }
        if scale > 0.0 { sum / scale } else { f64::NAN }
    };
    values.iter().map(smooth).collect()
}

/// How many seconds `left` steps will take, from the times at which recent steps ended. Evaluations and checkpoints
/// between them count, as they will again.
pub fn seconds_left(ends: &[f64], left: u64) -> Option<f64> {
    let (first, last) = (ends.first()?, ends.last()?);
    let each = (last - first) / (ends.len() - 1) as f64;
    (each.is_finite() && each > 0.0).then_some(each * left as f64)
}

/// `42 s`, `3 min 05 s`, `2 h 07 min`, `3 d 04 h`.
pub fn duration(seconds: f64) -> String {
    let seconds = seconds.max(0.0).round() as u64;
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match () {
        () if days > 0 => format!("{days} d {:02} h", hours % 24),
        () if hours > 0 => format!("{hours} h {:02} min", minutes % 60),
        () if minutes > 0 => format!("{minutes} min {:02} s", seconds % 60),
        () => format!("{seconds} s"),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn line(step: u64, split: &str, loss: f64) -> MetricsLine {
        MetricsLine { time: 1.5, ..MetricsLine::now(step, split, [("loss", loss)]) }
    }

    #[test]
    fn lines_come_back() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("metrics.jsonl");
        assert!(read(&path).unwrap().is_empty());
        let mut metrics = Metrics::open(&path).unwrap();
        for (step, loss) in [(1, 0.1 + 0.2), (2, f64::NAN), (3, 1e-300)] {
            metrics.append(&line(step, "train", loss)).unwrap();
        }
        drop(metrics);
        Metrics::open(&path).unwrap().append(&line(3, "eval", 0.5)).unwrap();
        insta::assert_snapshot!(fs::read_to_string(&path).unwrap(), @r#"
        {"step":1,"time":1.5,"split":"train","loss":0.30000000000000004}
        {"step":2,"time":1.5,"split":"train","loss":null}
        {"step":3,"time":1.5,"split":"train","loss":1e-300}
        {"step":3,"time":1.5,"split":"eval","loss":0.5}
        "#);
        let back = read(&path).unwrap();
        assert!(back[1].values["loss"].is_nan());
        assert_eq!(back[2].values["loss"], 1e-300);
    }

    #[test]
    fn cutting_leaves_what_the_checkpoint_knows() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("metrics.jsonl");
        let mut metrics = Metrics::open(&path).unwrap();
        for step in 1..=4 {
            metrics.append(&line(step, "train", step as f64)).unwrap();
        }
        let whole = fs::read_to_string(&path).unwrap();
        OpenOptions::new().append(true).open(&path).unwrap().write_all(b"{\"step\":5,\"ti").unwrap();
        let kept = cut_after(&path, 2).unwrap();
        assert_eq!(kept.len(), 2);
        let expected: String = whole.split_inclusive('\n').take(2).collect();
        assert_eq!(fs::read_to_string(&path).unwrap(), expected);
    }

    #[test]
    fn a_damaged_line_costs_itself_and_a_resumed_run_removes_it() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("metrics.jsonl");
        let good = |step: u64| format!("{{\"step\":{step},\"time\":1.5,\"split\":\"train\"}}\n");
        fs::write(&path, [good(1), "{\"step\":2,\u{1}".to_owned(), "\n".to_owned(), good(3)].concat())
            .unwrap();
        let steps = |lines: Vec<MetricsLine>| lines.iter().map(|line| line.step).collect::<Vec<_>>();
        assert_eq!(steps(read(&path).unwrap()), [1, 3]);
        assert_eq!(steps(cut_after(&path, 3).unwrap()), [1, 3]);
        assert_eq!(fs::read_to_string(&path).unwrap(), good(1) + &good(3));
    }

    #[test]
    fn smoothing_starts_without_bias() {
        // (1, then (½·½·1 + ½·3) / ¾)
        assert_eq!(smoothed(&[1.0, 3.0], 0.5), [1.0, 1.75 / 0.75]);
        assert_eq!(smoothed(&[f64::NAN, 2.0, f64::INFINITY], 0.9)[1..], [2.0, 2.0]);
    }

    #[test]
    fn time_left() {
        assert_eq!(seconds_left(&[10.0, 12.0, 14.0], 100), Some(200.0));
        assert_eq!(seconds_left(&[10.0], 100), None);
        assert_eq!(seconds_left(&[], 100), None);
        assert_eq!(
            ["42 s", "3 min 05 s", "2 h 07 min", "3 d 04 h"],
            [42.0, 185.0, 7620.0, 273_600.0].map(duration)
        );
    }
}
