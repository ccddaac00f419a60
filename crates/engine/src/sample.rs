//! Drawing the next token from a model's logits.
//!
//! The order is that of transformers: mask, repetition penalty, temperature, top-k, top-p, min-p; each filter sees
//! the distribution that the one before has left. Unlike there, top-k keeps exactly k tokens: of equals, the lowest
//! ids. Each sample has its own ChaCha stream, so its text does not depend on what else is in the batch.

use gradus_core::contracts::Sampling;
use gradus_kernels::rows::{argmax, log_sum_exp, shares};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use crate::error::{Error, Result};

/// Draws the tokens of one sample.
#[derive(Debug, Clone)]
pub(crate) struct Sampler {
    sampling: Sampling,
    rng: ChaCha8Rng,
    /// The next token's random number, where a device was offered it.
    random: Option<u64>,
    /// By token: the logit; once temperature-scaled, the share of the best token's probability. Kept between draws for its memory, as are
    /// the others.
    scores: Vec<f32>,
    /// What a filter has left.
    candidates: Vec<Candidate>,
    was_seen: Vec<u64>,
}

/// A drawn token.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Drawn {
    /// Its id.
    pub(crate) token: u32,
    /// Natural logarithm of its probability under the logits as the model gave them.
    pub(crate) logprob: f32,
}

/// A token that may be drawn, and its share of the best token's probability.
#[derive(Debug, Clone, Copy)]
struct Candidate {
    score: f32,
    id: u32,
}

impl Candidate {
    /// Best first; of equals, the lowest id first.
    fn order(&self, other: &Self) -> std::cmp::Ordering {
        other.score.total_cmp(&self.score).then(self.id.cmp(&other.id))
    }
}

impl Sampler {
    /// A sampler whose draws follow from `seed`; settings out of range are refused.
    pub(crate) fn new(sampling: &Sampling, seed: u64) -> Result<Self> {
        let Sampling { temperature, top_p, min_p, repetition_penalty, .. } = *sampling;
        let checks = [
            ("temperature", temperature, temperature >= 0.0 && temperature.is_finite(), "0 or more"),
            ("top_p", top_p, top_p > 0.0 && top_p <= 1.0, "above 0 and at most 1"),
            ("min_p", min_p, (0.0..=1.0).contains(&min_p), "between 0 and 1"),
            (
                "repetition_penalty",
                repetition_penalty,
                repetition_penalty > 0.0 && repetition_penalty.is_finite(),
                "above 0",
            ),
        ];
        for (name, value, is_good, range) in checks {
            if !is_good {
                return Err(Error::request(format!("{name} must be {range}, but is {value}")));
            }
        }
        let mut key = [0; 32];
        key[..8].copy_from_slice(&seed.to_le_bytes());
        let rng = ChaCha8Rng::from_seed(key);
        let sampling = sampling.clone();
        Ok(Self {
            sampling,
            rng,
            random: None,
            scores: Vec::new(),
            candidates: Vec::new(),
            was_seen: Vec::new(),
        })
    }

    /// Draws one token.
    ///
    /// `seen` are the tokens of the prompt and the text so far, for the repetition penalty. `mask` has a bit for each
    /// token, the lowest of the first word for token 0; tokens without a set bit are not drawn.
    pub(crate) fn next(&mut self, logits: &[f32], seen: &[u32], mask: Option<&[u32]>) -> Result<Drawn> {
        check(logits)?;
        self.gather(logits, seen, mask);
        let best = argmax(&self.scores);
        if self.scores.get(best).is_none_or(|score| *score == f32::NEG_INFINITY) {
            return Err(Error::request(
                "no token is allowed here: the constraint excludes all that have a probability",
            ));
        }
        let token = if self.sampling.temperature == 0.0 {
            best as u32
        } else {
            let top = self.scores[best];
            shares(&mut self.scores, top, self.sampling.temperature);
            self.draw()
        };
        Ok(Drawn { token, logprob: logits[token as usize] - log_sum_exp(logits) })
    }

    /// Whether nothing but the temperature changes the distribution.
    pub(crate) fn is_plain(&self) -> bool {
        let Sampling { top_k, top_p, min_p, repetition_penalty, .. } = self.sampling;
        top_k == 0 && top_p == 1.0 && min_p == 0.0 && repetition_penalty == 1.0
    }

