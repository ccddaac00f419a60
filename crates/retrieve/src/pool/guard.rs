//! Finds the questions of a pool that are a target's own, by their text: keys propose, the texts decide.

use gradus_data::dedup::{DedupConfig, Filing, normalize};
use rayon::prelude::*;

use super::Pool;

/// How a question of a pool is the target's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Duplicate {
    /// Equal after normalization.
    Exact,
    /// The share of word shingles in common reaches the threshold.
    Near,
}

impl Pool {
    /// The questions that are this one, in ascending order. A `threshold` (similarity from 0 to 1) below the one that
    /// the pool was built with finds fewer than there are.
    pub(crate) fn duplicates(&self, question: &str, threshold: f64) -> Vec<(u32, Duplicate)> {
        let config = DedupConfig { threshold, ..self.manifest.guard.clone() };
        let (keys, questions) = self.guard_table();
        let mut candidates: Vec<u32> = Vec::new();
        for key in Filing::new(&self.manifest.guard).keys(question) {
            let start = keys.partition_point(|&found| found < key);
            let same = keys[start..].iter().take_while(|&&found| found == key).count();
            candidates.extend_from_slice(&questions[start..start + same]);
        }
        candidates.sort_unstable();
        candidates.dedup();
        let (normal, shingles) = (normalize(question), config.shingles(question));
        let decide = |candidate: &u32| {
            let text = self.question(*candidate as usize).text;
            if text == question || (!normal.is_empty() && normalize(text) == normal) {
                return Some((*candidate, Duplicate::Exact));
            }
            (config.shingles(text).similarity(&shingles) >= threshold)
                .then_some((*candidate, Duplicate::Near))
        };
        candidates.iter().filter_map(decide).collect()
    }
}

/// Where questions are filed: (key, question), the first with the number `first`.
pub(super) fn file(
    questions: &[super::draft::Question],
    first: usize,
    config: &DedupConfig,
) -> Vec<(u64, u32)> {
    let filing = Filing::new(config);
    let keys = questions.par_iter().enumerate().flat_map_iter(|(index, question)| {
        let question_number = (first + index) as u32;
        filing.keys(&question.text).into_iter().map(move |key| (key, question_number))
    });
    keys.collect()
}
