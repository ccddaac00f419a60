//! ORPO (Hong et al., 2024): likelihood of the chosen answer plus the odds ratio against the rejected one.
//!
//! ```text
//! L = NLL(chosen) + λ · mean over pairs of −log σ(log odds(chosen) − log odds(rejected))
//! odds = p / (1 − p),   p = exp(mean log-probability of the answer's tokens)
//! ```
//!
//! As in TRL's ORPO trainer, the NLL is the mean over all chosen tokens of the batch together (a long answer weighs
//! more than a short one), while the odds use each answer's own mean. TRL's NLL also runs over the prompt's tokens;
//! here it runs over the tokens that the caller passes, which are the answer's.

use serde::{Deserialize, Serialize};

use super::stable::{log_one_minus_exp, log_sigmoid, sigmoid};
use crate::data::{PairRule, SOLVE};

/// The highest mean log-probability that the odds are taken of: half a unit in the last place of an `f32` below
/// p = 1. Closer to 1 a log-probability is rounding error, and odds of p = 1 are infinite.
const HIGHEST_MEAN: f64 = -(f32::EPSILON as f64) / 2.0;

/// `[orpo]`: odds ratio preference optimization.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct OrpoConfig {
    /// λ, the weight of the odds-ratio term. Default 0.1.
    pub(crate) lambda: f64,
    /// Which of two solutions is preferred. Default `outcome`.
    pub(crate) pairs: PairRule,
    /// Maximum pairs per problem. Default none: all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) max_pairs_per_problem: Option<usize>,
    /// What the model is asked: `solve` as `gradus sample` asks, `question` for the problem alone, or a template file.
    /// Default `solve`.
    pub(crate) prompt: String,
    /// Problems of the evaluation data that are answered greedily and graded at each evaluation. Default 0.
    pub(crate) answer_problems: usize,
    /// Maximum tokens of such an answer. Default 256.
    pub(crate) answer_tokens: usize,
}

impl Default for OrpoConfig {
    fn default() -> Self {
        Self {
            lambda: 0.1,
            pairs: PairRule::default(),
            max_pairs_per_problem: None,
            prompt: SOLVE.to_owned(),
            answer_problems: 0,
            answer_tokens: 256,
        }
    }
}

/// Log-probabilities of the tokens of two answers to one prompt.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct OrpoPair<'a> {
    /// The better answer's tokens.
    pub(crate) chosen: &'a [f32],
    /// The worse answer's tokens.
    pub(crate) rejected: &'a [f32],
}

/// The loss of a batch, what it is made of, and its gradient.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct OrpoLoss {
    /// `nll + λ · odds_ratio`.
    pub(crate) value: f64,
    /// −log p of the chosen answers, mean over all their tokens.
    pub(crate) nll: f64,
    /// −log σ of the log odds ratio, mean over pairs.
    pub(crate) odds_ratio: f64,
    /// Mean log odds of the chosen answers.
    pub(crate) chosen_log_odds: f64,
    /// Mean log odds of the rejected answers.
    pub(crate) rejected_log_odds: f64,
    /// The share of pairs whose chosen answer has the higher odds.
    pub(crate) chosen_above: f64,
    /// One entry per pair.
    pub(crate) gradients: Vec<PairGradient>,
}

/// The gradient with respect to a pair's log-probabilities.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PairGradient {
    /// One entry per chosen token.
    pub(crate) chosen: Vec<f32>,
    /// One entry per rejected token.
    pub(crate) rejected: Vec<f32>,
}

/// How many pairs and chosen tokens the whole batch has, of which a call may see a part: the parts' losses add up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OrpoBatch {
    /// Pairs.
    pub(crate) pairs: usize,
    /// Tokens of the chosen answers.
    pub(crate) chosen_tokens: usize,
}

