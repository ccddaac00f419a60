//! Text generation for many requests at once.
//!
//! A prompt goes through the model once; its samples share its keys and values and then grow token by token, all
//! sequences of all requests together in one pass per token. Samples for which there is no room yet start as others end,
//! from the same logits. A sample depends on its prompt, settings and seed only:
//! which others are in the batch does not change its text (on a CPU; a GPU's libraries choose kernels by batch size).

use std::collections::BTreeMap;

use gradus_core::contracts::{Choice, FinishReason, GenerateRequest, Generated, Prompt, TokenLogProb, Usage};
use gradus_kernels::attention::Segment;
use rayon::prelude::*;

use crate::batch::Batch;
use crate::cache::{Cache, Slots};
use crate::constrain::{Grammar, Matcher};
use crate::decode::{self, Decode, Drawn, Logits, NewRow};
use crate::model::Model;
use crate::sample::{Sampler, most_probable};
use crate::text::TextStream;
use crate::{Error, Result};

/// A piece of a sample's text, as soon as it is certain.
#[derive(Debug, Clone, PartialEq)]
pub struct Piece {
    /// Which sample.
    pub sample: usize,
    /// The text that was added.
    pub text: String,
    /// The tokens since the last piece, when log-probabilities are asked for.
    pub logprobs: Vec<TokenLogProb>,
}

/// What becomes of a request: pieces as they appear, then the whole or an error.
pub(crate) trait Listener: Send + Sync {
    /// More text of a sample.
    fn piece(&mut self, piece: Piece);
    /// The end.
    fn finish(self: Box<Self>, outcome: Result<Generated>);
    /// Whether nobody waits for the answer any more.
    fn is_gone(&self) -> bool;
}

/// A request whose settings have been checked and whose prompt has been cut into tokens.
pub(crate) struct Prepared {
    pub(crate) tokens: Vec<u32>,
    request: GenerateRequest,
    grammar: Option<Grammar>,
    listener: Box<dyn Listener>,
}

/// All sequences that are being generated.
pub(crate) struct Generator {
    cache: Cache,
    decode: Box<dyn Decode>,
    /// Slots that `decode` has for itself.
    spare: Slots,
    requests: BTreeMap<u64, Request>,
    /// Of requests that have samples which have not started.
    starts: BTreeMap<u64, Start>,
    sequences: Vec<Sequence>,
    /// Sequences beyond which no sample starts.
    most: usize,
    next: u64,
}

struct Request {
    request: GenerateRequest,
    prompt_tokens: u64,
    slots: Slots,
    choices: Vec<Option<Choice>>,
    completion_tokens: u64,
    listener: Box<dyn Listener>,
}

/// What every sample of a request starts from.
struct Start {
    tokens: Vec<u32>,
    grammar: Option<Grammar>,
    /// Those of the token after the prompt.
    logits: Vec<f32>,
    /// The sample that starts next.
    next: usize,
}

struct Sequence {
    request: u64,
    sample: usize,
    sampler: Sampler,
    matcher: Option<Matcher>,
    slots: Slots,
    /// Prompt and generated tokens.
    seen: Vec<u32>,
    generated: usize,
    /// Gone when the sample has ended.
    stream: Option<TextStream>,
    text: String,
    /// Bytes of `text` that have been sent.
    sent: usize,
    logprobs: Vec<TokenLogProb>,
    /// Entries of `logprobs` that have been sent.
    told: usize,
}

impl Prepared {
    /// Samples it asks for.
    pub(crate) fn samples(&self) -> usize {
        self.request.n
    }

    /// Whether nobody waits for the answer any more.
    pub(crate) fn is_gone(&self) -> bool {
        self.listener.is_gone()
    }
}

