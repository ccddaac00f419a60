//! A process reward model: local, or behind endpoints.

use std::sync::Arc;
use std::time::Instant;

use gradus_core::contracts::{Answer, CallError, ScoreRequest, ScoreSteps, StepScores};
use gradus_core::select::DecisionRule;
use gradus_engine::profile::Profile;
use gradus_llm::{Pooling, RewardServer, TokenScores};
use serde::Serialize;

use crate::background::Background;
use crate::endpoints::Endpoints;
use crate::local::{self, Local, Purpose, scorer_name};
use crate::profile_format::ProfileFormat;
use crate::{Error, Result, ScoreApi, ScorerSettings, Spending};

/// The profile of a model behind `/pooling` when none is named.
const POOLING_PROFILE: &str = "qwen2.5-math-prm";
/// The profile of a model behind `/v1/completions` when none is named.
const COMPLETIONS_PROFILE: &str = "plain";
/// Solutions that are with a local model at once, so that it can fill its passes.
const AHEAD: usize = 64;
/// Solutions that are asked about in one call to endpoints, where one record has fewer.
const BATCH: usize = 8;
/// Solutions that are asked about in one call to endpoints at most: as many as travel in one request.
const FULL_BATCH: usize = 32;
/// Bytes of text to a token, about: enough to tell how many solutions fill a pass.
const BYTES_PER_TOKEN: usize = 4;

/// Where scores come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScorerKind {
    /// A model that runs here.
    Local,
    /// Servers of this protocol.
    Endpoints(ScoreApi),
}

impl ScorerKind {
    /// In words, for reports.
    pub fn description(self) -> &'static str {
        match self {
            Self::Local => "local reward model",
            Self::Endpoints(ScoreApi::Pooling) => "reward model behind /pooling",
            Self::Endpoints(ScoreApi::Score) => "server of scores",
            Self::Endpoints(ScoreApi::Completions) => "language model behind /v1/completions",
            Self::Endpoints(ScoreApi::Chat) => "critic behind a server",
        }
    }
}

/// How much was scored, and how fast.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct ScoreSummary {
    /// Tokens of the prompts that were processed.
    pub tokens: u64,
    /// Seconds: those in which a local model worked, or those since endpoints were opened.
    pub seconds: f64,
    /// Tokens per second.
    pub tokens_per_second: f64,
}

/// A scorer that is ready to be asked.
pub struct Scorer {
    /// The model's name, as it was asked for or as servers call it.
    pub model: String,
    /// The profile, of a model that has one.
    pub profile: Option<String>,
    /// How its scores become a first error.
    pub decision: DecisionRule,
    /// Whether arithmetic that is proved wrong is an error for its profile, whatever the scores say.
    pub exact_checks: bool,
    /// Where scores come from.
    pub kind: ScorerKind,
    /// Solutions to have with it at once.
    pub ahead: usize,
    /// Solutions to ask about in one call; those of a call may travel in one request.
    pub batch: usize,
    /// What it spends.
    pub spending: Spending,
    backend: Backend,
    identity: String,
    opened: Instant,
}

enum Backend {
    Local(Local),
    Endpoints(Background<dyn ScoreSteps>),
}

impl Scorer {
    /// Loads the model or prepares connections; nothing is asked yet.
    pub fn open(settings: &ScorerSettings) -> Result<Self> {
        let profile = settings.profile.as_deref();
        if !settings.endpoints.endpoint.is_empty() {
            return Self::served(settings, profile);
        }
        let usual = local::default_scorer(profile);
        let model = local::model_name(settings.model.as_deref(), &settings.local, usual)?;
        let purpose = Purpose::Scores { profile, unpacked: settings.no_tree_packing };
        Self::on(Local::start(&model, &settings.local, purpose)?, &model, settings)
    }

    /// A scorer on an engine that is running already, with its profile.
    pub(crate) fn on(local: Local, model: &str, settings: &ScorerSettings) -> Result<Self> {
        let spending = Spending::open(&settings.endpoints, model, None)?;
        let (identity, profile) = (local.identity.clone(), local.profile.clone());
        let (decision, exact_checks) = (local.decision, local.exact_checks);
        let scorer = Self::new(model, ScorerKind::Local, identity, spending, Backend::Local(local));
        Ok(Self {
            profile,
            decision,
            exact_checks,
            ahead: settings.endpoints.concurrency.unwrap_or(AHEAD),
            ..scorer
        })
    }

