//! ProcessBench: locating the first wrong step, and accepting correct solutions (Zheng et al., 2024).
//!
//! A solution's predicted first error is decided from its scores by a rule ([`gradus_core::select::decision`]), or what a
//! critic says. The rule that does not decide is shown beside the one that does, and so are scores alone where exact checks
//! of arithmetic decide, too. F1 is
//! the harmonic mean of the accuracies on solutions with and without an error; the average is the plain mean over
//! subsets. An undecided solution counts as incorrect everywhere. Any data with first errors will do; the official subsets are
//! told apart by their ids, other data by file.
//!
//! The table has four model-free baselines: always 'no error', always the first step, a random error at each step with the
//! rate that is best on this data, and an error at the first step over a length, with the length that is best on this data.
//! The last one is the one to beat: longer steps are wrong more often (docs/reference/benchmarks.md).

mod page;
mod results;

pub use page::sections;
pub use results::{
    Baseline, Decider, GroupResults, OtherRule, PriorPoint, ProcessBenchResults, SweepPoint, is_official,
    measure,
};