    /// Temperature and the next token's random number in [0, 1), for a device that may draw the token. Whoever draws it, a
    /// token uses one number, so that a text does not depend on what the texts beside it allow.
    pub(crate) fn temperature_and_uniform(&mut self) -> [f32; 2] {
        let temperature = self.sampling.temperature;
        if temperature == 0.0 {
            return [temperature, 0.0];
        }
        let random = *self.random.insert(self.rng.next_u64());
        // 24 random bits, which a float holds.
        [temperature, (random >> 40) as f32 / (1u32 << 24) as f32]
    }

    /// The device has drawn the token.
    pub(crate) fn drawn_elsewhere(&mut self) {
        self.random = None;
    }

    /// Scores are penalized logits, −∞ where the mask does not allow a token.
    fn gather(&mut self, logits: &[f32], seen: &[u32], mask: Option<&[u32]>) {
        self.scores.clear();
        self.scores.extend_from_slice(logits);
        if let Some(mask) = mask {
            for (index, scores) in self.scores.chunks_mut(32).enumerate() {
                let word = mask.get(index).copied().unwrap_or(0);
                let forbidden = scores.iter_mut().enumerate().filter(|(bit, _)| word >> bit & 1 == 0);
                forbidden.for_each(|(_, score)| *score = f32::NEG_INFINITY);
            }
        }
        let penalty = self.sampling.repetition_penalty;
        if penalty == 1.0 {
            return;
        }
        self.was_seen.clear();
        self.was_seen.resize(logits.len().div_ceil(64), 0);
        for id in seen.iter().map(|id| *id as usize).filter(|id| *id < logits.len()) {
            let (word, bit) = (&mut self.was_seen[id / 64], 1 << (id % 64));
            if *word & bit == 0 {
                *word |= bit;
                let score = &mut self.scores[id];
                *score = if *score < 0.0 { *score * penalty } else { *score / penalty };
            }
        }
    }

    /// Draws from the shares, of all tokens or of those that top-k, top-p and min-p leave.
    fn draw(&mut self) -> u32 {
        // 53 random bits: every float in [0, 1) that is a multiple of 2^-53.
        let random = self.random.take().unwrap_or_else(|| self.rng.next_u64());
        let uniform = (random >> 11) as f64 / (1u64 << 53) as f64;
        if self.filter() {
            let shares = self.candidates.iter().map(|candidate| candidate.score);
            self.candidates[pick(shares, uniform)].id
        } else {
            pick_of_many(&self.scores, uniform) as u32
        }
    }

    /// Top-k, top-p and min-p; false where all tokens are left.
    fn filter(&mut self) -> bool {
        let Sampling { top_p, top_k, min_p, .. } = self.sampling;
        let top_k = Some(top_k).filter(|k| *k > 0 && *k < self.scores.len());
        if top_k.is_none() && top_p == 1.0 && min_p == 0.0 {
            return false;
        }
        let all = (top_k.is_none() && top_p < 1.0).then(|| total(&self.scores));
        // What a later filter takes away for sure need not be gathered.
        let floor = match all {
            Some(total) => least_kept(f64::from(top_p), total, self.scores.len()),
            None if top_p < 1.0 => 0.0,
            None => min_p,
        };
        let candidates = &mut self.candidates;
        candidates.clear();
        let each = self.scores.iter().zip(0..).map(|(score, id)| Candidate { score: *score, id });
        candidates.extend(each.filter(|candidate| candidate.score >= floor));
        if let Some(k) = top_k.filter(|k| *k < candidates.len()) {
            candidates.select_nth_unstable_by(k - 1, Candidate::order);
            candidates.truncate(k);
        }
        if top_p < 1.0 {
            let left = || candidates.iter().map(|candidate| f64::from(candidate.score)).sum();
            let total: f64 = all.unwrap_or_else(left);
            keep_mass(candidates, f64::from(top_p) * total);
        }
        if min_p > 0.0 {
            candidates.retain(|candidate| candidate.score >= min_p);
        }
        true
    }
}

/// The `count` most probable tokens with their log-probabilities, the best first; of equals, the lowest id first.
pub(crate) fn most_probable(logits: &[f32], count: usize) -> Vec<(u32, f32)> {
    if count == 0 {
        return Vec::new();
    }
    let mut all: Vec<Candidate> =
        logits.iter().zip(0..).map(|(score, id)| Candidate { score: *score, id }).collect();
    if count < all.len() {
        all.select_nth_unstable_by(count - 1, Candidate::order);
        all.truncate(count);
    }
    all.sort_unstable_by(Candidate::order);
    let total = log_sum_exp(logits);
    all.into_iter().map(|candidate| (candidate.id, candidate.score - total)).collect()
}

/// Shares that are summed before the next is looked at.
const BLOCK: usize = 1024;

