//! Benchmarks of process supervision, over anything that judges steps.
//!
//! - [`judge`]: what is measured: a reward model, a critic, scores in a file
//! - [`run`]: asks a judge about many solutions; a killed run resumes at the last answer
//! - [`processbench`], [`prmbench`], [`best_of_n`], [`preference`], [`labels`], [`drift`]: one benchmark each: from
//!   judgments to results, and to sections of a page
//! - [`fact`]: the observation of each sample; intervals and comparisons are computed from them
//! - [`compare`]: runs side by side
//! - [`report`]: `report.json` and `report.html`
//! - [`published`]: results that papers report
//!
//! A solution without a usable judgment stays in every denominator, counts as incorrect, and is reported.

pub mod best_of_n;
mod cells;
pub mod compare;
pub mod drift;
mod error;
mod estimate;
pub mod fact;
pub mod judge;
pub mod labels;
mod lm_eval;
pub mod perplexity;
pub mod preference;
pub mod prmbench;
pub mod processbench;
pub mod published;
pub mod report;
pub mod run;
mod sample;
mod step_scores;

pub use error::{Error, Result};
pub use estimate::MetricEstimate;
pub use sample::Sample;
