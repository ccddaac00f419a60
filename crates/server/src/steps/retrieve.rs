//! `POST /v1/steps/retrieve`: solved problems that resemble a problem, and steps that resemble its steps.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use gradus_core::contracts::ScoreRequest;
use gradus_retrieve::two_stage::{Retrieved, Target};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::app::App;
use crate::error::ApiError;
use crate::extract::{JsonBody, Place};
use crate::models::Ability;

/// What to find references for.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RetrieveBody {
    /// The name of a model that is served with a pool (default: the first).
    model: Option<String>,
    /// The problem's text.
    problem: String,
    /// The steps of a solution.
    #[serde(default)]
    steps: Vec<String>,
    /// Reference questions (default: as the model is served).
    questions: Option<usize>,
    /// Reference steps for each step (default: as the model is served).
    reference_steps: Option<usize>,
}

/// References, where they are from, and what the leak guard kept out.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RetrieveReply {
    model: String,
    #[serde(flatten)]
    #[schema(value_type = Object)]
    found: Retrieved,
}

/// Finds references in a pool.
#[utoipa::path(post, path = "/v1/steps/retrieve", tag = "steps", request_body = RetrieveBody,
    responses((status = 200, body = RetrieveReply), (status = "4XX", body = crate::error::ErrorBody)))]
pub(crate) async fn retrieve(
    State(app): State<Arc<App>>,
    _place: Place,
    JsonBody(body): JsonBody<RetrieveBody>,
) -> Result<Json<RetrieveReply>, ApiError> {
    let model = app.models.find(body.model.as_deref(), Ability::Retrieve)?;
    let library = model.library.as_ref().expect("it can retrieve");
    let mut settings = library.settings().clone();
    settings.questions = body.questions.unwrap_or(settings.questions);
    settings.steps = body.reference_steps.unwrap_or(settings.steps);
    if body.steps.len() > app.limits.steps || settings.questions.max(settings.steps) > app.limits.inputs {
        return Err(ApiError::invalid(
            "more steps or references than this server allows (--max-steps, --max-inputs)",
        ));
    }
    let request = ScoreRequest { problem: body.problem, steps: body.steps, ..ScoreRequest::default() };
    let found = library.retrieve(vec![Target::from(&request)], settings).await?;
    let found = found.targets.into_iter().next().expect("one for each target");
    Ok(Json(RetrieveReply { model: model.name.clone(), found }))
}
