//! Whether a chat server continues an assistant's turn that has begun, as vLLM and SGLang do with `continue_final_message`
//! and llama.cpp does by itself.
//!
//! Most servers ignore fields that they do not know, so an answer without an error says nothing. The prompt's length does:
//! a turn that is continued adds its own tokens to the prompt, one that is closed also the tokens between two turns.

use gradus_core::contracts::{CallError, Message};
use serde::Serialize;
use serde_json::Value;

use crate::{Dialect, Http};

const PATH: &str = "/v1/chat/completions";

/// The fields that ask a server to continue the last message instead of opening a turn after it.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct ContinuedTurn {
    continue_final_message: bool,
    add_generation_prompt: bool,
}

impl Default for ContinuedTurn {
    fn default() -> Self {
        Self { continue_final_message: true, add_generation_prompt: false }
    }
}

#[derive(Serialize)]
struct Probe<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    model: &'a str,
    messages: &'a [Message],
    #[serde(flatten)]
    continued: Option<ContinuedTurn>,
    max_tokens: usize,
    temperature: f32,
}

/// Finds out, with three requests of one token, whether the server of `http` continues turns; if not, why.
///
/// ```no_run
/// use gradus_llm::{Endpoint, Http, continues_turns};
/// # async fn ask() -> Result<(), Box<dyn std::error::Error>> {
/// let http = Http::open(&Endpoint::new("http://127.0.0.1:8000", "Qwen/Qwen2.5-7B-Instruct"))?;
/// if let Err(why) = continues_turns(&http).await? {
///     eprintln!("it {why}");
/// }
/// # Ok(())
/// # }
/// ```
pub async fn continues_turns(http: &Http) -> Result<Result<(), &'static str>, CallError> {
    if http.endpoint().dialect == Dialect::OpenAi {
        return Ok(Err("speaks the dialect openai, which has no field for it"));
    }
    // One letter is one token everywhere.
    let turns = [Message::new("user", "Say a."), Message::new("assistant", "a")];
    let opened = prompt_tokens(http, &turns[..1], None).await?;
    let continued = match prompt_tokens(http, &turns, Some(ContinuedTurn::default())).await {
        Err(CallError::Invalid(_)) => return Ok(Err("refuses continue_final_message")),
        tokens => tokens?,
    };
    // A template may refuse to open a turn after the assistant's own.
    let closed = match prompt_tokens(http, &turns, None).await {
        Err(CallError::Invalid(_)) => None,
        tokens => Some(tokens?),
    };
    Ok(if opened == 0 || continued == 0 {
        Err("does not say how many tokens a prompt has, so that nobody knows")
    } else if closed.is_some_and(|closed| continued < closed) || continued == opened + 1 {
        Ok(())
    } else {
        Err("ignores continue_final_message")
    })
}

async fn prompt_tokens(
    http: &Http,
    messages: &[Message],
    continued: Option<ContinuedTurn>,
) -> Result<u64, CallError> {
    let model = &http.endpoint().model;
    let probe = Probe { model, messages, continued, max_tokens: 1, temperature: 0.0 };
    http.post_and(PATH, &probe, |_: Value, usage| Ok(usage.prompt_tokens)).await
}