/// Cuts the prompt into tokens and checks the request against the model.
pub(crate) fn prepare(
    model: &Model,
    request: GenerateRequest,
    listener: Box<dyn Listener>,
) -> Option<Prepared> {
    let checked = || {
        let context = model.decoder()?.config.context;
        let tokens = prompt_tokens(model, &request.prompt)?;
        if tokens.is_empty() {
            return Err(Error::request("the prompt is empty: give at least one token"));
        }
        if tokens.len() >= context {
            let message =
                format!("the prompt takes {} tokens and the model's context holds {context}", tokens.len());
            return Err(Error::request(message));
        }
        if request.n == 0 || request.max_tokens == 0 {
            return Err(Error::request("n and max_tokens must be at least 1"));
        }
        if request.stop.iter().any(String::is_empty) {
            return Err(Error::request("a stop text is empty"));
        }
        Sampler::new(&request.sampling, request.seed)?;
        let grammar =
            request.constraint.as_ref().map(|constraint| Grammar::compile(constraint, &model.tokenizer));
        Ok((tokens, grammar.transpose()?))
    };
    match checked() {
        Ok((tokens, grammar)) => Some(Prepared { tokens, request, grammar, listener }),
        Err(error) => {
            listener.finish(Err(error));
            None
        }
    }
}

/// The tokens of a prompt; a conversation is written out by the model's template, which opens the assistant's turn.
pub(crate) fn prompt_tokens(model: &Model, prompt: &Prompt) -> Result<Vec<u32>> {
    match prompt {
        Prompt::Text(text) => model.tokenizer.encode(text, true),
        Prompt::Chat(messages) => model.tokenizer.encode_chat(messages, true),
        Prompt::Tokens(tokens) => {
            check_tokens(model, tokens)?;
            Ok(tokens.clone())
        }
    }
}

/// Refuses token ids that the model does not have.
pub(crate) fn check_tokens(model: &Model, tokens: &[u32]) -> Result<()> {
    let vocabulary = model.decoder()?.config.vocabulary;
    match tokens.iter().find(|id| **id as usize >= vocabulary) {
        Some(id) => {
            Err(Error::request(format!("token {id} is not in the model's vocabulary of {vocabulary}")))
        }
        None => Ok(()),
    }
}

impl Generator {
    /// Starts no sample while there are `most` sequences.
    pub(crate) fn new(model: &Model, most: usize) -> Result<Self> {
        let mut cache = model.decoder()?.cache()?;
        let decode = decode::of(model.decoder()?)?;
        let spare = cache.take(decode.spare_slots())?;
        let (requests, starts, sequences) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
        Ok(Self { cache, decode, spare, requests, starts, sequences, most: most.max(1), next: 0 })
    }

    /// Sequences that are being generated.
    pub(crate) fn len(&self) -> usize {
        self.sequences.len()
    }

    /// Whether no request is left.
    pub(crate) fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    /// Runs the prompts of new requests and draws the first token of every sample that there is room for.
    pub(crate) fn admit(&mut self, model: &Model, prepared: Vec<Prepared>) -> Result<()> {
        let mut batch = Batch::default();
        let mut ends = Vec::new();
        let mut admitted = Vec::new();
        for prepared in prepared {
            let rows = batch.len()..batch.len() + prepared.tokens.len();
            let slots = self.cache.take(prepared.tokens.len())?;
            batch.tokens.extend(&prepared.tokens);
            batch.positions.extend(0..prepared.tokens.len() as u32);
            batch.slots.extend(slots.all());
            batch.segments.push(Segment { rows: rows.clone(), keys: slots.all() });
            ends.push(rows.end as u32 - 1);
            admitted.push((prepared, slots));
        }
        let hidden = model.decoder()?.forward(&batch, Some(&self.cache));
        let logits = hidden.and_then(|hidden| {
            let ends = candle_core::Tensor::new(ends, hidden.device())?;
            Ok(model.decoder()?.logits(&hidden.index_select(&ends, 0)?, None)?.to_vec2::<f32>()?)
        });
        let logits = match logits {
            Ok(logits) => logits,
            Err(error) => {
                let message = error.to_string();
                for (prepared, slots) in admitted {
                    self.cache.give_back(slots);
                    prepared.listener.finish(Err(Error::request(message.clone())));
                }
                return Ok(());
            }
        };
        for ((prepared, slots), logits) in admitted.into_iter().zip(logits) {
            self.start(model, prepared, slots, logits)?;
        }
        Ok(())
    }

