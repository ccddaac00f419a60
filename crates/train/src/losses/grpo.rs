//! GRPO (Shao et al., 2024) and its relatives: a clipped policy ratio times an advantage, with a KL term.
//!
//! ```text
//! r = exp(now − old),  k = exp(ref − now) − (ref − now) − 1
//! l = −min(r·A, clip(r, 1 − low, 1 + high)·A) + β·k            per token
//! ```
//!
//! Tokens become a loss in one of three ways ([`LengthNormalisation`]). With `class_level` (Perplexity-aware GRPO,
//! Tian et al., 2026) that is done within each ground-truth class, over the samples whose loss is not 0, and the
//! loss is the mean of the classes that have any. A sample of a group without variance has advantage 0 and so, where
//! there is no KL term, loss 0: it does not water down the others.
//! With a KL term, loss 0 means that the policy has not moved from the reference either.

use serde::{Deserialize, Serialize};

use crate::critic::Verdict;

/// How the tokens of samples of different lengths become one loss.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LengthNormalisation {
    /// Mean over a sample's tokens, then over samples: GRPO as published.
    #[default]
    PerSample,
    /// Sum over a sample's tokens divided by this constant, then mean over samples: Dr.GRPO. The constant is the
    /// longest completion allowed.
    Constant(usize),
    /// Mean over all tokens of the batch: DAPO.
    PerBatchToken,
}

/// The objective's settings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct GrpoSettings {
    /// How far the ratio may fall below 1.
    pub clip_low: f64,
    /// How far the ratio may rise above 1.
    pub clip_high: f64,
    /// β, the weight of the KL term; it has an effect on samples with reference log-probabilities.
    pub kl: f64,
    /// How tokens become a loss.
    pub length: LengthNormalisation,
    /// Whether both ground-truth classes weigh the same.
    pub class_level: bool,
}

impl Default for GrpoSettings {
    fn default() -> Self {
        Self {
            clip_low: 0.2,
            clip_high: 0.2,
            kl: 0.04,
            length: LengthNormalisation::PerSample,
            class_level: false,
        }
    }
}

/// One sampled critique. The slices have one log-probability per token of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GrpoSample<'a> {
    /// Under the policy that is being trained.
    pub now: &'a [f32],
    /// Under the policy that sampled it.
    pub old: &'a [f32],
    /// Under the policy that training started from; without it the sample has no KL term.
    pub reference: Option<&'a [f32]>,
    /// How much better than its group it is.
    pub advantage: f64,
    /// What the critique should have said.
    pub truth: Verdict,
}

/// The loss of a batch, what it is made of, and its gradient.
#[derive(Debug, Clone, PartialEq)]
pub struct Grpo {
    /// `policy + β · kl`.
    pub value: f64,
    /// The clipped policy term, averaged as the loss is.
    pub policy: f64,
    /// The KL estimate without its weight, averaged as the loss is.
    pub kl: f64,
    /// The share of tokens that clipping took the gradient from.
    pub clip_share: f64,
    /// Mean ratio over all tokens.
    pub mean_ratio: f64,
    /// One entry per sample: the gradient along `now`.
    pub gradients: Vec<Vec<f32>>,
}

