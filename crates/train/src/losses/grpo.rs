//! GRPO (Shao et al., 2024) and its relatives: a clipped policy ratio times an advantage, with a KL term.
//!
//! ```text
//! r = exp(now − old),  k = exp(ref − now) − (ref − now) − 1
//! l = −min(r·A, clip(r, 1 − low, 1 + high)·A) + β·k            per token
//! ```
//!
//! Tokens become a loss in one of three ways ([`LengthNormalization`]). With `class_level` (Perplexity-aware GRPO,
//! Tian et al., 2026) that is done within each ground-truth class, over the samples whose policy term is not 0, and
//! the loss is the mean of the classes that have any. A sample of a group without variance has advantage 0 and so a
//! policy term of 0: it is left out, with its KL term, and does not water down the others. The policy term decides,
//! not its sum with the KL term, which is hardly ever exactly 0 once the policy has moved.

use serde::{Deserialize, Serialize};

use crate::critic::Verdict;

/// `[grpo]`: a critic learns from rewards for its verdicts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct GrpoConfig {
    /// Group size: critiques sampled per solution. Default 5.
    pub(crate) group: usize,
    /// Sampling temperature, and so that of the policy that is trained. Default 1.0.
    pub(crate) temperature: f64,
    /// Maximum tokens per critique. Default 1024.
    pub(crate) max_new_tokens: usize,
    /// The policy ratio is clipped below at 1 − this. Default 0.2.
    pub(crate) clip_low: f64,
    /// The policy ratio is clipped above at 1 + this. Default 0.2.
    pub(crate) clip_high: f64,
    /// β, the weight of the KL divergence from the starting policy. Default 0.04.
    pub(crate) kl: f64,
    /// Divide advantages by the group's standard deviation. Default true; Dr.GRPO: false.
    pub(crate) advantage_std: bool,
    /// How losses of critiques of different length are averaged. Default `per_sample`.
    pub(crate) length: LengthWeight,
    /// Weight advantages by the solution's perplexity. Default false.
    pub(crate) perplexity_aware: bool,
    /// Average within right and wrong solutions first, then over both. Default false.
    pub(crate) class_level: bool,
    /// Optimizer steps per batch of critiques. Default 1.
    pub(crate) inner_epochs: usize,
}

impl Default for GrpoConfig {
    fn default() -> Self {
        Self {
            group: 5,
            temperature: 1.0,
            max_new_tokens: 1024,
            clip_low: 0.2,
            clip_high: 0.2,
            kl: 0.04,
            advantage_std: true,
            length: LengthWeight::default(),
            perplexity_aware: false,
            class_level: false,
            inner_epochs: 1,
        }
    }
}

impl GrpoConfig {
    /// The part that the loss reads.
    pub(crate) fn loss(&self) -> GrpoLossConfig {
        let length = match self.length {
            LengthWeight::PerSample => LengthNormalization::PerSample,
            LengthWeight::Constant => LengthNormalization::Constant(self.max_new_tokens),
            LengthWeight::PerToken => LengthNormalization::PerBatchToken,
        };
        let Self { clip_low, clip_high, kl, class_level, .. } = *self;
        GrpoLossConfig { clip_low, clip_high, kl, length, class_level }
    }
}

/// How losses of critiques of different length are averaged.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum LengthWeight {
    /// Mean over each critique's tokens, then over critiques (GRPO).
    #[default]
    PerSample,
    /// Sum over tokens divided by `max_new_tokens`, a constant (Dr.GRPO).
    Constant,
    /// Mean over all tokens of the batch (DAPO).
    PerToken,
}

/// How the tokens of samples of different lengths become one loss.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(test, derive(Deserialize), serde(rename_all = "snake_case"))]
pub(crate) enum LengthNormalization {
    /// Mean over a sample's tokens, then over samples: GRPO as published.
    PerSample,
    /// Sum over a sample's tokens divided by this constant, then mean over samples: Dr.GRPO. The constant is the
    /// longest completion allowed.
    Constant(usize),
    /// Mean over all tokens of the batch: DAPO.
    PerBatchToken,
}

