//! `POST /score` and `/v1/score`: two servers use one path, and their requests are told apart by their fields.
//!
//! - vLLM: pairs of texts, `text_1` and `text_2` (also `data_1`/`data_2`, `queries`/`documents` or `queries`/`items`), with
//!   an embedding model: their cosine similarity
//! - SGLang: `query`, `items` and `label_token_ids`: how probable each token is after the query and an item

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use gradus_core::contracts::Embed;
use gradus_engine::{ReadAt, ReadRequest, Readout};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::activation::probabilities;
use crate::app::App;
use crate::error::ApiError;
use crate::extract::{JsonBody, Place, beside};
use crate::guard::new_id;
use crate::models::Ability;
use crate::openai::chat::now;
use crate::openai::options::OneOrMany;
use crate::steps::score::TokenUsage;

/// Pairs of texts (vLLM), or tokens after a text (SGLang).
#[derive(Debug, Default, Deserialize, ToSchema)]
pub(crate) struct PairBody {
    model: Option<String>,
    /// vLLM: one text or several.
    #[serde(alias = "data_1", alias = "queries")]
    text_1: Option<OneOrMany>,
    /// vLLM: as many texts, or any number beside one.
    #[serde(alias = "data_2", alias = "documents")]
    text_2: Option<OneOrMany>,
    /// SGLang: the text before every item.
    query: Option<String>,
    /// SGLang: the texts after it; vLLM: the same as `text_2`.
    items: Option<OneOrMany>,
    /// SGLang: whose probabilities are asked for.
    label_token_ids: Option<Vec<u32>>,
    /// SGLang: whether they sum to 1 among themselves (default: false).
    #[serde(default)]
    apply_softmax: bool,
    /// SGLang: whether the item comes before the query (default: false).
    #[serde(default)]
    item_first: bool,
}

/// vLLM's answer.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct PairReply {
    id: String,
    object: &'static str,
    created: u64,
    model: String,
    data: Vec<PairEntry>,
    usage: TokenUsage,
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct PairEntry {
    index: usize,
    object: &'static str,
    score: f32,
}

/// SGLang's answer.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct LabelReply {
    /// For each item, a number for each label token.
    scores: Vec<Vec<f32>>,
    model: String,
    usage: TokenUsage,
    object: &'static str,
}

/// Scores pairs of texts as vLLM does, or label tokens as SGLang does.
#[utoipa::path(post, path = "/v1/score", tag = "vllm", request_body = PairBody,
    responses((status = 200, body = PairReply), (status = "4XX", body = crate::error::ErrorBody)))]
pub(crate) async fn score(
    State(app): State<Arc<App>>,
    _place: Place,
    JsonBody(body): JsonBody<PairBody>,
) -> Result<Response, ApiError> {
    match (body.query, body.items, body.label_token_ids, body.text_1) {
        (Some(query), Some(items), Some(labels), None) => {
            let asked = Labels {
                query,
                items: items.into_vec(),
                labels,
                softmax: body.apply_softmax,
                item_first: body.item_first,
            };
            Ok(Json(label_tokens(&app, body.model.as_deref(), asked).await?).into_response())
        }
        (None, items, None, Some(first)) => {
            let Some(second) = body.text_2.or(items) else {
                return Err(ApiError::invalid("`text_1` needs `text_2`"));
            };
            let pairs = pairs(&app, body.model.as_deref(), first.into_vec(), second.into_vec()).await?;
            Ok(Json(pairs).into_response())
        }
        _ => Err(ApiError::invalid(
            "give `text_1` and `text_2` (or `queries` and `documents`), as vLLM takes them, or `query`, `items` and \
             `label_token_ids`, as SGLang does; step scores are at /v1/steps/score",
        )),
    }
}

/// Bytes that a label takes for each item: its id, its number, and that number in JSON.
const LABEL_BYTES: usize = 16;

struct Labels {
    query: String,
    items: Vec<String>,
    labels: Vec<u32>,
    softmax: bool,
    item_first: bool,
}

async fn label_tokens(app: &App, model: Option<&str>, asked: Labels) -> Result<LabelReply, ApiError> {
    let model = app.models.find(model, Ability::Generate)?;
    if asked.items.is_empty() || asked.items.len() > app.limits.inputs || asked.labels.is_empty() {
        return Err(ApiError::invalid(format!(
            "give 1 to {} `items`, and at least one of `label_token_ids`",
            app.limits.inputs
        )));
    }
    let Labels { query, items, labels, softmax, item_first } = asked;
    let vocabulary = model.engine().tokenizer().vocab_size();
    if labels.len() > vocabulary {
        return Err(ApiError::invalid(format!(
            "{} `label_token_ids` are more than the model's {vocabulary} tokens",
            labels.len()
        )));
    }
    app.limits.copies(query.len() + labels.len() * LABEL_BYTES, items.len())?;
    let tokenizer = Arc::clone(model.engine().tokenizer());
    let request = move |item: &String| {
        let text = if item_first { format!("{item}{query}") } else { format!("{query}{item}") };
        let tokens = tokenizer.encode(&text, true)?;
        Ok(ReadRequest { tokens, at: ReadAt::Last, what: Readout::LogProbs(labels.clone()) })
    };
    let tokenized = beside(move || items.iter().map(request).collect::<Result<Vec<_>, ApiError>>());
    let requests = tokenized.await??;
    let used = requests.iter().map(|request| request.tokens.len() as u64).sum();
    let read = model.engine().read(requests).await?;
    let scores = read.into_iter().map(|rows| {
        let row = rows.into_iter().next().unwrap_or_default();
        if !softmax {
            return row.into_iter().map(f32::exp).collect();
        }
        // A single label is certain among itself, which the logistic function would not say.
        if row.len() == 1 { vec![1.0] } else { probabilities(&row) }
    });
    let scores = scores.collect();
    Ok(LabelReply { scores, model: model.name.clone(), usage: TokenUsage::prompt(used), object: "scoring" })
}

async fn pairs(
    app: &App,
    model: Option<&str>,
    first: Vec<String>,
    second: Vec<String>,
) -> Result<PairReply, ApiError> {
    let model = app.models.find(model, Ability::Embed)?;
    let count = second.len();
    if first.is_empty()
        || count == 0
        || first.len() + count > app.limits.inputs
        || (first.len() != 1 && first.len() != count)
    {
        return Err(ApiError::invalid(format!(
            "`text_1` has {} texts and `text_2` {count}: expected one or as many, and at most {} in all",
            first.len(),
            app.limits.inputs
        )));
    }
    let singles = first.len();
    let found = model.embedder()?.embed(first.into_iter().chain(second).collect()).await?;
    let rows: Vec<&[f32]> = found.rows().collect();
    let (queries, documents) = rows.split_at(singles);
    let data = documents.iter().enumerate().map(|(index, document)| {
        let query = if singles == 1 { queries[0] } else { queries[index] };
        PairEntry { index, object: "score", score: cosine(query, document) }
    });
    let data = data.collect();
    Ok(PairReply {
        id: new_id("score"),
        object: "list",
        created: now(),
        model: model.name.clone(),
        data,
        usage: TokenUsage::prompt(found.usage.prompt_tokens),
    })
}

/// Cosine similarity.
pub(crate) fn cosine(a: &[f32], b: &[f32]) -> f32 {
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>();
    let norms = (dot(a, a) * dot(b, b)).sqrt();
    if norms > 0.0 { (dot(a, b) / norms) as f32 } else { 0.0 }
}
