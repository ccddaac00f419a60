//! How good a choice among N candidates is, on a problem whose candidates are known to be right or wrong.
//!
//! Two estimates from a pool of n ≥ N candidates, of which c are right:
//! - *first*: the first N candidates of the pool, in order, as if N had been drawn
//! - *expected*: the exact mean over all subsets of N. Sorted by score, the candidate of rank i (from 0) is the best in
//!   C(n−1−i, N−1) of the C(n, N) subsets; some right one is in 1 − C(n−c, N) / C(n, N) of them. It has far less
//!   variance, and needs no repetition.

/// The share of subsets of `n` in which a right candidate has the highest score. Where there are fewer than `n`, all.
///
/// ```
/// use gradus_core::select::best_of_n::expected_best;
/// let scores = [Some(0.2), Some(0.9)];
/// assert_eq!(expected_best(&scores, &[true, false], 1), Some(0.5));
/// assert_eq!(expected_best(&scores, &[true, false], 2), Some(0.0));
/// ```
pub fn expected_best(scores: &[Option<f64>], correct: &[bool], n: usize) -> Option<f64> {
    let count = scores.len();
    let n = n.min(count);
    if n == 0 {
        return None;
    }
    let mut order: Vec<usize> = (0..count).collect();
    let key = |index: &usize| scores[*index].unwrap_or(f64::NEG_INFINITY);
    order.sort_by(|a, b| key(b).total_cmp(&key(a)));
    // The share in which rank 0 is the best, then from one rank to the next.
    let mut share = n as f64 / count as f64;
    let mut total = 0.0;
    for (rank, index) in order.into_iter().enumerate() {
        total += if correct[index] { share } else { 0.0 };
        let below = count - 1 - rank;
        if below < n {
            break;
        }
        share *= (below + 1 - n) as f64 / below as f64;
    }
    Some(total)
}

/// The share of subsets of `n` that hold a right candidate.
///
/// ```
/// use gradus_core::select::best_of_n::expected_pass;
/// assert_eq!(expected_pass(&[true, false, false, false], 2), Some(0.5));
/// ```
pub fn expected_pass(correct: &[bool], n: usize) -> Option<f64> {
    let count = correct.len();
    let n = n.min(count);
    if n == 0 {
        return None;
    }
    let wrong = correct.iter().filter(|correct| !**correct).count();
    let none = (0..n).map(|drawn| wrong.saturating_sub(drawn) as f64 / (count - drawn) as f64);
    Some(1.0 - none.product::<f64>())
}

/// The share of right candidates among the first `n`: what a blind choice gets on average.
pub fn chance(correct: &[bool], n: usize) -> Option<f64> {
    let first = &correct[..n.min(correct.len())];
    (!first.is_empty()).then(|| first.iter().filter(|correct| **correct).count() as f64 / first.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// By listing all subsets.
    fn listed(scores: &[Option<f64>], correct: &[bool], n: usize) -> (f64, f64) {
        let (mut best, mut pass, mut subsets) = (0.0, 0.0, 0.0);
        for subset in 0u32..1 << scores.len() {
            let members: Vec<usize> = (0..scores.len()).filter(|index| subset >> index & 1 == 1).collect();
            if members.len() != n {
                continue;
            }
            subsets += 1.0;
            let own: Vec<Option<f64>> = members.iter().map(|index| scores[*index]).collect();
            let chosen = crate::select::vote::best(&own).unwrap();
            best += f64::from(u8::from(correct[members[chosen]]));
            pass += f64::from(u8::from(members.iter().any(|index| correct[*index])));
        }
        (best / subsets, pass / subsets)
    }

    proptest! {
        #[test]
        fn equal_to_listing_all_subsets(
            pool in prop::collection::vec((prop::option::of(0u8..4), any::<bool>()), 1..9),
            n in 1usize..9,
        ) {
            let scores: Vec<Option<f64>> = pool.iter().map(|(score, _)| score.map(f64::from)).collect();
            let correct: Vec<bool> = pool.iter().map(|(_, correct)| *correct).collect();
            let n = n.min(pool.len());
            let (best, pass) = listed(&scores, &correct, n);
            prop_assert!((expected_best(&scores, &correct, n).unwrap() - best).abs() < 1e-12);
            prop_assert!((expected_pass(&correct, n).unwrap() - pass).abs() < 1e-12);
        }
    }

    #[test]
    fn more_than_there_are_is_all() {
        let scores = [Some(1.0), Some(0.0)];
        assert_eq!(expected_best(&scores, &[true, false], 9), Some(1.0));
        assert_eq!(expected_pass(&[false, false], 9), Some(0.0));
        assert_eq!(expected_best(&[], &[], 1), None);
        assert_eq!(chance(&[true, false], 1), Some(1.0));
    }
}
