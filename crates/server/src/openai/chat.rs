//! `POST /v1/chat/completions`, whole and as a stream.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::{Stream, StreamExt, stream};
use gradus_core::contracts::{Choice, FinishReason, Generate, Generated, Message, Prompt, Usage};
use gradus_engine::{Engine, Piece};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::ToSchema;

use super::options::{ChatLogProb, GenerationOptions};
use crate::app::App;
use crate::error::ApiError;
use crate::extract::{JsonBody, Place};
use crate::guard::new_id;
use crate::models::{Ability, ServedModel};
use crate::steps::score::TokenUsage;

/// A conversation to continue.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct ChatBody {
    /// The model's name (default: the first that generates).
    pub(crate) model: Option<String>,
    pub(crate) messages: Vec<ChatMessage>,
    /// Whether tokens come with their log-probabilities.
    logprobs: Option<bool>,
    /// Alternatives for each token, at most 20.
    top_logprobs: Option<usize>,
    /// vLLM: whether the last message, the assistant's, is continued.
    #[serde(default)]
    pub(crate) continue_final_message: bool,
    /// vLLM: whether the assistant's turn is opened (default: unless it is continued).
    pub(crate) add_generation_prompt: Option<bool>,
    #[serde(flatten)]
    pub(crate) options: GenerationOptions,
}

/// A turn.
#[derive(Debug, Clone, Deserialize, ToSchema)]
pub(crate) struct ChatMessage {
    role: String,
    content: Option<Content>,
}

/// What is said: text, or parts that are text.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(untagged)]
pub(crate) enum Content {
    Text(String),
    Parts(Vec<Part>),
}

/// A part of a message.
#[derive(Debug, Clone, Deserialize, ToSchema)]
pub(crate) struct Part {
    r#type: String,
    text: Option<String>,
}