/// The sum of a block of shares, in eight parts that the processor adds side by side.
fn sum(block: &[f32]) -> f64 {
    let mut parts = [0f64; 8];
    let eights = block.chunks_exact(8);
    let rest: f64 = eights.remainder().iter().map(|share| f64::from(*share)).sum();
    for eight in eights {
        parts.iter_mut().zip(eight).for_each(|(part, share)| *part += f64::from(*share));
    }
    parts.iter().sum::<f64>() + rest
}

fn total(shares: &[f32]) -> f64 {
    shares.chunks(BLOCK).map(sum).sum()
}

/// The index at which a fraction of all shares has been passed, block by block and then one by one.
fn pick_of_many(shares: &[f32], fraction: f64) -> usize {
    let sums: Vec<f64> = shares.chunks(BLOCK).map(sum).collect();
    let mut left = fraction * sums.iter().sum::<f64>();
    for (number, (block, sum)) in shares.chunks(BLOCK).zip(sums).enumerate() {
        if left < sum {
            return number * BLOCK + pick(block.iter().copied(), left / sum);
        }
        left -= sum;
    }
    // Rounding can leave a crumb at the end.
    last_of(shares.iter().copied())
}

/// The index at which a fraction of all shares has been passed.
fn pick(shares: impl DoubleEndedIterator<Item = f32> + ExactSizeIterator + Clone, fraction: f64) -> usize {
    let mut left = fraction * shares.clone().map(f64::from).sum::<f64>();
    let passed = shares.clone().position(|share| {
        left -= f64::from(share);
        left < 0.0
    });
    passed.unwrap_or_else(|| last_of(shares))
}

/// The last that can be drawn at all.
fn last_of(mut shares: impl DoubleEndedIterator<Item = f32> + ExactSizeIterator) -> usize {
    shares.rposition(|share| share > 0.0).expect("the best token's share is 1")
}

/// A score that the fewest best tokens that hold `share` of the mass do not go below: those below the mean of what may be lost
/// hold less than that together.
fn least_kept(share: f64, total: f64, tokens: usize) -> f32 {
    // A little less than the bound, so that rounding cannot cost a candidate.
    (0.999 * (1.0 - share) * total / tokens as f64) as f32
}

/// Keeps the fewest best candidates that hold the mass `wanted`, without sorting all of them: ever more of the best are looked at.
fn keep_mass(candidates: &mut Vec<Candidate>, wanted: f64) {
    let (mut held, mut sorted) = (0.0, 0);
    while sorted < candidates.len() {
        let size = (sorted * 8).max(64).min(candidates.len());
        if size < candidates.len() {
            candidates[sorted..].select_nth_unstable_by(size - 1 - sorted, Candidate::order);
        }
        candidates[sorted..size].sort_unstable_by(Candidate::order);
        for index in sorted..size {
            held += f64::from(candidates[index].score);
            if held >= wanted {
                candidates.truncate(index + 1);
                return;
            }
        }
        sorted = size;
    }
}

