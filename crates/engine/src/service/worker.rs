//! The thread that owns the model: takes jobs in, forms passes within the token budget, answers.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::Instant;

use gradus_core::contracts::{Embeddings, LogProbsRequest, StepScores, TokenLogProb, TokenLogProbs, Usage};
use rayon::prelude::*;

use super::metrics::Metrics;
use super::pass::{Pass, Unit, Waiting};
use super::read::{self, ReadRequest};
use super::{Job, ReadRows, ReplySender, ServiceOptions};
use crate::generate::{self, Generator, Prepared};
use crate::join::{Joined, Place};
use crate::model::{Model, ModelBody};
use crate::score::{Scorer, Tree, hash};
use crate::{Error, Result};

/// Units in the queue that are looked at for those that begin like the oldest.
const LOOK_AHEAD: usize = 1024;

/// Samples of one request that a GPU draws at a time, as a multiple of `max_sequences`: they share their prompt, and more of
/// them hardly take more time.
const GPU_SAMPLES: usize = 4;

/// Texts whose first tokens are the same share what they have in common. Fewer are not worth a branch.
const READ_BEGINNING: usize = 32;

pub(super) struct Worker {
    model: Model,
    scorer: Option<Scorer>,
    options: ServiceOptions,
    metrics: Arc<Metrics>,
    generator: Option<Generator>,
    prompts: VecDeque<Prepared>,
    reading: VecDeque<Waiting>,
    calls: Calls,
}

/// Measures a pass.
#[derive(Clone, Copy)]
struct Clock {
    started: Instant,
    tokens: usize,
}

impl Clock {
    /// Counts the pass. That comes before its answers: who has them all may ask what they cost.
    fn stop(self, metrics: &Metrics) {
        metrics.pass(self.tokens, self.started.elapsed());
    }
}

/// A continuation in its pass.
struct Continuation {
    reply: ReplySender<TokenLogProbs>,
    tokens: Vec<u32>,
    /// The first token whose probability is asked for.
    first: usize,
    place: Place,
}

/// Calls whose answers are still being put together.
#[derive(Default)]
struct Calls {
    next: u64,
    scores: std::collections::BTreeMap<u64, ScoreCall>,
    texts: std::collections::BTreeMap<u64, EmbedCall>,
    reads: std::collections::BTreeMap<u64, ReadCall>,
}

struct ScoreCall {
    scores: Vec<Option<Result<StepScores>>>,
    reply: ReplySender<Vec<Result<StepScores>>>,
}

struct ReadCall {
    rows: Vec<Option<Vec<Vec<f32>>>>,
    reply: ReplySender<ReadRows>,
}

struct EmbedCall {
    left: usize,
    answer: Embeddings,
    reply: ReplySender<Embeddings>,
}

impl Worker {
    pub(super) fn new(
        model: Model,
        scorer: Option<Scorer>,
        options: ServiceOptions,
        metrics: Arc<Metrics>,
    ) -> Result<Self> {
        let generator = match &model.body {
            ModelBody::Decoder(..) => {
                let is_cpu = model.decoder()?.device().is_cpu();
                let most = options.max_sequences.saturating_mul(if is_cpu { 1 } else { GPU_SAMPLES });
                Some(Generator::new(&model, most)?)
            }
            ModelBody::Encoder(_) => None,
        };
        let (prompts, reading) = (VecDeque::new(), VecDeque::new());
        Ok(Self { model, scorer, options, metrics, generator, prompts, reading, calls: Calls::default() })
    }

    /// Serves until the last handle is gone and nothing is left to do.
    pub(super) fn run(mut self, jobs: &Receiver<(Instant, Job)>) {
        loop {
            if self.is_idle() {
                match jobs.recv() {
                    Ok(job) => self.take_timed(job),
                    Err(_) => return,
                }
            }
            while let Ok(job) = jobs.try_recv() {
                self.take_timed(job);
            }
            self.read_pass();
            self.generation_step();
        }
    }

    fn is_idle(&self) -> bool {
        let generating = self.generator.as_ref().is_some_and(|generator| !generator.is_empty());
        self.prompts.is_empty() && self.reading.is_empty() && !generating
    }

