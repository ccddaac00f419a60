//! `[steps]` of a recipe: how long a run is, and when it evaluates and saves.

use serde::{Deserialize, Serialize};

use super::best::BestMetric;
use super::order::TrainingLength;

/// `[steps]`: length of the run, and intervals of evaluations and checkpoints, in optimizer steps.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct StepsConfig {
    /// Length of the run.
    pub(crate) length: TrainingLength,
    /// Evaluate every N steps, and after the last. Default `checkpoint_every`; none without evaluation data.
    pub(crate) eval_every: Option<u64>,
    /// Save a checkpoint every N steps, and after the last. Default 100.
    pub(crate) checkpoint_every: u64,
    /// Keep the last N checkpoints; the best one is always kept. Default 2.
    pub(crate) keep: usize,
    /// Which checkpoint is the best, and becomes the result. Default the lowest `loss`, for GRPO the highest `reward`;
    /// none without evaluation data, and with `result = "last"`.
    pub(crate) best: Option<BestMetric>,
}

impl StepsConfig {
    /// Whether the model is evaluated after `step`.
    pub(crate) fn evaluates_after(&self, step: u64, last: u64) -> bool {
        self.eval_every.is_some_and(|every| step == last || step.is_multiple_of(every))
    }

    /// Whether a checkpoint is saved after `step`.
    pub(crate) fn saves_after(&self, step: u64, last: u64) -> bool {
        step == last || step.is_multiple_of(self.checkpoint_every)
    }
}

/// Which checkpoint becomes the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ResultCheckpoint {
    Best,
    Last,
}

/// `[steps]` as it stands in a file.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StepsSection {
    #[serde(skip_serializing_if = "Option::is_none")]
    total: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    epochs: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    eval_every: Option<u64>,
    #[serde(default = "hundred")]
    checkpoint_every: u64,
    #[serde(default = "two")]
    keep: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<ResultCheckpoint>,
    #[serde(skip_serializing_if = "Option::is_none")]
    best: Option<BestMetric>,
}

fn hundred() -> u64 {
    100
}

fn two() -> usize {
    2
}

impl StepsSection {
    /// Fills in the defaults; without evaluation data, keys about evaluations are refused.
    pub(super) fn resolve(self, evaluates: bool, default_best: BestMetric) -> Result<StepsConfig, String> {
        let length = match (self.total, self.epochs) {
            (Some(total), None) => TrainingLength::Total(total),
            (None, Some(epochs)) => TrainingLength::Epochs(epochs),
            (None, None) => {
                return Err("[steps] needs `total` or `epochs`, which say how long to train".to_owned());
            }
            (Some(_), Some(_)) => {
                return Err("[steps] has both `total` and `epochs`: keep the one that is meant".to_owned());
            }
        };
        let idle = [
            ("eval_every", self.eval_every.is_some()),
            ("result", self.result.is_some()),
            ("best", self.best.is_some()),
        ];
        if let (false, Some((key, _))) = (evaluates, idle.iter().find(|(_, given)| *given)) {
            return Err(format!(
                "`{key}` in [steps] has no effect without data to evaluate on: name files in `eval` in [data]"
            ));
        }
        let last = self.result == Some(ResultCheckpoint::Last);
        if last && self.best.is_some() {
            return Err(
                "`best` in [steps] has no effect with `result = \"last\"`: keep the one that is meant"
                    .to_owned(),
            );
        }
        Ok(StepsConfig {
            length,
            eval_every: evaluates.then_some(self.eval_every.unwrap_or(self.checkpoint_every)),
            checkpoint_every: self.checkpoint_every,
            keep: self.keep,
            best: (evaluates && !last).then(|| self.best.unwrap_or(default_best)),
        })
    }
}

impl From<StepsConfig> for StepsSection {
    fn from(steps: StepsConfig) -> Self {
        let (total, epochs) = match steps.length {
            TrainingLength::Total(total) => (Some(total), None),
            TrainingLength::Epochs(epochs) => (None, Some(epochs)),
        };
        let StepsConfig { eval_every, checkpoint_every, keep, best, .. } = steps;
        let result = (eval_every.is_some() && best.is_none()).then_some(ResultCheckpoint::Last);
        Self { total, epochs, eval_every, checkpoint_every, keep, result, best }
    }
}
