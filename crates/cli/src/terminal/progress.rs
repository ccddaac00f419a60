//! A progress bar for anything that takes longer than two seconds. Where standard error is no terminal, it is a line every
//! ten seconds instead:
//!
//! ```text
//! 12,345/5,000,000 (0.2 %), 411/s, 3 h 22 min left, 5,432,100 tokens
//! ```
//!
//! With GRADUS_PROGRESS=json it is lines on standard error instead, for programs that show it in a way of their own:
//!
//! ```text
//! {"progress":{"done":12,"total":40,"unit":"tasks","message":"12 solutions"}}
//! ```

use std::io::{self, IsTerminal as _, Write as _};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use gradus_core::count::counted;

use super::progress_log::Position;
use super::visible::visible;

/// Work shorter than this shows no bar.
const PATIENCE: Duration = Duration::from_secs(2);
/// How often a bar or a line is written at most.
const SHOWN_EVERY: Duration = Duration::from_millis(200);

/// How often a line is written for people who read it later.
const LOGGED_EVERY: Duration = Duration::from_secs(10);

/// Whether progress is lines of text: nobody watches a bar.
static AS_LOG: LazyLock<bool> = LazyLock::new(|| !io::stderr().is_terminal());

/// Whether progress is lines of JSON.
static AS_LINES: LazyLock<bool> =
    LazyLock::new(|| std::env::var_os("GRADUS_PROGRESS").is_some_and(|form| form == "json"));

static DONE: AtomicUsize = AtomicUsize::new(0);
static TOTAL: AtomicUsize = AtomicUsize::new(0);

/// Tasks of this program done so far, and all of them; 0 where that is unknown.
pub(crate) fn latest() -> (usize, usize) {
    (DONE.load(Ordering::Relaxed), TOTAL.load(Ordering::Relaxed))
}

/// Notes how many tasks of this program are done. Bars do so themselves.
pub(crate) fn note(done: u64, total: u64) {
    DONE.store(done as usize, Ordering::Relaxed);
    TOTAL.store(total as usize, Ordering::Relaxed);
}

/// A bar that appears when the work turns out to be long.
pub(crate) struct Progress {
    bar: ProgressBar,
    started: Instant,
    /// Tasks, where the bar counts them and not bytes.
    tasks: Option<u64>,
    total: u64,
    /// When the last one was shown.
    shown: Option<Instant>,
    /// A line that came too soon after the last one.
    untold: Option<String>,
    /// Where the work began: what an earlier run did says nothing about this one's speed.
    first: Option<u64>,
}

impl Progress {
    /// A bar over `total` units; 0 when the total is unknown.
    pub(crate) fn new(total: u64, bytes: bool) -> Self {
        let bar = ProgressBar::with_draw_target((total > 0).then_some(total), ProgressDrawTarget::hidden());
        let template = match (total > 0, bytes) {
            (true, true) => "{bar:30} {bytes}/{total_bytes}  {bytes_per_sec}  {msg}  {eta} left",
            (true, false) => "{bar:30} {human_pos}/{human_len}  {per_sec}  {msg}  {eta} left",
            (false, _) => "{spinner} {human_pos}  {msg}  {elapsed}",
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        Self {
            bar,
            started: Instant::now(),
            tasks: (total > 0 && !bytes).then_some(total),
            total,
            shown: None,
            untold: None,
            first: None,
        }
    }

    /// Moves to `position` and shows the number of records done, now and then.
    pub(crate) fn at(&mut self, position: u64, records: u64) {
        if *AS_LINES || self.first.is_none() || self.is_due() {
            self.now(position, &counted(records, "record"));
        }
    }

    /// Moves to `position` at once, for steps that take long themselves.
    pub(crate) fn now(&mut self, position: u64, message: &str) {
        if let Some(total) = self.tasks {
            note(position, total);
        }
        let first = *self.first.get_or_insert(position);
        if *AS_LINES {
            return self.tell(position, message);
        }
        if *AS_LOG {
            return self.log(position, position - first.min(position), message);
        }
        if self.started.elapsed() > PATIENCE {
            if self.shown.is_none() {
                self.bar.set_draw_target(ProgressDrawTarget::stderr());
            }
            self.shown = Some(Instant::now());
            self.bar.set_position(position);
            self.bar.set_message(visible(message, false).into_owned());
        }
    }

    fn is_due(&self) -> bool {
        self.shown.unwrap_or(self.started).elapsed() > SHOWN_EVERY
    }

    /// Writes a line of text now and then, and the last one when the bar ends.
    fn log(&mut self, position: u64, done: u64, message: &str) {
        let at = Position {
            done: position,
            total: self.total,
            in_bytes: self.total > 0 && self.tasks.is_none(),
            rate: done as f64 / self.started.elapsed().as_secs_f64().max(1e-3),
        };
        let line = || at.line(&visible(message, false));
        if self.shown.unwrap_or(self.started).elapsed() >= LOGGED_EVERY {
            write_line(&line());
            self.shown = Some(Instant::now());
            self.untold = None;
        } else if self.shown.is_some() {
            self.untold = Some(line());
        }
    }

    fn tell(&mut self, done: u64, message: &str) {
        let unit = if self.tasks.is_some() { "tasks" } else { "bytes" };
        let told = serde_json::json!({"done": done, "total": self.total, "unit": unit, "message": message});
        let line = serde_json::json!({"progress": told}).to_string();
        if self.shown.is_some() && !self.is_due() {
            self.untold = Some(line);
        } else {
            self.shown = Some(Instant::now());
            self.untold = None;
            write_line(&line);
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
        if let Some(line) = &self.untold {
            write_line(line);
        }
    }
}

fn write_line(line: &str) {
    // A reader that has gone away does not stop the work.
    let _ = writeln!(io::stderr(), "{line}");
}
