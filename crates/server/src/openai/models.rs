//! `GET /v1/models`.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use gradus_backend::ServedKind;
use serde::Serialize;
use utoipa::ToSchema;

use crate::app::App;
use crate::error::ApiError;
use crate::models::ServedModel;

/// The models that are served.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ModelList {
    object: &'static str,
    data: Vec<ModelCard>,
}

/// A model.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ModelCard {
    id: String,
    object: &'static str,
    created: u64,
    owned_by: &'static str,
    /// Maximum number of tokens in a prompt with its completion.
    max_model_len: usize,
    /// `reward`, `language` or `embedding`.
    kind: &'static str,
    /// The profile by which it scores steps.
    #[serde(skip_serializing_if = "Option::is_none")]
    profile: Option<String>,
    /// Whether it retrieves references from a pool.
    retrieval: bool,
}

impl ModelCard {
    fn of(model: &ServedModel) -> Self {
        Self {
            id: model.name.clone(),
            object: "model",
            created: model.created,
            owned_by: "gradus",
            max_model_len: model.engine().context(),
            kind: match model.kind() {
                ServedKind::Reward => "reward",
                ServedKind::Language => "language",
                ServedKind::Embedding => "embedding",
            },
            profile: model.profile().map(str::to_owned),
            retrieval: model.library.is_some(),
        }
    }
}

/// Lists the models.
#[utoipa::path(get, path = "/v1/models", tag = "openai", responses((status = 200, body = ModelList)))]
pub(crate) async fn list(State(app): State<Arc<App>>) -> Json<ModelList> {
    Json(ModelList { object: "list", data: app.models.all().iter().map(ModelCard::of).collect() })
}

/// Shows a model.
#[utoipa::path(get, path = "/v1/models/{model}", tag = "openai", params(("model" = String, Path)),
    responses((status = 200, body = ModelCard), (status = 404, body = crate::error::ErrorBody)))]
pub(crate) async fn show(
    State(app): State<Arc<App>>,
    Path(name): Path<String>,
) -> Result<Json<ModelCard>, ApiError> {
    let found = app.models.all().iter().find(|model| model.name == name);
    let missing = || ApiError::new(StatusCode::NOT_FOUND, format!("the model `{name}` does not exist here"));
    found.map(|model| Json(ModelCard::of(model))).ok_or_else(missing)
}
