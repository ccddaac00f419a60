//! Sampled critiques as the policy is trained on them: their log-probabilities, and the backward pass.
//!
//! The critiques of one solution share its prompt, which is computed once.

use std::ops::Range;

use candle_core::{DType, Tensor};

use super::group::Group;
use crate::Result;
use crate::critic::Verdict;
use crate::example::{Example, Packed, pack};
use crate::losses::{GrpoConfig, GrpoLossConfig, GrpoSample};
use crate::parameters::Gradients;
use crate::readout::{scatter, select};
use crate::session::Session;
use crate::trainable::TrainableModel;

/// Critiques as the model is trained on them.
pub(super) struct Rollouts {
    pub(super) examples: Vec<Example<u32>>,
    /// For each example, the range of reads of each of its critiques.
    spans: Vec<Vec<Range<usize>>>,
    advantages: Vec<f64>,
    lengths: Vec<usize>,
    truths: Vec<Verdict>,
    /// What the loss depends on.
    pub(super) loss: GrpoLossConfig,
    /// Sampling temperature: the policy is softmax(logits / temperature).
    temperature: f64,
    /// Maximum tokens per forward pass.
    max_tokens: usize,
    /// Whether the policy that is trained is the one that sampled; then log-probabilities are not needed before the
    /// backward pass.
    on_policy: bool,
    zeros: Vec<f32>,
}

impl Rollouts {
    pub(super) fn new(groups: &[Group<'_>], config: &GrpoConfig, max_tokens: usize) -> Self {
        let (mut examples, mut spans) = (Vec::new(), Vec::new());
        let (mut advantages, mut lengths, mut truths) = (Vec::new(), Vec::new(), Vec::new());
        for group in groups {
            let mut rest: Vec<Vec<u32>> = Vec::new();
            let mut close = |rest: &mut Vec<Vec<u32>>| {
                let (example, own) =
                    Example::continuations(group.about.solution_id.as_str(), &group.prompt, rest);
                examples.push(example);
                spans.push(own);
                rest.clear();
            };
            for critique in &group.critiques {
                advantages.push(critique.advantage);
                lengths.push(critique.tokens.len());
                truths.push(Verdict::from_first_error(group.about.truth));
                // A group that is too long for one pass is trained in parts.
                let tokens =
                    group.prompt.len() + rest.iter().map(Vec::len).sum::<usize>() + critique.tokens.len();
                if tokens > max_tokens && !rest.is_empty() {
                    close(&mut rest);
                }
                rest.push(critique.tokens.clone());
            }
            close(&mut rest);
        }
        let on_policy = config.inner_epochs == 1 && config.kl == 0.0;
        let zeros = vec![0.0; lengths.iter().copied().max().unwrap_or(0)];
        Self {
            examples,
            spans,
            advantages,
            lengths,
            truths,
            loss: config.loss(),
            temperature: config.temperature,
            max_tokens,
            on_policy,
            zeros,
        }
    }

    /// Log-probabilities of every critique's tokens under the current policy.
    pub(super) fn logprobs(&self, trainable: &TrainableModel) -> Result<Vec<Vec<f32>>> {
        let all: Vec<&Example<u32>> = self.examples.iter().collect();
        let mut values = Vec::new();
        for pass in pack(&all, self.max_tokens) {
            let hidden = self.temperature_scaled(select(&trainable.hidden(&pass.batch)?, &pass.rows)?)?;
            values.extend(trainable.token_logprobs(&hidden, &pass.targets, false)?.values);
        }
        let mut rest = &values[..];
        let mut apart = Vec::with_capacity(self.lengths.len());
        for length in &self.lengths {
            let (own, others) = rest.split_at(*length);
            apart.push(own.to_vec());
            rest = others;
        }
        Ok(apart)
    }

    /// What the loss sees. On policy the ratio is 1 whatever the probabilities are, so zeros stand for them.
    pub(super) fn samples<'a>(
        &'a self,
        now: &'a [Vec<f32>],
        old: &'a [Vec<f32>],
        reference: &'a [Vec<f32>],
    ) -> Vec<GrpoSample<'a>> {
        let of = |values: &'a [Vec<f32>], index: usize| -> &'a [f32] {
            if self.on_policy { &self.zeros[..self.lengths[index]] } else { &values[index] }
        };
        let sample = |index: usize| GrpoSample {
            now: of(now, index),
            old: of(old, index),
            reference: reference.get(index).map(Vec::as_slice),
            advantage: self.advantages[index],
            truth: self.truths[index],
        };
        (0..self.lengths.len()).map(sample).collect()
    }

    /// The backward pass of the policy, given the gradient of every critique's log-probabilities. Groups whose gradient
    /// is 0 are not computed.
    pub(super) fn backward(
        &self,
        session: &mut Session<'_>,
        d_logprobs: &[Vec<f32>],
        epoch: usize,
    ) -> Result<Gradients> {
        let mut gradients = Gradients::new(&session.trainable.parameters);
        let mut taught: Vec<(&Example<u32>, Vec<f32>)> = Vec::new();
        let mut start = 0;
        for (example, spans) in self.examples.iter().zip(&self.spans) {
            let own: Vec<f32> = d_logprobs[start..start + spans.len()].concat();
            start += spans.len();
            if own.iter().any(|d| *d != 0.0) {
                taught.push((example, own));
            }
        }
        let examples: Vec<&Example<u32>> = taught.iter().map(|(example, _)| *example).collect();
        let mut d_logprobs = taught.iter().map(|(_, own)| own);
        for (number, pass) in pack(&examples, self.max_tokens).iter().enumerate() {
            let own: Vec<f32> = d_logprobs.by_ref().take(pass.examples.len()).flatten().copied().collect();
            let seed = session.dropout_seed(number + (epoch << 16));
            let logprobs = self.backward_pass(&mut session.trainable, pass, &own, seed, &mut gradients)?;
            session.check_finite(pass, &logprobs)?;
            session.count_tokens(pass.batch.len());
        }
        Ok(gradients)
    }

    /// Accumulates the gradients of one pass, and returns the log-probabilities of its tokens.
    pub(super) fn backward_pass(
        &self,
        trainable: &mut TrainableModel,
        pass: &Packed<'_, u32>,
        d_logprobs: &[f32],
        seed: u64,
        gradients: &mut Gradients,
    ) -> Result<Vec<f32>> {
        let tape = trainable.forward(&pass.batch, Some(seed))?;
        let hidden = self.temperature_scaled(select(&tape.hidden, &pass.rows)?)?;
        let logprobs = trainable.token_logprobs(&hidden, &pass.targets, true)?;
        let values = logprobs.values.clone();
        let d_rows = self.temperature_scaled(
            trainable.token_logprobs_backward(&hidden, logprobs, d_logprobs, gradients)?,
        )?;
        let d_hidden = scatter(&tape.hidden, &pass.rows, &d_rows)?;
        trainable.backward(tape, &d_hidden, gradients)?;
        Ok(values)
    }

    /// Temperature-scaled hidden states, and so temperature-scaled logits, which are linear in them; in the backward
    /// pass, the gradient of the hidden states.
    fn temperature_scaled(&self, rows: Tensor) -> Result<Tensor> {
        if self.temperature == 1.0 {
            return Ok(rows);
        }
        // In f32, because bf16 would round the temperature.
        let scaled = (rows.to_dtype(DType::F32)? / self.temperature)?;
        Ok(scaled.to_dtype(rows.dtype())?)
    }
}
