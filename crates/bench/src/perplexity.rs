//! Perplexity of each solution given its problem, kept in the run's folder like judgments.

use std::collections::HashMap;

use futures_util::{StreamExt, stream};
use gradus_core::contracts::{LogProbs, LogProbsRequest, Message, Prompt, TokenLogProbs};
use gradus_durable::{Journal, journal_key};
use serde_json::json;

use crate::error::{Error, Result};
use crate::run::{Progress, Run};
use crate::sample::Sample;

/// Fills in the perplexity of every sample that has none, as `perplexity` among its solution's metadata. `identity` is
/// all that determines it. A sample that the model cannot take stays without; how many is returned.
pub async fn fill(
    run: &Run,
    samples: &mut [Sample],
    (model, identity): (&dyn LogProbs, &str),
    ahead: usize,
    mut watch: impl FnMut(Progress) -> bool,
) -> Result<usize> {
    let mut journal: Journal<f64> = Journal::open(&run.folder().join("perplexity.jsonl"))?;
    let mut progress = Progress { total: samples.len(), ..Progress::default() };
    let mut earliest: HashMap<String, usize> = HashMap::new();
    let (mut open, mut repeats) = (Vec::new(), Vec::new());
    for (index, sample) in samples.iter_mut().enumerate() {
        let request = request(sample);
        let key = journal_key(&(identity, &request));
        if sample.perplexity().is_some() {
            progress.done += 1;
        } else if let Some(perplexity) = journal.find(&key) {
            set(sample, perplexity);
            progress.done += 1;
            progress.resumed += 1;
        } else if let Some(first) = earliest.get(&key) {
            repeats.push((index, *first));
        } else {
            earliest.insert(key.clone(), index);
            open.push((index, key, request));
        }
    }
    let repeats_wait_for = progress.done + open.len();
    let mut calls = stream::iter(open)
        .map(|(index, key, request)| async move { (index, key, model.logprobs(request).await) })
        .buffer_unordered(ahead.max(1));
    while watch(progress) {
        let Some((index, key, answer)) = calls.next().await else { break };
        progress.done += 1;
        let perplexity = answer.as_ref().ok().and_then(TokenLogProbs::perplexity);
        match perplexity.filter(|perplexity| perplexity.is_finite()) {
            Some(perplexity) => {
                journal.add(&key, &samples[index].solution.id, &perplexity)?;
                set(&mut samples[index], perplexity);
            }
            None => progress.undecided += 1,
        }
        progress.tokens += answer.map_or(0, |answer| answer.usage.prompt_tokens);
    }
    drop(calls);
    if progress.done == repeats_wait_for {
        for (index, first) in repeats {
            progress.done += 1;
            match samples[first].perplexity() {
                Some(perplexity) => set(&mut samples[index], perplexity),
                None => progress.undecided += 1,
            }
        }
    }
    if progress.done < progress.total { Err(Error::Stopped) } else { Ok(progress.undecided) }
}

fn request(sample: &Sample) -> LogProbsRequest {
    LogProbsRequest {
        prompt: Prompt::Chat(vec![Message::new("user", sample.problem.question())]),
        continuation: sample.solution.full_text(),
    }
}

fn set(sample: &mut Sample, perplexity: f64) {
    sample.solution.metadata.insert("perplexity".to_owned(), json!(perplexity));
}
