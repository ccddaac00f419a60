//! The order of the queue.
//!
//! - `disagreement`: the share of pairs of annotators that differ about the first error, largest first. Annotators are
//!   those of the record's labels but exact checks, its reward models (the first step below the threshold), and the people
//!   who have finished the item. Ties go by uncertainty.
//! - `uncertainty`: min over reward models and steps of |score − threshold|, smallest first. Items without scores come last.
//! - `file`: as the records stand in their file.
//!
//! Further ties go by the file.

use std::cmp::Ordering;
use std::str::FromStr;

use gradus_annotate::consensus::FirstErrorVote;
use gradus_core::{FirstError, Solution};
use serde::{Deserialize, Serialize};

/// Which item comes first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// Where annotators disagree most.
    Disagreement,
    /// Where reward models are least certain.
    Uncertainty,
    /// As in the file.
    #[default]
    File,
}

impl FromStr for Order {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "disagreement" => Ok(Self::Disagreement),
            "uncertainty" => Ok(Self::Uncertainty),
            "file" => Ok(Self::File),
            _ => Err(format!("`{text}` is not one of disagreement, uncertainty, file")),
        }
    }
}

/// The vote of a first error.
pub(crate) fn vote(first_error: FirstError) -> FirstErrorVote {
    match first_error {
        FirstError::Unknown => None,
        FirstError::None => Some(None),
        FirstError::At(step) => Some(Some(step)),
    }
}

/// What a record's own labels and scores say of a solution.
pub(crate) fn votes(solution: &Solution, threshold: f64) -> Vec<FirstErrorVote> {
    let whole = solution.annotations.iter().filter(|annotation| !annotation.is_partial());
    let labels = whole.map(|annotation| vote(annotation.first_error));
    let scores =
        solution.scores.values().map(|scores| Some(scores.iter().position(|score| *score < threshold)));
    labels.chain(scores).collect()
}

/// The share of pairs of decided votes that differ; 0 for fewer than two.
///
/// ```
/// use gradus_label::order::disagreement;
/// assert_eq!(disagreement(&[Some(None), Some(Some(1)), Some(Some(1)), None]), 2.0 / 3.0);
/// assert_eq!(disagreement(&[Some(None)]), 0.0);
/// ```
pub fn disagreement(votes: &[FirstErrorVote]) -> f64 {
    let decided: Vec<Option<usize>> = votes.iter().flatten().copied().collect();
    let pairs = decided.len() * decided.len().saturating_sub(1) / 2;
    let later = |(index, vote): (usize, &Option<usize>)| {
        decided[index + 1..].iter().filter(|other| *other != vote).count()
    };
    let differ: usize = decided.iter().enumerate().map(later).sum();
    if pairs == 0 { 0.0 } else { differ as f64 / pairs as f64 }
}

/// How near the threshold the nearest score of any reward model is; none without scores.
///
/// ```
/// use gradus_core::Solution;
/// let scores = [("a".to_owned(), vec![0.9, 0.4]), ("b".to_owned(), vec![1.0, 0.0])].into();
/// let solution = Solution { scores, ..Solution::default() };
/// assert_eq!(gradus_label::order::uncertainty(&solution, 0.5), Some(0.09999999999999998));
/// ```
pub fn uncertainty(solution: &Solution, threshold: f64) -> Option<f64> {
    let distances = solution.scores.values().flatten().map(|score| (score - threshold).abs());
    distances.min_by(f64::total_cmp)
}

/// What an item is sorted by.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct SortKey {
    pub(crate) disagreement: f64,
    pub(crate) uncertainty: Option<f64>,
    pub(crate) item: usize,
}

impl SortKey {
    pub(crate) fn compare(&self, other: &Self, order: Order) -> Ordering {
        let disagreement = || other.disagreement.total_cmp(&self.disagreement);
        let distance = |key: &Self| key.uncertainty.unwrap_or(f64::INFINITY);
        let uncertainty = || distance(self).total_cmp(&distance(other));
        let first = match order {
            Order::File => Ordering::Equal,
            Order::Disagreement => disagreement().then_with(uncertainty),
            Order::Uncertainty => uncertainty(),
        };
        first.then(self.item.cmp(&other.item))
    }
}

#[cfg(test)]
mod tests {
    use gradus_core::{Annotation, LabelSource};

    use super::*;

    #[test]
    fn each_order_puts_its_own_first() {
        let key = |item, disagreement, uncertainty| SortKey { disagreement, uncertainty, item };
        let keys =
            [key(0, 0.0, None), key(1, 0.5, Some(0.4)), key(2, 0.5, Some(0.1)), key(3, 1.0, Some(0.3))];
        let sorted = |order| {
            let mut keys = keys.to_vec();
            keys.sort_by(|one, other| one.compare(other, order));
            keys.iter().map(|key| key.item).collect::<Vec<_>>()
        };
        assert_eq!(sorted(Order::File), [0, 1, 2, 3]);
        assert_eq!(sorted(Order::Disagreement), [3, 2, 1, 0]);
        assert_eq!(sorted(Order::Uncertainty), [2, 3, 1, 0]);
        assert!("nearest".parse::<Order>().is_err());
    }

    #[test]
    fn labels_and_scores_vote() {
        let scores = [("prm".to_owned(), vec![0.9, 0.4])].into();
        let exact = Annotation::from_first_error(2, Some(0), &LabelSource::Exact);
        let annotations = vec![Annotation::default(), exact];
        let solution = Solution { scores, annotations, ..Solution::default() };
        assert_eq!(votes(&solution, 0.5), [None, Some(Some(1))]);
    }
}
