//! `POST /classify`: what a reward model's head says at the end of each text. verl's reward loop reads
//! `data[-1].probs[-1]`, with `activation: false`.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use gradus_engine::{ReadAt, ReadRequest, Readout};
use serde::Serialize;
use utoipa::ToSchema;

use super::activation::probabilities;
use super::pooling::PoolingBody;
use crate::app::App;
use crate::error::ApiError;
use crate::extract::{JsonBody, Place};
use crate::guard::new_id;
use crate::models::Ability;
use crate::openai::chat::now;
use crate::steps::score::TokenUsage;

/// Classes of each text.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ClassifyReply {
    id: String,
    object: &'static str,
    created: u64,
    model: String,
    data: Vec<ClassifyEntry>,
    usage: TokenUsage,
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ClassifyEntry {
    index: usize,
    /// The most probable class.
    label: String,
    probs: Vec<f32>,
    num_classes: usize,
}

/// Classifies texts, as vLLM does.
#[utoipa::path(post, path = "/classify", tag = "vllm", request_body = PoolingBody,
    responses((status = 200, body = ClassifyReply), (status = "4XX", body = crate::error::ErrorBody)))]
pub(crate) async fn classify(
    State(app): State<Arc<App>>,
    _place: Place,
    JsonBody(mut body): JsonBody<PoolingBody>,
) -> Result<Json<ClassifyReply>, ApiError> {
    let model = app.models.find(body.model.as_deref(), Ability::Score)?;
    let texts = body.tokens(model, app.limits.inputs)?;
    let used = texts.iter().map(|text| text.len() as u64).sum();
    let requests =
        texts.into_iter().map(|tokens| ReadRequest { tokens, at: ReadAt::Last, what: Readout::Head });
    let read = model.engine().read(requests.collect()).await?;
    let active = body.wants_probabilities();
    let entry = |(index, rows): (usize, Vec<Vec<f32>>)| {
        let row = rows.into_iter().next().unwrap_or_default();
        let probs = if active { probabilities(&row) } else { row };
        let best = (0..probs.len()).max_by(|a, b| probs[*a].total_cmp(&probs[*b])).unwrap_or(0);
        ClassifyEntry { index, label: format!("LABEL_{best}"), num_classes: probs.len(), probs }
    };
    Ok(Json(ClassifyReply {
        id: new_id("classify"),
        object: "list",
        created: now(),
        model: model.name.clone(),
        data: read.into_iter().enumerate().map(entry).collect(),
        usage: TokenUsage::prompt(used),
    }))
}