    /// Takes a job in; what that takes is mostly tokenization.
    fn take_timed(&mut self, (sent, job): (Instant, Job)) {
        let started = Instant::now();
        self.metrics.wait(started.saturating_duration_since(sent));
        self.take(job);
        self.metrics.tokenize(started.elapsed());
    }

    /// Turns a job into units. Whatever is wrong with it is answered here, before it can cost a pass.
    fn take(&mut self, job: Job) {
        self.metrics.dequeue();
        match job {
            Job::Generate(request, listener) => {
                self.prompts.extend(generate::prepare(&self.model, request, listener));
            }
            Job::LogProbs(request, reply) => match continuation(&self.model, &request) {
                Ok((tokens, first)) => {
                    let beginning = Some(hash(&tokens[..first]));
                    self.wait(Unit::Continuation { reply, tokens, first }, beginning);
                }
                Err(error) => self.refuse(reply, error),
            },
            Job::Score(requests, reply) => self.take_scores(&requests, reply),
            Job::Embed(texts, reply) => self.take_texts(&texts, reply),
            Job::Read(requests, reply) => self.take_reads(requests, reply),
        }
    }

    fn refuse<T>(&self, reply: ReplySender<T>, error: Error) {
        self.metrics.fail(1);
        drop(reply.send(Err(error)));
    }

    fn take_scores(
        &mut self,
        requests: &[gradus_core::contracts::ScoreRequest],
        reply: ReplySender<Vec<Result<StepScores>>>,
    ) {
        let Some(scorer) = &self.scorer else {
            let message = "this engine was started without a profile: it cannot score steps";
            return self.refuse(reply, Error::request(message));
        };
        let (trees, failed) = scorer.trees(requests, &self.model, self.options.token_budget);
        let mut scores: Vec<Option<Result<StepScores>>> = requests.iter().map(|_| None).collect();
        self.metrics.fail(failed.len());
        for (number, error) in failed {
            scores[number] = Some(Err(error));
        }
        let call = self.calls.number();
        self.calls.scores.insert(call, ScoreCall { scores, reply });
        for tree in trees {
            let problem = tree.problem;
            self.wait(Unit::Tree { call, tree }, problem);
        }
        self.calls.finish_scores(call);
    }

    fn take_reads(&mut self, requests: Vec<ReadRequest>, reply: ReplySender<ReadRows>) {
        let checked =
            requests.iter().try_for_each(|request| request.check(&self.model, self.scorer.as_ref()));
        if let Err(error) = checked {
            return self.refuse(reply, error);
        }
        let call = self.calls.number();
        self.calls.reads.insert(call, ReadCall { rows: vec![None; requests.len()], reply });
        for (number, request) in requests.into_iter().enumerate() {
            let beginning = request.tokens.get(..READ_BEGINNING).map(hash);
            self.wait(Unit::Read { call, number, request }, beginning);
        }
        self.calls.finish_reads(call);
    }

    fn take_texts(&mut self, texts: &[String], reply: ReplySender<Embeddings>) {
        let limit = self.model.context();
        let tokenizer = &self.model.tokenizer;
        let tokens: Result<Vec<Vec<u32>>> =
            texts.par_iter().map(|text| tokenizer.encode(text, true)).collect();
        let mut tokens = match tokens {
            Ok(tokens) => tokens,
            Err(error) => return self.refuse(reply, error),
        };
        if let Some(number) = tokens.iter().position(Vec::is_empty) {
            return self.refuse(reply, Error::request(format!("text {number} is empty")));
        }
        let mut truncated = 0;
        for text in tokens.iter_mut().filter(|text| text.len() > limit) {
            truncated += 1;
            // The closing token of an encoder's text stays the last one.
            let last = *text.last().expect("longer than the limit");
            text.truncate(limit);
            if matches!(self.model.body, ModelBody::Encoder(_)) {
                text[limit - 1] = last;
            }
        }
        let usage =
            Usage { prompt_tokens: tokens.iter().map(|text| text.len() as u64).sum(), completion_tokens: 0 };
        let call = self.calls.number();
        let answer = Embeddings { dimension: 0, values: Vec::new(), truncated, usage };
        self.calls.texts.insert(call, EmbedCall { left: tokens.len(), answer, reply });
        for (number, tokens) in tokens.into_iter().enumerate() {
            self.wait(Unit::Text { call, number, tokens }, None);
        }
        self.calls.finish_texts(call);
    }