/// Refuses logits that are no distribution.
fn check(logits: &[f32]) -> Result<()> {
    // False for NaN, too. All are looked at without a branch, which is what usually happens anyway.
    let is_good = |logit: &f32| *logit < f32::INFINITY;
    if !logits.iter().fold(true, |good, logit| good & is_good(logit))
        && let Some((id, logit)) = logits.iter().enumerate().find(|(_, logit)| !is_good(logit))
    {
        return Err(Error::request(format!(
            "the model gave {logit} for token {id}: its weights or its number format are unfit for this input"
        )));
    }
    if logits.iter().all(|logit| *logit == f32::NEG_INFINITY) {
        return Err(Error::request("the model gave no token a probability"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde::Deserialize;

    use super::*;

    /// The distribution that a draw is made from, by token.
    fn distribution(sampler: &mut Sampler, logits: &[f32], seen: &[u32], mask: Option<&[u32]>) -> Vec<f64> {
        sampler.next(logits, seen, mask).unwrap();
        let mut shares = vec![0.0; logits.len()];
        if sampler.sampling.temperature == 0.0 {
            shares[argmax(&sampler.scores)] = 1.0;
        } else if sampler.filter() {
            sampler.candidates.iter().for_each(|left| shares[left.id as usize] = f64::from(left.score));
        } else {
            shares = sampler.scores.iter().map(|share| f64::from(*share)).collect();
        }
        let total: f64 = shares.iter().sum();
        shares.iter().map(|share| share / total).collect()
    }

    /// `tests/sample/reference.py` computes the same with numpy and full sorts.
    #[test]
    fn filtered_distributions_equal_numpy() {
        #[derive(Deserialize)]
        struct Case {
            logits: Vec<f32>,
            sampling: Sampling,
            seen: Vec<u32>,
            mask: Option<Vec<u32>>,
            probabilities: Vec<f64>,
            logprobs: Vec<f32>,
        }
        let cases: Vec<Case> = serde_json::from_str(include_str!("../tests/sample/expected.json")).unwrap();
        assert!(cases.len() >= 40);
        for (index, case) in cases.iter().enumerate() {
            let mut sampler = Sampler::new(&case.sampling, index as u64).unwrap();
            let found = distribution(&mut sampler, &case.logits, &case.seen, case.mask.as_deref());
            for (token, (found, expected)) in found.iter().zip(&case.probabilities).enumerate() {
                assert!(
                    (found - expected).abs() < 2e-6,
                    "case {index}, token {token}: {found} for {expected}"
                );
            }
            let drawn = sampler.next(&case.logits, &case.seen, case.mask.as_deref()).unwrap();
            assert!((drawn.logprob - case.logprobs[drawn.token as usize]).abs() < 1e-5, "case {index}");
        }
    }

    /// Pearson's statistic of draws against a distribution, with its degrees of freedom.
    fn chi_square(draws: impl Iterator<Item = u32>, shares: &[f64]) -> (f64, usize) {
        let mut counts = vec![0u32; shares.len()];
        let mut n = 0.0;
        draws.for_each(|token| {
            counts[token as usize] += 1;
            n += 1.0;
        });
        let terms = counts.iter().zip(shares).filter(|(_, share)| **share > 0.0);
        let statistic =
            terms.map(|(count, share)| (f64::from(*count) - n * share).powi(2) / (n * share)).sum();
        let impossible = counts.iter().zip(shares).any(|(count, share)| *share == 0.0 && *count > 0);
        assert!(!impossible);
        (statistic, shares.iter().filter(|share| **share > 0.0).count() - 1)
    }

    #[test]
    fn draws_follow_the_distribution() {
        let logits: Vec<f32> = (0..30).map(|i| ((i * 37 % 30) as f32) * 0.15).collect();
        let settings = [
            Sampling::default(),
            Sampling { temperature: 0.7, top_k: 10, ..Sampling::default() },
            Sampling { temperature: 1.3, top_p: 0.9, min_p: 0.05, ..Sampling::default() },
        ];
        for sampling in settings {
            let mut sampler = Sampler::new(&sampling, 1).unwrap();
            let shares = distribution(&mut sampler, &logits, &[], None);
            let one_stream = (0..40_000).map(|_| sampler.next(&logits, &[], None).unwrap().token);
            let (statistic, freedom) = chi_square(one_stream, &shares);
            // Mean + 4 standard deviations; the seeds are fixed, so this passes always or never.
            let limit = freedom as f64 + 4.0 * (2.0 * freedom as f64).sqrt();
            assert!(statistic < limit, "{sampling:?}: {statistic} for {freedom} degrees of freedom");
            let first = |seed| Sampler::new(&sampling, seed).unwrap().next(&logits, &[], None).unwrap().token;
            let (statistic, _) = chi_square((0..40_000).map(first), &shares);
            assert!(statistic < limit, "first draws of {sampling:?}: {statistic}");
        }
    }

    #[test]
    fn zero_temperature_takes_the_lowest_of_the_best() {
        let greedy = Sampling { temperature: 0.0, ..Sampling::default() };
        let mut sampler = Sampler::new(&greedy, 0).unwrap();
        let logits = [1.0, 3.0, 3.0, f32::NEG_INFINITY];
        assert_eq!(sampler.next(&logits, &[], None).unwrap().token, 1);
        assert_eq!(sampler.next(&logits, &[], Some(&[0b1101])).unwrap().token, 2);
        let mut penalized = Sampler::new(&Sampling { repetition_penalty: 4.0, ..greedy }, 0).unwrap();
        assert_eq!(penalized.next(&logits, &[1, 2, 1, 99], None).unwrap().token, 0);
    }

    #[test]
    fn what_cannot_be_drawn_from_is_an_error() {
        let mut sampler = Sampler::new(&Sampling::default(), 0).unwrap();
        let mut said = |logits: &[f32], mask| sampler.next(logits, &[], mask).unwrap_err().to_string();
        assert!(said(&[0.0, f32::NAN], None).starts_with("the model gave NaN for token 1"));
        assert!(said(&[f32::INFINITY], None).starts_with("the model gave inf for token 0"));
        assert!(said(&[f32::NEG_INFINITY; 3], None).contains("no token a probability"));
        assert!(said(&[0.0, f32::NEG_INFINITY], Some(&[0b10])).starts_with("no token is allowed here"));
        assert!(said(&[0.0; 40], Some(&[])).starts_with("no token is allowed here"));
    }

    #[test]
    fn settings_out_of_range_are_refused() {
        let said = |sampling: Sampling| Sampler::new(&sampling, 0).unwrap_err().to_string();
        let default = Sampling::default;
        assert_eq!(
            said(Sampling { temperature: -1.0, ..default() }),
            "temperature must be 0 or more, but is -1"
        );
        assert_eq!(
            said(Sampling { top_p: 0.0, ..default() }),
            "top_p must be above 0 and at most 1, but is 0"
        );
        assert_eq!(said(Sampling { min_p: 1.5, ..default() }), "min_p must be between 0 and 1, but is 1.5");
        let penalty = said(Sampling { repetition_penalty: 0.0, ..default() });
        assert_eq!(penalty, "repetition_penalty must be above 0, but is 0");
        assert!(said(Sampling { temperature: f32::NAN, ..default() }).ends_with("but is NaN"));
    }

    fn settings() -> impl Strategy<Value = Sampling> {
        let temperature = prop_oneof![Just(0.0f32), Just(1e-6), 0.1f32..3.0];
        (temperature, 0.01f32..=1.0, 0usize..80, 0.0f32..=1.0, 0.5f32..2.0).prop_map(
            |(temperature, top_p, top_k, min_p, repetition_penalty)| Sampling {
                temperature,
                top_p,
                top_k,
                min_p,
                repetition_penalty,
            },
        )
    }

    proptest! {
        #[test]
        fn draws_are_allowed_and_repeatable(
            sampling in settings(),
            logits in prop::collection::vec(-30f32..30.0, 1..200),
            seen in prop::collection::vec(0u32..250, 0..20),
            mask in prop::collection::vec(any::<u32>(), 7),
            seed in any::<u64>(),
        ) {
            let allowed = |id: usize| mask[id / 32] >> (id % 32) & 1 == 1;
            let mut sampler = Sampler::new(&sampling, seed).unwrap();
            let mut twin = Sampler::new(&sampling, seed).unwrap();
            for _ in 0..5 {
                let drawn = sampler.next(&logits, &seen, Some(&mask));
                prop_assert_eq!(drawn.is_ok(), (0..logits.len()).any(allowed));
                let Ok(drawn) = drawn else { break };
                prop_assert!(allowed(drawn.token as usize));
                prop_assert!(drawn.logprob <= 1e-6);
                prop_assert_eq!(drawn, twin.next(&logits, &seen, Some(&mask)).unwrap());
                if sampling.temperature > 0.0 && sampling.top_k > 0 {
                    prop_assert!(sampler.candidates.len() <= sampling.top_k);
                }
            }
        }

        /// The partial search for top-p finds what a full sort finds.
        #[test]
        fn mass_is_kept_as_by_a_full_sort(
            scores in prop::collection::vec(0f32..1.0, 1..3000),
            power in 1i32..12,
            share in 0.01f64..0.999,
        ) {
            let mut all: Vec<Candidate> =
                scores.iter().zip(0..).map(|(score, id)| Candidate { score: score.powi(power), id }).collect();
            let mut kept = all.clone();
            let scores: Vec<f32> = all.iter().map(|candidate| candidate.score).collect();
            let total = total(&scores);
            let wanted = share * total;
            kept.retain(|candidate| candidate.score >= least_kept(share, total, scores.len()));
            keep_mass(&mut kept, wanted);
            all.sort_by(Candidate::order);
            let mut held = 0.0;
            let count = all.iter().take_while(|candidate| {
                let more = held < wanted;
                held += f64::from(candidate.score);
                more
            }).count();
            let ids = |candidates: &[Candidate]| candidates.iter().map(|candidate| candidate.id).collect::<Vec<_>>();
            prop_assert_eq!(ids(&kept), ids(&all[..count.max(1)]));
        }
    }

    #[test]
    fn log_probabilities_are_those_of_the_logits() {
        let greedy = Sampling { temperature: 0.0, ..Sampling::default() };
        let drawn = Sampler::new(&greedy, 0).unwrap().next(&[0.0, 2.0, 1.0], &[], None).unwrap();
        assert_eq!(drawn.token, 1);
        assert!((drawn.logprob - -0.4076).abs() < 1e-4);
    }
}
