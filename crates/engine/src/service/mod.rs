//! One thread owns the model; callers hold cloneable handles.
//!
//! Requests are queued and served in passes of at most a budget of tokens. Passes that only read (scores,
//! log-probabilities, embeddings) alternate with steps of generation, so neither waits for the other to end. A request
//! whose caller has gone away is dropped before it costs a pass. A request that fails, even by a panic in a pass, takes
//! nobody else's with it except those in the same pass, and the thread lives on.

mod contracts;
mod metrics;
mod pass;
mod read;
mod worker;

use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::Instant;

use gradus_core::contracts::{
    GenerateRequest, Generated, LogProbsRequest, ScoreRequest, StepScores, TokenLogProbs,
};
use tokio::sync::{mpsc, oneshot};

use metrics::Metrics;
pub use metrics::{EngineMetrics, Histogram, HistogramCounts};
pub use read::{ReadAt, ReadRequest, Readout};

use crate::generate::{Listener, Piece};
use crate::model::Model;
use crate::profile::{Assembler, Profile};
use crate::score::Scorer;
use crate::text::Tokenizer;
use crate::{Error, Result};

/// Options of the service.
#[derive(Debug, Clone)]
pub struct ServiceOptions {
    /// Maximum tokens per pass; a single prompt that is longer goes alone.
    pub token_budget: usize,
    /// Maximum number of sequences generated at once; further samples of a request start as others end. A GPU draws four times
    /// as many samples of one request.
    pub max_sequences: usize,
    /// Whether prompts that share beginnings are processed together; off only to measure what that gives.
    pub tree_packing: bool,
}

impl Default for ServiceOptions {
    fn default() -> Self {
        Self { token_budget: 4096, max_sequences: 64, tree_packing: true }
    }
}

/// A handle to a model that runs on its own thread. Clones share it; the last one to go ends it.
#[derive(Clone)]
pub struct Engine {
    jobs: Sender<(Instant, Job)>,
    metrics: Arc<Metrics>,
    tokenizer: Arc<Tokenizer>,
    architecture: Arc<str>,
    context: usize,
    step_tag: Option<u32>,
}

/// What a caller asks for, and where the answer goes.
pub(crate) enum Job {
    Generate(GenerateRequest, Box<dyn Listener>),
    LogProbs(LogProbsRequest, ReplySender<TokenLogProbs>),
    Score(Vec<ScoreRequest>, ReplySender<Vec<Result<StepScores>>>),
    Embed(Vec<String>, ReplySender<gradus_core::contracts::Embeddings>),
    Read(Vec<ReadRequest>, ReplySender<ReadRows>),
}

/// For each text, for each position, the numbers that were read.
type ReadRows = Vec<Vec<Vec<f32>>>;

/// Where a job's answer goes.
type ReplySender<T> = oneshot::Sender<Result<T>>;

impl Engine {
    /// Starts the thread. With a profile, the engine scores steps.
    pub fn start(model: Model, profile: Option<Profile>, options: ServiceOptions) -> Result<Self> {
        let scorer = profile.map(|profile| {
            let mut scorer = Scorer::new(Assembler::new(profile, &model.tokenizer)?, &model)?;
            scorer.packed = options.tree_packing;
            Ok::<_, Error>(scorer)
        });
        let scorer = scorer.transpose()?;
        let (jobs, received) = channel();
        let metrics = Arc::new(Metrics::new(options.token_budget));
        let engine = Self {
            jobs,
            metrics: Arc::clone(&metrics),
            tokenizer: Arc::clone(&model.tokenizer),
            architecture: model.architecture().into(),
            context: model.context(),
            step_tag: scorer.as_ref().and_then(Scorer::tag),
        };
        let worker = worker::Worker::new(model, scorer, options, metrics)?;
        let thread = std::thread::Builder::new().name("gradus-engine".to_owned());
        let started = thread.spawn(move || worker.run(&received));
        started
            .map_err(|error| Error::Request(format!("the model's thread could not be started: {error}")))?;
        Ok(engine)
    }

    /// The model's tokenizer.
    pub fn tokenizer(&self) -> &Arc<Tokenizer> {
        &self.tokenizer
    }

    /// The architecture's name in the checkpoint.
    pub fn architecture(&self) -> &str {
        &self.architecture
    }

    /// Context length in tokens.
    pub fn context(&self) -> usize {
        self.context
    }

    /// The token that ends a step, where the profile has one.
    pub fn step_tag(&self) -> Option<u32> {
        self.step_tag
    }

    /// What the model says at positions of texts that the caller wrote out: for each text, for each position, a row.
    pub fn read(&self, requests: Vec<ReadRequest>) -> impl Future<Output = Result<ReadRows>> + Send + use<> {
        let (reply, answer) = oneshot::channel();
        self.send(Job::Read(requests, reply));
        async move { answer.await.map_err(|_| Error::Stopped)? }
    }

    /// What the service has done so far.
    pub fn metrics(&self) -> EngineMetrics {
        self.metrics.read()
    }

    /// Generates, and hands out text as soon as it is certain.
    pub fn generate_streaming(
        &self,
        request: GenerateRequest,
    ) -> (mpsc::UnboundedReceiver<Piece>, impl Future<Output = Result<Generated>> + Send + use<>) {
        let (pieces, received) = mpsc::unbounded_channel();
        let (reply, answer) = oneshot::channel();
        self.send(Job::Generate(request, Box::new(Streaming { pieces: Some(pieces), reply })));
        (received, async move { answer.await.map_err(|_| Error::Stopped)? })
    }

    fn send(&self, job: Job) {
        self.metrics.queue();
        // A thread that is gone drops the job, and with it the reply, which the caller sees.
        drop(self.jobs.send((Instant::now(), job)));
    }
}

/// Passes generated text on to the caller.
struct Streaming {
    pieces: Option<mpsc::UnboundedSender<Piece>>,
    reply: ReplySender<Generated>,
}

impl Listener for Streaming {
    fn piece(&mut self, piece: Piece) {
        if let Some(pieces) = &self.pieces {
            // A caller that stopped reading pieces may still want the whole.
            drop(pieces.send(piece));
        }
    }

    fn finish(self: Box<Self>, outcome: Result<Generated>) {
        drop(self.reply.send(outcome));
    }

    fn is_gone(&self) -> bool {
        self.reply.is_closed()
    }
}
