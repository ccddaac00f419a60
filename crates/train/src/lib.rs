//! Trains reward models and critics from step labels, on the engine's decoder: frozen base with LoRA, or whole.
//!
//! - [`Trainee`]: a model in training: one pass forward and back, and the update
//! - [`losses`]: pure functions of numbers, each with its gradient
//! - [`critic`]: what a critic is asked, how its answer is read and rewarded
//! - [`run`]: recipes, run folders, metrics, checkpoints that resume

pub mod adapter;
pub mod critic;
pub mod data;
mod error;
pub mod example;
mod heads;
mod layer;
mod lora;
pub mod losses;
pub mod objectives;
mod parameters;
pub mod plot;
mod projection;
mod readout;
pub mod run;
pub mod session;
mod trainee;
mod whole;

pub use error::{Error, Result};
pub use parameters::{AdamW, Gradients, Id, Parameter, Parameters};
pub use readout::{TokenLogProbs, scatter, select};
pub use trainee::{Method, Tape, Trainee, TraineeOptions};