/// What the loss depends on besides the samples.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(test, derive(Deserialize), serde(deny_unknown_fields))]
pub(crate) struct GrpoLossConfig {
    /// How far the ratio may fall below 1.
    pub(crate) clip_low: f64,
    /// How far the ratio may rise above 1.
    pub(crate) clip_high: f64,
    /// β, the weight of the KL term; it has an effect on samples with reference log-probabilities.
    pub(crate) kl: f64,
    /// How tokens become a loss.
    pub(crate) length: LengthNormalization,
    /// Whether both ground-truth classes weigh the same.
    pub(crate) class_level: bool,
}

/// One sampled critique. The slices have one log-probability per token of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct GrpoSample<'a> {
    /// Under the policy that is being trained.
    pub(crate) now: &'a [f32],
    /// Under the policy that sampled it.
    pub(crate) old: &'a [f32],
    /// Under the policy that training started from; without it the sample has no KL term.
    pub(crate) reference: Option<&'a [f32]>,
    /// How much better than its group it is.
    pub(crate) advantage: f64,
    /// What the critique should have said.
    pub(crate) truth: Verdict,
}

/// The loss of a batch, what it is made of, and its gradient.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct GrpoLoss {
    /// `policy + β · kl`.
    pub(crate) value: f64,
    /// The clipped policy term, averaged as the loss is.
    pub(crate) policy: f64,
    /// The KL estimate without its weight, averaged as the loss is.
    pub(crate) kl: f64,
    /// The share of tokens that clipping took the gradient from.
    pub(crate) clip_share: f64,
    /// Mean ratio over all tokens.
    pub(crate) mean_ratio: f64,
    /// One entry per sample: the gradient with respect to `now`.
    pub(crate) gradients: Vec<Vec<f32>>,
}

