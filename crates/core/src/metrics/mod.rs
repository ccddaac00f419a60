//! Numbers of benchmarks, from plain predictions and truths.
//!
//! - [`process`]: ProcessBench: is the first error found?
//! - [`bias`]: does a judge lean towards 'correct' or 'wrong'?
//! - [`bootstrap`]: how sure a number is
//!
//! A number over no samples is `None`, never 0.

pub mod bias;
pub mod bootstrap;
pub mod process;

fn share(part: usize, whole: usize) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}
