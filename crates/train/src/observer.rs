//! What a training run tells its caller: start, steps, evaluations, checkpoints and end.

use std::path::PathBuf;

use crate::data::LeftOut;

/// Named metrics of a step or an evaluation.
pub type MetricValues = Vec<(&'static str, f64)>;

/// What a run starts with.
#[derive(Debug, Clone, PartialEq)]
pub struct TrainingStart {
    /// Training examples.
    pub examples: usize,
    /// Evaluation examples.
    pub held_out: usize,
    /// What could not be used, by reason.
    pub left_out: LeftOut,
    /// Number of trainable parameters.
    pub parameters: usize,
    /// Steps of the whole run.
    pub steps: u64,
    /// Steps done before the run was resumed.
    pub done: u64,
    /// Warnings about a resumed run.
    pub warnings: Vec<String>,
}

/// A finished step.
#[derive(Debug, Clone, PartialEq)]
pub struct StepProgress {
    /// Steps done.
    pub step: u64,
    /// Steps of the whole run.
    pub steps: u64,
    /// Epochs so far, with a fraction.
    pub epoch: f64,
    /// The step's metrics.
    pub metrics: MetricValues,
}

/// Watches a run, and may stop it early.
pub trait TrainingObserver {
    /// The data is read and the model is ready.
    fn on_start(&mut self, start: &TrainingStart);
    /// A step is done.
    fn on_step(&mut self, progress: &StepProgress);
    /// The model was evaluated after a step.
    fn on_evaluation(&mut self, step: u64, metrics: &MetricValues);
    /// A checkpoint was saved; whether it is the best so far.
    fn on_checkpoint(&mut self, step: u64, best: bool);
    /// Whether the run should stop before the next step; it can be resumed.
    fn should_stop(&self) -> bool {
        false
    }
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq)]
pub struct TrainingEnd {
    /// Steps done.
    pub step: u64,
    /// Whether all were.
    pub complete: bool,
    /// The adapter's or model's folder, when the run is complete.
    pub result: Option<PathBuf>,
    /// The step whose parameters the result has.
    pub best: u64,
}