    fn wait(&mut self, unit: Unit, beginning: Option<u64>) {
        let beginning = beginning.filter(|_| self.options.tree_packing);
        self.reading.push_back(Waiting { unit, beginning });
    }

    /// One pass over prompts that are only read.
    fn read_pass(&mut self) {
        let pass = self.next_pass();
        if pass.units.is_empty() {
            return;
        }
        let clock = Clock { started: Instant::now(), tokens: pass.joined.tokens() };
        self.serve(pass, clock);
    }

    /// As many units of the first one's kind as the budget holds: the oldest, those in the queue that begin like it,
    /// then the next.
    fn next_pass(&mut self) -> Pass {
        let mut pass = Pass::default();
        while let Some(oldest) = self.reading.front() {
            let (kind, beginning) = (oldest.kind(), oldest.beginning);
            if !pass.is_of(kind) {
                break;
            }
            let mut next = Some(0);
            while let Some(at) = next {
                let waiting = self.reading.remove(at).expect("within the queue");
                if self.calls.is_gone(&waiting.unit) {
                    self.metrics.cancel();
                } else if let Err(waiting) = pass.add(waiting, self.options.token_budget) {
                    self.reading.insert(at, waiting);
                    return pass;
                }
                let begins_alike = |other: &Waiting| {
                    beginning.is_some() && other.beginning == beginning && other.kind() == kind
                };
                next = self.reading.iter().take(LOOK_AHEAD).position(begins_alike);
            }
        }
        pass
    }

    fn serve(&mut self, Pass { units, joined }: Pass, clock: Clock) {
        let mut trees = Vec::new();
        let mut continuations = Vec::new();
        let mut texts = Vec::new();
        let mut reads = Vec::new();
        for (unit, place) in units {
            match unit {
                Unit::Tree { call, tree } => trees.push((call, (tree, place))),
                Unit::Continuation { reply, tokens, first } => {
                    continuations.push(Continuation { reply, tokens, first, place });
                }
                Unit::Text { call, number, tokens } => texts.push((call, number, tokens)),
                Unit::Read { call, number, request } => reads.push(((call, number), (request, place))),
            }
        }
        if !trees.is_empty() {
            self.serve_trees(trees, &joined, clock);
        }
        if !continuations.is_empty() {
            self.serve_continuations(continuations, &joined, clock);
        }
        if !texts.is_empty() {
            self.serve_texts(&texts, clock);
        }
        if !reads.is_empty() {
            self.serve_reads(reads, &joined, clock);
        }
    }

    fn serve_trees(&mut self, trees: Vec<(u64, (Tree, Place))>, joined: &Joined, clock: Clock) {
        let scorer = self.scorer.as_ref().expect("trees come from a scorer");
        let (calls, trees): (Vec<u64>, Vec<(Tree, Place)>) = trees.into_iter().unzip();
        let numbers: Vec<Vec<usize>> = trees.iter().map(|(tree, _)| tree.solutions()).collect();
        let scored = guarded(|| scorer.score(trees, joined, &self.model));
        clock.stop(&self.metrics);
        match scored {
            Ok(scored) => {
                let mut scored = scored.into_iter();
                for (call, numbers) in calls.iter().zip(&numbers) {
                    for (number, scores) in scored.by_ref().take(numbers.len()) {
                        self.calls.score(*call, number, Ok(scores));
                    }
                }
            }
            Err(error) => {
                let message = error.to_string();
                self.metrics.fail(numbers.iter().map(Vec::len).sum());
                for (call, numbers) in calls.iter().zip(numbers) {
                    for number in numbers {
                        self.calls.score(*call, number, Err(Error::request(message.clone())));
                    }
                }
            }
        }
        calls.iter().for_each(|call| self.calls.finish_scores(*call));
    }

