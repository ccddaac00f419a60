//! Label: the routes of crate `label`'s service.

use std::sync::Arc;

use axum::Json;
use axum::Router;
use axum::extract::{Query, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use gradus_label::agreement::Overview;
use gradus_label::requests::{
    Held, ItemRequest, NextRequest, NextResponse, PersonRequest, SaveRequest, SaveResponse, Suggestions,
};
use gradus_label::{Combine, Error, ErrorKind, ExportFormat, Labeling};
use serde::Deserialize;

use crate::app::App;
use crate::error::ApiError;
use crate::extract::{JsonBody, ShortJsonBody};

/// An error of the service, or of the request.
pub(crate) enum LabelError {
    Service(Error),
    Api(ApiError),
}

impl IntoResponse for LabelError {
    fn into_response(self) -> Response {
        match self {
            Self::Api(error) => error.into_response(),
            Self::Service(error) => {
                let status = match error.kind() {
                    ErrorKind::Invalid => StatusCode::UNPROCESSABLE_ENTITY,
                    ErrorKind::NotFound => StatusCode::NOT_FOUND,
                    ErrorKind::Conflict => StatusCode::CONFLICT,
                    ErrorKind::Internal => StatusCode::INTERNAL_SERVER_ERROR,
                };
                (status, Json(error.body())).into_response()
            }
        }
    }
}

type Answer<T> = Result<Json<T>, LabelError>;

/// Asks the service beside the server's threads: it waits for the disk.
async fn ask<T: Send + 'static>(
    app: Arc<App>,
    question: impl FnOnce(&Labeling) -> Result<T, Error> + Send + 'static,
) -> Answer<T> {
    let missing = || {
        let message = "no labeling project is open: start with gradus serve --label FOLDER";
        LabelError::Api(ApiError::new(StatusCode::NOT_FOUND, message))
    };
    let answer = tokio::task::spawn_blocking(move || app.labeling.as_ref().map(question)).await;
    let failed = |_| {
        LabelError::Api(ApiError::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "labeling failed: this is a bug of Gradus",
        ))
    };
    let answer = answer.map_err(failed)?.ok_or_else(missing)?;
    answer.map(Json).map_err(LabelError::Service)
}

async fn overview(State(app): State<Arc<App>>) -> Answer<Overview> {
    ask(app, |labeling| Ok(labeling.overview())).await
}

async fn next(
    State(app): State<Arc<App>>,
    JsonBody(request): ShortJsonBody<NextRequest>,
) -> Answer<NextResponse> {
    ask(app, move |labeling| labeling.next(&request)).await
}

async fn save(
    State(app): State<Arc<App>>,
    JsonBody(request): ShortJsonBody<SaveRequest>,
) -> Answer<SaveResponse> {
    ask(app, move |labeling| labeling.save(&request)).await
}

async fn undo(
    State(app): State<Arc<App>>,
    JsonBody(request): ShortJsonBody<PersonRequest>,
) -> Answer<NextResponse> {
    ask(app, move |labeling| labeling.undo(&request)).await
}

async fn suggestions(
    State(app): State<Arc<App>>,
    JsonBody(request): ShortJsonBody<ItemRequest>,
) -> Answer<Suggestions> {
    ask(app, move |labeling| labeling.suggestions(&request)).await
}

async fn heartbeat(
    State(app): State<Arc<App>>,
    JsonBody(request): ShortJsonBody<ItemRequest>,
) -> Answer<Held> {
    ask(app, move |labeling| labeling.heartbeat(&request)).await
}

async fn release(State(app): State<Arc<App>>, JsonBody(request): ShortJsonBody<ItemRequest>) -> Answer<Held> {
    ask(app, move |labeling| labeling.release(&request)).await
}

#[derive(Deserialize)]
struct ExportQuery {
    format: Option<String>,
    combine: Option<String>,
}

async fn export(
    State(app): State<Arc<App>>,
    Query(query): Query<ExportQuery>,
) -> Result<Response, LabelError> {
    let refused = |message: String| LabelError::Api(ApiError::invalid(message));
    let format: ExportFormat = query.format.as_deref().unwrap_or("gradus").parse().map_err(refused)?;
    let combine: Option<Combine> = query.combine.as_deref().map(str::parse).transpose().map_err(refused)?;
    let Json(rows) =
        ask(app, move |labeling| Ok(labeling.export(format, combine.unwrap_or_default()).rows)).await?;
    let lines: String = rows.iter().map(|row| format!("{row}\n")).collect();
    let headers = [
        (header::CONTENT_TYPE, "application/x-ndjson"),
        (header::CONTENT_DISPOSITION, "attachment; filename=\"labels.jsonl\""),
    ];
    Ok((headers, lines).into_response())
}

/// The routes.
pub(crate) fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/v1/label/overview", get(overview))
        .route("/v1/label/next", post(next))
        .route("/v1/label/save", post(save))
        .route("/v1/label/undo", post(undo))
        .route("/v1/label/suggestions", post(suggestions))
        .route("/v1/label/heartbeat", post(heartbeat))
        .route("/v1/label/release", post(release))
        .route("/v1/label/export", get(export))
}
