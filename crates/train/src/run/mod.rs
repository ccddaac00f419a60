//! What every training run shares, whatever it trains: the recipe, the run folder, metrics and checkpoints.
//!
//! - `recipe`: model, data, objective and hyperparameters
//! - `steps`: the length of a run, and when it evaluates and saves
//! - `order`: which examples a step sees, and every other random choice, as functions of seed and step
//! - `folder`: the run folder, which can be killed at any instant and resumed
//! - `checkpoint`: tensors and state that are restored bit by bit
//! - `best`: the best checkpoint
//! - [`metrics`]: `metrics.jsonl`, and what a display makes of it
//! - `card`: the model card
//! - `tensorboard`: the same metrics as event files

pub(crate) mod best;
pub(crate) mod card;
pub(crate) mod checkpoint;
pub(crate) mod folder;
pub(crate) mod inputs;
mod leftovers;
pub mod metrics;
pub(crate) mod order;
pub(crate) mod recipe;
pub(crate) mod steps;
mod tensorboard;

pub use metrics::MetricsLine;
pub(crate) use recipe::Objective;
pub use recipe::Recipe;
