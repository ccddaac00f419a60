//! Do right things score above wrong ones? Of each thing, its score and whether it is right.
//!
//! - ROC AUC: the chance that a right one scores above a wrong one; a tie counts half
//! - average precision: Σ (Rₙ − Rₙ₋₁)·Pₙ over the distinct scores from the highest down, without interpolation
//!   (as scikit-learn has it)
//!
//! A score that is not a number is no verdict and ranks below all others.

use super::bootstrap::{Interval, Settings, by_weight};

/// The area under the ROC curve; none without both right and wrong things.
///
/// ```
/// use gradus_core::metrics::ranking::roc_auc;
/// assert_eq!(roc_auc(&[(0.9, true), (0.5, false), (0.5, true)]), Some(0.75));
/// assert_eq!(roc_auc(&[(0.9, true)]), None);
/// ```
pub fn roc_auc(scored: &[(f64, bool)]) -> Option<f64> {
    area(levels(scored).into_iter())
}

/// The area under the ROC curve of scores in groups, such as the solutions of one problem, and its bootstrap interval: whole
/// groups are drawn, as in [`by_group`](super::bootstrap::by_group), but scores are sorted only once.
///
/// ```
/// use gradus_core::metrics::bootstrap::{Settings, by_group};
/// use gradus_core::metrics::ranking::{roc_auc, roc_auc_by_group};
/// let groups = [vec![(0.9, true), (0.2, false)], vec![(0.4, true), (0.5, false)], vec![(0.7, true)]];
/// let (area, interval) = roc_auc_by_group(&groups, &Settings::default()).unwrap();
/// assert_eq!(Some(area), roc_auc(&groups.concat()));
/// assert_eq!(interval, by_group(&groups, roc_auc, &Settings::default()));
/// ```
pub fn roc_auc_by_group(groups: &[Vec<(f64, bool)>], settings: &Settings) -> Option<(f64, Option<Interval>)> {
    let mut ranked: Vec<(f64, bool, usize)> = Vec::new();
    for (group, scored) in groups.iter().enumerate() {
        ranked.extend(scored.iter().map(|&(score, right)| (rank(score), right, group)));
    }
    ranked.sort_unstable_by(|a, b| b.0.total_cmp(&a.0));
    let weighted = |drawn: &[u32]| {
        let level = |level: &[(f64, bool, usize)]| {
            let mut found = Level { right: 0, wrong: 0 };
            for &(_, right, group) in level {
                *(if right { &mut found.right } else { &mut found.wrong }) += u64::from(drawn[group]);
            }
            found
        };
        area(ranked.chunk_by(|a, b| a.0 == b.0).map(level))
    };
    let area = weighted(&vec![1; groups.len()])?;
    Some((area, by_weight(groups.len(), weighted, settings)))
}

/// The area, from the levels of scores downwards; none without both right and wrong things.
fn area(levels: impl Iterator<Item = Level>) -> Option<f64> {
    let (mut right, mut wrong, mut doubled) = (0, 0, 0);
    for level in levels {
        doubled += level.wrong * (2 * right + level.right);
        right += level.right;
        wrong += level.wrong;
    }
    (right > 0 && wrong > 0).then(|| doubled as f64 / (2 * right * wrong) as f64)
}

/// The average precision; none without right things.
///
/// ```
/// use gradus_core::metrics::ranking::average_precision;
/// assert_eq!(average_precision(&[(0.9, true), (0.5, false), (0.4, true), (0.1, false)]), Some(0.5 + 1.0 / 3.0));
/// ```
pub fn average_precision(scored: &[(f64, bool)]) -> Option<f64> {
    let levels = levels(scored);
    let right: u64 = levels.iter().map(|level| level.right).sum();
    let (mut found, mut taken, mut sum) = (0, 0, 0.0);
    for level in &levels {
        found += level.right;
        taken += level.right + level.wrong;
        sum += level.right as f64 / right.max(1) as f64 * (found as f64 / taken as f64);
    }
    (right > 0).then_some(sum)
}

/// What shares one score.
struct Level {
    right: u64,
    wrong: u64,
}

/// Where a score stands; adding 0 makes −0 and 0 one score.
fn rank(score: f64) -> f64 {
    if score.is_nan() { f64::NEG_INFINITY } else { score + 0.0 }
}

