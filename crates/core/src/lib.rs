//! Process supervision for reasoning models: types and pure functions, no files, no tensors, no network, no SQL.
//!
//! - [`Problem`], [`Solution`], [`Annotation`] and the [`Record`] that holds them: the data model
//! - [`RecordJoin`]: records of several files, joined by problem
//! - [`LabelChoice`]: which of several annotations counts
//! - [`contracts`]: what a model can be asked: generate, log-probabilities, step scores, embeddings
//! - [`steps`]: cut free text into steps and join it back
//! - [`metrics`]: metrics of benchmarks, with intervals
//! - [`select`]: choose among several solutions of one problem
//! - [`count`]: counts in sentences
//! - [`limits`]: how much is taken from files and servers; [`json`]: JSON within them
//! - [`time`]: when something happened
//!
//! Reading datasets is `gradus-data`'s job, comparing answers `gradus-grade`'s.
//!
//! ```
//! use gradus_core::{FirstError, Problem, Record, Solution};
//! let problem = Problem { id: "p".into(), text: "What is 2 + 3?".into(), ..Problem::default() };
//! let solution = Solution { id: "s".into(), problem_id: "p".into(), steps: vec!["2 + 3 = 5".into()], ..Solution::default() };
//! assert!(Record::new(problem, vec![solution]).validate().is_ok());
//! assert_eq!(serde_json::to_string(&FirstError::At(2)).unwrap(), "2");
//! ```

pub mod contracts;
pub mod count;
mod fault;
pub mod id;
mod join;
pub mod json;
mod label;
pub mod limits;
pub mod metrics;
mod problem;
mod record;
mod reference;
pub mod select;
mod solution;
pub mod steps;
pub mod time;
mod trust;

pub use fault::Fault;
pub use join::{JoinedPlace, RecordJoin};
pub use label::{Annotation, Cost, Evidence, FirstError, LabelSource, LabelsAfterError, Mark, StepLabel};
pub use problem::{Domain, FinalAnswer, Problem, without_calculator};
pub use record::Record;
pub use reference::{ReferenceProblem, ReferenceStep, References};
pub use solution::{Outcome, Solution};
pub use trust::LabelChoice;

/// Free-form fields that a source has and the model has no name for.
pub type Metadata = serde_json::Map<String, serde_json::Value>;
