//! `POST /v1/completions`: text that goes on after a prompt, and with `echo` the log-probabilities of the prompt itself.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use futures_util::future::try_join_all;
use gradus_core::contracts::{
    Choice, FinishReason, Generate, GenerateRequest, Generated, Prompt, TokenLogProb, Usage,
};
use gradus_engine::{ReadAt, ReadRequest, Readout};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use utoipa::ToSchema;

use super::chat::{StreamPart, finish_reason, now, sse};
use super::options::{GenerationOptions, shared};
use crate::app::App;
use crate::error::ApiError;
use crate::extract::{JsonBody, Place};
use crate::guard::new_id;
use crate::models::{Ability, ServedModel};
use crate::steps::score::TokenUsage;
use crate::vllm::input::TextInput;

/// OpenAI's default length of a text completion.
const USUAL_TOKENS: usize = 16;

/// A text to continue.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct CompletionBody {
    /// The model's name (default: the first that generates).
    model: Option<String>,
    /// A text, token ids, or a list of either.
    prompt: TextInput,
    /// Whether the prompt is part of the answer; with `logprobs`, its tokens come with theirs.
    #[serde(default)]
    echo: bool,
    /// Alternatives for each token, at most 20; 0 gives the tokens' own log-probabilities only.
    logprobs: Option<usize>,
    /// Refused.
    suffix: Option<String>,
    /// Refused unless 1.
    best_of: Option<usize>,
    #[serde(flatten)]
    options: GenerationOptions,
}

/// Completions: those of the first prompt, then those of the next.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct CompletionReply {
    id: String,
    object: &'static str,
    created: u64,
    model: String,
    choices: Vec<CompletionChoice>,
    usage: TokenUsage,
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct CompletionChoice {
    index: usize,
    text: String,
    logprobs: Option<TextLogProbs>,
    finish_reason: &'static str,
}

/// Log-probabilities, a list of each kind.
#[derive(Debug, Default, Serialize, ToSchema)]
pub(crate) struct TextLogProbs {
    tokens: Vec<String>,
    /// Null for a token that has nothing before it.
    token_logprobs: Vec<Option<f32>>,
    #[schema(value_type = Vec<Object>)]
    top_logprobs: Vec<Option<Map<String, Value>>>,
    /// Where each token begins in the text, in characters.
    text_offset: Vec<usize>,
}

impl TextLogProbs {
    fn push(&mut self, token: &str, known: Option<&TokenLogProb>) {
        let offset = match (self.text_offset.last(), self.tokens.last()) {
            (Some(offset), Some(token)) => offset + token.chars().count(),
            _ => 0,
        };
        self.text_offset.push(offset);
        self.tokens.push(token.to_owned());
        self.token_logprobs.push(known.map(|known| known.logprob));
        self.top_logprobs.push(known.map(|known| {
            let own = std::iter::once((known.token.clone(), json!(known.logprob)));
            own.chain(known.top.iter().map(|other| (other.token.clone(), json!(other.logprob)))).collect()
        }));
    }
}

/// Continues texts.
#[utoipa::path(post, path = "/v1/completions", tag = "openai", request_body = CompletionBody,
    responses((status = 200, body = CompletionReply), (status = "4XX", body = crate::error::ErrorBody)))]
