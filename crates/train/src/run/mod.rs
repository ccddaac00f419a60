//! What every training run shares, whatever it trains: the recipe, the run folder, metrics and checkpoints.
//!
//! - [`recipe`]: what is trained on what, and how
//! - [`schedule`]: the learning rate at a step
//! - [`order`]: which examples a step sees, and every other random choice, as functions of seed and step
//! - [`folder`]: the run folder, which can be killed at any instant and resumed
//! - [`checkpoint`]: tensors and state that come back bit by bit
//! - [`metrics`]: `metrics.jsonl`, and what a display makes of it
//! - [`card`]: the model card
//! - [`tensorboard`]: the same numbers as event files

pub mod card;
pub mod checkpoint;
pub mod folder;
mod inputs;
pub mod metrics;
pub mod order;
pub mod recipe;
pub mod schedule;
pub mod tensorboard;
mod write;

pub use checkpoint::{Checkpoint, Tensors};
pub use folder::{Resumed, Run, Setting};
pub use inputs::Input;
pub use metrics::{Line, Metrics};
pub use recipe::Recipe;
