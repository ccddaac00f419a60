//! Annotators: they label the steps of a solution as right or wrong, and count what that costs.
//!
//! | annotator | what it asks | needs |
//! |---|---|---|
//! | [`monte_carlo`] | do completions of this prefix still reach the right answer? | the right answer |
//! | [`judge`] | where is the first error? | a model that can tell |
//! | [`mod@reference`] | how does each step compare with a reference solution (SPARE)? | a reference solution |
//! | [`exact`] | is arithmetic in this step proved wrong? | nothing |
//! | [`consensus`] | do several annotators agree on the first error? | their labels |
//! | [`relabel`] | what is Monte Carlo's label at another threshold? | its counts |
//! | [`ensemble`] | what do several annotators say together? | their labels |
//!
//! The first three are plain async functions over `gradus_core::contracts::Generate`, so a server, the local engine and a
//! script are interchangeable; the others only count. [`sample()`] draws the solutions that are to be labeled.
//! An unusable response is [`Undecided`] with a reason and its text, never a guess, and every token is counted.

mod annotated;
pub mod consensus;
pub mod dawid_skene;
pub mod ensemble;
mod error;
pub mod exact;
pub mod judge;
mod label_counts;
mod metered_model;
pub mod monte_carlo;
pub mod prompt;
pub mod reference;
pub mod relabel;
pub mod report;
pub mod sample;
mod seed;

pub use annotated::{Annotated, Undecided};
pub use error::{Error, Result};
pub use label_counts::LabelCounts;
pub use sample::sample;
