//! The four contracts between methods and models: [`Generate`], [`LogProbs`], [`ScoreSteps`], [`Embed`].
//!
//! Annotators, benchmarks and search see only these, so a local model, an HTTP endpoint and a scripted fake are
//! interchangeable. A call is one request; concurrency is the caller's, batching is the implementation's. Dropping
//! the future cancels the request.

use std::future::Future;
use std::pin::Pin;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::{Problem, ReferenceProblem, ReferenceStep, References, Solution};

/// What a contract's call returns: a future that can be held behind `dyn`.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, CallError>> + Send + 'a>>;

/// Why a call has no answer.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum CallError {
    /// The request itself is at fault: sending it again will not help, but others may succeed.
    #[error("{0}")]
    Invalid(String),
    /// The server refuses every request, such as one with a wrong address, key or model name: no other will succeed.
    #[error("{0}")]
    Refused(String),
    /// The model or server is at fault: the same request may succeed later or elsewhere.
    #[error("{0}")]
    Failed(String),
}

impl CallError {
    /// How the message of a request begins that is longer than the model's context.
    pub const TOO_LONG: &'static str = "context too long";
    /// How the message of a request begins that a server's content filter stopped.
    pub const FILTERED: &'static str = "content filter";

    /// The error without what differs from request to request, to be counted.
    ///
    /// ```
    /// use gradus_core::contracts::CallError;
    /// let error = CallError::Invalid("context too long: 9000 tokens are more than 8192".into());
    /// assert_eq!(error.reason(), "context too long");
    /// ```
    pub fn reason(&self) -> String {
        let message = self.to_string();
        let known = [Self::TOO_LONG, Self::FILTERED].into_iter().find(|kind| message.starts_with(kind));
        known.map_or(message, str::to_owned)
    }
}

/// One turn of a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Message {
    /// `system`, `user`, `assistant`, or whatever else the model's template knows.
    pub role: String,
    /// What is said.
    pub content: String,
}

impl Message {
    /// A message of `role`.
    pub fn new(role: impl Into<String>, content: impl Into<String>) -> Self {
        Self { role: role.into(), content: content.into() }
    }
}

/// What a model continues.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Prompt {
    /// Text as it is.
    Text(String),
    /// A conversation; the model's own template writes it out and opens the assistant's turn. A server is asked to
    /// continue a last message that is the assistant's own.
    Chat(Vec<Message>),
    /// Token ids of a local model, which nothing is added to.
    Tokens(Vec<u32>),
}

/// What the output must look like.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Constraint {
    /// JSON that satisfies this schema.
    JsonSchema(serde_json::Value),
    /// Text that matches this regular expression as a whole.
    Regex(String),
}

/// How tokens are drawn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Sampling {
    /// 0 always takes the most probable token.
    pub temperature: f32,
    /// Only the most probable tokens whose probabilities add up to this; 1 is all.
    pub top_p: f32,
    /// Only this many of the most probable tokens; 0 is all.
    pub top_k: usize,
    /// Only tokens at least this share as probable as the most probable one; 0 is all.
    pub min_p: f32,
    /// Divides the logits of tokens that were seen (multiplies negative ones); 1 is off.
    pub repetition_penalty: f32,
}

impl Default for Sampling {
    fn default() -> Self {
        Self { temperature: 1.0, top_p: 1.0, top_k: 0, min_p: 0.0, repetition_penalty: 1.0 }
    }
}

/// A request for text.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GenerateRequest {
    /// What to continue.
    pub prompt: Prompt,
    /// Independent samples.
    pub n: usize,
    /// Most tokens in each.
    pub max_tokens: usize,
    /// How tokens are drawn.
    pub sampling: Sampling,
    /// Texts that end a sample; they are not part of it.
    pub stop: Vec<String>,
    /// The same seed gives the same text; sample `i` uses `seed + i`.
    pub seed: u64,
    /// What the output must look like.
    pub constraint: Option<Constraint>,
    /// Whether token log-probabilities are wanted.
    pub logprobs: bool,
    /// With `logprobs`, how many of the most probable tokens are wanted beside each; only a local model gives them.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub top_logprobs: usize,
}

fn is_zero(count: &usize) -> bool {
    *count == 0
}

impl GenerateRequest {
    /// One sample of at most `max_tokens` tokens, everything else at its default.
    pub fn new(prompt: Prompt, max_tokens: usize) -> Self {
        Self {
            prompt,
            n: 1,
            max_tokens,
            sampling: Sampling::default(),
            stop: Vec::new(),
            seed: 0,
            constraint: None,
            logprobs: false,
            top_logprobs: 0,
        }
    }
}

/// Why a sample ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FinishReason {
    /// The model ended it, or a stop text appeared, or the constraint was complete.
    Stop,
    /// The token limit or the end of the context was reached.
    Length,
}

/// A token with its log-probability.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TokenLogProb {
    /// The token's id in the model's vocabulary.
    pub id: u32,
    /// Its text.
    pub token: String,
    /// Natural logarithm of its probability under the unmodified distribution.
    pub logprob: f32,
    /// The most probable tokens in its place, when asked for: the best first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub top: Vec<TokenLogProb>,
}

