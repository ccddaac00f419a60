//! What a model says at positions of a text that the caller wrote out: the outputs of its reward head, or how probable
//! some tokens are. No profile is applied, so this is what other servers' protocols ask for.

use crate::generate::check_tokens;
use crate::join::{Joined, Place};
use crate::model::Model;
use crate::sample::most_probable;
use crate::score::Scorer;
use crate::{Error, Result};

/// Where to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadAt {
    /// Wherever this token stands.
    Tag(u32),
    /// At every token.
    All,
    /// At the last token.
    Last,
}

/// What to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Readout {
    /// The outputs of the reward head; of a language model, the logits of its profile's tokens for wrong and right.
    Head,
    /// The log-probabilities of these tokens, as the next one.
    LogProbs(Vec<u32>),
    /// The log-probability of the token that comes next in the text; nothing at its last one. After it the most probable
    /// tokens there, each as its id and its log-probability.
    Next {
        /// How many of these.
        alternatives: usize,
    },
}

/// A text to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadRequest {
    /// Its tokens.
    pub tokens: Vec<u32>,
    /// Where.
    pub at: ReadAt,
    /// What.
    pub what: Readout,
}

impl ReadRequest {
    /// Refuses what the model cannot read.
    pub(super) fn check(&self, model: &Model, scorer: Option<&Scorer>) -> Result<()> {
        let context = model.context();
        if self.tokens.is_empty() {
            return Err(Error::request("the text is empty: give at least one token"));
        }
        if self.tokens.len() > context {
            let length = self.tokens.len();
            return Err(Error::request(format!(
                "context too long: the text takes {length} tokens and the model's context holds {context}"
            )));
        }
        check_tokens(model, &self.tokens)?;
        match &self.what {
            Readout::LogProbs(tokens) => check_tokens(model, tokens),
            Readout::Next { .. } => Ok(()),
            Readout::Head if model.any_head().is_some() => Ok(()),
            Readout::Head => verdict(scorer).map(drop),
        }
    }

    fn positions(&self) -> Vec<usize> {
        let end =
            if matches!(self.what, Readout::Next { .. }) { self.tokens.len() - 1 } else { self.tokens.len() };
        match self.at {
            ReadAt::All => (0..end).collect(),
            ReadAt::Last => (end.saturating_sub(1)..end).collect(),
            ReadAt::Tag(tag) => (0..end).filter(|at| self.tokens[*at] == tag).collect(),
        }
    }
}

/// The tokens of a language model for wrong and right.
fn verdict(scorer: Option<&Scorer>) -> Result<[u32; 2]> {
    let tokens = scorer.and_then(Scorer::verdict_tokens);
    let [right, wrong] = tokens.ok_or_else(|| Error::request("this model has no reward head to read"))?;
    Ok([wrong, right])
}

/// The rows of each request, in one pass.
pub(super) fn rows(
    model: &Model,
    scorer: Option<&Scorer>,
    requests: &[(ReadRequest, Place)],
    joined: &Joined,
) -> Result<Vec<Vec<Vec<f32>>>> {
    let positions: Vec<Vec<usize>> = requests.iter().map(|(request, _)| request.positions()).collect();
    let reads: Vec<(usize, usize, usize)> = requests
        .iter()
        .zip(&positions)
        .flat_map(|((_, place), positions)| positions.iter().map(|position| place.locate(0, *position)))
        .collect();
    if reads.is_empty() {
        return Ok(vec![Vec::new(); requests.len()]);
    }
    let hidden = model.hidden(joined.forests(), &reads)?;
    let mut first = 0;
    let mut answers = Vec::with_capacity(requests.len());
    for ((request, _), places) in requests.iter().zip(&positions) {
        if places.is_empty() {
            answers.push(Vec::new());
            continue;
        }
        let own = hidden.narrow(0, first, places.len())?;
        first += places.len();
        answers.push(match (&request.what, model.any_head()) {
            (Readout::Head, Some(head)) => head.forward(&own)?.to_vec2()?,
            (Readout::Head, None) => model.decoder()?.logits(&own, Some(&verdict(scorer)?))?.to_vec2()?,
            (Readout::LogProbs(tokens), _) => logprobs(model, &own, places.len(), tokens)?,
            (Readout::Next { alternatives }, _) => {
                let targets: Vec<u32> = places.iter().map(|place| request.tokens[place + 1]).collect();
                next_tokens(model, &own, &targets, *alternatives)?
            }
        });
    }
    Ok(answers)
}

/// For each row the log-probability of its target, then the most probable tokens.
fn next_tokens(
    model: &Model,
    hidden: &candle_core::Tensor,
    targets: &[u32],
    alternatives: usize,
) -> Result<Vec<Vec<f32>>> {
    let judged = model.target_logprobs(hidden, targets)?;
    let mut rows: Vec<Vec<f32>> = judged.into_iter().map(|logprob| vec![logprob]).collect();
    if alternatives > 0 {
        model.each_logits(hidden, targets.len(), |row, logits| {
            // Ids below 2²⁴ are exact as f32.
            let most = most_probable(logits, alternatives).into_iter();
            rows[row].extend(most.flat_map(|(id, logprob)| [id as f32, logprob]));
        })?;
    }
    Ok(rows)
}

/// For each row the log-probabilities of all `tokens`.
fn logprobs(
    model: &Model,
    hidden: &candle_core::Tensor,
    rows: usize,
    tokens: &[u32],
) -> Result<Vec<Vec<f32>>> {
    let mut each = vec![Vec::with_capacity(tokens.len()); rows];
    for token in tokens {
        for (row, logprob) in each.iter_mut().zip(model.target_logprobs(hidden, &vec![*token; rows])?) {
            row.push(logprob);
        }
    }
    Ok(each)
}
