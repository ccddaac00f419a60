//! The optimizer: AdamW (Loshchilov and Hutter, 2019) as in PyTorch, and `[optimizer]` of a recipe.
//!
//! ```text
//! m ← β₁ m + (1 − β₁) g      v ← β₂ v + (1 − β₂) g²
//! w ← w − rate · (m / (1 − β₁ᵗ) / (√(v / (1 − β₂ᵗ)) + ε) + decay · w)
//! ```

use serde::{Deserialize, Serialize};

use crate::schedule::{self, Schedule, Warmup};

/// AdamW's hyperparameters.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct AdamW {
    /// Decay rate of the first moment, the running mean of the gradient.
    pub(crate) beta1: f64,
    /// Decay rate of the second moment, the running mean of the squared gradient.
    pub(crate) beta2: f64,
    /// Added to the denominator for numerical stability.
    pub(crate) epsilon: f64,
    /// Decoupled weight decay of matrices; vectors (norms, biases) are not decayed.
    pub(crate) weight_decay: f64,
}

/// `[optimizer]`: AdamW and its learning rate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct OptimizerConfig {
    /// Peak learning rate, reached after the warmup.
    pub(crate) learning_rate: f64,
    /// Learning-rate schedule after the warmup. Default `linear`.
    #[serde(default)]
    pub(crate) schedule: Schedule,
    /// Warmup: a share of all steps below 1, or a number of steps. Default 0.
    #[serde(default)]
    pub(crate) warmup: Warmup,
    /// Decoupled weight decay. Default 0.0.
    #[serde(default)]
    pub(crate) weight_decay: f64,
    /// Decay rate of the first moment. Default 0.9.
    #[serde(default = "beta1")]
    pub(crate) beta1: f64,
    /// Decay rate of the second moment. Default 0.999.
    #[serde(default = "beta2")]
    pub(crate) beta2: f64,
    /// Added to the denominator for numerical stability. Default 1e-8.
    #[serde(default = "epsilon")]
    pub(crate) epsilon: f64,
    /// Maximum gradient norm; larger gradients are scaled down to it. Default 1.0.
    #[serde(default = "clip")]
    pub(crate) clip: f64,
}

fn beta1() -> f64 {
    0.9
}

fn beta2() -> f64 {
    0.999
}

fn epsilon() -> f64 {
    1e-8
}

fn clip() -> f64 {
    1.0
}

impl OptimizerConfig {
    /// The hyperparameters of the update.
    pub(crate) fn adamw(&self) -> AdamW {
        let Self { beta1, beta2, epsilon, weight_decay, .. } = *self;
        AdamW { beta1, beta2, epsilon, weight_decay }
    }

    /// Steps of the warmup in a run of `total` steps.
    pub(crate) fn warmup_steps(&self, total: u64) -> u64 {
        self.warmup.steps(total)
    }

    /// The learning rate of the optimizer step that follows `step` others, in a run of `total` steps.
    ///
    /// With a warmup the very first step has the rate 0, as in transformers.
    pub(crate) fn learning_rate_at(&self, step: u64, total: u64) -> f64 {
        self.learning_rate * schedule::factor(self.schedule, self.warmup, step, total)
    }
}