    fn start(&mut self, model: &Model, prepared: Prepared, slots: Slots, logits: Vec<f32>) -> Result<()> {
        let Prepared { tokens, request, grammar, listener } = prepared;
        let id = self.next;
        self.next += 1;
        let entry = Request {
            prompt_tokens: tokens.len() as u64,
            slots,
            choices: vec![None; request.n],
            request,
            completion_tokens: 0,
            listener,
        };
        self.requests.insert(id, entry);
        self.starts.insert(id, Start { tokens, grammar, logits, next: 0 });
        self.start_samples(model, id)
    }

    /// Draws the first token of as many samples of a request as there is room for.
    fn start_samples(&mut self, model: &Model, id: u64) -> Result<()> {
        while self.sequences.len() < self.most {
            let Some(start) = self.starts.get_mut(&id) else { break };
            let request = &self.requests[&id].request;
            let sample = start.next;
            if sample == request.n {
                self.starts.remove(&id);
                break;
            }
            start.next += 1;
            let mut sequence = Sequence {
                request: id,
                sample,
                sampler: Sampler::new(&request.sampling, request.seed.wrapping_add(sample as u64))?,
                matcher: start.grammar.as_ref().map(Grammar::matcher),
                slots: Slots::default(),
                seen: start.tokens.clone(),
                generated: 0,
                stream: Some(model.tokenizer.stream(true)),
                text: String::new(),
                sent: 0,
                logprobs: Vec::new(),
                told: 0,
            };
            let drawn = sequence.draw(model, request, &start.logits);
            self.sequences.push(sequence);
            match drawn {
                Ok(step) => self.settle(self.sequences.len() - 1, step),
                Err(error) => {
                    self.fail_one(id, &error);
                    return Ok(());
                }
            }
        }
        self.finish_done(id);
        Ok(())
    }

    /// Starts samples that have waited for room, those of the oldest request first.
    fn start_waiting(&mut self, model: &Model) -> Result<()> {
        let waiting: Vec<u64> = self.starts.keys().copied().collect();
        waiting.into_iter().try_for_each(|id| self.start_samples(model, id))
    }

    /// One token more for every sequence; samples that waited for room start.
    pub(crate) fn step(&mut self, model: &Model) -> Result<()> {
        self.drop_cancelled();
        if self.sequences.is_empty() {
            return self.start_waiting(model);
        }
        let rows = self.new_rows()?;
        let decoder = model.decoder()?;
        let spare = self.spare.all().first().map_or(0, |slots| slots.start);
        let logits = self.decode.step(decoder, &self.cache, spare, &rows)?;
        let requests = &self.requests;
        let width = decoder.config.vocabulary;
        let sequences = self.sequences.par_iter_mut();
        let request = |sequence: &Sequence| &requests[&sequence.request].request;
        let drawn: Vec<Result<Step>> = match logits {
            Logits::Rows(logits) => sequences
                .zip(logits.par_chunks(width))
                .map(|(sequence, logits)| sequence.draw(model, request(sequence), logits))
                .collect(),
            Logits::Drawn(drawn) => sequences
                .zip(drawn)
                .map(|(sequence, drawn)| {
                    sequence.sampler.drawn_elsewhere();
                    sequence.take(model, request(sequence), drawn, &[])
                })
                .collect(),
        };
        let mut touched: Vec<u64> = self.sequences.iter().map(|sequence| sequence.request).collect();
        touched.dedup();
        let mut failed = Vec::new();
        // From the last, so that removing one leaves the others in place.
        for (index, step) in drawn.into_iter().enumerate().rev() {
            match step {
                Ok(step) => self.settle(index, step),
                Err(error) => failed.push((self.sequences[index].request, error)),
            }
        }
        failed.iter().for_each(|(id, error)| self.fail_one(*id, error));
        touched.into_iter().for_each(|id| self.finish_done(id));
        self.start_waiting(model)
    }