    fn served(settings: &ScorerSettings, profile: Option<&str>) -> Result<Self> {
        let api = settings.api;
        settings.local.refuse_with_endpoint()?;
        let endpoints = Endpoints::open(&settings.endpoints, settings.model.as_deref())?;
        let tokenizer = settings.tokenizer.as_deref();
        let profile = match api {
            ScoreApi::Pooling => Some(Profile::find(profile.unwrap_or(POOLING_PROFILE))?),
            ScoreApi::Completions => Some(Profile::find(profile.unwrap_or(COMPLETIONS_PROFILE))?),
            ScoreApi::Score if profile.is_some() || tokenizer.is_some() => {
                return Err(Error::settings(
                    "--api score sends problems and steps, and the server formats its own prompts: omit --profile and \
                     --tokenizer",
                ));
            }
            ScoreApi::Score => None,
            ScoreApi::Chat => {
                return Err(Error::settings(
                    "--api chat asks for a verdict and gives no scores: use pooling, score or completions",
                ));
            }
        };
        let scores = profile.as_ref().map(Profile::for_scores);
        let identity = format!("{api:?} {} {scores:?} {tokenizer:?}", endpoints.identity);
        let decision = profile.as_ref().map(|profile| profile.decision).unwrap_or_default();
        let exact_checks = profile.as_ref().is_some_and(|profile| profile.exact_checks);
        let tokenizer = tokenizer.map(local::tokenizer).transpose()?;
        let http = endpoints.http;
        let name = profile.as_ref().map(|profile| profile.name.clone());
        let model: Arc<dyn ScoreSteps> = match (api, profile) {
            (ScoreApi::Pooling, Some(profile)) => {
                Arc::new(Pooling::new(http.clone(), ProfileFormat::new(&profile, tokenizer)?))
            }
            (ScoreApi::Completions, Some(profile)) => {
                Arc::new(TokenScores::new(http.clone(), ProfileFormat::comparing(&profile, tokenizer)?))
            }
            _ => Arc::new(RewardServer::new(http.clone())),
        };
        let spending = Spending::open(&settings.endpoints, &endpoints.name, Some(http))?;
        let backend = Backend::Endpoints(Background::start(model)?);
        let scorer = Self::new(&endpoints.name, ScorerKind::Endpoints(api), identity, spending, backend);
        Ok(Self {
            profile: name,
            decision,
            exact_checks,
            ahead: AHEAD.max(4 * endpoints.concurrency),
            batch: BATCH,
            ..scorer
        })
    }

    fn new(model: &str, kind: ScorerKind, identity: String, spending: Spending, backend: Backend) -> Self {
        Self {
            model: model.to_owned(),
            profile: None,
            decision: DecisionRule::default(),
            exact_checks: false,
            kind,
            ahead: AHEAD,
            batch: 1,
            spending,
            backend,
            identity,
            opened: Instant::now(),
        }
    }

    /// Whether these solutions are enough for one call: they fill a pass of a local model or a request to servers. A call
    /// is answered as a whole, so that more would only be known later.
    pub fn is_full(&self, requests: &[ScoreRequest]) -> bool {
        match &self.backend {
            Backend::Local(local) => tokens_of(requests) >= local.token_budget,
            Backend::Endpoints(_) => requests.len() >= FULL_BATCH,
        }
    }

    /// What its scores are called where nobody named them.
    pub fn name(&self) -> String {
        match &self.profile {
            Some(profile) => scorer_name(&self.model, profile),
            None => self.model.clone(),
        }
    }

    /// What determines its scores: the weights or the model's name at its servers, and the profile.
    pub fn identity(&self) -> &str {
        &self.identity
    }

    /// The local model, if it is one.
    pub fn local(&self) -> Option<&Local> {
        match &self.backend {
            Backend::Local(local) => Some(local),
            Backend::Endpoints(_) => None,
        }
    }

    /// How much was scored so far, and how fast.
    pub fn summary(&self) -> ScoreSummary {
        if let Some(local) = self.local() {
            let metrics = local.engine.metrics();
            return ScoreSummary {
                tokens: metrics.prompt_tokens,
                seconds: metrics.busy_seconds,
                tokens_per_second: metrics.tokens_per_second,
            };
        }
        let tokens = self.spending.traffic().map_or(0, |traffic| traffic.prompt_tokens);
        let seconds = self.opened.elapsed().as_secs_f64();
        ScoreSummary { tokens, seconds, tokens_per_second: tokens as f64 / seconds.max(1e-9) }
    }
}

impl ScoreSteps for Scorer {
    fn score_steps(&self, requests: Vec<ScoreRequest>) -> Answer<'_, Vec<Result<StepScores, CallError>>> {
        match &self.backend {
            Backend::Local(local) => local.engine.score_steps(requests),
            Backend::Endpoints(model) => model.score_steps(requests),
        }
    }
}

/// About how many tokens these solutions take: a problem's text counts once.
fn tokens_of(requests: &[ScoreRequest]) -> usize {
    let steps = requests.iter().flat_map(|request| &request.steps).map(String::len);
    let problems =
        requests.chunk_by(|one, next| one.problem == next.problem).map(|same| same[0].problem.len());
    steps.chain(problems).sum::<usize>() / BYTES_PER_TOKEN
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_counts_once() {
        let request = |problem: &str| ScoreRequest {
            problem: problem.to_owned(),
            steps: vec!["x".repeat(20)],
            ..ScoreRequest::default()
        };
        let (long, other) = ("p".repeat(400), "q".repeat(400));
        assert_eq!(tokens_of(&[request(&long), request(&long)]), 110);
        assert_eq!(tokens_of(&[request(&long), request(&other)]), 210);
    }
}
