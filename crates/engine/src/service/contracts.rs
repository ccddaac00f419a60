//! The engine as an implementation of the four contracts.

use gradus_core::contracts::{
    Answer, CallError, Embed, Embeddings, Generate, GenerateRequest, Generated, LogProbs, LogProbsRequest,
    ScoreRequest, ScoreSteps, StepScores, TokenLogProbs,
};
use tokio::sync::oneshot;

use super::{Engine, Job, ReplySender, Streaming};
use crate::{Error, Result};

impl From<Error> for CallError {
    fn from(error: Error) -> Self {
        match error {
            Error::Request(message) => Self::Invalid(message),
            other => Self::Failed(other.to_string()),
        }
    }
}

impl Engine {
    /// Sends a job and waits for its answer; dropping the future lets the worker drop the job.
    fn ask<T: Send + 'static>(&self, job: impl FnOnce(ReplySender<T>) -> Job + Send) -> Answer<'_, T> {
        let (reply, answer) = oneshot::channel::<Result<T>>();
        self.send(job(reply));
        Box::pin(async move { Ok(answer.await.map_err(|_| Error::Stopped)??) })
    }
}

impl Generate for Engine {
    fn generate(&self, request: GenerateRequest) -> Answer<'_, Generated> {
        self.ask(|reply| Job::Generate(request, Box::new(Streaming { pieces: None, reply })))
    }
}

impl LogProbs for Engine {
    fn logprobs(&self, request: LogProbsRequest) -> Answer<'_, TokenLogProbs> {
        self.ask(|reply| Job::LogProbs(request, reply))
    }
}

impl ScoreSteps for Engine {
    fn score_steps(&self, requests: Vec<ScoreRequest>) -> Answer<'_, Vec<Result<StepScores, CallError>>> {
        let answer = self.ask(|reply| Job::Score(requests, reply));
        Box::pin(async move {
            let scores: Vec<Result<StepScores>> = answer.await?;
            Ok(scores.into_iter().map(|score| score.map_err(CallError::from)).collect())
        })
    }
}

impl Embed for Engine {
    fn embed(&self, texts: Vec<String>) -> Answer<'_, Embeddings> {
        self.ask(|reply| Job::Embed(texts, reply))
    }
}
