//! Runs language models, reward models and sentence encoders on a CPU or a GPU, on candle.

mod constrain;
mod error;
mod gguf;
mod sample;
pub mod text;

pub use constrain::{Grammar, Matcher};
pub use error::{Error, Result};
pub use gguf::{Array, FromValue, Gguf, TensorInfo, TensorKind, Value};
pub use sample::{Drawn, Sampler};