    fn serve_continuations(&mut self, units: Vec<Continuation>, joined: &Joined, clock: Clock) {
        let answers = guarded(|| logprobs(&self.model, &units, joined));
        clock.stop(&self.metrics);
        match answers {
            Ok(answers) => {
                for (unit, answer) in units.into_iter().zip(answers) {
                    drop(unit.reply.send(Ok(answer)));
                }
            }
            Err(error) => {
                let message = error.to_string();
                units.into_iter().for_each(|unit| self.refuse(unit.reply, Error::request(message.clone())));
            }
        }
    }

    fn serve_texts(&mut self, texts: &[(u64, usize, Vec<u32>)], clock: Clock) {
        let tokens: Vec<Vec<u32>> = texts.iter().map(|(_, _, tokens)| tokens.clone()).collect();
        let embedded = guarded(|| self.model.embed(&tokens));
        clock.stop(&self.metrics);
        match embedded {
            Ok((width, vectors)) => {
                for ((call, number, _), vector) in texts.iter().zip(vectors.chunks_exact(width)) {
                    self.calls.vector(*call, *number, vector);
                }
            }
            Err(error) => {
                let message = error.to_string();
                for (call, _, _) in texts {
                    if let Some(call) = self.calls.texts.remove(call) {
                        self.metrics.fail(1);
                        drop(call.reply.send(Err(Error::request(message.clone()))));
                    }
                }
            }
        }
        texts.iter().for_each(|(call, _, _)| self.calls.finish_texts(*call));
    }

    fn serve_reads(
        &mut self,
        units: Vec<((u64, usize), (ReadRequest, Place))>,
        joined: &Joined,
        clock: Clock,
    ) {
        let (askers, requests): (Vec<_>, Vec<_>) = units.into_iter().unzip();
        let rows = guarded(|| read::rows(&self.model, self.scorer.as_ref(), &requests, joined));
        clock.stop(&self.metrics);
        match rows {
            Ok(rows) => {
                for ((call, number), rows) in askers.iter().zip(rows) {
                    if let Some(call) = self.calls.reads.get_mut(call) {
                        call.rows[*number] = Some(rows);
                    }
                }
            }
            Err(error) => {
                let message = error.to_string();
                for (call, _) in &askers {
                    if let Some(call) = self.calls.reads.remove(call) {
                        self.metrics.fail(1);
                        drop(call.reply.send(Err(Error::request(message.clone()))));
                    }
                }
            }
        }
        askers.iter().for_each(|(call, _)| self.calls.finish_reads(*call));
    }

    /// Lets new prompts in and draws one token for every sequence.
    fn generation_step(&mut self) {
        let Some(generator) = &mut self.generator else { return };
        let mut admitted: Vec<Prepared> = Vec::new();
        let mut tokens = 0;
        let mut sequences = generator.len();
        while let Some(prompt) = self.prompts.front() {
            let (size, samples) = (prompt.tokens.len(), prompt.samples());
            let full = sequences > 0 && sequences + samples > self.options.max_sequences;
            if full || (!admitted.is_empty() && tokens + size > self.options.token_budget) {
                break;
            }
            let prompt = self.prompts.pop_front().expect("there is a front");
            if prompt.is_gone() {
                self.metrics.cancel();
                continue;
            }
            tokens += size;
            sequences += samples;
            admitted.push(prompt);
        }
        let model = &self.model;
        if !admitted.is_empty() {
            let started = Instant::now();
            if let Err(error) = guarded(|| generator.admit(model, admitted)) {
                generator.fail(&error.to_string());
            }
            self.metrics.pass(tokens, started.elapsed());
        }
        if !generator.is_empty() {
            let (started, running) = (Instant::now(), generator.len());
            if let Err(error) = guarded(|| generator.step(model)) {
                self.metrics.fail(1);
                generator.fail(&error.to_string());
            }
            self.metrics.step(running, started.elapsed());
        }
        self.metrics.running(generator.len());
    }
}

