//! Negative log-likelihood of tokens, the loss of supervised fine-tuning: −Σ wᵢ·log pᵢ / Σ wᵢ.
//!
//! The inputs are the log-probabilities of the target tokens, so the vocabulary never appears. `[sft]` of a recipe says
//! which tokens are targets.

use serde::{Deserialize, Serialize};

use super::Loss;
use crate::data::SOLVE;

/// `[sft]`: supervised fine-tuning on given answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct SftConfig {
    /// Compute the loss on the answer's tokens only, not on the prompt's. Default true.
    pub(crate) answer_only: bool,
    /// What the model is asked: `solve` as `gradus sample` asks, `question` for the problem alone, or a template file.
    /// Default `solve`.
    pub(crate) prompt: String,
    /// Problems of the evaluation data that are answered greedily and graded at each evaluation. Default 0.
    pub(crate) answer_problems: usize,
    /// Maximum tokens of such an answer. Default 256.
    pub(crate) answer_tokens: usize,
}

impl Default for SftConfig {
    fn default() -> Self {
        Self { answer_only: true, prompt: SOLVE.to_owned(), answer_problems: 0, answer_tokens: 256 }
    }
}

/// The weighted mean of −log p, and its gradient with respect to the log-probabilities.
///
/// A weight of 0 masks a token: whatever its log-probability is, it has no part in the loss. Weights that are
/// all 0 give loss 0.
pub(crate) fn negative_log_likelihood(logprobs: &[f32], weights: &[f32]) -> Loss {
    assert!(
        logprobs.len() == weights.len(),
        "{} log-probabilities for {} weights: every token needs exactly one",
        logprobs.len(),
        weights.len()
    );
    let total: f64 = weights.iter().map(|&weight| f64::from(weight)).sum();
    if total == 0.0 {
        return Loss { value: 0.0, gradient: vec![0.0; logprobs.len()] };
    }
    let weighted = logprobs.iter().zip(weights).filter(|(_, weight)| **weight != 0.0);
    let sum: f64 = weighted.map(|(&logprob, &weight)| f64::from(weight) * f64::from(logprob)).sum();
    let gradient = weights.iter().map(|&weight| (-f64::from(weight) / total) as f32).collect();
    Loss { value: -sum / total, gradient }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_relative() {
        let loss = negative_log_likelihood(&[-1.0, -2.0], &[1.0, 3.0]);
        assert_eq!((loss.value, loss.gradient.clone()), (1.75, vec![-0.25, -0.75]));
        assert_eq!(negative_log_likelihood(&[-1.0, -2.0], &[2.0, 6.0]), loss);
    }

    #[test]
    fn a_masked_token_has_no_part() {
        let loss = negative_log_likelihood(&[f32::NEG_INFINITY, -2.0], &[0.0, 1.0]);
        assert_eq!(loss.value, 2.0);
        assert_eq!(negative_log_likelihood(&[-1.0], &[0.0]).value, 0.0);
        assert_eq!(negative_log_likelihood(&[], &[]).value, 0.0);
    }

    #[test]
    fn what_is_not_a_number_stays_so() {
        assert!(negative_log_likelihood(&[f32::NAN, -2.0], &[1.0, 1.0]).value.is_nan());
        assert!(negative_log_likelihood(&[-1.0, -2.0], &[1.0, f32::NAN]).value.is_nan());
    }
}
