//! Process supervision for reasoning models: types and pure functions, no tensors, no network, no SQL.
//!
//! - [`data`]: problems, solutions, labels; every dataset format; files of any container
//! - [`contracts`]: what a model can be asked: generate, log-probabilities, step scores, embeddings
//! - [`steps`]: cut free text into steps and join it back
//! - [`grade`]: extract final answers and decide whether two are equal
//! - [`metrics`]: numbers of benchmarks, with intervals
//! - [`select`]: choose among several solutions of one problem
//! - [`synth`]: a synthetic world of step-labelled problems
//! - [`time`]: when something happened
//!
//! ```
//! use gradus_core::grade::{Verdict, compare};
//! assert_eq!(compare(r"\frac{1}{2}", "0.5"), Verdict::Equal);
//! ```

pub mod contracts;
pub mod data;
mod error;
pub mod grade;
pub mod metrics;
pub mod select;
pub mod steps;
pub mod synth;
pub mod time;

pub use error::{Error, Fault, Place, Result};
