//! `POST /v1/steps/split`: text as steps.

use axum::Json;
use gradus_core::steps::{SplitConfig, Strategy, split as cut};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::error::ApiError;
use crate::extract::{JsonBody, Place, beside};

/// A text.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SplitBody {
    text: String,
    /// How it is cut, as in `gradus steps --strategy` (default: by what the text looks like).
    strategy: Option<String>,
}

/// Its steps.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SplitReply {
    steps: Vec<String>,
    /// How it was cut.
    strategy: &'static str,
}

/// Cuts a text into steps.
#[utoipa::path(post, path = "/v1/steps/split", tag = "steps", request_body = SplitBody,
    responses((status = 200, body = SplitReply), (status = "4XX", body = crate::error::ErrorBody)))]
pub(crate) async fn split(
    _place: Place,
    JsonBody(body): JsonBody<SplitBody>,
) -> Result<Json<SplitReply>, ApiError> {
    let mut config = SplitConfig::default();
    if let Some(name) = &body.strategy {
        let unknown =
            || ApiError::invalid(format!("`strategy`: `{name}` is not known (see gradus steps --help)"));
        config.strategy = Strategy::from_name(name).ok_or_else(unknown)?;
    }
    let reply = move || {
        let found = cut(&body.text, &config);
        let strategy = found.strategy().name();
        SplitReply { steps: found.steps().map(str::to_owned).collect(), strategy }
    };
    Ok(Json(beside(reply).await?))
}
