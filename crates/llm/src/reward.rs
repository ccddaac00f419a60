//! `ScoreSteps` over `POST /v1/score`, one request per solution:
//!
//! ```json
//! {"model": "prm", "id": "s1", "problem": "What is 1 + 1?", "steps": ["1 + 1 = 2"]}
//! {"scores": [0.93], "usage": {"prompt_tokens": 21}}
//! ```
//!
//! `model` is left out where the endpoint names none, `usage` may be missing. `references` and `step_references` are
//! sent where a request has them, as `gradus_core::contracts::ScoreRequest` writes them.

use futures_util::future::join_all;
use gradus_core::contracts::{Answer, CallError, ScoreRequest, ScoreSteps, StepScores};
use serde::{Deserialize, Serialize};

use crate::{Http, scores};

/// A reward model behind a server that takes problems and steps.
///
/// ```no_run
/// use gradus_core::contracts::{ScoreRequest, ScoreSteps};
/// use gradus_llm::{Endpoint, Http, RewardServer};
/// # async fn ask() -> Result<(), Box<dyn std::error::Error>> {
/// let model = RewardServer::new(Http::open(&Endpoint::new("http://127.0.0.1:7700", ""))?);
/// let request = ScoreRequest { problem: "1 + 1?".into(), steps: vec!["It is 2.".into()], ..Default::default() };
/// for scores in model.score_steps(vec![request]).await? {
///     assert_eq!(scores?.scores.len(), 1);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct RewardServer {
    http: Http,
}

#[derive(Serialize)]
struct RewardBody<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    model: &'a str,
    #[serde(flatten)]
    request: &'a ScoreRequest,
}

#[derive(Deserialize)]
struct RewardReply {
    scores: Vec<f64>,
}

impl RewardServer {
    /// The model of `http`'s endpoint.
    pub fn new(http: Http) -> Self {
        Self { http }
    }

    async fn score(&self, request: ScoreRequest) -> Result<StepScores, CallError> {
        scores::check_request(&request)?;
        let body = RewardBody { model: &self.http.endpoint().model, request: &request };
        let accept = |reply: RewardReply, usage| {
            scores::check_scores(&request, &reply.scores)?;
            Ok(StepScores { scores: reply.scores, usage })
        };
        self.http.post_and("/v1/score", &body, accept).await
    }
}

impl ScoreSteps for RewardServer {
    fn score_steps(&self, requests: Vec<ScoreRequest>) -> Answer<'_, Vec<Result<StepScores, CallError>>> {
        Box::pin(async move { Ok(join_all(requests.into_iter().map(|request| self.score(request))).await) })
    }
}
