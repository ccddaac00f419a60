//! All paths, and the OpenAPI document that is made from them.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router, middleware};
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::App;
use crate::error::ApiError;
use crate::{guard, jobs, metrics, openai, openrlhf, page, steps, thinkbooster, vllm};

#[derive(OpenApi)]
#[openapi(info(
    title = "Gradus",
    description = "Step scores over the protocols that training loops speak.",
    license(name = "MIT OR Apache-2.0")
))]
struct Document;

/// Every path.
pub(crate) fn router(app: &Arc<App>) -> Router {
    let (router, document) = documented().split_for_parts();
    let document = Arc::new(document);
    let router = router
        .route("/openapi.json", get(move || async move { Json(document.as_ref().clone()) }))
        // vLLM answers these under several paths.
        .route("/score", post(vllm::score::score))
        .route("/v1/rerank", post(vllm::rerank::rerank))
        .route("/v2/rerank", post(vllm::rerank::rerank))
        .route("/health", get(health))
        .route("/metrics", get(prometheus))
        .route("/page/score", post(page::look::score))
        .route("/page/file", post(page::look::file))
        .route("/page/watch", get(page::watch::now))
        .route("/page/ticket", post(page::watch::ticket))
        .route("/page/annotate", post(page::watch::annotate))
        .route("/watch/run/{job}", get(page::watch::run))
        .route("/watch/pool/{model}", get(page::watch::pool))
        .merge(page::routes())
        .merge(page::label::routes())
        .fallback(async || {
            ApiError::new(StatusCode::NOT_FOUND, "there is nothing at this path: see /openapi.json")
        })
        .method_not_allowed_fallback(async || {
            ApiError::new(
                StatusCode::METHOD_NOT_ALLOWED,
                "this path is not asked in this way: see /openapi.json",
            )
        });
    router.layer(middleware::from_fn_with_state(Arc::clone(app), guard::guard)).with_state(Arc::clone(app))
}

fn documented() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::with_openapi(Document::openapi())
        .routes(routes!(health))
        .routes(routes!(ready))
        .routes(routes!(steps::score::score))
        .routes(routes!(steps::select::select))
        .routes(routes!(steps::retrieve::retrieve))
        .routes(routes!(steps::grade::grade))
        .routes(routes!(steps::split::split))
        .routes(routes!(steps::annotate::annotate))
        .routes(routes!(jobs::list))
        .routes(routes!(jobs::show, jobs::cancel))
        .routes(routes!(jobs::events))
        .routes(routes!(openai::models::list))
        .routes(routes!(openai::models::show))
        .routes(routes!(openai::chat::complete))
        .routes(routes!(openai::completions::complete))
        .routes(routes!(openai::embeddings::embed))
        .routes(routes!(vllm::pooling::pooling))
        .routes(routes!(vllm::classify::classify))
        .routes(routes!(vllm::score::score))
        .routes(routes!(vllm::rerank::rerank))
        .routes(routes!(openrlhf::get_reward))
        .routes(routes!(thinkbooster::with_scorer))
        .routes(routes!(thinkbooster::without_scorer))
}

/// Whether the process answers.
#[utoipa::path(get, path = "/healthz", tag = "operation", responses((status = 200, body = str)))]
async fn health() -> &'static str {
    "ok\n"
}

/// Whether new work is taken.
#[utoipa::path(get, path = "/readyz", tag = "operation",
    responses((status = 200, body = str), (status = 503, description = "The server is stopping.")))]
async fn ready(State(app): State<Arc<App>>) -> Response {
    if app.is_ready() {
        return "ready\n".into_response();
    }
    (StatusCode::SERVICE_UNAVAILABLE, "stopping\n").into_response()
}

async fn prometheus(State(app): State<Arc<App>>) -> Response {
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], metrics::text(&app)).into_response()
}

/// The OpenAPI document.
pub(crate) fn openapi() -> utoipa::openapi::OpenApi {
    documented().split_for_parts().1
}
