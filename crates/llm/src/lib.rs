//! Models behind HTTP, and a scripted fake: implementations of `gradus_core::contracts` without tensors.
//!
//! - [`Endpoint`]: where a model is and how it is called; serde reads it out of recipes
//! - [`Http`]: one endpoint's connections: retries, a limit on requests in flight, what was spent
//! - [`Chat`]: `Generate` over OpenAI-compatible servers (vLLM, SGLang, llama.cpp, hosted ones)
//! - [`Pooling`]: `ScoreSteps` over vLLM's `/pooling`
//! - [`RewardServer`]: `ScoreSteps` over `/v1/score`, problem and steps in, scores out
//! - [`Scripted`]: `Generate` and `ScoreSteps` that play prepared answers and faults
//!
//! Not here: streaming, `/v1/embeddings`, log-probabilities of a given text, a cache of answers.
//!
//! ```no_run
//! use gradus_core::contracts::{Generate, GenerateRequest, Message, Prompt};
//! use gradus_llm::{Chat, Endpoint, Http};
//!
//! # async fn ask() -> Result<(), Box<dyn std::error::Error>> {
//! let http = Http::open(&Endpoint::new("http://127.0.0.1:8000", "Qwen/Qwen2.5-7B-Instruct"))?;
//! let prompt = Prompt::Chat(vec![Message::new("user", "What is 2 + 2?")]);
//! let answer = Chat::new(http.clone()).generate(GenerateRequest::new(prompt, 64)).await?;
//! assert_eq!(answer.choices.len(), 1);
//! assert_eq!(http.counters().requests, 1);
//! # Ok(())
//! # }
//! ```

mod chat;
mod endpoint;
mod error;
mod http;
mod pooling;
mod reward;
mod scores;
pub mod scripted;
mod tls;

pub use chat::{Chat, UNKNOWN_TOKEN};
pub use endpoint::{Dialect, Endpoint, Key};
pub use error::{Error, Result};
pub use http::{Counters, Http};
pub use pooling::{Pooling, Render, Writer};
pub use reward::RewardServer;
pub use scripted::Scripted;
