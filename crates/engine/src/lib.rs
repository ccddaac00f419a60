//! Runs language models, reward models and sentence encoders on a CPU or a GPU, on candle.
//!
//! - [`Model`]: weights (safetensors, GGUF, LoRA adapters) and tokenizer, loaded
//! - [`Engine`]: a thread that owns a model and serves the contracts of `gradus-core`: text, log-probabilities, step
//!   scores, embeddings
//! - [`profile`]: what a process reward model expects, as data
//! - [`models`]: models on disk: names, downloads, cache
//! - [`text`]: tokenizers and chat templates
//! - [`ops`], [`parts`], [`batch`]: what training builds on
//! - [`precision`]: the arithmetic of products in files
//!
//! ```no_run
//! use gradus_core::contracts::{ScoreRequest, ScoreSteps};
//! use gradus_engine::{Engine, LoadOptions, Model, ServiceOptions, models, profile::Profile};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let model = Model::load(&models::resolve("smollm2-135m")?, &LoadOptions::default())?;
//! let engine = Engine::start(model, Some(Profile::find("plain")?), ServiceOptions::default())?;
//! let request = ScoreRequest {
//!     id: "mine".into(),
//!     problem: "What is 2 + 3 · 4?".into(),
//!     steps: vec!["3 · 4 = 12".into(), "2 + 12 = 15".into()],
//!     ..Default::default()
//! };
//! let scores = engine.score_steps(vec![request]).await?;
//! # Ok(())
//! # }
//! ```

mod attention;
pub mod batch;
mod cache;
pub mod config;
mod constrain;
#[cfg(feature = "cuda")]
mod cuda;
mod decode;
mod decoder;
mod device;
mod encoder;
mod error;
mod generate;
mod gguf;
#[cfg(test)]
mod golden;
mod head;
mod host_buffer;
mod join;
mod linear;
mod model;
pub mod models;
pub mod ops;
pub mod precision;
pub mod profile;
mod rollout;
mod rope;
mod sample;
mod score;
mod service;
mod small_file;
pub mod text;
mod weights;

pub mod parts;

pub use device::Device;
pub use error::{Error, Result};
pub use generate::Piece;
pub use gguf::Gguf;
pub use gradus_kernels::{Precision, keep_freed_memory};
pub use head::HeadKind;
pub use model::{LoadOptions, Model};
pub use service::{
    Engine, EngineMetrics, Histogram, HistogramCounts, ReadAt, ReadRequest, Readout, ServiceOptions,
};