#[cfg(test)]
impl OrpoBatch {
    /// A batch of these pairs alone.
    pub(crate) fn of(pairs: &[OrpoPair<'_>]) -> Self {
        Self { pairs: pairs.len(), chosen_tokens: pairs.iter().map(|pair| pair.chosen.len()).sum() }
    }
}

/// The share of some pairs in the ORPO loss of `batch`; `lambda` weighs the odds ratio (0.1 in the paper's experiments).
pub(crate) fn orpo(pairs: &[OrpoPair<'_>], lambda: f64, batch: OrpoBatch) -> OrpoLoss {
    let count = batch.pairs.max(1) as f64;
    let chosen_tokens = batch.chosen_tokens;
    let mut nll = 0.0;
    let mut odds_ratio = 0.0;
    let (mut chosen_log_odds, mut rejected_log_odds) = (0.0, 0.0);
    let mut chosen_above = 0.0;
    let mut gradients = Vec::with_capacity(pairs.len());
    for pair in pairs {
        assert!(
            !pair.chosen.is_empty() && !pair.rejected.is_empty(),
            "an answer without a token has no probability: leave its pair out"
        );
        let (chosen, rejected) = (LogOdds::of(pair.chosen), LogOdds::of(pair.rejected));
        let margin = chosen.value - rejected.value;
        nll -= sum(pair.chosen) / chosen_tokens as f64;
        odds_ratio -= log_sigmoid(margin) / count;
        chosen_log_odds += chosen.value / count;
        rejected_log_odds += rejected.value / count;
        chosen_above += f64::from(u8::from(margin > 0.0)) / count;
        // d(−log σ(m))/dm = −σ(−m); each token moves its answer's mean by 1 / its number of tokens.
        let d_margin = -lambda * sigmoid(-margin) / count;
        let d_chosen = d_margin * chosen.d_mean / pair.chosen.len() as f64 - 1.0 / chosen_tokens as f64;
        let d_rejected = -d_margin * rejected.d_mean / pair.rejected.len() as f64;
        gradients.push(PairGradient {
            chosen: vec![d_chosen as f32; pair.chosen.len()],
            rejected: vec![d_rejected as f32; pair.rejected.len()],
        });
    }
    let value = nll + lambda * odds_ratio;
    OrpoLoss { value, nll, odds_ratio, chosen_log_odds, rejected_log_odds, chosen_above, gradients }
}

/// log(p / (1 − p)) of a mean log-probability, and its derivative with respect to that mean.
struct LogOdds {
    value: f64,
    d_mean: f64,
}

impl LogOdds {
    fn of(logprobs: &[f32]) -> Self {
        let mean = sum(logprobs) / logprobs.len() as f64;
        // Not `min`, which would turn what is not a number into one. The derivative at the bound is kept, so that an
        // answer that the model is sure of can still be pushed down.
        let mean = if mean > HIGHEST_MEAN { HIGHEST_MEAN } else { mean };
        Self { value: mean - log_one_minus_exp(mean), d_mean: -1.0 / mean.exp_m1() }
    }
}

fn sum(logprobs: &[f32]) -> f64 {
    logprobs.iter().map(|&logprob| f64::from(logprob)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(pairs: &[OrpoPair<'_>], lambda: f64) -> OrpoLoss {
        orpo(pairs, lambda, OrpoBatch::of(pairs))
    }

    fn near(found: f64, expected: f64) {
        assert!((found - expected).abs() < 1e-6, "{found} is not {expected}");
    }

    #[test]
    fn parts_add_up() {
        let (first, second) = ([-0.5f32, -1.0], [-2.0f32]);
        let pairs =
            [OrpoPair { chosen: &first, rejected: &second }, OrpoPair { chosen: &second, rejected: &first }];
        let whole = whole(&pairs, 0.3);
        let batch = OrpoBatch { pairs: 2, chosen_tokens: 3 };
        let parts = pairs.map(|pair| orpo(&[pair], 0.3, batch));
        near(parts[0].value + parts[1].value, whole.value);
        assert_eq!([parts[0].gradients[0].clone(), parts[1].gradients[0].clone()], whole.gradients[..]);
    }

    #[test]
    fn by_hand() {
        // Chosen p = 3/4, odds 3; rejected p = 1/2, odds 1; σ(log 3) = 3/4.
        let (chosen, rejected) = ([0.75f32.ln(); 2], [0.5f32.ln(); 3]);
        let loss = whole(&[OrpoPair { chosen: &chosen, rejected: &rejected }], 2.0);
        near(loss.nll, -0.75f64.ln());
        near(loss.odds_ratio, -0.75f64.ln());
        near(loss.value, -3.0 * 0.75f64.ln());
        near(loss.chosen_log_odds, 3f64.ln());
        near(loss.rejected_log_odds, 0.0);
        assert_eq!(loss.chosen_above, 1.0);
        // −λ·σ(−m)·(1/(1−p))/tokens − 1/tokens = −2·(1/4)·4/2 − 1/2 and 2·(1/4)·2/3.
        near(f64::from(loss.gradients[0].chosen[0]), -1.5);
        near(f64::from(loss.gradients[0].rejected[2]), 1.0 / 3.0);
    }

    #[test]
    fn the_likelihood_is_a_mean_over_tokens_not_pairs() {
        let rejected = [-1.0];
        let pairs = [
            OrpoPair { chosen: &[-1.0], rejected: &rejected },
            OrpoPair { chosen: &[-4.0, -4.0, -4.0], rejected: &rejected },
        ];
        near(whole(&pairs, 0.0).nll, 13.0 / 4.0);
    }

    #[test]
    fn certain_and_impossible_answers_stay_finite() {
        let tiny = -1e-30;
        for (chosen, rejected) in
            [(0.0, 0.0), (tiny, tiny), (0.0, -1e4), (-1e4, 0.0), (-1e4, -1e4), (1e-7, 1e-7)]
        {
            let loss = whole(&[OrpoPair { chosen: &[chosen], rejected: &[rejected] }], 0.1);
            assert!(loss.value.is_finite(), "{chosen} {rejected}: {loss:?}");
            let gradient = &loss.gradients[0];
            assert!(gradient.chosen[0].is_finite() && gradient.rejected[0].is_finite());
            assert!(gradient.rejected[0] >= 0.0);
        }
        // p = 1 − 1e-5: odds are 1e5 − 1 and not the noise that 1 − exp(x) in `f32` would leave.
        let loss = whole(&[OrpoPair { chosen: &[-1e-5], rejected: &[-1.0] }], 0.1);
        near(loss.chosen_log_odds, (1.0 / 1e-5_f32.exp_m1()).ln().into());
    }

    #[test]
    fn what_is_not_a_number_stays_so() {
        assert!(whole(&[OrpoPair { chosen: &[f32::NAN], rejected: &[-1.0] }], 0.1).value.is_nan());
        assert!(whole(&[OrpoPair { chosen: &[-1.0], rejected: &[f32::NAN] }], 0.1).value.is_nan());
    }

    #[test]
    fn no_pairs_no_loss() {
        let loss = whole(&[], 0.1);
        assert_eq!((loss.value, loss.gradients), (0.0, Vec::new()));
    }
}
