//! How much better than its group a sample is, and how much that should count.
//!
//! - GRPO: `A_i = (r_i − mean) / std` within the samples of one prompt; Dr.GRPO leaves the division out.
//! - Perplexity-aware (Tian et al., 2026): `A'_i = w_i · A_i`. The batch is split by ground truth and each half by
//!   prediction; with the mean over such a quarter, `w_i = ppl_i / mean` where the critic said 'correct' and
//!   `mean / ppl_i` where it said 'wrong'. `ppl_i` is the judged solution's perplexity under the starting policy:
//!   calling an unlikely solution correct, or a likely one wrong, goes against the bias and counts more.

use crate::critic::Verdict;

/// Rewards that differ by less are equal: 0.1 + 0.6 and 0.7 are, though not to the last bit.
const SAME_REWARD: f64 = 1e-9;

/// Advantages of one group.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Advantages {
    /// One per reward, in their order.
    pub(crate) values: Vec<f64>,
    /// True when all rewards are equal: the group teaches nothing and every advantage is 0.
    pub(crate) zero_variance: bool,
}

/// The advantages of a group's samples.
///
/// The standard deviation divides by n − 1, as `torch.std` does in TRL and verl. Nothing is added to it, since a
/// group without variance is told apart.
pub(crate) fn advantages(rewards: &[f64], normalize_std: bool) -> Advantages {
    let first = rewards.first().copied().unwrap_or(0.0);
    if rewards.iter().all(|reward| (reward - first).abs() <= SAME_REWARD) {
        return Advantages { values: vec![0.0; rewards.len()], zero_variance: true };
    }
    let count = rewards.len() as f64;
    let mean = rewards.iter().sum::<f64>() / count;
    let scale = if normalize_std {
        let squares: f64 = rewards.iter().map(|reward| (reward - mean).powi(2)).sum();
        (squares / (count - 1.0)).sqrt()
    } else {
        1.0
    };
    let values = rewards.iter().map(|reward| (reward - mean) / scale).collect();
    Advantages { values, zero_variance: false }
}

/// A sampled critique as the modulation sees it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct JudgedCritique {
    /// What the critique should have said.
    pub(crate) truth: Verdict,
    /// What it said; none when that could not be read.
    pub(crate) predicted: Option<Verdict>,
    /// Perplexity of the judged solution under the starting policy.
    pub(crate) perplexity: f64,
}

/// The weight of each sample's advantage; the batch is all groups of a step together.
///
/// A critique whose verdict could not be read belongs to no quarter and keeps weight 1: it said neither that a
/// likely solution is right nor that it is wrong.
pub(crate) fn perplexity_weights(items: &[JudgedCritique]) -> Vec<f64> {
    let mean = |truth, predicted| {
        let quarter = items.iter().filter(|item| item.truth == truth && item.predicted == Some(predicted));
        let (count, sum) =
            quarter.fold((0.0, 0.0), |(count, sum), item| (count + 1.0, sum + item.perplexity));
        sum / count
    };
    let means = [Verdict::Correct, Verdict::Wrong]
        .map(|truth| [mean(truth, Verdict::Correct), mean(truth, Verdict::Wrong)]);
    let weight = |item: &JudgedCritique| {
        let [said_correct, said_wrong] = match item.truth {
            Verdict::Correct => means[0],
            Verdict::Wrong => means[1],
        };
        match item.predicted {
            Some(Verdict::Correct) => item.perplexity / said_correct,
            Some(Verdict::Wrong) => said_wrong / item.perplexity,
            None => 1.0,
        }
    };
    items.iter().map(weight).collect()
}

#[cfg(test)]
mod tests {
    use super::Verdict::{Correct, Wrong};
    use super::*;

    #[test]
    fn a_group_without_variance_teaches_nothing() {
        for rewards in [&[][..], &[0.7], &[0.7, 0.7, 0.1 + 0.6]] {
            for normalize_std in [false, true] {
                let found = advantages(rewards, normalize_std);
                assert_eq!(found, Advantages { values: vec![0.0; rewards.len()], zero_variance: true });
            }
        }
    }

    #[test]
    fn with_and_without_deviation() {
        let rewards = [0.0, 0.0, 0.0, 0.8];
        let plain = advantages(&rewards, false).values;
        for (found, expected) in plain.iter().zip([-0.2, -0.2, -0.2, 0.6]) {
            assert!((found - expected).abs() < 1e-12);
        }
        // The variance is (3·0.04 + 0.36) / 3 = 0.16.
        for (found, expected) in advantages(&rewards, true).values.iter().zip([-0.5, -0.5, -0.5, 1.5]) {
            assert!((found - expected).abs() < 1e-12);
        }
    }

    #[test]
    fn what_is_not_a_number_stays_so() {
        for rewards in [[f64::NAN, 1.0], [1.0, f64::NAN], [f64::NAN; 2]] {
            let found = advantages(&rewards, true);
            assert!(!found.zero_variance && found.values.iter().all(|value| value.is_nan()));
        }
        let item = JudgedCritique { truth: Wrong, predicted: Some(Wrong), perplexity: f64::NAN };
        assert!(perplexity_weights(&[item])[0].is_nan());
    }

    #[test]
    fn quarters_do_not_mix() {
        let judged = |truth, predicted, perplexity| JudgedCritique { truth, predicted, perplexity };
        let correct = |predicted, perplexity| judged(Correct, Some(predicted), perplexity);
        let items = [correct(Correct, 1.0), correct(Correct, 3.0), correct(Wrong, 2.0), correct(Wrong, 6.0)];
        assert_eq!(perplexity_weights(&items), [0.5, 1.5, 2.0, 4.0 / 6.0]);
        let items = [
            judged(Correct, Some(Correct), 2.0),
            judged(Wrong, Some(Correct), 10.0),
            judged(Wrong, Some(Correct), 30.0),
            judged(Correct, Some(Wrong), 5.0),
            judged(Wrong, Some(Wrong), 4.0),
            judged(Wrong, Some(Wrong), 8.0),
            judged(Wrong, None, 1e6),
        ];
        assert_eq!(perplexity_weights(&items), [1.0, 0.5, 1.5, 1.0, 1.5, 0.75, 1.0]);
        assert!(perplexity_weights(&[]).is_empty());
    }
}
