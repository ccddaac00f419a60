//! The learning rate at a step: it rises in a straight line from 0, then follows the schedule.
//!
//! The formulas are those of transformers (`get_linear_schedule_with_warmup`, `get_cosine_schedule_with_warmup`,
//! `get_constant_schedule_with_warmup`, `TrainingArguments.get_warmup_steps`), so recipes carry over. With w warm-up
//! steps of n, and `step` changes of weights already made:
//!
//! ```text
//! step < w:  step / w
//! linear:    (n − step) / (n − w)
//! cosine:    (1 + cos(π (step − w) / (n − w))) / 2
//! constant:  1
//! ```

use std::f64::consts::PI;

use super::recipe::{Optimiser, Schedule, Warmup};

/// The learning rate of the step that follows `step` changes of weights, in a run of `total` steps.
///
/// The very first step after a warm-up's start has the rate 0, as in transformers.
pub fn learning_rate(optimiser: &Optimiser, step: u64, total: u64) -> f64 {
    optimiser.learning_rate * factor(optimiser.schedule, step, warmup_steps(optimiser.warmup, total), total)
}

/// The warm-up in steps; a share is rounded up.
pub fn warmup_steps(warmup: Warmup, total: u64) -> u64 {
    match warmup {
        Warmup::Steps(steps) => steps,
        Warmup::Share(share) => (total as f64 * share).ceil() as u64,
    }
}

fn factor(schedule: Schedule, step: u64, warmup: u64, total: u64) -> f64 {
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
        STEPS.map(|step| factor(schedule, step, 2, 10))
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
            assert_eq!(factor(schedule, 0, 0, 10), 1.0);
        }
    }

    #[test]
    fn a_warmup_longer_than_the_run_is_no_accident() {
        assert_eq!(factor(Schedule::Linear, 5, 20, 10), 0.25);
        assert_eq!(factor(Schedule::Linear, 20, 20, 10), 0.0);
    }

    #[test]
    fn shares_round_up() {
        // math.ceil(1000 * 0.03) is 30, math.ceil(101 * 0.03) is 4.
        assert_eq!(warmup_steps(Warmup::Share(0.03), 1000), 30);
        assert_eq!(warmup_steps(Warmup::Share(0.03), 101), 4);
        assert_eq!(warmup_steps(Warmup::Steps(7), 101), 7);
    }
}