pub(crate) async fn complete(
    State(app): State<Arc<App>>,
    place: Place,
    JsonBody(mut body): JsonBody<CompletionBody>,
) -> Result<Response, ApiError> {
    if body.suffix.as_deref().is_some_and(|suffix| !suffix.is_empty())
        || body.best_of.is_some_and(|best| best > 1)
    {
        return Err(ApiError::invalid("`suffix` and `best_of` are not supported by this server"));
    }
    let model = app.models.find(body.model.as_deref(), Ability::Generate)?;
    let mut prompts = body.prompt.prompts(app.limits.inputs)?;
    // A prompt that is only to be judged.
    let only_echo = body.echo && body.options.max_tokens == Some(0);
    if only_echo {
        body.options.max_tokens = Some(1);
    }
    let (is_stream, usage) =
        (body.options.stream.unwrap_or(false), body.options.stream_options.unwrap_or_default());
    // Each prompt takes the place of none in a copy.
    let none = Prompt::Tokens(Vec::new());
    let mut usual = body.options.request(none, USUAL_TOKENS, body.logprobs, &app.limits)?;
    app.limits.copies(shared(&usual), prompts.len())?;
    if body.echo {
        app.limits.copies(prompts.iter().map(bytes).sum(), usual.n)?;
    }
    let (id, created, name) = (new_id("cmpl"), now(), model.name.clone());
    if is_stream {
        if prompts.len() > 1 || body.echo || body.logprobs.is_some() {
            return Err(ApiError::invalid("`stream` takes one prompt, without `echo` and `logprobs`"));
        }
        let chunk = move |choices: Vec<Value>, usage: Option<TokenUsage>| json!({"id": id, "object": "text_completion", "created": created, "model": name, "choices": choices, "usage": usage});
        let write = move |part: StreamPart| match part {
            StreamPart::Piece(piece) => vec![chunk(
                vec![
                    json!({"index": piece.sample, "text": piece.text, "logprobs": null, "finish_reason": null}),
                ],
                None,
            )],
            StreamPart::End(index, choice) => vec![chunk(
                vec![
                    json!({"index": index, "text": "", "logprobs": null, "finish_reason": finish_reason(&choice)}),
                ],
                None,
            )],
            StreamPart::Usage(used) if usage.include_usage => vec![chunk(Vec::new(), Some(used.into()))],
            StreamPart::Usage(_) => Vec::new(),
        };
        usual.prompt = prompts.swap_remove(0);
        return Ok(sse(model.engine(), usual, place, app.limits.timeout, Vec::new(), write).into_response());
    }
    let each = prompts.into_iter().map(async |prompt| {
        let request = GenerateRequest { prompt: prompt.clone(), ..usual.clone() };
        let generated = async {
            if only_echo {
                let choice = Choice {
                    text: String::new(),
                    finish: FinishReason::Length,
                    logprobs: Vec::new(),
                    tokens: Vec::new(),
                };
                return Ok(Generated { choices: vec![choice], usage: Usage::default() });
            }
            Ok::<_, ApiError>(model.generator()?.generate(request).await?)
        };
        let echoed = async {
            match body.echo {
                true => Ok(Some(echo(model, &prompt, body.logprobs).await?)),
                false => Ok(None),
            }
        };
        tokio::try_join!(generated, echoed)
    });
    let mut choices = Vec::new();
    let mut total = Usage::default();
    for (generated, echoed) in try_join_all(each).await? {
        total.prompt_tokens +=
            generated.usage.prompt_tokens.max(echoed.as_ref().map_or(0, |echo| echo.tokens));
        total.completion_tokens += generated.usage.completion_tokens;
        for choice in generated.choices {
            choices.push(answered(choices.len(), &choice, echoed.as_ref(), body.logprobs.is_some()));
        }
    }
    let usage = total.into();
    let reply = CompletionReply { id, object: "text_completion", created, model: name, choices, usage };
    Ok(Json(reply).into_response())
}

fn answered(index: usize, choice: &Choice, echoed: Option<&Echo>, with_logprobs: bool) -> CompletionChoice {
    let logprobs = with_logprobs.then(|| {
        let mut all = TextLogProbs::default();
        for (token, known) in echoed.iter().flat_map(|echo| &echo.judged) {
            all.push(token, known.as_ref());
        }
        choice.logprobs.iter().for_each(|token| all.push(&token.token, Some(token)));
        all
    });
    let before = echoed.map_or("", |echo| echo.text.as_str());
    CompletionChoice {
        index,
        text: format!("{before}{}", choice.text),
        logprobs,
        finish_reason: finish_reason(choice),
    }
}

/// Bytes of a prompt.
fn bytes(prompt: &Prompt) -> usize {
    match prompt {
        Prompt::Text(text) => text.len(),
        Prompt::Tokens(tokens) => size_of_val(&tokens[..]),
        Prompt::Chat(_) => unreachable!("a text completion has no conversation"),
    }
}

/// A prompt that is given back.
struct Echo {
    text: String,
    tokens: u64,
    /// Its tokens, with their log-probabilities where they are asked for and there is something before them.
    judged: Vec<(String, Option<TokenLogProb>)>,
}

async fn echo(model: &ServedModel, prompt: &Prompt, alternatives: Option<usize>) -> Result<Echo, ApiError> {
    let tokenizer = model.engine().tokenizer();
    let ids = match prompt {
        Prompt::Text(text) => tokenizer.encode(text, true)?,
        Prompt::Tokens(ids) => ids.clone(),
        Prompt::Chat(_) => unreachable!("a text completion has no conversation"),
    };
    let text = match prompt {
        Prompt::Text(text) => text.clone(),
        _ => ids.iter().map(|id| tokenizer.token_text(*id)).collect(),
    };
    let known = |id: u32, logprob: f32| TokenLogProb::new(id, tokenizer.token_text(id), logprob);
    let mut judged: Vec<(String, Option<TokenLogProb>)> =
        ids.iter().map(|id| (tokenizer.token_text(*id), None)).collect();
    if let (Some(alternatives), true) = (alternatives, ids.len() > 1) {
        let what = Readout::Next { alternatives };
        let request = ReadRequest { tokens: ids.clone(), at: ReadAt::All, what };
        let rows = model.engine().read(vec![request]).await?.pop().unwrap_or_default();
        for ((place, id), row) in judged[1..].iter_mut().zip(&ids[1..]).zip(rows) {
            let top = row[1..].as_chunks::<2>().0.iter().map(|[id, logprob]| known(*id as u32, *logprob));
            place.1 = Some(TokenLogProb { top: top.collect(), ..known(*id, row[0]) });
        }
    }
    Ok(Echo { text, tokens: judged.len() as u64, judged })
}