impl TokenLogProb {
    /// A token without alternatives.
    pub fn new(id: u32, token: String, logprob: f32) -> Self {
        Self { id, token, logprob, top: Vec::new() }
    }
}

/// One sample.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Choice {
    /// The text.
    pub text: String,
    /// Why it ended.
    pub finish: FinishReason,
    /// One entry per token, when asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub logprobs: Vec<TokenLogProb>,
    /// Its tokens, the one that ended it included; only a local model knows them, and they are not written out.
    #[serde(skip)]
    pub tokens: Vec<u32>,
}

/// Tokens that a request used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens of the prompt, counted once.
    pub prompt_tokens: u64,
    /// Tokens of all samples together.
    pub completion_tokens: u64,
}

/// The samples of a request, in order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Generated {
    /// One per sample.
    pub choices: Vec<Choice>,
    /// What it cost.
    pub usage: Usage,
}

/// A request for the probability of a given text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogProbsRequest {
    /// What comes before; may be empty.
    pub prompt: Prompt,
    /// The text whose tokens are judged.
    pub continuation: String,
}

/// Log-probabilities of a continuation's tokens.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TokenLogProbs {
    /// One per token of the continuation.
    pub tokens: Vec<TokenLogProb>,
    /// What it cost.
    pub usage: Usage,
}

impl TokenLogProbs {
    /// The sum of the log-probabilities.
    pub fn sum(&self) -> f64 {
        self.tokens.iter().map(|token| f64::from(token.logprob)).sum()
    }

    /// exp of the mean negative log-probability; `None` without a token.
    ///
    /// ```
    /// use gradus_core::contracts::{TokenLogProb, TokenLogProbs, Usage};
    /// let token = |logprob| TokenLogProb::new(0, String::new(), logprob);
    /// let answer = TokenLogProbs { tokens: vec![token(-1.0), token(-3.0)], usage: Usage::default() };
    /// assert!((answer.perplexity().unwrap() - 2f64.exp()).abs() < 1e-9);
    /// ```
    pub fn perplexity(&self) -> Option<f64> {
        (!self.tokens.is_empty()).then(|| (-self.sum() / self.tokens.len() as f64).exp())
    }
}

/// A request for the scores of one solution's steps.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ScoreRequest {
    /// Names the solution in errors.
    pub id: String,
    /// The problem's text.
    pub problem: String,
    /// The steps to score, in order.
    pub steps: Vec<String>,
    /// Solved problems for a retrieval-augmented model.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub references: Vec<ReferenceProblem>,
    /// For each step, the steps that resemble it; empty, or one entry per step.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub step_references: Vec<Vec<ReferenceStep>>,
}

impl ScoreRequest {
    /// A solution to score, with the references that it has.
    pub fn of(problem: &Problem, solution: &Solution) -> Self {
        let References { questions, steps } = solution.references.as_deref().cloned().unwrap_or_default();
        Self {
            id: solution.id.clone(),
            problem: problem.question(),
            steps: solution.steps.clone(),
            references: questions,
            step_references: steps,
        }
    }
}

/// One score in [0, 1] per step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepScores {
    /// How probably steps 0..=j are all right, for each j.
    pub scores: Vec<f64>,
    /// What it cost; a token that several prompts share counts once if it was processed once.
    pub usage: Usage,
}

/// Texts as vectors of equal length.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Embeddings {
    /// Length of each vector.
    pub dimension: usize,
    /// The vectors one after another.
    pub values: Vec<f32>,
    /// Texts that were longer than the model's limit, and cut there.
    pub truncated: usize,
    /// What it cost.
    pub usage: Usage,
}

impl Embeddings {
    /// The vectors, in the order of the texts.
    pub fn rows(&self) -> impl ExactSizeIterator<Item = &[f32]> {
        self.values.chunks_exact(self.dimension.max(1))
    }
}

/// A model that continues text.
pub trait Generate: Send + Sync {
    /// Draws the samples of a request.
    fn generate(&self, request: GenerateRequest) -> Answer<'_, Generated>;
}

/// A model that says how probable a text is.
pub trait LogProbs: Send + Sync {
    /// Log-probabilities of the continuation's tokens.
    fn logprobs(&self, request: LogProbsRequest) -> Answer<'_, TokenLogProbs>;
}

/// A process reward model.
pub trait ScoreSteps: Send + Sync {
    /// Scores the steps of several solutions. Those of one problem share its prompt where the model allows it. A
    /// solution that cannot be scored has its own error; the others are scored all the same.
    fn score_steps(&self, requests: Vec<ScoreRequest>) -> Answer<'_, Vec<Result<StepScores, CallError>>>;
}

/// A model that turns texts into vectors.
pub trait Embed: Send + Sync {
    /// One vector per text, in order.
    fn embed(&self, texts: Vec<String>) -> Answer<'_, Embeddings>;
}