impl Calls {
    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn is_gone(&self, unit: &Unit) -> bool {
        match unit {
            Unit::Tree { call, .. } => self.scores.get(call).is_none_or(|call| call.reply.is_closed()),
            Unit::Continuation { reply, .. } => reply.is_closed(),
            Unit::Text { call, .. } => self.texts.get(call).is_none_or(|call| call.reply.is_closed()),
            Unit::Read { call, .. } => self.reads.get(call).is_none_or(|call| call.reply.is_closed()),
        }
    }

    fn score(&mut self, call: u64, number: usize, score: Result<StepScores>) {
        if let Some(call) = self.scores.get_mut(&call) {
            call.scores[number] = Some(score);
        }
    }

    fn finish_scores(&mut self, number: u64) {
        if self.scores.get(&number).is_some_and(|call| call.scores.iter().all(Option::is_some)) {
            let call = self.scores.remove(&number).expect("just seen");
            drop(call.reply.send(Ok(call.scores.into_iter().flatten().collect())));
        }
    }

    fn finish_reads(&mut self, number: u64) {
        if self.reads.get(&number).is_some_and(|call| call.rows.iter().all(Option::is_some)) {
            let call = self.reads.remove(&number).expect("just seen");
            drop(call.reply.send(Ok(call.rows.into_iter().flatten().collect())));
        }
    }

    fn vector(&mut self, call: u64, number: usize, vector: &[f32]) {
        let Some(call) = self.texts.get_mut(&call) else { return };
        let answer = &mut call.answer;
        answer.dimension = vector.len();
        let end = (number + 1) * vector.len();
        if answer.values.len() < end {
            answer.values.resize(end, 0.0);
        }
        answer.values[end - vector.len()..end].copy_from_slice(vector);
        call.left -= 1;
    }

    fn finish_texts(&mut self, number: u64) {
        if self.texts.get(&number).is_some_and(|call| call.left == 0) {
            let call = self.texts.remove(&number).expect("just seen");
            drop(call.reply.send(Ok(call.answer)));
        }
    }
}

/// Runs a pass among the pool's threads, so that its many short parallel sections need not wake them each time. A panic in
/// a pass is a bug, and the service survives it.
fn guarded<T: Send>(pass: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    catch_unwind(AssertUnwindSafe(|| rayon::scope(|_| pass()))).unwrap_or_else(|panic| {
        let words =
            panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
        Err(Error::Request(format!("a pass through the model failed: {}", words.unwrap_or("panic"))))
    })
}

/// The tokens of prompt and continuation, and the index of the first one whose probability is asked for.
fn continuation(model: &Model, request: &LogProbsRequest) -> Result<(Vec<u32>, usize)> {
    let context = model.decoder()?.config.context;
    let mut tokens = generate::prompt_tokens(model, &request.prompt)?;
    // Without a prompt the first token has nothing before it, so it is given and not judged.
    let first = tokens.len().max(1);
    tokens.extend(model.tokenizer.encode(&request.continuation, false)?);
    if tokens.len() <= first {
        return Err(Error::request("the continuation has no token whose probability could be asked for"));
    }
    if tokens.len() > context {
        let message =
            format!("the text takes {} tokens and the model's context holds {context}", tokens.len());
        return Err(Error::request(message));
    }
    Ok((tokens, first))
}

fn logprobs(model: &Model, units: &[Continuation], joined: &Joined) -> Result<Vec<TokenLogProbs>> {
    let mut reads = Vec::new();
    let mut targets = Vec::new();
    for Continuation { tokens, first, place, .. } in units {
        // The distribution of a token is read where the token before it stands.
        reads.extend((*first..tokens.len()).map(|token| place.locate(0, token - 1)));
        targets.extend(&tokens[*first..]);
    }
    let hidden = model.hidden(joined.forests(), &reads)?;
    let mut logprobs = model.target_logprobs(&hidden, &targets)?.into_iter();
    let answers = units.iter().map(|Continuation { tokens, first, .. }| {
        let judged = tokens[*first..].iter().map(|id| {
            let logprob = logprobs.next().expect("one for each target");
            TokenLogProb::new(*id, model.tokenizer.token_text(*id), logprob)
        });
        let usage = Usage { prompt_tokens: tokens.len() as u64, completion_tokens: 0 };
        TokenLogProbs { tokens: judged.collect(), usage }
    });
    Ok(answers.collect())
}
