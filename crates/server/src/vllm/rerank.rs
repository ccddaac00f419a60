//! `POST /rerank`: documents in the order of their similarity to a query, as vLLM, Jina and Cohere answer.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use gradus_core::contracts::Embed;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::score::cosine;
use crate::app::App;
use crate::error::ApiError;
use crate::extract::{JsonBody, Place};
use crate::guard::new_id;
use crate::models::Ability;
use crate::steps::score::TokenUsage;

/// Documents to order.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct RerankBody {
    model: Option<String>,
    query: String,
    documents: Vec<String>,
    /// Only so many of the best (default: all).
    #[serde(default)]
    top_n: usize,
}

/// Documents in order.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RerankReply {
    id: String,
    model: String,
    usage: TokenUsage,
    results: Vec<RerankEntry>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RerankEntry {
    index: usize,
    document: RerankDocument,
    relevance_score: f32,
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RerankDocument {
    text: String,
}

/// Orders documents by similarity to a query.
#[utoipa::path(post, path = "/rerank", tag = "vllm", request_body = RerankBody,
    responses((status = 200, body = RerankReply), (status = "4XX", body = crate::error::ErrorBody)))]
pub(crate) async fn rerank(
    State(app): State<Arc<App>>,
    _place: Place,
    JsonBody(body): JsonBody<RerankBody>,
) -> Result<Json<RerankReply>, ApiError> {
    let model = app.models.find(body.model.as_deref(), Ability::Embed)?;
    let count = body.documents.len();
    if count == 0 || count > app.limits.inputs {
        return Err(ApiError::invalid(format!("give 1 to {} `documents` (--max-inputs)", app.limits.inputs)));
    }
    let texts = std::iter::once(body.query).chain(body.documents.iter().cloned()).collect();
    let found = model.embedder()?.embed(texts).await?;
    let mut rows = found.rows();
    let query = rows.next().unwrap_or_default();
    let entry = |(index, (text, row)): (usize, (String, &[f32]))| RerankEntry {
        index,
        document: RerankDocument { text },
        relevance_score: cosine(query, row),
    };
    let mut results: Vec<RerankEntry> = body.documents.into_iter().zip(rows).enumerate().map(entry).collect();
    results.sort_by(|a, b| b.relevance_score.total_cmp(&a.relevance_score).then(a.index.cmp(&b.index)));
    if body.top_n > 0 {
        results.truncate(body.top_n);
    }
    let usage = TokenUsage::prompt(found.usage.prompt_tokens);
    Ok(Json(RerankReply { id: new_id("rerank"), model: model.name.clone(), usage, results }))
}
