//! `POST /v1/steps/select`: one of several solutions, by scores, by votes, or by both.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use gradus_core::select::vote;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::score::{ScoreBody, ScoreReply, scored};
use crate::app::App;
use crate::error::ApiError;
use crate::extract::{JsonBody, Place, beside};

/// How to choose.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum SelectBy {
    /// The solution with the highest score.
    #[default]
    Best,
    /// The answer with the highest sum of scores.
    Vote,
    /// The most frequent answer.
    Majority,
}

/// A request to choose: that for scores, and how.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct SelectBody {
    /// How to choose (default: `best`).
    #[serde(default)]
    by: SelectBy,
    #[serde(flatten)]
    score: serde_json::Map<String, serde_json::Value>,
}

/// What was chosen.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SelectReply {
    by: SelectBy,
    /// The chosen solution, from 0; null where none has a score, or for votes an answer.
    chosen: Option<usize>,
    /// Its answer.
    answer: Option<String>,
    /// How many solutions have that answer.
    votes: usize,
    #[serde(flatten)]
    scores: ScoreReply,
}

/// Chooses one of several solutions of a problem.
#[utoipa::path(post, path = "/v1/steps/select", tag = "steps", request_body = SelectBody,
    responses((status = 200, body = SelectReply), (status = "4XX", body = crate::error::ErrorBody)))]
pub(crate) async fn select(
    State(app): State<Arc<App>>,
    _place: Place,
    JsonBody(body): JsonBody<SelectBody>,
) -> Result<Json<SelectReply>, ApiError> {
    let bytes = serde_json::to_vec(&body.score).expect("a JSON object is written");
    let score: ScoreBody = crate::extract::parse(&bytes)?;
    let scores = scored(&app, score).await?;
    let by = body.by;
    // Votes compare answers with each other, which may take long.
    let choose = move || {
        let answers: Vec<Option<&str>> =
            scores.solutions.iter().map(|solution| solution.answer.as_deref()).collect();
        let groups = vote::groups(&answers);
        let each: Vec<Option<f64>> = scores.solutions.iter().map(|solution| solution.score).collect();
        let spoken = |winner: Option<usize>| {
            winner.and_then(|winner| vote::representative(&groups, &each, Some(winner)))
        };
        let chosen = match by {
            SelectBy::Best => vote::best(&each),
            SelectBy::Vote => spoken(vote::weighted(&groups, &each, vote::Power::default())),
            SelectBy::Majority => spoken(vote::majority(&groups)),
        };
        let group = chosen.and_then(|chosen| groups[chosen]);
        let votes = group.map_or(0, |group| groups.iter().filter(|other| **other == Some(group)).count());
        let answer = chosen.and_then(|chosen| scores.solutions[chosen].answer.clone());
        SelectReply { by, chosen, answer, votes, scores }
    };
    Ok(Json(beside(choose).await?))
}
