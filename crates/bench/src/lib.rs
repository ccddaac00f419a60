//! Benchmarks of process supervision, over anything that judges steps.
//!
//! - [`judge`]: who is measured: a reward model, a critic, scores in a file
//! - [`run`]: asks a judge about many solutions, resumable at every answer
//! - [`processbench`], [`prmbench`], [`best_of_n`], [`preference`], [`labels`], [`drift`]: one benchmark each: from
//!   opinions to numbers, and to sections of a page
//! - [`fact`]: what was seen of each sample; intervals and comparisons are drawn from it
//! - [`compare`]: runs side by side
//! - [`report`]: `report.json` and `report.html`
//! - [`published`]: what papers report
//!
//! A solution that a judge has no usable opinion about stays in every denominator, as not right, and is counted.

pub mod best_of_n;
mod cells;
pub mod compare;
pub mod drift;
mod error;
pub mod fact;
mod figure;
pub mod judge;
pub mod labels;
pub mod perplexity;
pub mod preference;
pub mod prmbench;
pub mod processbench;
pub mod published;
pub mod report;
pub mod run;
mod sample;
pub mod step_scores;

pub use error::{Error, Result};
pub use figure::Figure;
pub use sample::Sample;