    /// The newest token of every sequence, with a slot for its keys. Tokens may be drawn elsewhere when all sequences allow it.
    fn new_rows(&mut self) -> Result<Vec<NewRow>> {
        let elsewhere = self.sequences.iter().all(|sequence| {
            sequence.sampler.is_plain()
                && sequence.matcher.is_none()
                && self.requests[&sequence.request].request.top_logprobs == 0
        });
        let mut rows = Vec::with_capacity(self.sequences.len());
        for sequence in &mut self.sequences {
            let slot = self.cache.extend(&mut sequence.slots, 1)?[0].start;
            let mut keys = self.requests[&sequence.request].slots.all();
            keys.extend(sequence.slots.all());
            let token = *sequence.seen.last().expect("a sequence starts with its prompt");
            let draw = elsewhere.then(|| sequence.sampler.temperature_and_uniform());
            rows.push(NewRow { token, position: sequence.seen.len() as u32 - 1, slot, keys, draw });
        }
        Ok(rows)
    }

    /// Ends everything with the same error, after a pass failed.
    pub(crate) fn fail(&mut self, message: &str) {
        for sequence in self.sequences.drain(..) {
            self.cache.give_back(sequence.slots);
        }
        self.starts.clear();
        for (_, entry) in std::mem::take(&mut self.requests) {
            self.cache.give_back(entry.slots);
            entry.listener.finish(Err(Error::request(message)));
        }
    }

    /// Ends one request with an error.
    fn fail_one(&mut self, id: u64, error: &Error) {
        if let Some(entry) = self.remove(id) {
            entry.listener.finish(Err(Error::request(error.to_string())));
        }
    }

    /// Takes in what a sequence's new token means: more text, or its end.
    fn settle(&mut self, index: usize, step: Step) {
        let id = self.sequences[index].request;
        match step {
            Step::On => self.send(index, false),
            Step::End(finish) => {
                self.send(index, true);
                let sequence = self.sequences.swap_remove(index);
                self.cache.give_back(sequence.slots);
                let entry = self.requests.get_mut(&id).expect("a sequence belongs to a request");
                entry.completion_tokens += sequence.generated as u64;
                let start = sequence.seen.len() - sequence.generated;
                entry.choices[sequence.sample] = Some(Choice {
                    text: sequence.text,
                    finish,
                    logprobs: sequence.logprobs,
                    tokens: sequence.seen[start..].to_vec(),
                });
            }
        }
    }

    /// Sends the text that can no longer change: not the beginning of what may become a stop text.
    fn send(&mut self, index: usize, all: bool) {
        let sequence = &mut self.sequences[index];
        let entry = self.requests.get_mut(&sequence.request).expect("a sequence belongs to a request");
        let held = if all { 0 } else { held_back(&sequence.text, &entry.request.stop) };
        let end = sequence.text.len() - held;
        if end > sequence.sent {
            let text = sequence.text[sequence.sent..end].to_owned();
            let logprobs = sequence.logprobs[sequence.told..].to_vec();
            sequence.told = sequence.logprobs.len();
            entry.listener.piece(Piece { sample: sequence.sample, text, logprobs });
            sequence.sent = end;
        }
    }

    /// Answers a request all of whose samples have ended.
    fn finish_done(&mut self, id: u64) {
        if self.requests.get(&id).is_none_or(|entry| entry.choices.iter().any(Option::is_none)) {
            return;
        }
        if let Some(mut entry) = self.remove(id) {
            let usage =
                Usage { prompt_tokens: entry.prompt_tokens, completion_tokens: entry.completion_tokens };
            let choices = entry.choices.drain(..).flatten().collect();
            entry.listener.finish(Ok(Generated { choices, usage }));
        }
    }

    fn drop_cancelled(&mut self) {
        let gone = self.requests.iter().filter(|(_, entry)| entry.listener.is_gone()).map(|(id, _)| *id);
        for id in gone.collect::<Vec<_>>() {
            self.remove(id);
        }
    }

    /// Takes a request out with everything it holds.
    fn remove(&mut self, id: u64) -> Option<Request> {
        self.starts.remove(&id);
        let mut entry = self.requests.remove(&id)?;
        self.cache.give_back(std::mem::take(&mut entry.slots));
        let (own, others) =
            std::mem::take(&mut self.sequences).into_iter().partition(|one| one.request == id);
        self.sequences = others;
        Vec::into_iter(own).for_each(|sequence: Sequence| self.cache.give_back(sequence.slots));
        Some(entry)
    }
}

