//! `ScoreSteps` over `POST /v1/steps/score`, the protocol of `gradus serve`, one request per solution:
//!
//! ```json
//! {"model": "prm", "id": "s1", "problem": "What is 1 + 1?", "steps": ["1 + 1 = 2"]}
//! {"scores": [0.93], "usage": {"prompt_tokens": 21}}
//! ```
//!
//! Solutions of one problem that have no references travel in one request, so that the server can share its tokens:
//!
//! ```json
//! {"model": "prm", "problem": "What is 1 + 1?", "solutions": [{"id": "s1", "steps": ["1 + 1 = 2"]}, {"id": "s2", "steps": ["3"]}]}
//! {"solutions": [{"steps": [{"score": 0.93}]}, {"steps": [{"score": 0.1}]}], "usage": {"prompt_tokens": 30}}
//! ```
//!
//! `model` is left out where the endpoint names none, `usage` may be missing. A solution that cannot be scored has an
//! `error`. `references` and `step_references` are sent where a request has them, as
//! `gradus_core::contracts::ScoreRequest` writes them.

use futures_util::future::join_all;
use gradus_core::contracts::{Answer, CallError, ScoreRequest, ScoreSteps, StepScores, Usage};
use serde::{Deserialize, Serialize};

use crate::{Http, scores};

const PATH: &str = "/v1/steps/score";
/// Solutions of one request at most.
const TOGETHER: usize = 64;

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

/// Several solutions of a problem.
#[derive(Serialize)]
struct GroupBody<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    model: &'a str,
    problem: &'a str,
    solutions: Vec<SolutionBody<'a>>,
}

#[derive(Serialize)]
struct SolutionBody<'a> {
    id: &'a str,
    steps: &'a [String],
}

#[derive(Deserialize)]
struct GroupReply {
    solutions: Vec<SolutionReply>,
}

#[derive(Deserialize)]
struct SolutionReply {
    #[serde(default)]
    steps: Vec<StepReply>,
    #[serde(default)]
    error: Option<String>,
}

#[derive(Deserialize)]
struct StepReply {
    score: Option<f64>,
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

    /// Solutions of one problem. One that is refused is its own error, so those of a refused request go one by one.
    async fn score_all(&self, requests: &[ScoreRequest]) -> Vec<Result<StepScores, CallError>> {
        if let [request] = requests {
            return vec![self.score(request.clone()).await];
        }
        let solutions =
            requests.iter().map(|request| SolutionBody { id: &request.id, steps: &request.steps });
        let body = GroupBody {
            model: &self.http.endpoint().model,
            problem: &requests[0].problem,
            solutions: solutions.collect(),
        };
        let accept = |reply: GroupReply, usage: Usage| {
            if reply.solutions.len() != requests.len() {
                let (found, sent) = (reply.solutions.len(), requests.len());
                return Err(CallError::Failed(format!("{found} solutions came back for {sent}")));
            }
            let share = Usage { prompt_tokens: usage.prompt_tokens / requests.len() as u64, ..usage };
            let each = requests.iter().zip(reply.solutions).map(|(request, reply)| {
                reply.error.map_or(Ok(()), |error| Err(CallError::Invalid(error)))?;
                let scores: Vec<f64> = reply.steps.into_iter().filter_map(|step| step.score).collect();
                scores::check_scores(request, &scores)?;
                Ok(StepScores { scores, usage: share })
            });
            Ok(each.collect::<Vec<Result<StepScores, CallError>>>())
        };
        match self.http.post_and(PATH, &body, accept).await {
            Ok(scored) => scored,
            Err(CallError::Invalid(_)) => {
                join_all(requests.iter().map(|request| self.score(request.clone()))).await
            }
            Err(error) => requests.iter().map(|_| Err(error.clone())).collect(),
        }
    }

    async fn score(&self, request: ScoreRequest) -> Result<StepScores, CallError> {
        scores::check_request(&request)?;
        let body = RewardBody { model: &self.http.endpoint().model, request: &request };
        let accept = |reply: RewardReply, usage| {
            scores::check_scores(&request, &reply.scores)?;
            Ok(StepScores { scores: reply.scores, usage })
        };
        self.http.post_and(PATH, &body, accept).await
    }
}

/// Whether solutions travel together.
fn together(one: &ScoreRequest, other: &ScoreRequest) -> bool {
    let plain = |request: &ScoreRequest| request.references.is_empty() && request.step_references.is_empty();
    one.problem == other.problem && plain(one) && plain(other)
}

impl ScoreSteps for RewardServer {
    fn score_steps(&self, requests: Vec<ScoreRequest>) -> Answer<'_, Vec<Result<StepScores, CallError>>> {
        Box::pin(async move {
            let each = requests.chunk_by(together).flat_map(|same| same.chunks(TOGETHER));
            Ok(join_all(each.map(|same| self.score_all(same))).await.concat())
        })
    }
}
