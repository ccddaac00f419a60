//! Cohen's κ (1960): how far two people agree beyond what their habits alone would give.
//!
//! κ = (p_o − p_e) / (1 − p_e), with p_o the share of items on which they agree, and p_e = Σ_c p₁(c)·p₂(c) the share that
//! people with the same habits would agree on by chance. Classes have no order here: all disagreements weigh the same.

use std::collections::HashMap;
use std::hash::Hash;

/// The κ of two people's classes, item by item; none without items, and where both always say one and the same class.
///
/// ```
/// use gradus_core::metrics::kappa::cohen_kappa;
/// // sklearn.metrics.cohen_kappa_score([2, 0, 2, 2, 0, 1], [0, 0, 2, 2, 0, 2])
/// let pairs = [(2, 0), (0, 0), (2, 2), (2, 2), (0, 0), (1, 2)];
/// assert!((cohen_kappa(&pairs).unwrap() - 0.42857142857142855).abs() < 1e-15);
/// assert_eq!((cohen_kappa(&[(1, 1), (1, 1)]), cohen_kappa::<u8>(&[])), (None, None));
/// ```
pub fn cohen_kappa<T: Copy + Eq + Hash>(pairs: &[(T, T)]) -> Option<f64> {
    let items = pairs.len() as f64;
    let mut counts: HashMap<T, (f64, f64)> = HashMap::new();
    for (one, other) in pairs {
        counts.entry(*one).or_default().0 += 1.0;
        counts.entry(*other).or_default().1 += 1.0;
    }
    let agreed = pairs.iter().filter(|(one, other)| one == other).count() as f64;
    // In whole numbers, so that the result does not depend on the order of classes.
    let by_chance: f64 = counts.values().map(|(one, other)| one * other).sum();
    let most = items * items;
    (by_chance < most).then(|| (agreed * items - by_chance) / (most - by_chance))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_scikit_learn_has_it() {
        let kappa = |pairs: &[(u8, u8)]| cohen_kappa(pairs).unwrap();
        assert_eq!(kappa(&[(0, 1), (1, 0)]), -1.0);
        assert_eq!(kappa(&[(0, 0), (1, 1), (2, 2)]), 1.0);
        // One of them always says the same: nothing beyond chance.
        assert_eq!(kappa(&[(0, 0), (0, 1), (0, 1)]), 0.0);
    }
}
