//! The only source of randomness of the synthetic world.
//!
//! Draws are written out over `next_u64` instead of `rand`'s distributions, whose algorithms may change between
//! versions and differ with the width of `usize`: the same seed must give the same bytes everywhere.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// A seeded stream of choices.
#[derive(Clone)]
pub(super) struct Dice(ChaCha8Rng);

impl Dice {
    /// The stream of record `index`, independent of every other record's.
    pub(super) fn new(seed: u64, index: u64) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        rng.set_stream(index);
        Self(rng)
    }

    /// A number below `count`. The bias of the remainder is below 2^-40 for the small counts used here.
    fn below(&mut self, count: usize) -> usize {
        assert!(count > 0, "a choice needs at least one option");
        (self.0.next_u64() % count as u64) as usize
    }

    /// A whole number in `low..=high`.
    pub(super) fn between(&mut self, low: i64, high: i64) -> i64 {
        low + self.below((high - low + 1) as usize) as i64
    }

    /// Yes with this probability; never for 0 and always for 1.
    pub(super) fn chance(&mut self, probability: f64) -> bool {
        ((self.0.next_u64() >> 11) as f64 / (1u64 << 53) as f64) < probability
    }

    /// One of several.
    pub(super) fn pick<T: Copy>(&mut self, options: &[T]) -> T {
        options[self.below(options.len())]
    }

    /// All of them in random order.
    pub(super) fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }

    /// `count` different ones in random order.
    pub(super) fn sample<T: Copy>(&mut self, options: &[T], count: usize) -> Vec<T> {
        let mut all = options.to_vec();
        self.shuffle(&mut all);
        all.truncate(count);
        assert_eq!(all.len(), count, "there are too few options to choose {count} different ones");
        all
    }
}
