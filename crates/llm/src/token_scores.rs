//! `ScoreSteps` over `/v1/completions` of an ordinary language model: how probable is one token against another where a
//! verdict is due?
//!
//! ```json
//! {"model": "m", "prompt": [[1, 5, 9, 648], [1, 5, 9, 387]], "max_tokens": 1, "temperature": 0, "echo": true, "logprobs": 1}
//! {"choices": [{"index": 0, "logprobs": {"token_logprobs": [null, -2.1, -0.4, -0.2, -1.0]}}, {"index": 1, …}]}
//! ```
//!
//! Every step has two prompts of token ids, which end in the token for 'right' and in the one for 'wrong'. The server
//! repeats them with log-probabilities, and the difference of the last two is that of the model's logits: the score is
//! exact. All prompts of a solution travel in one request. vLLM serves this; servers that do not take token ids or `echo`
//! are refused.

use std::fmt;
use std::sync::Arc;

use futures_util::future::join_all;
use gradus_core::contracts::{Answer, CallError, ScoreRequest, ScoreSteps, StepScores};
use serde::{Deserialize, Serialize};

use crate::{Http, scores};

const PATH: &str = "/v1/completions";

/// Writes solutions for a model that is asked for one of two tokens.
pub trait TokenFormat: Send + Sync {
    /// For each step, the tokens after which the verdict is due.
    fn write(&self, request: &ScoreRequest) -> Result<Vec<Vec<u32>>, CallError>;

    /// The tokens for 'right' and for 'wrong'.
    fn verdict(&self) -> [u32; 2];

    /// The solution's scores, from those that were read.
    fn scores(&self, request: &ScoreRequest, read: Vec<f64>) -> Vec<f64> {
        let _ = request;
        read
    }
}

/// A language model behind HTTP that scores steps by one token against another.
#[derive(Clone)]
pub struct TokenScores {
    http: Http,
    format: Arc<dyn TokenFormat>,
}

impl fmt::Debug for TokenScores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenScores").field("http", &self.http).finish_non_exhaustive()
    }
}

#[derive(Serialize)]
struct EchoBody<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    model: &'a str,
    prompt: &'a [Vec<u32>],
    max_tokens: usize,
    temperature: f32,
    echo: bool,
    logprobs: usize,
}

#[derive(Deserialize)]
struct EchoReply {
    choices: Vec<EchoChoice>,
}

#[derive(Deserialize)]
struct EchoChoice {
    index: Option<usize>,
    logprobs: Option<EchoLists>,
}

#[derive(Deserialize)]
struct EchoLists {
    #[serde(default)]
    token_logprobs: Vec<Option<f64>>,
}

impl TokenScores {
    /// The model of `http`'s endpoint, with solutions as `format` writes them.
    pub fn new(http: Http, format: impl TokenFormat + 'static) -> Self {
        Self { http, format: Arc::new(format) }
    }

    async fn score(&self, request: ScoreRequest) -> Result<StepScores, CallError> {
        scores::check_request(&request)?;
        let verdict = self.format.verdict();
        let mut prompts = Vec::new();
        for before in self.format.write(&request)? {
            for token in verdict {
                let mut prompt = before.clone();
                prompt.push(token);
                prompts.push(prompt);
            }
        }
        let body = EchoBody {
            model: &self.http.endpoint().model,
            prompt: &prompts,
            max_tokens: 1,
            temperature: 0.0,
            echo: true,
            logprobs: 1,
        };
        let failed = |what: String| CallError::Failed(format!("solution `{}`: {PATH}: {what}", request.id));
        let accept = |mut reply: EchoReply, usage| {
            reply.choices.sort_by_key(|choice| choice.index);
            let (found, wanted) = (reply.choices.len(), prompts.len());
            if found != wanted {
                return Err(failed(format!(
                    "`choices` of the answer has {found} entries instead of {wanted}"
                )));
            }
            let last = |(prompt, choice): (&Vec<u32>, &EchoChoice)| last_logprob(prompt.len(), choice);
            let values = prompts.iter().zip(&reply.choices).map(last).collect::<Result<Vec<f64>, _>>();
            let values = values.map_err(&failed)?;
            let read = values.chunks_exact(2).map(|pair| score(pair[0], pair[1]));
            let read: Vec<f64> = read.collect::<Result<_, _>>().map_err(&failed)?;
            scores::check_scores(&request, &read)?;
            Ok(StepScores { scores: self.format.scores(&request, read), usage })
        };
        self.http.post_and(PATH, &body, accept).await
    }
}

/// The log-probability of a prompt's last token; the token that was generated after it may follow.
fn last_logprob(tokens: usize, choice: &EchoChoice) -> Result<f64, String> {
    let lists = choice.logprobs.as_ref().ok_or("`choices[].logprobs` of the answer is missing")?;
    let found = lists.token_logprobs.len();
    if found != tokens && found != tokens + 1 {
        return Err(format!(
            "{found} log-probabilities came back for a prompt of {tokens} tokens: this server does not repeat token ids \
             with log-probabilities (`echo`), as vLLM does"
        ));
    }
    lists.token_logprobs[tokens - 1]
        .ok_or_else(|| format!("`logprobs.token_logprobs[{}]` of the answer is null", tokens - 1))
}

/// exp(l₊) / (exp(l₊) + exp(l₋))
fn score(right: f64, wrong: f64) -> Result<f64, String> {
    let sum = right.exp() + wrong.exp();
    if sum.is_finite() && sum <= 1.0 + 1e-3 {
        Ok(1.0 / (1.0 + (wrong - right).exp()))
    } else {
        Err(format!("log-probabilities of {right} and {wrong} cannot be of two tokens at one place"))
    }
}

impl ScoreSteps for TokenScores {
    fn score_steps(&self, requests: Vec<ScoreRequest>) -> Answer<'_, Vec<Result<StepScores, CallError>>> {
        Box::pin(async move { Ok(join_all(requests.into_iter().map(|request| self.score(request))).await) })
    }
}
