//! Finds the questions of a pool that are a target's own, by their text: keys propose, the texts decide.

use gradus_data::dedup::{DedupConfig, Filing, normalize};
use rayon::prelude::*;

/// How a question of a pool is the target's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Duplicate {
    /// Equal after normalization.
    Exact,
    /// The share of word shingles in common reaches the threshold.
    Near,
}

/// Those of the candidates, numbers and texts, that are this question, in their order.
pub(super) fn decide<'a>(
    question: &str,
    candidates: impl Iterator<Item = (u32, &'a str)>,
    guard: &DedupConfig,
    threshold: f64,
) -> Vec<(u32, Duplicate)> {
    let config = DedupConfig { threshold, ..guard.clone() };
    let (normal, shingles) = (normalize(question), config.shingles(question));
    let one = |(candidate, text): (u32, &str)| {
        if text == question || (!normal.is_empty() && normalize(text) == normal) {
            return Some((candidate, Duplicate::Exact));
        }
        (config.shingles(text).similarity(&shingles) >= threshold).then_some((candidate, Duplicate::Near))
    };
    candidates.filter_map(one).collect()
}

/// Where questions are filed: (key, question), the first with the number `first`.
pub(super) fn file<'a>(
    questions: impl IndexedParallelIterator<Item = &'a str>,
    first: usize,
    config: &DedupConfig,
) -> Vec<(u64, u32)> {
    let filing = Filing::new(config);
    let keys = questions.enumerate().flat_map_iter(|(index, question)| {
        let question_number = (first + index) as u32;
        filing.keys(question).into_iter().map(move |key| (key, question_number))
    });
    keys.collect()
}
