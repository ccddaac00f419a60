//! Models behind HTTP, and scripted fakes: implementations of `gradus_core::contracts` without tensors.
//!
//! - [`Endpoint`]: a model's address and how it is called; serde reads it out of recipes
//! - [`Http`]: connections to one endpoint or several of one model: retries, a limit on requests in flight,
//!   rate limits, load balancing, usage ([`Counters`]) and latency ([`Latency`])
//! - [`Roster`]: endpoints listed in a file, which is read again while requests are sent
//! - [`Cache`]: responses on disk, so that none is paid for twice
//! - [`Prices`]: what tokens cost
//! - [`Chat`]: `Generate` over OpenAI-compatible servers (vLLM, SGLang, llama.cpp, hosted ones), and `LogProbs` over
//!   those that repeat the prompt (vLLM, llama-cpp-python)
//! - [`continues_turns`]: whether a chat server continues an assistant's turn that has begun
//! - [`Pooling`]: `ScoreSteps` over vLLM's `/pooling`
//! - [`TokenScores`]: `ScoreSteps` over `/v1/completions`, one token against another
//! - [`RewardServer`]: `ScoreSteps` over `/v1/steps/score`, problem and steps in, scores out
//! - [`EmbeddingServer`]: `Embed` over `/v1/embeddings`
//! - [`Scripted`]: `Generate` and `ScoreSteps` that play prepared answers and faults
//! - [`scripted::server`]: a real HTTP server on loopback that plays them
//!
//! Not here: streaming, log-probabilities of a text after a conversation.
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

mod balancer;
mod cache;
mod chat;
mod connection;
mod continuation;
mod counters;
mod embeddings;
mod endpoint;
mod error;
mod http;
mod logprobs;
mod pooling;
mod prices;
mod rate_limiter;
mod reward;
mod roster;
mod scores;
pub mod scripted;
mod secrets;
mod server_error;
#[cfg(test)]
mod tests;
mod tls;
mod token_scores;

pub use cache::Cache;
pub use chat::Chat;
pub use continuation::continues_turns;
pub use counters::{Counters, Latency};
pub use embeddings::EmbeddingServer;
pub use endpoint::{Dialect, Endpoint, Key};
pub use error::{Error, Result};
pub use http::Http;
pub use pooling::{Columns, Pooling, PoolingFormat, PoolingInput, PoolingPrompt, Reads};
pub use prices::{Price, Prices};
pub use reward::RewardServer;
pub use roster::Roster;
pub use scripted::Scripted;
pub use token_scores::{TokenFormat, TokenScores};
