//! Requests over HTTP on a thread of their own.
//!
//! A call is on its way as soon as it is made, and any runtime may wait for it: the same as with the local engine, whose
//! thread works while callers do something else. Dropping the future cancels the request.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use gradus_core::contracts::{
    Answer, CallError, Embed, Embeddings, Generate, GenerateRequest, Generated, LogProbs, LogProbsRequest,
    ScoreRequest, ScoreSteps, StepScores, TokenLogProbs,
};
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::{Error, Result};

/// Runs a future to its end on this thread.
pub fn block_on<T>(future: impl Future<Output = T>) -> Result<T> {
    let runtime = Builder::new_current_thread().enable_all().build().map_err(Error::Runtime)?;
    Ok(runtime.block_on(future))
}

/// A model whose calls run on a thread of their own, which ends with it.
pub(crate) struct Background<M: ?Sized> {
    model: Arc<M>,
    handle: Handle,
    /// Ends the thread when it is dropped.
    _running: oneshot::Sender<()>,
}

impl<M: ?Sized> Background<M> {
    /// Starts the thread.
    pub(crate) fn start(model: Arc<M>) -> Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build().map_err(Error::Runtime)?;
        let handle = runtime.handle().clone();
        let (running, ended) = oneshot::channel::<()>();
        let thread = std::thread::Builder::new().name("gradus-requests".to_owned());
        let started = thread.spawn(move || drop(runtime.block_on(ended)));
        started.map_err(Error::Runtime)?;
        Ok(Self { model, handle, _running: running })
    }

    fn call<T, F>(&self, call: impl FnOnce(Arc<M>) -> F) -> Answer<'static, T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, CallError>> + Send + 'static,
    {
        let task = Task(self.handle.spawn(call(Arc::clone(&self.model))));
        Box::pin(task)
    }
}

/// A request on the other thread.
struct Task<T>(JoinHandle<Result<T, CallError>>);

impl<T> Future for Task<T> {
    type Output = Result<T, CallError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(context).map(|ended| {
            ended.unwrap_or_else(|error| Err(CallError::Failed(format!("the request was given up: {error}"))))
        })
    }
}

impl<T> Drop for Task<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl<M: Generate + ?Sized + 'static> Generate for Background<M> {
    fn generate(&self, request: GenerateRequest) -> Answer<'_, Generated> {
        self.call(|model| async move { model.generate(request).await })
    }
}

impl<M: LogProbs + ?Sized + 'static> LogProbs for Background<M> {
    fn logprobs(&self, request: LogProbsRequest) -> Answer<'_, TokenLogProbs> {
        self.call(|model| async move { model.logprobs(request).await })
    }
}

impl<M: ScoreSteps + ?Sized + 'static> ScoreSteps for Background<M> {
    fn score_steps(&self, requests: Vec<ScoreRequest>) -> Answer<'_, Vec<Result<StepScores, CallError>>> {
        self.call(|model| async move { model.score_steps(requests).await })
    }
}

impl<M: Embed + ?Sized + 'static> Embed for Background<M> {
    fn embed(&self, texts: Vec<String>) -> Answer<'_, Embeddings> {
        self.call(|model| async move { model.embed(texts).await })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gradus_core::contracts::Prompt;
    use gradus_llm::Scripted;
    use std::time::{Duration, Instant};

    #[test]
    fn calls_run_at_once_and_wait_for_nobody() {
        let scripted = Scripted::new().on("q", ["a"]).delayed(Duration::from_millis(200));
        let model = Background::start(Arc::new(scripted)).unwrap();
        let started = Instant::now();
        let request = || GenerateRequest::new(Prompt::Text("q".into()), 4);
        let calls: Vec<_> = (0..8).map(|_| model.generate(request())).collect();
        for call in calls {
            assert_eq!(block_on(call).unwrap().unwrap().choices[0].text, "a");
        }
        assert!(
            started.elapsed() < Duration::from_millis(1200),
            "one after another: {:?}",
            started.elapsed()
        );
    }

    #[test]
    fn a_dropped_call_is_cancelled() {
        let scripted = Arc::new(Scripted::new().on("q", ["a"]).delayed(Duration::from_secs(3600)));
        let model = Background::start(Arc::clone(&scripted)).unwrap();
        drop(model.generate(GenerateRequest::new(Prompt::Text("q".into()), 4)));
        let patience = Instant::now();
        while Arc::strong_count(&scripted) > 2 {
            assert!(patience.elapsed() < Duration::from_secs(10), "the request is still running");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}
