//! Learning-rate schedules: a linear warmup from 0, then linear, cosine or constant.
//!
//! The formulas are those of transformers (`get_linear_schedule_with_warmup`, `get_cosine_schedule_with_warmup`,
//! `get_constant_schedule_with_warmup`, `TrainingArguments.get_warmup_steps`), so recipes carry over. With w warmup
//! steps of n, and `step` optimizer steps already done:
//!
//! ```text
//! step < w:  step / w
//! linear:    (n − step) / (n − w)
//! cosine:    (1 + cos(π (step − w) / (n − w))) / 2
//! constant:  1
//! ```

use std::f64::consts::PI;

use serde::{Deserialize, Serialize};

/// Learning-rate schedule after the warmup.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Schedule {
    /// Linear decay to 0.
    #[default]
    Linear,
    /// Cosine decay to 0.
    Cosine,
    /// Constant.
    Constant,
}

/// Length of the linear warmup.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(untagged, expecting = "expected a share of all steps below 1, or a whole number of steps")]
pub(crate) enum Warmup {
    /// A number of steps.
    Steps(u64),
    /// A share of all steps, rounded up to whole steps.
    Share(f64),
}

impl Default for Warmup {
    fn default() -> Self {
        Self::Steps(0)
    }
}

impl Warmup {
    /// The warmup in steps.
    pub(crate) fn steps(self, total: u64) -> u64 {
        match self {
            Self::Steps(steps) => steps,
            Self::Share(share) => (total as f64 * share).ceil() as u64,
        }
    }
}

/// What the peak learning rate is multiplied by, for the step that follows `step` others in a run of `total` steps.
pub(crate) fn factor(schedule: Schedule, warmup: Warmup, step: u64, total: u64) -> f64 {
    let warmup = warmup.steps(total);
    if step < warmup {
        return step as f64 / warmup as f64;
    }
    let falling = total.saturating_sub(warmup).max(1) as f64;
    match schedule {
        Schedule::Constant => 1.0,
        Schedule::Linear => total.saturating_sub(step) as f64 / falling,
        Schedule::Cosine => {
            let progress = (step - warmup) as f64 / falling;
            (0.5 * (1.0 + (PI * progress).cos())).max(0.0)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Written by hand from the formulas above: n = 10, w = 2.
    const STEPS: [u64; 6] = [0, 1, 2, 4, 6, 10];

    fn factors(schedule: Schedule) -> [f64; 6] {
        STEPS.map(|step| factor(schedule, Warmup::Steps(2), step, 10))
    }

    fn close(found: [f64; 6], expected: [f64; 6]) {
        for (found, expected) in found.into_iter().zip(expected) {
            assert!((found - expected).abs() < 1e-12, "{found} is not {expected}");
        }
    }

    #[test]
    fn linear() {
        close(factors(Schedule::Linear), [0.0, 0.5, 1.0, 0.75, 0.5, 0.0]);
    }

    #[test]
    fn cosine() {
        // cos(π/4) = √½ and cos(π/2) = 0.
        let quarter = 0.5 * (1.0 + 0.5_f64.sqrt());
        close(factors(Schedule::Cosine), [0.0, 0.5, 1.0, quarter, 0.5, 0.0]);
    }

    #[test]
    fn constant() {
        close(factors(Schedule::Constant), [0.0, 0.5, 1.0, 1.0, 1.0, 1.0]);
    }

    #[test]
    fn without_warmup_the_first_step_is_full() {
        for schedule in [Schedule::Linear, Schedule::Cosine, Schedule::Constant] {
            assert_eq!(factor(schedule, Warmup::default(), 0, 10), 1.0);
        }
    }

    #[test]
    fn a_warmup_longer_than_the_run_is_no_accident() {
        assert_eq!(factor(Schedule::Linear, Warmup::Steps(20), 5, 10), 0.25);
        assert_eq!(factor(Schedule::Linear, Warmup::Steps(20), 20, 10), 0.0);
    }

    #[test]
    fn shares_round_up() {
        // math.ceil(1000 * 0.03) is 30, math.ceil(101 * 0.03) is 4.
        assert_eq!(Warmup::Share(0.03).steps(1000), 30);
        assert_eq!(Warmup::Share(0.03).steps(101), 4);
        assert_eq!(Warmup::Steps(7).steps(101), 7);
    }
}
