//! `POST /v1/embeddings`. A reward model answers as SGLang's do: its vector is the reward, read at the end of the text.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use gradus_backend::ServedKind;
use gradus_core::contracts::{Embed, Prompt};
use gradus_engine::{ReadAt, ReadRequest, Readout};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::app::App;
use crate::error::ApiError;
use crate::extract::{JsonBody, Place};
use crate::models::{Ability, ServedModel};
use crate::steps::score::TokenUsage;
use crate::vllm::activation;
use crate::vllm::input::TextInput;
use crate::vllm::numbers::{Numbers, wants_base64};

/// Texts to turn into vectors.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct EmbeddingBody {
    /// The model's name (default: the first that embeds).
    model: Option<String>,
    /// A text, token ids, or a list of either.
    input: TextInput,
    /// `float` or `base64` (default: `float`).
    encoding_format: Option<String>,
    /// Refused unless it is the model's own.
    dimensions: Option<usize>,
}

/// Vectors.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct EmbeddingReply {
    object: &'static str,
    data: Vec<EmbeddingEntry>,
    model: String,
    usage: TokenUsage,
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct EmbeddingEntry {
    object: &'static str,
    index: usize,
    /// Numbers, or their bytes in base64.
    #[schema(value_type = Vec<f32>)]
    embedding: Numbers,
}

/// Turns texts into vectors.
#[utoipa::path(post, path = "/v1/embeddings", tag = "openai", request_body = EmbeddingBody,
    responses((status = 200, body = EmbeddingReply), (status = "4XX", body = crate::error::ErrorBody)))]
pub(crate) async fn embed(
    State(app): State<Arc<App>>,
    _place: Place,
    JsonBody(body): JsonBody<EmbeddingBody>,
) -> Result<Json<EmbeddingReply>, ApiError> {
    let as_bytes = wants_base64(body.encoding_format.as_deref())?;
    let named = body.model.as_deref().filter(|name| !name.is_empty());
    let reward = named.and_then(|name| {
        app.models.all().iter().find(|model| model.name == name && model.kind() == ServedKind::Reward)
    });
    let prompts = body.input.prompts(app.limits.inputs)?;
    let (model, vectors, tokens) = match reward {
        Some(model) => {
            let (rewards, tokens) = rewards(model, prompts).await?;
            (model, rewards, tokens)
        }
        None => {
            let model = app.models.find(named, Ability::Embed)?;
            let tokenizer = model.engine().tokenizer();
            let texts = prompts.into_iter().map(|prompt| match prompt {
                Prompt::Text(text) => Ok(text),
                Prompt::Tokens(ids) => Ok(tokenizer.decode(&ids, false)?),
                Prompt::Chat(_) => unreachable!("an input is no conversation"),
            });
            let texts = texts.collect::<Result<Vec<String>, ApiError>>()?;
            let found = model.embedder()?.embed(texts).await?;
            let vectors = found.rows().map(<[f32]>::to_vec).collect();
            (model, vectors, found.usage.prompt_tokens)
        }
    };
    let width = vectors.first().map_or(0, Vec::len);
    if body.dimensions.is_some_and(|wanted| wanted != width) {
        return Err(ApiError::invalid(format!("`dimensions`: model `{}` has {width}", model.name)));
    }
    let entry = |(index, vector): (usize, Vec<f32>)| EmbeddingEntry {
        object: "embedding",
        index,
        embedding: Numbers::Vector(vector).encoded(as_bytes),
    };
    let data = vectors.into_iter().enumerate().map(entry).collect();
    Ok(Json(EmbeddingReply {
        object: "list",
        data,
        model: model.name.clone(),
        usage: TokenUsage::prompt(tokens),
    }))
}

/// What a reward model's head says at the end of each text.
async fn rewards(model: &ServedModel, prompts: Vec<Prompt>) -> Result<(Vec<Vec<f32>>, u64), ApiError> {
    let requests = prompts.into_iter().map(|prompt| {
        Ok(ReadRequest {
            tokens: crate::vllm::tokens(model, prompt, true)?,
            at: ReadAt::Last,
            what: Readout::Head,
        })
    });
    let requests = requests.collect::<Result<Vec<_>, ApiError>>()?;
    let tokens = requests.iter().map(|request| request.tokens.len() as u64).sum();
    let read = model.engine().read(requests).await?;
    let positive = |rows: Vec<Vec<f32>>| {
        let row = rows.into_iter().next().unwrap_or_default();
        activation::probabilities(&row).last().copied().into_iter().collect()
    };
    Ok((read.into_iter().map(positive).collect(), tokens))
}