/// From the highest score down.
fn levels(scored: &[(f64, bool)]) -> Vec<Level> {
    let mut ranked: Vec<(f64, bool)> = scored.iter().map(|&(score, right)| (rank(score), right)).collect();
    ranked.sort_unstable_by(|a, b| b.0.total_cmp(&a.0));
    let count = |level: &[(f64, bool)]| {
        let right = level.iter().filter(|(_, right)| *right).count() as u64;
        Level { right, wrong: level.len() as u64 - right }
    };
    ranked.chunk_by(|a, b| a.0 == b.0).map(count).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::metrics::bootstrap;

    /// By the definition: every pair.
    fn by_pairs(scored: &[(f64, bool)]) -> Option<f64> {
        let of = |kind| scored.iter().filter(move |(_, right)| *right == kind).map(|(score, _)| *score);
        let pairs: Vec<f64> = of(true)
            .flat_map(|right| of(false).map(move |wrong| (right, wrong)))
            .map(|(right, wrong)| if right == wrong { 0.5 } else { f64::from(right > wrong) })
            .collect();
        (!pairs.is_empty()).then(|| pairs.iter().sum::<f64>() / pairs.len() as f64)
    }

    #[test]
    fn nothing_to_rank_no_number() {
        assert_eq!((roc_auc(&[]), average_precision(&[])), (None, None));
        assert_eq!((roc_auc(&[(0.1, false)]), average_precision(&[(0.1, false)])), (None, None));
    }

    #[test]
    fn a_score_that_is_no_number_is_the_lowest() {
        assert_eq!(roc_auc(&[(f64::NAN, true), (0.0, false)]), Some(0.0));
        assert_eq!(roc_auc(&[(f64::NAN, false), (0.0, true)]), Some(1.0));
        assert_eq!(roc_auc(&[(-0.0, false), (0.0, true)]), Some(0.5));
    }

    proptest! {
        #[test]
        fn the_area_is_the_share_of_ordered_pairs(scored in prop::collection::vec((0u8..6, any::<bool>()), 0..40)) {
            let scored: Vec<(f64, bool)> =
                scored.into_iter().map(|(score, right)| (f64::from(score), right)).collect();
            match (roc_auc(&scored), by_pairs(&scored)) {
                (Some(found), Some(expected)) => prop_assert!((found - expected).abs() < 1e-12),
                (found, expected) => prop_assert_eq!(found, expected),
            }
        }

        #[test]
        fn groups_are_drawn_whole(
            groups in prop::collection::vec(prop::collection::vec((0u8..4, any::<bool>()), 0..5), 0..8)
        ) {
            let groups: Vec<Vec<(f64, bool)>> = groups
                .into_iter()
                .map(|group| group.into_iter().map(|(score, right)| (f64::from(score), right)).collect())
                .collect();
            let settings = Settings { resamples: 20, ..Settings::default() };
            let expected =
                roc_auc(&groups.concat()).map(|area| (area, bootstrap::by_group(&groups, roc_auc, &settings)));
            prop_assert_eq!(roc_auc_by_group(&groups, &settings), expected);
        }

        #[test]
        fn only_the_order_matters(scored in prop::collection::vec((-5.0..5.0f64, any::<bool>()), 0..40)) {
            let grown: Vec<(f64, bool)> = scored.iter().map(|&(score, right)| (score.exp(), right)).collect();
            prop_assert_eq!(roc_auc(&scored), roc_auc(&grown));
            prop_assert_eq!(average_precision(&scored), average_precision(&grown));
            let turned: Vec<(f64, bool)> = scored.iter().map(|&(score, right)| (-score, right)).collect();
            if let (Some(up), Some(down)) = (roc_auc(&scored), roc_auc(&turned)) {
                prop_assert!((up + down - 1.0).abs() < 1e-12);
            }
        }

        #[test]
        fn equal_scores_say_nothing(right in prop::collection::vec(any::<bool>(), 1..40)) {
            let scored: Vec<(f64, bool)> = right.into_iter().map(|right| (0.5, right)).collect();
            prop_assert!(roc_auc(&scored).is_none_or(|area| area == 0.5));
            let base_rate = scored.iter().filter(|(_, right)| *right).count() as f64 / scored.len() as f64;
            prop_assert!(average_precision(&scored).is_none_or(|found| found == base_rate));
        }
    }
}
