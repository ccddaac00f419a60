//! Runs language models, reward models and sentence encoders on a CPU or a GPU, on candle.

mod error;
pub mod models;

pub use error::{Error, Result};
