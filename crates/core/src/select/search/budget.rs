//! A token budget that is kept to the token.
//!
//! No request is made that could overrun it: samples × most tokens of each never exceed what is left. When less is left
//! than wanted, fewer samples are asked for; when not even one fits, a shorter one. Tokens that a request did not use
//! are there for the next.

/// How many tokens may still be generated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Budget {
    left: Option<u64>,
}

impl Budget {
    /// A budget of `tokens`; none is no limit.
    pub(super) fn new(tokens: Option<u64>) -> Self {
        Self { left: tokens }
    }

    /// Equal shares that add up to `tokens`; the first ones take what does not divide.
    pub(super) fn shares(tokens: Option<u64>, count: usize) -> impl Iterator<Item = Self> {
        let count = count as u64;
        (0..count).map(move |index| Self::new(tokens.map(|all| all / count + u64::from(index < all % count))))
    }

    /// Whether nothing is left.
    pub(super) fn is_spent(self) -> bool {
        self.left == Some(0)
    }

    /// Whether `tokens` more may be generated.
    pub(super) fn covers(self, tokens: u64) -> bool {
        self.left.is_none_or(|left| tokens <= left)
    }

    /// The largest request that fits: samples, and most tokens of each; none when nothing is left.
    pub(super) fn largest(self, samples: usize, max_tokens: usize) -> Option<(usize, usize)> {
        let Some(left) = self.left else { return Some((samples, max_tokens)) };
        let left = usize::try_from(left).unwrap_or(usize::MAX);
        if left == 0 || samples == 0 || max_tokens == 0 {
            return None;
        }
        Some(if left < max_tokens { (1, left) } else { (samples.min(left / max_tokens), max_tokens) })
    }

    /// Takes off what was generated.
    pub(super) fn spend(&mut self, tokens: u64) {
        self.left = self.left.map(|left| left.saturating_sub(tokens));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn no_request_overruns_and_none_is_refused_while_a_token_is_left(
            left in 0u64..5000, samples in 1usize..20, max_tokens in 1usize..600,
        ) {
            match Budget::new(Some(left)).largest(samples, max_tokens) {
                None => prop_assert_eq!(left, 0),
                Some((n, most)) => {
                    prop_assert!(n >= 1 && most >= 1 && n <= samples && most <= max_tokens);
                    prop_assert!((n * most) as u64 <= left);
                    // Samples go first: a shorter one is a single one.
                    prop_assert!(most == max_tokens || n == 1);
                    // One more would not have fitted.
                    prop_assert!(n == samples || ((n + 1) * most) as u64 > left);
                }
            }
        }

        #[test]
        fn shares_add_up_and_differ_by_one_at_most(tokens in 0u64..10_000, count in 1usize..40) {
            let shares: Vec<u64> = Budget::shares(Some(tokens), count).filter_map(|share| share.left).collect();
            prop_assert_eq!(shares.len(), count);
            prop_assert_eq!(shares.iter().sum::<u64>(), tokens);
            prop_assert!(shares.iter().max().unwrap() - shares.iter().min().unwrap() <= 1);
        }
    }

    #[test]
    fn less_and_less_fits() {
        let mut budget = Budget::new(Some(100));
        assert_eq!(budget.largest(4, 30), Some((3, 30)));
        budget.spend(80);
        assert_eq!(budget.largest(4, 30), Some((1, 20)));
        budget.spend(20);
        assert_eq!(budget.largest(4, 30), None);
    }

    #[test]
    fn no_limit_is_never_spent() {
        let mut budget = Budget::new(None);
        budget.spend(u64::MAX);
        assert!(!budget.is_spent() && budget.covers(u64::MAX));
        assert_eq!(budget.largest(7, 9), Some((7, 9)));
    }
}
