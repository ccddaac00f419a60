//! ThinkBooster's protocol: test-time scaling behind `POST /v1/{strategy}/{scorer}/chat/completions`.
//!
//! | strategy | here |
//! |---|---|
//! | `self_consistency` | `num_paths` solutions, the most frequent answer |
//! | `offline_bon` | `tts_num_trajectories` solutions, the best by score |
//! | `online_bon` | step by step, the best of `tts_candidates_per_step` goes on |
//! | `beam_search` | step by step, the best `tts_beam_size` go on |
//!
//! The scorer is `prm`, the first reward model that is served, or the name of one.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use gradus_core::contracts::{Answer, CallError, Sampling, ScoreRequest, ScoreSteps, StepScores};
use gradus_core::select::Aggregation;
use gradus_core::select::search::{
    self, BeamConfig, Choose, Question, SampleConfig, SearchOutcome, Settings,
};
use serde::Deserialize;
use serde_json::{Value, json};
use utoipa::ToSchema;

use crate::app::App;
use crate::error::ApiError;
use crate::extract::{JsonBody, Place};
use crate::guard::new_id;
use crate::models::Ability;
use crate::openai::chat::{ChatMessage, messages, now};

const STRATEGIES: [&str; 4] = ["self_consistency", "offline_bon", "online_bon", "beam_search"];
/// Between two steps.
const SEPARATOR: &str = "\n\n";

/// A conversation, and how hard to think about it.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct ScalingBody {
    model: Option<String>,
    messages: Vec<ChatMessage>,
    /// Sampling temperature (default: 0.7).
    temperature: Option<f32>,
    /// Maximum tokens of a solution (default: 4096).
    max_tokens: Option<usize>,
    seed: Option<u64>,
    /// Refused: the answer is known at the end only.
    #[serde(default)]
    stream: bool,
    /// `self_consistency`: solutions (default: 5).
    #[serde(alias = "tts_budget")]
    num_paths: Option<usize>,
    /// `offline_bon`: solutions (default: 8).
    tts_num_trajectories: Option<usize>,
    /// `online_bon` and `beam_search`: proposals for each step (default: 4).
    tts_candidates_per_step: Option<usize>,
    /// `beam_search`: partial solutions that go on (default: 4).
    tts_beam_size: Option<usize>,
    /// Maximum steps of a solution (default: 100).
    tts_max_steps: Option<usize>,
    /// `min` (default), `mean`, `product` or `last`.
    tts_score_aggregation: Option<String>,
}

/// Thinks about a conversation with a scorer.
#[utoipa::path(post, path = "/v1/{strategy}/{scorer}/chat/completions", tag = "thinkbooster",
    params(("strategy" = String, Path), ("scorer" = String, Path)), request_body = ScalingBody,
    responses((status = 200, body = Object), (status = "4XX", body = crate::error::ErrorBody)))]
pub(crate) async fn with_scorer(
    State(app): State<Arc<App>>,
    place: Place,
    Path((strategy, scorer)): Path<(String, String)>,
    JsonBody(body): JsonBody<ScalingBody>,
) -> Result<Json<Value>, ApiError> {
    let _place = place;
    solve(&app, &strategy, &scorer, body).await
}

/// Thinks about a conversation with the first reward model.
#[utoipa::path(post, path = "/v1/{strategy}/chat/completions", tag = "thinkbooster",
    params(("strategy" = String, Path)), request_body = ScalingBody,
    responses((status = 200, body = Object), (status = "4XX", body = crate::error::ErrorBody)))]
pub(crate) async fn without_scorer(
    State(app): State<Arc<App>>,
    place: Place,
    Path(strategy): Path<String>,
    JsonBody(body): JsonBody<ScalingBody>,
) -> Result<Json<Value>, ApiError> {
    let _place = place;
    solve(&app, &strategy, "prm", body).await
}

