//! `POST /pooling`: what a reward model's head says at every step tag, or at every token.
//!
//! ```json
//! {"model": "prm", "task": "token_classify", "messages": [{"role": "user", "content": "…"}, …]}
//! {"id": "pool-…", "object": "list", "data": [{"index": 0, "object": "pooling", "data": [[0.07, 0.93]]}], "usage": {…}}
//! ```
//!
//! The step tag is the profile's separator; a model whose profile has none gives a row per token.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use gradus_core::contracts::{Embed, Prompt};
use gradus_engine::{ReadAt, ReadRequest, Readout};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::activation::probabilities;
use super::input::TextInput;
use super::numbers::{Numbers, wants_base64};
use super::tokens;
use crate::app::App;
use crate::error::ApiError;
use crate::extract::{JsonBody, Place};
use crate::guard::new_id;
use crate::models::{Ability, ServedModel};
use crate::openai::chat::{ChatMessage, messages, now};
use crate::steps::score::TokenUsage;

/// Texts to read.
#[derive(Debug, Default, Deserialize, ToSchema)]
pub(crate) struct PoolingBody {
    /// The model's name (default: the first that scores).
    pub(crate) model: Option<String>,
    /// A text, token ids, or a list of either.
    pub(crate) input: Option<TextInput>,
    /// A conversation, in place of `input`.
    pub(crate) messages: Option<Vec<ChatMessage>>,
    /// `token_classify` (default), or `embed`, `encode` and `reward`, its older names.
    task: Option<String>,
    /// Whether outputs become probabilities (default: true).
    pub(crate) use_activation: Option<bool>,
    /// The same, by its older name.
    pub(crate) activation: Option<bool>,
    /// The same, by its oldest name.
    softmax: Option<bool>,
    /// Whether a text gets the tokens that begin and end every text (default: true).
    pub(crate) add_special_tokens: Option<bool>,
    /// Only so many of the last tokens; −1 for as many as the model takes.
    pub(crate) truncate_prompt_tokens: Option<i64>,
    /// `float` or `base64` (default: `float`).
    encoding_format: Option<String>,
}

/// Rows of each text.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct PoolingReply {
    id: String,
    object: &'static str,
    created: u64,
    model: String,
    data: Vec<PoolingEntry>,
    usage: TokenUsage,
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct PoolingEntry {
    index: usize,
    object: &'static str,
    /// A row for each step tag or token, each with a number for each class; or their bytes in base64.
    #[schema(value_type = Vec<Vec<f32>>)]
    data: Numbers,
}

impl PoolingBody {
    /// The tokens of each text.
    pub(crate) fn tokens(&mut self, model: &ServedModel, most: usize) -> Result<Vec<Vec<u32>>, ApiError> {
        let prompts = match (self.input.take(), self.messages.take()) {
            (Some(input), None) => input.prompts(most)?,
            (None, Some(given)) => vec![Prompt::Chat(messages(&given)?)],
            _ => return Err(ApiError::invalid("give either `input` or `messages`")),
        };
        let special = self.add_special_tokens.unwrap_or(true);
        let context = model.engine().context();
        let cut = |prompt| {
            let mut ids = tokens(model, prompt, special)?;
            if let Some(limit) = self.truncate_prompt_tokens {
                let limit = usize::try_from(limit).unwrap_or(context).min(context);
                ids.drain(..ids.len().saturating_sub(limit));
            }
            Ok(ids)
        };
        prompts.into_iter().map(cut).collect()
    }

    pub(crate) fn wants_probabilities(&self) -> bool {
        self.use_activation.or(self.activation).or(self.softmax).unwrap_or(true)
    }
}

/// Reads a reward model's head, as vLLM does.
#[utoipa::path(post, path = "/pooling", tag = "vllm", request_body = PoolingBody,
    responses((status = 200, body = PoolingReply), (status = "4XX", body = crate::error::ErrorBody)))]
pub(crate) async fn pooling(
    State(app): State<Arc<App>>,
    _place: Place,
    JsonBody(mut body): JsonBody<PoolingBody>,
) -> Result<Json<PoolingReply>, ApiError> {
    let as_bytes = wants_base64(body.encoding_format.as_deref())?;
    match body.task.as_deref() {
        None | Some("token_classify" | "encode" | "reward") => {}
        Some("embed") => return embedded(&app, body, as_bytes).await,
        Some(other) => {
            return Err(ApiError::invalid(format!("`task` is `{other}`: expected token_classify or embed")));
        }
    }
    let model = app.models.find(body.model.as_deref(), Ability::Score)?;
    let texts = body.tokens(model, app.limits.inputs)?;
    let used = texts.iter().map(|text| text.len() as u64).sum();
    let at = model.engine().step_tag().map_or(ReadAt::All, ReadAt::Tag);
    let requests = texts.into_iter().map(|tokens| ReadRequest { tokens, at, what: Readout::Head });
    let read = model.engine().read(requests.collect()).await?;
    let active = body.wants_probabilities();
    let rows = read.into_iter().map(|rows| {
        rows.into_iter().map(|row| if active { probabilities(&row) } else { row }).collect::<Vec<_>>()
    });
    let data = rows.enumerate().map(|(index, rows)| entry(index, Numbers::Rows(rows), as_bytes)).collect();
    Ok(Json(reply(model, data, used)))
}

/// `task: embed`: the vector of each text.
async fn embedded(app: &App, body: PoolingBody, as_bytes: bool) -> Result<Json<PoolingReply>, ApiError> {
    let model = app.models.find(body.model.as_deref(), Ability::Embed)?;
    let Some(input) = body.input else { return Err(ApiError::invalid("`task: embed` needs `input`")) };
    let tokenizer = model.engine().tokenizer();
    let texts = input.prompts(app.limits.inputs)?.into_iter().map(|prompt| match prompt {
        Prompt::Text(text) => Ok(text),
        Prompt::Tokens(ids) => Ok(tokenizer.decode(&ids, false)?),
        Prompt::Chat(_) => unreachable!("an input is no conversation"),
    });
    let found = model.embedder()?.embed(texts.collect::<Result<Vec<String>, ApiError>>()?).await?;
    let rows = found.rows().enumerate();
    let data = rows.map(|(index, row)| entry(index, Numbers::Vector(row.to_vec()), as_bytes)).collect();
    Ok(Json(reply(model, data, found.usage.prompt_tokens)))
}

fn entry(index: usize, numbers: Numbers, as_bytes: bool) -> PoolingEntry {
    PoolingEntry { index, object: "pooling", data: numbers.encoded(as_bytes) }
}

fn reply(model: &ServedModel, data: Vec<PoolingEntry>, tokens: u64) -> PoolingReply {
    PoolingReply {
        id: new_id("pool"),
        object: "list",
        created: now(),
        model: model.name.clone(),
        data,
        usage: TokenUsage::prompt(tokens),
    }
}