/// What a new token means for its sequence.
#[derive(Clone, Copy)]
enum Step {
    On,
    End(FinishReason),
}

impl Sequence {
    /// Draws the next token and appends its text.
    fn draw(&mut self, model: &Model, request: &GenerateRequest, logits: &[f32]) -> Result<Step> {
        let mask = self.matcher.as_mut().map(Matcher::mask).transpose()?;
        let drawn = self.sampler.next(logits, &self.seen, mask)?;
        self.take(model, request, drawn, logits)
    }

    /// Appends a drawn token's text; `logits` are needed where the request asks for the most probable tokens.
    fn take(
        &mut self,
        model: &Model,
        request: &GenerateRequest,
        drawn: Drawn,
        logits: &[f32],
    ) -> Result<Step> {
        let tokenizer = &model.tokenizer;
        if drawn.token as usize >= model.decoder()?.config.vocabulary {
            return Err(Error::request(
                "the model gave logits that are no distribution: its weights or its number format are unfit for this input",
            ));
        }
        self.seen.push(drawn.token);
        self.generated += 1;
        if let Some(matcher) = &mut self.matcher {
            matcher.accept(drawn.token)?;
        }
        if tokenizer.eos.contains(&drawn.token) {
            return self.end(FinishReason::Stop);
        }
        if request.logprobs {
            let token = tokenizer.token_text(drawn.token);
            let top = most_probable(logits, request.top_logprobs).into_iter();
            let top = top.map(|(id, logprob)| TokenLogProb::new(id, tokenizer.token_text(id), logprob));
            self.logprobs.push(TokenLogProb {
                id: drawn.token,
                token,
                logprob: drawn.logprob,
                top: top.collect(),
            });
        }
        let before = self.text.len();
        if let Some(text) = self.stream.as_mut().and_then(|stream| stream.push(drawn.token)) {
            self.text.push_str(&text);
        }
        if let Some(at) = stop_at(&self.text, before, &request.stop) {
            self.text.truncate(at);
            return Ok(Step::End(FinishReason::Stop));
        }
        if self.matcher.as_ref().is_some_and(Matcher::finished) {
            return self.end(FinishReason::Stop);
        }
        if self.generated >= request.max_tokens || self.seen.len() >= model.context() {
            return self.end(FinishReason::Length);
        }
        Ok(Step::On)
    }

    /// Adds the text that was waiting for more tokens.
    fn end(&mut self, finish: FinishReason) -> Result<Step> {
        if let Some(stream) = self.stream.take() {
            self.text.push_str(&stream.finish()?);
        }
        Ok(Step::End(finish))
    }
}

/// Where the first stop text begins, given that the text before `from` has none.
fn stop_at(text: &str, from: usize, stop: &[String]) -> Option<usize> {
    let starts = stop.iter().filter_map(|stop| {
        let mut start = from.saturating_sub(stop.len());
        while !text.is_char_boundary(start) {
            start -= 1;
        }
        text[start..].find(stop.as_str()).map(|at| start + at)
    });
    starts.min()
}

/// How many bytes at the end of `text` might be the beginning of a stop text.
fn held_back(text: &str, stop: &[String]) -> usize {
    let begun = |stop: &String| {
        (1..stop.len()).rev().find(|end| stop.is_char_boundary(*end) && text.ends_with(&stop[..*end]))
    };
    stop.iter().filter_map(begun).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stop_texts_are_found_and_their_beginnings_held_back() {
        let stop = vec!["\n\n".to_owned(), "END".to_owned()];
        assert_eq!(stop_at("abc\n\ndef", 4, &stop), Some(3));
        assert_eq!(stop_at("abcEN", 3, &stop), None);
        assert_eq!(held_back("abcEN", &stop), 2);
        assert_eq!(held_back("abc\n", &stop), 1);
        assert_eq!(held_back("abc", &stop), 0);
    }
}
