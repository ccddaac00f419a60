//! Which examples a step sees, and every other random choice of a run, as functions of the seed and the step: to
//! resume, the step's number is enough.
//!
//! Epochs follow each other without a gap: step s sees the examples at positions s·b … (s+1)·b of all epochs' orders
//! in a row, so every batch is full, but for the last one of a run that is measured in epochs.
//!
//! Orders are shuffled here rather than by the `rand` crate, whose methods may change between versions.

use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

/// Length of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum TrainingLength {
    /// `total`: a number of optimizer steps.
    Total(u64),
    /// `epochs`: a number of passes over the training examples.
    Epochs(u64),
}

/// A stream of random numbers for one purpose at one step (or epoch, or example) of a run.
pub(crate) fn stream(seed: u64, purpose: &str, index: u64) -> ChaCha8Rng {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&seed.to_le_bytes()).update(&index.to_le_bytes()).update(purpose.as_bytes());
    ChaCha8Rng::from_seed(*hasher.finalize().as_bytes())
}

/// The order of the examples of a run.
#[derive(Debug, Clone)]
pub(crate) struct Order {
    seed: u64,
    shuffle: bool,
    examples: usize,
    per_step: usize,
    length: TrainingLength,
    /// The order of the epoch that was last asked for.
    known: Option<(u64, Vec<usize>)>,
}

impl Order {
    /// The order of `examples` training examples, `per_step` of them per optimizer step. Panics if there are none.
    pub(crate) fn new(
        seed: u64,
        shuffle: bool,
        examples: usize,
        per_step: usize,
        length: TrainingLength,
    ) -> Self {
        assert!(examples > 0, "a run without examples is refused when they are read");
        Self { seed, shuffle, examples, per_step, length, known: None }
    }

    /// Number of steps of the run.
    pub(crate) fn steps(&self) -> u64 {
        match self.length {
            TrainingLength::Total(total) => total,
            TrainingLength::Epochs(epochs) => (epochs * self.examples as u64).div_ceil(self.per_step as u64),
        }
    }

    /// The epoch in which a step begins, as a number with a fraction.
    pub(crate) fn epoch(&self, step: u64) -> f64 {
        step as f64 * self.per_step as f64 / self.examples as f64
    }

    /// Indices of the examples that step `step` (from 0) sees; none after the last step.
    pub(crate) fn batch(&mut self, step: u64) -> Vec<usize> {
        if step >= self.steps() {
            return Vec::new();
        }
        let (examples, per_step) = (self.examples as u64, self.per_step as u64);
        let start = step * per_step;
        let end = match self.length {
            TrainingLength::Total(_) => start + per_step,
            TrainingLength::Epochs(epochs) => (start + per_step).min(epochs * examples),
        };
        (start..end)
            .map(|position| self.of_epoch(position / examples)[(position % examples) as usize])
            .collect()
    }

    /// The whole order of an epoch.
    fn of_epoch(&mut self, epoch: u64) -> &[usize] {
        if self.known.as_ref().is_none_or(|(known, _)| *known != epoch) {
            let order = if self.shuffle {
                permutation(self.seed, epoch, self.examples)
            } else {
                (0..self.examples).collect()
            };
            self.known = Some((epoch, order));
        }
        self.known.as_ref().map_or(&[], |(_, order)| order)
    }
}

/// All numbers below `count`, in an order that depends on seed and epoch only (Fisher and Yates).
fn permutation(seed: u64, epoch: u64, count: usize) -> Vec<usize> {
    let mut rng = stream(seed, "order", epoch);
    let mut order: Vec<usize> = (0..count).collect();
    for last in (1..count).rev() {
        // The high half of a 64 by 64 bit product; its bias is below count / 2⁶⁴.
        let other = (u128::from(rng.next_u64()) * (last as u128 + 1)) >> 64;
        order.swap(last, other as usize);
    }
    order
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn order(examples: usize, per_step: usize, length: TrainingLength) -> Order {
        Order::new(7, true, examples, per_step, length)
    }

    #[test]
    fn stays_what_it_is() {
        // A change here breaks the resuming of every run there is.
        assert_eq!(permutation(7, 0, 10), [3, 0, 8, 4, 5, 1, 2, 9, 6, 7]);
        assert_ne!(permutation(7, 0, 10), permutation(7, 1, 10));
        assert_ne!(permutation(7, 0, 10), permutation(8, 0, 10));
    }

    #[test]
    fn more_than_an_epoch_a_step() {
        let mut order = order(3, 7, TrainingLength::Total(2));
        let seen = [order.batch(0), order.batch(1)].concat();
        let times = [0, 1, 2].map(|example| seen.iter().filter(|index| **index == example).count());
        assert_eq!(times.iter().sum::<usize>(), 14);
        assert!(times.iter().all(|times| (4..=5).contains(times)), "{times:?}");
    }

    #[test]
    fn without_shuffling_the_order_is_the_files() {
        let mut order = Order { shuffle: false, ..order(5, 2, TrainingLength::Epochs(1)) };
        assert_eq!(
            [order.batch(0), order.batch(1), order.batch(2), order.batch(3)].concat(),
            [0, 1, 2, 3, 4]
        );
    }

    proptest! {
        #[test]
        fn every_example_once_an_epoch(examples in 1_usize..200, per_step in 1_usize..50, epochs in 1_u64..4) {
            let mut order = order(examples, per_step, TrainingLength::Epochs(epochs));
            let batches: Vec<_> = (0..order.steps()).map(|step| order.batch(step)).collect();
            prop_assert!(batches.iter().all(|batch| !batch.is_empty()));
            let all = batches.concat();
            for epoch in all.chunks(examples) {
                let mut epoch = epoch.to_vec();
                epoch.sort_unstable();
                prop_assert_eq!(epoch, (0..examples).collect::<Vec<_>>());
            }
            prop_assert_eq!(all.len() as u64, epochs * examples as u64);
        }

        #[test]
        fn a_batch_depends_on_its_step_only(examples in 1_usize..50, per_step in 1_usize..20, step in 0_u64..40) {
            let mut after_others = order(examples, per_step, TrainingLength::Total(40));
            for before in 0..step {
                after_others.batch(before);
            }
            prop_assert_eq!(after_others.batch(step), order(examples, per_step, TrainingLength::Total(40)).batch(step));
        }
    }
}