async fn solve(app: &App, strategy: &str, scorer: &str, body: ScalingBody) -> Result<Json<Value>, ApiError> {
    if !STRATEGIES.contains(&strategy) {
        return Err(ApiError::invalid(format!(
            "strategy `{strategy}` is not known: use {}",
            STRATEGIES.join(", ")
        )));
    }
    if matches!(scorer, "entropy" | "perplexity" | "sequence_prob") {
        return Err(ApiError::invalid(format!(
            "scorer `{scorer}` is not supported: use prm or a reward model's name"
        )));
    }
    if body.stream {
        return Err(ApiError::invalid("`stream` is not supported here: the answer is known at the end only"));
    }
    let model = app.models.find(body.model.as_deref(), Ability::Generate)?;
    let generator = model.generator()?;
    let conversation = messages(&body.messages)?;
    let problem = conversation.iter().rev().find(|message| message.role == "user");
    let problem = problem.map(|message| message.content.clone()).unwrap_or_default();
    let ask = generator
        .prompt(&conversation, || Box::new(gradus_backend::ChatPrompt { messages: conversation.clone() }))
        .map_err(|error| ApiError::invalid(error.to_string()))?;
    let aggregation =
        crate::steps::score::aggregation(body.tts_score_aggregation.as_deref(), Aggregation::Min)?;
    let settings = Settings {
        separator: SEPARATOR.to_owned(),
        sampling: Sampling { temperature: body.temperature.unwrap_or(0.7), ..Sampling::default() },
        seed: body.seed.unwrap_or_else(crate::guard::random),
        budget: Some(app.limits.generated_tokens as u64),
        aggregation,
        choose: if strategy == "self_consistency" { Choose::Majority } else { Choose::Best },
        ..Settings::default()
    };
    let max_tokens = body.max_tokens.unwrap_or(4096).min(model.engine().context());
    let (candidates, beams) = (body.tts_candidates_per_step.unwrap_or(4), body.tts_beam_size.unwrap_or(4));
    let n = if strategy == "self_consistency" {
        body.num_paths.unwrap_or(5)
    } else {
        body.tts_num_trajectories.unwrap_or(8)
    };
    if n.max(candidates.saturating_mul(beams)) > app.limits.inputs {
        return Err(ApiError::invalid(format!(
            "more than {} solutions at once (--max-inputs)",
            app.limits.inputs
        )));
    }
    app.limits.copies(problem.len(), n.max(candidates.saturating_mul(beams)))?;
    let named = Some(scorer).filter(|name| *name != "prm");
    let judge: &dyn ScoreSteps = match app.models.find(named, Ability::Score) {
        Ok(found) => found.scorer()?,
        Err(_) if strategy == "self_consistency" && named.is_none() => &Nobody,
        Err(error) => return Err(error),
    };
    let question = Question { text: &problem, ask: ask.as_ref() };
    let outcome = if matches!(strategy, "self_consistency" | "offline_bon") {
        search::sample(generator, judge, question, &SampleConfig { n, max_tokens, settings }).await?
    } else {
        let config = BeamConfig {
            width: if strategy == "online_bon" { 1 } else { beams },
            expansions: candidates,
            max_steps: body.tts_max_steps.unwrap_or(100),
            step_tokens: max_tokens,
            stop_after: 1,
            settings,
        };
        search::beam(generator, judge, question, &config).await?
    };
    Ok(Json(answer(&model.name, strategy, &outcome)))
}

fn answer(model: &str, strategy: &str, outcome: &SearchOutcome) -> Value {
    let chosen = outcome.best().or(outcome.solutions.first());
    let steps = chosen.map(|found| found.steps.clone()).unwrap_or_default();
    let mut answers: BTreeMap<&str, usize> = BTreeMap::new();
    for answer in outcome.solutions.iter().filter_map(|found| found.answer.as_deref()) {
        *answers.entry(answer).or_default() += 1;
    }
    let votes: usize = answers.values().sum();
    let agreeing = outcome.answer().and_then(|answer| answers.get(answer)).copied().unwrap_or(0);
    let consensus = if votes > 0 { agreeing as f64 / votes as f64 } else { 0.0 };
    let trajectories: Vec<Value> = outcome
        .solutions
        .iter()
        .map(|found| json!({"steps": found.steps, "validity_scores": found.scores, "score": found.aggregate, "answer": found.answer, "complete": found.complete}))
        .collect();
    let usage = outcome.usage;
    json!({
        "id": new_id("chatcmpl"),
        "object": "chat.completion",
        "created": now(),
        "model": model,
        "choices": [{
            "index": 0,
            "message": {"role": "assistant", "content": steps.join(SEPARATOR)},
            "finish_reason": if chosen.is_some_and(|found| found.complete) { "stop" } else { "length" },
            "tts_metadata": {
                "strategy": strategy,
                "steps": steps,
                "reasoning_steps": steps.len(),
                "validity_scores": chosen.map(|found| found.scores.clone()).unwrap_or_default(),
                "aggregated_score": chosen.and_then(|found| found.aggregate),
                "consensus_score": consensus,
                "uncertainty_score": 1.0 - consensus,
                "answer_distribution": answers,
                "token_stats": {"generated": usage.generated_tokens, "scored": usage.scored_tokens, "generate_calls": usage.generate_calls, "score_calls": usage.score_calls},
                "all_trajectories": trajectories,
            },
        }],
        "usage": {"prompt_tokens": 0, "completion_tokens": usage.generated_tokens, "total_tokens": usage.generated_tokens},
    })
}

/// Scores nothing: votes need no scores.
struct Nobody;

impl ScoreSteps for Nobody {
    fn score_steps(&self, requests: Vec<ScoreRequest>) -> Answer<'_, Vec<Result<StepScores, CallError>>> {
        let none = |_| Err(CallError::Invalid("no reward model is served".to_owned()));
        Box::pin(async move { Ok(requests.into_iter().map(none).collect()) })
    }
}