/// The loss of a batch of samples. A sample without tokens has loss 0.
///
/// ```
/// use gradus_train::critic::Verdict;
/// use gradus_train::losses::{GrpoSample, GrpoSettings, grpo};
/// let sample = |advantage| GrpoSample {
///     now: &[-1.0, -2.0], old: &[-1.0, -2.0], reference: None, advantage, truth: Verdict::Correct,
/// };
/// // On the policy that sampled, the value is minus the mean advantage; the gradient still says where to go.
/// let loss = grpo(&[sample(1.0), sample(-1.0)], &GrpoSettings::default());
/// assert_eq!(loss.value, 0.0);
/// assert_eq!(loss.gradients, [[-0.25, -0.25], [0.25, 0.25]]);
/// ```
pub fn grpo(samples: &[GrpoSample<'_>], settings: &GrpoSettings) -> Grpo {
    let sums: Vec<SampleSums> = samples.iter().map(|sample| SampleSums::of(sample, settings)).collect();
    let shares = shares(samples, &sums, settings);

    let mut loss = Grpo {
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
        loss.gradients.push(sums.slopes.into_iter().map(|slope| (slope * share) as f32).collect());
    }
    loss.value = loss.policy + settings.kl * loss.kl;
    loss
}

/// A sample's sums over its tokens, and the slope of each token's loss.
struct SampleSums {
    policy: f64,
    kl: f64,
    ratio: f64,
    clipped: usize,
    slopes: Vec<f64>,
}

impl SampleSums {
    fn of(sample: &GrpoSample<'_>, settings: &GrpoSettings) -> Self {
        let tokens = sample.now.len();
        assert!(
            sample.old.len() == tokens && sample.reference.is_none_or(|reference| reference.len() == tokens),
            "a sample's log-probabilities now, old and of the reference are not of one length"
        );
        let (low, high) = (1.0 - settings.clip_low, 1.0 + settings.clip_high);
        let advantage = sample.advantage;
        let mut sums =
            Self { policy: 0.0, kl: 0.0, ratio: 0.0, clipped: 0, slopes: Vec::with_capacity(tokens) };
        for token in 0..tokens {
            let now = f64::from(sample.now[token]);
            let ratio = (now - f64::from(sample.old[token])).exp();
            sums.ratio += ratio;
            // Clipping only ever takes away what would be gained by going further. Comparisons and not `min`,
            // which would hide a ratio that is not a number.
            let clipped = (ratio > high && advantage > 0.0) || (ratio < low && advantage < 0.0);
            let mut slope = 0.0;
            if clipped {
                sums.clipped += 1;
                sums.policy -= advantage * if advantage > 0.0 { high } else { low };
            } else {
                sums.policy -= advantage * ratio;
                slope -= advantage * ratio;
            }
            if let Some(reference) = sample.reference {
                let gap = f64::from(reference[token]) - now;
                // exp(gap) − 1 − gap: near 0 the two ones would cancel.
                sums.kl += gap.exp_m1() - gap;
                slope -= settings.kl * gap.exp_m1();
            }
            sums.slopes.push(slope);
        }
        sums
    }

    /// Whether the sample's loss is exactly 0; what is not a number is not 0.
    fn is_zero(&self, settings: &GrpoSettings) -> bool {
        self.policy + settings.kl * self.kl == 0.0
    }
}

/// What each sample's sum over tokens is multiplied by.
fn shares(samples: &[GrpoSample<'_>], sums: &[SampleSums], settings: &GrpoSettings) -> Vec<f64> {
    let mut shares = vec![0.0; samples.len()];
    if !settings.class_level {
        let all: Vec<usize> = (0..samples.len()).collect();
        mean_within(&all, samples, settings.length, 1.0, &mut shares);
        return shares;
    }
    let classes = [Verdict::Correct, Verdict::Wrong].map(|class| -> Vec<usize> {
        let of_class = (0..samples.len()).filter(|&index| samples[index].truth == class);
        of_class.filter(|&index| !sums[index].is_zero(settings)).collect()
    });
    let present = classes.iter().filter(|class| !class.is_empty()).count();
    for class in &classes {
        mean_within(class, samples, settings.length, 1.0 / present as f64, &mut shares);
    }
    shares
}

/// Writes the shares of the samples at `indices`, whose mean loss weighs `weight`.
fn mean_within(
    indices: &[usize],
    samples: &[GrpoSample<'_>],
    length: LengthNormalisation,
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
                LengthNormalisation::PerSample => 1.0 / (own * count),
                LengthNormalisation::Constant(longest) => {
                    assert!(longest > 0, "a length normalisation by 0 tokens divides by 0");
                    1.0 / (longest as f64 * count)
                }
                LengthNormalisation::PerBatchToken => 1.0 / tokens.max(1) as f64,
            };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: GrpoSettings = GrpoSettings {
        clip_low: 0.2,
        clip_high: 0.2,
        kl: 0.0,
        length: LengthNormalisation::PerSample,
        class_level: false,
    };

    fn sample<'a>(now: &'a [f32], old: &'a [f32], advantage: f64, truth: Verdict) -> GrpoSample<'a> {
        GrpoSample { now, old, reference: None, advantage, truth }
    }

    fn near(found: f64, expected: f64) {
        assert!((found - expected).abs() < 1e-6, "{found} is not {expected}");
    }

    #[test]
    fn clipping_keeps_only_the_way_back() {
        let double = [2f32.ln()];
        let half = [0.5f32.ln()];
        for (now, advantage, value, slope) in [
            (&double, 1.0, -1.2, 0.0),
            (&double, -1.0, 2.0, 2.0),
            (&half, 1.0, -0.5, -0.5),
            (&half, -1.0, 0.8, 0.0),
        ] {
            let loss = grpo(&[sample(now, &[0.0], advantage, Verdict::Correct)], &PLAIN);
            near(loss.value, value);
            near(loss.gradients[0][0].into(), slope);
            assert_eq!(loss.clip_share, f64::from(u8::from(slope == 0.0)));
            near(loss.mean_ratio, f64::from(now[0]).exp());
        }
    }

    #[test]
    fn three_ways_to_average() {
        let samples = [
            sample(&[0.0], &[0.0], 1.0, Verdict::Correct),
            sample(&[0.0; 3], &[0.0; 3], 3.0, Verdict::Wrong),
        ];
        let value = |length| grpo(&samples, &GrpoSettings { length, ..PLAIN }).value;
        near(value(LengthNormalisation::PerSample), -(1.0 + 3.0) / 2.0);
        near(value(LengthNormalisation::Constant(4)), -(1.0 / 4.0 + 9.0 / 4.0) / 2.0);
        near(value(LengthNormalisation::PerBatchToken), -(1.0 + 9.0) / 4.0);
    }

    #[test]
    fn classes_weigh_the_same_and_zeros_do_not_count() {
        let token = [0.0];
        let of = |advantage, truth| sample(&token, &token, advantage, truth);
        let settings = GrpoSettings { class_level: true, ..PLAIN };
        let both = [
            of(1.0, Verdict::Correct),
            of(0.0, Verdict::Correct),
            of(2.0, Verdict::Wrong),
            of(4.0, Verdict::Wrong),
            of(0.0, Verdict::Wrong),
        ];
        let loss = grpo(&both, &settings);
        near(loss.value, -(1.0 + 3.0) / 2.0);
        assert_eq!(loss.gradients.concat(), [-0.5, 0.0, -0.5, -1.0, 0.0]);
        // One class absent: the other alone.
        near(grpo(&both[..2], &settings).value, -1.0);
        near(grpo(&[both[1], both[3]], &settings).value, -4.0);
        let zero = grpo(&[both[1], both[4]], &settings);
        assert_eq!((zero.value, zero.gradients.concat()), (0.0, vec![0.0, 0.0]));
        assert_eq!(grpo(&[], &settings).value, 0.0);
    }

    #[test]
    fn the_kl_term_by_hand() {
        let with = |reference: &'static [f32]| GrpoSample {
            reference: Some(reference),
            ..sample(&[-1.0], &[-1.0], 0.0, Verdict::Correct)
        };
        let settings = GrpoSettings { kl: 0.5, ..PLAIN };
        // The gap is log 2: k = 2 − log 2 − 1, slope −0.5·(2 − 1).
        let reference: &'static [f32] = &[-1.0 + std::f32::consts::LN_2];
        let loss = grpo(&[with(reference)], &settings);
        near(loss.kl, 1.0 - 2f64.ln());
        near(loss.value, 0.5 * loss.kl);
        near(loss.gradients[0][0].into(), -0.5);
        assert_eq!(grpo(&[with(&[-1.0])], &settings).kl, 0.0);
        // A reference that is a hair away has a KL that is not rounded to 0.
        assert!(grpo(&[with(&[-1.000_000_1])], &settings).kl > 0.0);
    }

    #[test]
    fn what_is_not_a_number_stays_so() {
        let nan = [f32::NAN];
        for class_level in [false, true] {
            let settings = GrpoSettings { class_level, ..PLAIN };
            for advantage in [1.0, -1.0] {
                assert!(grpo(&[sample(&nan, &[0.0], advantage, Verdict::Wrong)], &settings).value.is_nan());
                assert!(grpo(&[sample(&[0.0], &nan, advantage, Verdict::Wrong)], &settings).value.is_nan());
            }
            assert!(grpo(&[sample(&[0.0], &[0.0], f64::NAN, Verdict::Wrong)], &settings).value.is_nan());
        }
    }

    #[test]
    fn a_sample_without_tokens_has_no_loss() {
        let samples = [sample(&[], &[], 1.0, Verdict::Correct), sample(&[0.0], &[0.0], 1.0, Verdict::Wrong)];
        near(grpo(&samples, &PLAIN).value, -0.5);
        near(grpo(&samples, &GrpoSettings { class_level: true, ..PLAIN }).value, -1.0);
    }
}