/// A completion.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ChatReply {
    id: String,
    object: &'static str,
    created: u64,
    model: String,
    choices: Vec<ChatChoice>,
    usage: TokenUsage,
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ChatChoice {
    index: usize,
    message: ChatAnswer,
    logprobs: Option<ChatLogProbs>,
    finish_reason: &'static str,
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ChatAnswer {
    role: &'static str,
    content: String,
    refusal: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ChatLogProbs {
    content: Vec<ChatLogProb>,
}

/// Messages as the engine takes them; anything but text is refused.
pub(crate) fn messages(given: &[ChatMessage]) -> Result<Vec<Message>, ApiError> {
    if given.is_empty() {
        return Err(ApiError::invalid("`messages` is empty"));
    }
    let text = |(index, message): (usize, &ChatMessage)| {
        let content = match &message.content {
            None => String::new(),
            Some(Content::Text(text)) => text.clone(),
            Some(Content::Parts(parts)) => {
                let texts: Option<Vec<&str>> = parts
                    .iter()
                    .map(|part| {
                        part.text.as_deref().filter(|_| matches!(part.r#type.as_str(), "text" | "input_text"))
                    })
                    .collect();
                let refused = || {
                    ApiError::invalid(format!("messages[{index}]: only parts of type `text` are supported"))
                };
                texts.ok_or_else(refused)?.concat()
            }
        };
        Ok(Message::new(message.role.as_str(), content))
    };
    given.iter().enumerate().map(text).collect()
}

/// The prompt of a conversation: a new turn of the assistant's, or the last one continued.
pub(crate) fn prompt(model: &ServedModel, body: &ChatBody) -> Result<Prompt, ApiError> {
    let mut messages = messages(&body.messages)?;
    if !body.continue_final_message {
        if body.add_generation_prompt == Some(false) {
            return Err(ApiError::invalid(
                "`add_generation_prompt: false` needs `continue_final_message: true`: else there is nothing to continue",
            ));
        }
        return Ok(Prompt::Chat(messages));
    }
    if body.add_generation_prompt == Some(true) {
        return Err(ApiError::invalid(
            "`continue_final_message` and `add_generation_prompt` exclude each other",
        ));
    }
    let last = messages.pop().filter(|last| last.role == "assistant");
    let last = last.ok_or_else(|| {
        ApiError::invalid("`continue_final_message` needs a last message of the assistant's")
    })?;
    let generator = model.generator()?;
    let ask = generator
        .prompt(&messages, || Box::new(gradus_backend::ChatPrompt { messages: Vec::new() }))
        .map_err(|error| ApiError::invalid(error.to_string()))?;
    Ok(ask.prompt("", &last.content))
}

/// Continues a conversation.
#[utoipa::path(post, path = "/v1/chat/completions", tag = "openai", request_body = ChatBody,
    responses((status = 200, body = ChatReply), (status = "4XX", body = crate::error::ErrorBody)))]
pub(crate) async fn complete(
    State(app): State<Arc<App>>,
    place: Place,
    JsonBody(body): JsonBody<ChatBody>,
) -> Result<Response, ApiError> {
    let model = app.models.find(body.model.as_deref(), Ability::Generate)?;
    let prompt = prompt(model, &body)?;
    let with_logprobs = body.logprobs.unwrap_or(false);
    if body.top_logprobs.is_some_and(|top| top > 0) && !with_logprobs {
        return Err(ApiError::invalid("`top_logprobs` needs `logprobs: true`"));
    }
    let top = with_logprobs.then(|| body.top_logprobs.unwrap_or(0));
    let (is_stream, usage) =
        (body.options.stream.unwrap_or(false), body.options.stream_options.unwrap_or_default());
    let usual = model.engine().context().min(app.limits.generated_tokens);
    let request = body.options.request(prompt, usual, top, &app.limits)?;
    let (id, created, name) = (new_id("chatcmpl"), now(), model.name.clone());
    let tokenizer = Arc::clone(model.engine().tokenizer());
    if !is_stream {
        let Generated { choices, usage } = model.generator()?.generate(request).await?;
        let choices = choices.iter().enumerate().map(|(index, choice)| ChatChoice {
            index,
            message: ChatAnswer { role: "assistant", content: choice.text.clone(), refusal: None },
            logprobs: with_logprobs.then(|| ChatLogProbs {
                content: choice.logprobs.iter().map(|token| ChatLogProb::of(token, &tokenizer)).collect(),
            }),
            finish_reason: finish_reason(choice),
        });
        let choices = choices.collect();
        let reply =
            ChatReply { id, object: "chat.completion", created, model: name, choices, usage: usage.into() };
        return Ok(Json(reply).into_response());
    }
    let chunk = move |choices: Vec<Value>, usage: Option<TokenUsage>| {
        let mut chunk = json!({"id": id, "object": "chat.completion.chunk", "created": created, "model": name, "choices": choices});
        if let Some(usage) = usage {
            chunk["usage"] = json!(usage);
        }
        chunk
    };
    let opening: Vec<Value> = (0..request.n)
        .map(|index| json!({"index": index, "delta": {"role": "assistant", "content": ""}, "logprobs": null, "finish_reason": null}))
        .map(|choice| chunk(vec![choice], None))
        .collect();
    let write = move |part: StreamPart| match part {
        StreamPart::Piece(piece) => {
            let logprobs: Vec<ChatLogProb> =
                piece.logprobs.iter().map(|token| ChatLogProb::of(token, &tokenizer)).collect();
            let logprobs = if with_logprobs { json!({"content": logprobs}) } else { Value::Null };
            vec![chunk(
                vec![
                    json!({"index": piece.sample, "delta": {"content": piece.text}, "logprobs": logprobs, "finish_reason": null}),
                ],
                None,
            )]
        }
        StreamPart::End(index, choice) => {
            vec![chunk(
                vec![
                    json!({"index": index, "delta": {}, "logprobs": null, "finish_reason": finish_reason(&choice)}),
                ],
                None,
            )]
        }
        StreamPart::Usage(used) => {
            if usage.include_usage {
                vec![chunk(Vec::new(), Some(used.into()))]
            } else {
                Vec::new()
            }
        }
    };
    Ok(sse(model.engine(), request, place, app.limits.timeout, opening, write).into_response())
}

/// What a stream is made of.
pub(crate) enum StreamPart {
    /// More text of a sample.
    Piece(Piece),
    /// A sample has ended.
    End(usize, Box<Choice>),
    /// All have.
    Usage(Usage),
}

/// A stream of server-sent events that ends with `[DONE]`. A client that goes away drops it, and with it the request.
pub(crate) fn sse<W: Fn(StreamPart) -> Vec<Value> + Send + 'static>(
    engine: &Engine,
    request: gradus_core::contracts::GenerateRequest,
    place: Place,
    timeout: Duration,
    opening: Vec<Value>,
    write: W,
) -> Sse<impl Stream<Item = Result<Event, Infallible>> + use<W>> {
    let (pieces, answer) = engine.generate_streaming(request);
    let pieces = stream::unfold(pieces, |mut pieces| async {
        pieces.recv().await.map(|piece| (Ok(StreamPart::Piece(piece)), pieces))
    });
    let ends = stream::once(answer).flat_map(|answer| {
        let parts: Vec<Result<StreamPart, ApiError>> = match answer {
            Ok(Generated { choices, usage }) => choices
                .into_iter()
                .enumerate()
                .map(|(index, choice)| Ok(StreamPart::End(index, Box::new(choice))))
                .chain([Ok(StreamPart::Usage(usage))])
                .collect(),
            Err(error) => vec![Err(ApiError::from(error))],
        };
        stream::iter(parts)
    });
    let late = move || {
        let message = format!("the stream took longer than {} s (--timeout)", timeout.as_secs());
        Err(ApiError::new(StatusCode::GATEWAY_TIMEOUT, message))
    };
    let deadline = Instant::now() + timeout;
    let parts = stream::unfold(Some(Box::pin(pieces.chain(ends))), move |parts| async move {
        let mut parts = parts?;
        match tokio::time::timeout_at(deadline.into(), parts.next()).await {
            Ok(part) => Some((part?, Some(parts))),
            // With its stream the request is dropped.
            Err(_) => Some((late(), None)),
        }
    });
    let events = parts.flat_map(move |part| {
        let _held = &place;
        let chunks = match part {
            Ok(part) => write(part),
            Err(error) => vec![json!({"error": {"message": error.message, "type": "server_error", "code": error.status.as_u16()}})],
        };
        stream::iter(chunks)
    });
    let event = |chunk: Value| Ok(Event::default().data(chunk.to_string()));
    let done = stream::once(async { Ok(Event::default().data("[DONE]")) });
    Sse::new(stream::iter(opening).chain(events).map(event).chain(done)).keep_alive(KeepAlive::default())
}

pub(crate) fn finish_reason(choice: &Choice) -> &'static str {
    match choice.finish {
        FinishReason::Stop => "stop",
        FinishReason::Length => "length",
    }
}

/// Seconds since 1970.
pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}
