//! vLLM's pooling protocol: `/pooling`, `/classify`, `/score`, `/rerank`, and SGLang's `/v1/score`, which shares its path.
//!
//! Clients send prompts that they wrote out themselves, as text, token ids or messages; a profile is not applied.

pub(crate) mod activation;
pub(crate) mod classify;
pub(crate) mod input;
pub(crate) mod numbers;
pub(crate) mod pooling;
pub(crate) mod rerank;
pub(crate) mod score;

use gradus_core::contracts::Prompt;

use crate::error::ApiError;
use crate::models::ServedModel;

/// A prompt's tokens; `special` is whether a text gets the tokens that begin and end every text.
pub(crate) fn tokens(model: &ServedModel, prompt: Prompt, special: bool) -> Result<Vec<u32>, ApiError> {
    let tokenizer = model.engine().tokenizer();
    Ok(match prompt {
        Prompt::Text(text) => tokenizer.encode(&text, special)?,
        Prompt::Tokens(ids) => ids,
        Prompt::Chat(messages) => tokenizer.encode_chat(&messages, false)?,
    })
}
