//! What becomes of a head's outputs: probabilities of classes, or of a single value.

/// Softmax of several classes, the logistic function of one value.
pub(crate) fn probabilities(row: &[f32]) -> Vec<f32> {
    if let [value] = row {
        return vec![1.0 / (1.0 + (-value).exp())];
    }
    let top = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let shares: Vec<f32> = row.iter().map(|logit| (logit - top).exp()).collect();
    let sum: f32 = shares.iter().sum();
    shares.into_iter().map(|share| share / sum).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_sum_to_one_and_large_logits_do_not_overflow() {
        let found = probabilities(&[1000.0, 1000.0]);
        assert_eq!(found, [0.5, 0.5]);
        assert!((probabilities(&[0.0])[0] - 0.5).abs() < 1e-6);
        assert!((probabilities(&[0.0, 2.0_f32.ln()])[1] - 2.0 / 3.0).abs() < 1e-6);
    }
}
