//! OpenRLHF's remote reward model: `POST /get_reward {query, prompts, labels}` → `{rewards, scores, extra_logs}`.
//!
//! A query is a prompt with its response, as text. What follows the prompt is cut into steps and scored; the reward is the
//! aggregate. Where a label (the right answer) is given, whether the response has it is logged beside.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::{Query, State};
use gradus_core::contracts::ScoreRequest;
use gradus_core::select::Aggregation;
use gradus_grade::Verdict;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::app::App;
use crate::error::ApiError;
use crate::extract::{JsonBody, Place, beside};
use crate::models::Ability;
use crate::steps::input::cut;
use crate::steps::score::{aggregation, ask};

/// Prompts with responses.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct RewardBody {
    /// Each prompt with its response.
    query: Vec<String>,
    /// The prompts alone.
    #[serde(default)]
    prompts: Vec<String>,
    /// The right answers; empty where there is none.
    #[serde(default)]
    labels: Vec<Option<String>>,
}

/// Which model, and how its step scores become one reward.
#[derive(Debug, Deserialize, IntoParams)]
pub(crate) struct RewardQuery {
    model: Option<String>,
    aggregation: Option<String>,
}

/// Rewards.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RewardReply {
    rewards: Vec<f64>,
    scores: Vec<f64>,
    /// By name, a number for each query.
    extra_logs: BTreeMap<&'static str, Vec<f64>>,
}

/// Rewards of responses, as OpenRLHF asks for them.
#[utoipa::path(post, path = "/get_reward", tag = "training", params(RewardQuery), request_body = RewardBody,
    responses((status = 200, body = RewardReply), (status = "4XX", body = crate::error::ErrorBody)))]
pub(crate) async fn get_reward(
    State(app): State<Arc<App>>,
    _place: Place,
    Query(query): Query<RewardQuery>,
    JsonBody(body): JsonBody<RewardBody>,
) -> Result<Json<RewardReply>, ApiError> {
    let model = app.models.find(query.model.as_deref(), Ability::Score)?;
    let aggregation = aggregation(query.aggregation.as_deref(), Aggregation::Min)?;
    let count = body.query.len();
    if count == 0 || count > app.limits.inputs {
        return Err(ApiError::invalid(format!(
            "give 1 to {} texts in `query` (--max-inputs)",
            app.limits.inputs
        )));
    }
    for (name, length) in [("prompts", body.prompts.len()), ("labels", body.labels.len())] {
        if length != 0 && length != count {
            return Err(ApiError::invalid(format!("`{name}` has {length} entries and `query` {count}")));
        }
    }
    let RewardBody { query: texts, prompts, labels } = body;
    let ends = model.engine().tokenizer().end_texts();
    // Splitting, like grading below, may take long.
    let split = move || {
        let each = texts.iter().enumerate().map(|(index, text)| {
            let prompt = prompts.get(index).map_or("", String::as_str);
            let mut response = text.strip_prefix(prompt).unwrap_or(text).trim_end();
            while let Some(rest) = ends.iter().find_map(|end| response.strip_suffix(end.as_str())) {
                response = rest.trim_end();
            }
            ScoreRequest {
                id: index.to_string(),
                problem: prompt.trim().to_owned(),
                steps: cut(response),
                ..ScoreRequest::default()
            }
        });
        each.collect::<Vec<_>>()
    };
    let requests = beside(split).await?;
    if requests.iter().map(|request| request.steps.len()).sum::<usize>() > app.limits.steps {
        return Err(ApiError::invalid(format!(
            "the responses have more than {} steps (--max-steps)",
            app.limits.steps
        )));
    }
    let outcomes = ask(model, &requests).await?;
    // A response without a step, or one that is too long, is no good one; how many there are is logged.
    let scores: Vec<Option<f64>> =
        outcomes.into_iter().map(|outcome| aggregation.of(&outcome.ok()?.scores)).collect();
    let mut extra_logs = BTreeMap::new();
    let flag = |is: bool| if is { 1.0 } else { 0.0 };
    extra_logs.insert("unscored", scores.iter().map(|score| flag(score.is_none())).collect());
    extra_logs.insert("steps", requests.iter().map(|request| request.steps.len() as f64).collect());
    if labels.iter().flatten().any(|label| !label.is_empty()) {
        let grade = move || {
            let right = labels.iter().zip(&requests).map(|(label, request)| {
                let response = request.steps.join("\n\n");
                let is_right =
                    |label: &String| gradus_grade::grade(label, &response).verdict == Verdict::Equal;
                flag(label.as_ref().is_some_and(is_right))
            });
            right.collect()
        };
        extra_logs.insert("correct", beside(grade).await?);
    }
    let rewards: Vec<f64> = scores.into_iter().map(|score| score.unwrap_or(0.0)).collect();
    Ok(Json(RewardReply { scores: rewards.clone(), rewards, extra_logs }))
}
