//! Numbers of benchmarks, from plain predictions and truths.
//!
//! - [`process`]: ProcessBench: is the first error found?
//! - [`prmbench`]: PRMBench: is every step judged right?
//! - [`bias`]: does a judge lean towards 'correct' or 'wrong'?
//! - [`labels`]: does an annotator label steps as humans do?
//! - [`kappa`]: do two people agree beyond chance?
//! - [`alignment`]: what do reference-guided labels rest on?
//! - [`drift`]: does a process reward model look at the steps, or at the answer?
//! - [`ranking`]: do right things score above wrong ones?
//! - [`calibration`]: does a score come true as often as it says?
//! - [`regression`]: a line, its p-value and its band
//! - [`bootstrap`]: how sure a number is, by resampling
//! - [`exact`]: how sure a share is, by counting
//!
//! A number over no samples is `None`, never 0.

pub mod alignment;
pub mod bias;
pub mod bootstrap;
pub mod calibration;
pub mod drift;
pub mod exact;
pub mod kappa;
pub mod labels;
pub mod prmbench;
pub mod process;
pub mod ranking;
#[cfg(test)]
mod reference;
pub mod regression;

fn share(part: usize, whole: usize) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}
