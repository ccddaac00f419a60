//! A run on the terminal: a progress bar with the latest metrics, and a line per evaluation and best checkpoint.
//!
//! Without a terminal, a line every 30 seconds instead of the bar.

use std::path::Path;
use std::time::{Duration, Instant};

use gradus_train::run::metrics;
use gradus_train::{MetricValues, StepProgress, TrainingObserver, TrainingStart};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::terminal::progress::note;
use crate::terminal::visible::visible;
use crate::terminal::{interrupt, printer};
use gradus_core::count::{counted, grouped};

/// How often a line is printed where no bar can be.
const EVERY: Duration = Duration::from_secs(30);
/// Steps whose duration tells how long the rest will take.
const RECENT: usize = 50;

/// Shows a run and keeps what the summary needs.
pub(super) struct Display {
    bar: ProgressBar,
    live: bool,
    began: Instant,
    ends: Vec<f64>,
    spoke: Instant,
    start: Option<TrainingStart>,
    evaluation: MetricValues,
}

impl Display {
    pub(super) fn new(folder: &Path) -> Self {
        printer::note(format!("run folder: {}", folder.display()));
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        let live = !bar.is_hidden();
        interrupt::be_patient();
        let now = Instant::now();
        Self { bar, live, began: now, ends: Vec::new(), spoke: now, start: None, evaluation: Vec::new() }
    }

    /// Clears the bar; what the run began with, and its last evaluation.
    pub(super) fn finish(self) -> (Option<TrainingStart>, MetricValues) {
        self.bar.finish_and_clear();
        (self.start, self.evaluation)
    }

    fn line(&self, text: &str) {
        if self.live {
            self.bar.println(visible(text, false));
        } else {
            printer::note(text);
        }
    }
}

impl TrainingObserver for Display {
    fn on_start(&mut self, start: &TrainingStart) {
        let TrainingStart { examples, held_out, left_out, parameters, steps, done, warnings } = start;
        self.line(&format!(
            "{}, {}, {}, {}{}",
            counted(examples, "training example"),
            counted(held_out, "evaluation example"),
            counted(parameters, "trainable parameter"),
            counted(*steps, "step"),
            if *done > 0 { format!(", resuming after step {done}") } else { String::new() }
        ));
        for (reason, number) in left_out.iter() {
            self.line(&format!("omitted: {} × {reason}", grouped(number)));
        }
        for warning in warnings {
            self.line(&format!("warning: {warning}"));
        }
        note(*done, *steps);
        self.bar.set_length(*steps);
        self.bar.set_position(*done);
        if let Ok(style) = ProgressStyle::with_template("{bar:24} {pos}/{len}  {wide_msg}") {
            self.bar.set_style(style);
        }
        self.start = Some(start.clone());
    }

    fn on_step(&mut self, progress: &StepProgress) {
        self.ends.push(self.began.elapsed().as_secs_f64());
        let recent = &self.ends[self.ends.len().saturating_sub(RECENT)..];
        let left = metrics::seconds_left(recent, progress.steps - progress.step).map(metrics::duration);
        let message = format!(
            "epoch {:.2}  {}{}",
            progress.epoch,
            shown(&progress.metrics),
            left.map(|left| format!("  {left} left")).unwrap_or_default()
        );
        note(progress.step, progress.steps);
        self.bar.set_position(progress.step);
        self.bar.set_message(message.clone());
        if !self.live && self.spoke.elapsed() > EVERY {
            self.spoke = Instant::now();
            printer::note(format!("step {}/{}  {message}", progress.step, progress.steps));
        }
    }

    fn on_evaluation(&mut self, step: u64, metrics: &MetricValues) {
        self.line(&format!("step {step}  evaluation: {}", shown(metrics)));
        self.evaluation.clone_from(metrics);
    }

    fn on_checkpoint(&mut self, step: u64, best: bool) {
        if best {
            self.line(&format!("step {step}  saved: best checkpoint so far"));
        }
    }

    fn should_stop(&self) -> bool {
        interrupt::asked()
    }
}

/// `loss 0.3127  lr 9.1e-5  1,204 tok/s`, readable metrics.
fn shown(metrics: &MetricValues) -> String {
    let one = |(name, value): &(&'static str, f64)| match *name {
        "learning_rate" => format!("lr {value:.2e}"),
        "tokens_per_second" => format!("{} tok/s", grouped(value.round())),
        "gradient_norm" => format!("grad norm {value:.2}"),
        "memory_gib" => format!("{value:.1} GiB"),
        name => format!("{} {value:.4}", name.replace('_', " ")),
    };
    metrics.iter().map(one).collect::<Vec<_>>().join("  ")
}
