//! Trains reward models and critics from step labels, on the engine's decoder: LoRA on a frozen base, or full
//! fine-tuning.
//!
//! - [`train`]: runs a recipe in a run folder, or resumes it
//! - [`export()`]: writes a recipe for a trainer of another framework
//! - [`run`]: recipes and metrics of runs
//! - [`curves`]: metrics of runs as an HTML page
//! - [`critic`]: the critic's prompt, how its answer is parsed and rewarded, and its training data
//!
//! Inside, `objectives` has the training loops, `losses` pure functions of numbers, each with its gradient, and
//! `trainable` the forward pass, backward pass and optimizer step.
//!
//! ```no_run
//! use std::path::Path;
//!
//! use gradus_train::run::Recipe;
//! # fn observe(observer: &mut dyn gradus_train::TrainingObserver) -> gradus_train::Result<()> {
//! let recipe = Recipe::read(Path::new("recipes/tiny/prm.toml"), &[])?;
//! let end = gradus_train::train(&recipe, Path::new("runs/tiny-prm"), Vec::new(), observer)?;
//! # assert!(end.complete);
//! # Ok(())
//! # }
//! ```

mod adapter;
pub mod critic;
pub mod curves;
mod data;
mod error;
mod example;
mod export;
mod full_model;
mod heads;
mod layer;
mod load;
mod lora;
mod losses;
mod objectives;
mod observer;
mod optimizer;
mod parameters;
mod prepared;
mod projection;
mod readout;
pub mod run;
mod schedule;
mod session;
#[cfg(test)]
mod tests;
mod trainable;
mod trained;

use std::path::Path;

pub use data::LeftOut;
pub use error::{Error, Result};
pub use export::{ExportSummary, ExportTarget, export};
pub use observer::{MetricValues, StepProgress, TrainingEnd, TrainingObserver, TrainingStart};

use prepared::{PreparedRecipe, RunFolder};
use run::{Objective, Recipe};

/// Runs a recipe in `folder`, or resumes the run that is there. `command` is kept in the run's record.
pub fn train(
    recipe: &Recipe,
    folder: &Path,
    command: Vec<String>,
    observer: &mut dyn TrainingObserver,
) -> Result<TrainingEnd> {
    let folder = RunFolder::find(recipe, folder, command)?;
    let prepared = PreparedRecipe::new(recipe)?;
    match &recipe.objective {
        Objective::Sft(config) => objectives::sft::train(prepared, folder, config, observer),
        Objective::Prm(config) => objectives::prm::train(prepared, folder, config, observer),
        Objective::Orm(config) => objectives::orm::train(prepared, folder, config, observer),
        Objective::Orpo(config) => objectives::orpo::train(prepared, folder, config, observer),
        Objective::Grpo(config) => objectives::grpo::train(prepared, folder, config, observer),
    }
}