/// The loss of a batch of samples. A sample without tokens has loss 0.
pub(crate) fn grpo(samples: &[GrpoSample<'_>], config: &GrpoLossConfig) -> GrpoLoss {
    let sums: Vec<SampleSums> = samples.iter().map(|sample| SampleSums::of(sample, config)).collect();
    let shares = shares(samples, &sums, config);

    let mut loss = GrpoLoss {
        value: 0.0,
        policy: 0.0,
        kl: 0.0,
        clip_share: 0.0,
        mean_ratio: 0.0,
        gradients: Vec::with_capacity(samples.len()),
    };
    let tokens = samples.iter().map(|sample| sample.now.len()).sum::<usize>().max(1) as f64;
    for (sums, share) in sums.into_iter().zip(shares) {
        loss.policy += sums.policy * share;
        loss.kl += sums.kl * share;
        loss.clip_share += sums.clipped as f64 / tokens;
        loss.mean_ratio += sums.ratio / tokens;
        loss.gradients.push(sums.gradients.into_iter().map(|gradient| (gradient * share) as f32).collect());
    }
    loss.value = loss.policy + config.kl * loss.kl;
    loss
}

/// A sample's sums over its tokens, and the gradient of each token's loss.
struct SampleSums {
    policy: f64,
    kl: f64,
    ratio: f64,
    clipped: usize,
    gradients: Vec<f64>,
}

impl SampleSums {
    fn of(sample: &GrpoSample<'_>, config: &GrpoLossConfig) -> Self {
        let tokens = sample.now.len();
        assert!(
            sample.old.len() == tokens && sample.reference.is_none_or(|reference| reference.len() == tokens),
            "a sample's log-probabilities now, old and of the reference are not of one length"
        );
        let (low, high) = (1.0 - config.clip_low, 1.0 + config.clip_high);
        let advantage = sample.advantage;
        let mut sums =
            Self { policy: 0.0, kl: 0.0, ratio: 0.0, clipped: 0, gradients: Vec::with_capacity(tokens) };
        for token in 0..tokens {
            let now = f64::from(sample.now[token]);
            let ratio = (now - f64::from(sample.old[token])).exp();
            sums.ratio += ratio;
            // Clipping only ever takes away what would be gained by going further. Comparisons and not `min`,
            // which would hide a ratio that is not a number.
            let clipped = (ratio > high && advantage > 0.0) || (ratio < low && advantage < 0.0);
            let mut gradient = 0.0;
            if clipped {
                sums.clipped += 1;
                sums.policy -= advantage * if advantage > 0.0 { high } else { low };
            } else {
                sums.policy -= advantage * ratio;
                gradient -= advantage * ratio;
            }
            if let Some(reference) = sample.reference {
                let gap = f64::from(reference[token]) - now;
                // exp(gap) − 1 − gap: near 0 the two ones would cancel.
                sums.kl += gap.exp_m1() - gap;
                gradient -= config.kl * gap.exp_m1();
            }
            sums.gradients.push(gradient);
        }
        sums
    }

    /// Whether the policy learns nothing from the sample; what is not a number is not 0.
    fn has_no_policy_term(&self) -> bool {
        self.policy == 0.0
    }
}

/// What each sample's sum over tokens is multiplied by.
fn shares(samples: &[GrpoSample<'_>], sums: &[SampleSums], config: &GrpoLossConfig) -> Vec<f64> {
    let mut shares = vec![0.0; samples.len()];
    if !config.class_level {
        let all: Vec<usize> = (0..samples.len()).collect();
        mean_within(&all, samples, config.length, 1.0, &mut shares);
        return shares;
    }
    let classes = [Verdict::Correct, Verdict::Wrong].map(|class| -> Vec<usize> {
        let of_class = (0..samples.len()).filter(|&index| samples[index].truth == class);
        of_class.filter(|&index| !sums[index].has_no_policy_term()).collect()
    });
    let present = classes.iter().filter(|class| !class.is_empty()).count();
    for class in &classes {
        mean_within(class, samples, config.length, 1.0 / present as f64, &mut shares);
    }
    shares
}

/// Writes the shares of the samples at `indices`, whose mean loss weighs `weight`.
fn mean_within(
    indices: &[usize],
    samples: &[GrpoSample<'_>],
    length: LengthNormalization,
    weight: f64,
    shares: &mut [f64],
) {
    let count = indices.len() as f64;
    let tokens: usize = indices.iter().map(|&index| samples[index].now.len()).sum();
    for &index in indices {
        // A sample without tokens has sums of 0: any finite share will do.
        let own = samples[index].now.len().max(1) as f64;
        shares[index] = weight
            * match length {
                LengthNormalization::PerSample => 1.0 / (own * count),
                LengthNormalization::Constant(longest) => {
                    assert!(longest > 0, "a length normalization by 0 tokens divides by 0");
                    1.0 / (longest as f64 * count)
                }
                LengthNormalization::PerBatchToken => 1.0 / tokens.max(1) as f64,
            };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: GrpoLossConfig = GrpoLossConfig {
        clip_low: 0.2,
        clip_high: 0.2,
        kl: 0.0,
        length: LengthNormalization::PerSample,
        class_level: false,
    };

    fn sample<'a>(now: &'a [f32], old: &'a [f32], advantage: f64, truth: Verdict) -> GrpoSample<'a> {
        GrpoSample { now, old, reference: None, advantage, truth }
    }

    fn near(found: f64, expected: f64) {
        assert!((found - expected).abs() < 1e-6, "{found} is not {expected}");
    }

    #[test]
    fn clipping_keeps_only_gradients_towards_the_old_policy() {
        let double = [2f32.ln()];
        let half = [0.5f32.ln()];
        for (now, advantage, value, gradient) in [
            (&double, 1.0, -1.2, 0.0),
            (&double, -1.0, 2.0, 2.0),
            (&half, 1.0, -0.5, -0.5),
            (&half, -1.0, 0.8, 0.0),
        ] {
            let loss = grpo(&[sample(now, &[0.0], advantage, Verdict::Correct)], &PLAIN);
            near(loss.value, value);
            near(loss.gradients[0][0].into(), gradient);
            assert_eq!(loss.clip_share, f64::from(u8::from(gradient == 0.0)));
            near(loss.mean_ratio, f64::from(now[0]).exp());
        }
    }

    #[test]
    fn on_the_policy_that_sampled_only_the_gradient_is_left() {
        let (now, old) = ([-1.0, -2.0], [-1.0, -2.0]);
        let loss =
            grpo(&[1.0, -1.0].map(|advantage| sample(&now, &old, advantage, Verdict::Correct)), &PLAIN);
        assert_eq!(loss.value, 0.0);
        assert_eq!(loss.gradients, [[-0.25, -0.25], [0.25, 0.25]]);
    }

    #[test]
    fn three_ways_to_average() {
        let samples = [
            sample(&[0.0], &[0.0], 1.0, Verdict::Correct),
            sample(&[0.0; 3], &[0.0; 3], 3.0, Verdict::Wrong),
        ];
        let value = |length| grpo(&samples, &GrpoLossConfig { length, ..PLAIN }).value;
        near(value(LengthNormalization::PerSample), -(1.0 + 3.0) / 2.0);
        near(value(LengthNormalization::Constant(4)), -(1.0 / 4.0 + 9.0 / 4.0) / 2.0);
        near(value(LengthNormalization::PerBatchToken), -(1.0 + 9.0) / 4.0);
    }

    #[test]
    fn classes_weigh_the_same_and_zeros_do_not_count() {
        let token = [0.0];
        let of = |advantage, truth| sample(&token, &token, advantage, truth);
        let config = GrpoLossConfig { class_level: true, ..PLAIN };
        let both = [
            of(1.0, Verdict::Correct),
            of(0.0, Verdict::Correct),
            of(2.0, Verdict::Wrong),
            of(4.0, Verdict::Wrong),
            of(0.0, Verdict::Wrong),
        ];
        let loss = grpo(&both, &config);
        near(loss.value, -(1.0 + 3.0) / 2.0);
        assert_eq!(loss.gradients.concat(), [-0.5, 0.0, -0.5, -1.0, 0.0]);
        // One class absent: the other alone.
        near(grpo(&both[..2], &config).value, -1.0);
        near(grpo(&[both[1], both[3]], &config).value, -4.0);
        let zero = grpo(&[both[1], both[4]], &config);
        assert_eq!((zero.value, zero.gradients.concat()), (0.0, vec![0.0, 0.0]));
        assert_eq!(grpo(&[], &config).value, 0.0);
    }

    #[test]
    fn the_kl_term_by_hand() {
        let with = |reference: &'static [f32]| GrpoSample {
            reference: Some(reference),
            ..sample(&[-1.0], &[-1.0], 0.0, Verdict::Correct)
        };
        let config = GrpoLossConfig { kl: 0.5, ..PLAIN };
        // The gap is log 2: k = 2 − log 2 − 1, its gradient −0.5·(2 − 1).
        let reference: &'static [f32] = &[-1.0 + std::f32::consts::LN_2];
        let loss = grpo(&[with(reference)], &config);
        near(loss.kl, 1.0 - 2f64.ln());
        near(loss.value, 0.5 * loss.kl);
        near(loss.gradients[0][0].into(), -0.5);
        assert_eq!(grpo(&[with(&[-1.0])], &config).kl, 0.0);
        // A reference that is a hair away has a KL that is not rounded to 0.
        assert!(grpo(&[with(&[-1.000_000_1])], &config).kl > 0.0);
    }

    #[test]
    fn what_is_not_a_number_stays_so() {
        let nan = [f32::NAN];
        for class_level in [false, true] {
            let config = GrpoLossConfig { class_level, ..PLAIN };
            for advantage in [1.0, -1.0] {
                assert!(grpo(&[sample(&nan, &[0.0], advantage, Verdict::Wrong)], &config).value.is_nan());
                assert!(grpo(&[sample(&[0.0], &nan, advantage, Verdict::Wrong)], &config).value.is_nan());
            }
            assert!(grpo(&[sample(&[0.0], &[0.0], f64::NAN, Verdict::Wrong)], &config).value.is_nan());
        }
    }

    #[test]
    fn a_sample_without_tokens_has_no_loss() {
        let samples = [sample(&[], &[], 1.0, Verdict::Correct), sample(&[0.0], &[0.0], 1.0, Verdict::Wrong)];
        near(grpo(&samples, &PLAIN).value, -0.5);
        near(grpo(&samples, &GrpoLossConfig { class_level: true, ..PLAIN }).value, -1.0);
    }
}
