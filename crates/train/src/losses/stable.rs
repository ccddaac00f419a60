//! Logarithms of probabilities that neither overflow nor cancel.
//!
//! Everything is `f64`: a row of logits is short here (classes, or the few tokens that matter), and the difference
//! between `f32` and `f64` is what makes gradients near 0 and 1 right.

use std::f64::consts::LN_2;

/// log softmax of one row of logits. An entry that is not a number spoils the whole row.
pub(crate) fn log_softmax(logits: &[f32]) -> Vec<f64> {
    let highest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let highest = f64::from(highest);
    let sum: f64 = logits.iter().map(|&logit| (f64::from(logit) - highest).exp()).sum();
    let log_sum = sum.ln();
    logits.iter().map(|&logit| f64::from(logit) - highest - log_sum).collect()
}

/// softmax of one row of logits.
pub(crate) fn softmax(logits: &[f32]) -> Vec<f64> {
    log_softmax(logits).into_iter().map(f64::exp).collect()
}

/// 1 / (1 + exp(-x)).
pub(crate) fn sigmoid(x: f64) -> f64 {
    // Each branch takes the exponential of a negative number: it underflows to 0 instead of overflowing.
    if x < 0.0 {
        let e = x.exp();
        e / (1.0 + e)
    } else {
        1.0 / (1.0 + (-x).exp())
    }
}

/// log(1 / (1 + exp(-x))).
pub(crate) fn log_sigmoid(x: f64) -> f64 {
    if x < 0.0 { x - x.exp().ln_1p() } else { -(-x).exp().ln_1p() }
}

/// log(1 - exp(x)) for x ≤ 0.
///
/// Near 0 `exp(x)` is nearly 1, far from 0 it is nearly 0: each side has the form that keeps its digits.
pub(crate) fn log_one_minus_exp(x: f64) -> f64 {
    if x > -LN_2 { (-x.exp_m1()).ln() } else { (-x.exp()).ln_1p() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_adds_up_to_one() {
        let row = softmax(&[1.0, 2.0, 3.0]);
        assert!((row.iter().sum::<f64>() - 1.0).abs() < 1e-15);
        // e^3 / (e + e^2 + e^3)
        assert!((row[2] - 0.665_240_955_774_821_9).abs() < 1e-12);
    }

    #[test]
    fn large_inputs_do_not_overflow() {
        assert!((log_softmax(&[1000.0, 1000.0])[0] + 2f64.ln()).abs() < 1e-12);
        assert_eq!(log_sigmoid(-1000.0), -1000.0);
        assert_eq!(log_sigmoid(1000.0), 0.0);
    }

    #[test]
    fn a_masked_class_has_no_probability() {
        assert_eq!(softmax(&[f32::NEG_INFINITY, 0.0]), [0.0, 1.0]);
    }

    #[test]
    fn what_is_not_a_number_stays_so() {
        assert!(log_softmax(&[1.0, f32::NAN]).iter().all(|x| x.is_nan()));
        assert!(log_softmax(&[f32::NEG_INFINITY; 2]).iter().all(|x| x.is_nan()));
        for function in [sigmoid, log_sigmoid, log_one_minus_exp] {
            assert!(function(f64::NAN).is_nan());
        }
        assert!(log_softmax(&[]).is_empty());
    }

    #[test]
    fn the_complement_keeps_its_digits() {
        // 1 - exp(-1e-20) = 1e-20, which the plain form rounds to 0.
        assert!((log_one_minus_exp(-1e-20) - 1e-20_f64.ln()).abs() < 1e-12);
        // log(1 - exp(-50)) = -exp(-50), which the plain form rounds to 0.
        assert!((log_one_minus_exp(-50.0) / -(-50_f64).exp() - 1.0).abs() < 1e-12);
        assert!((log_one_minus_exp(-LN_2) + LN_2).abs() < 1e-15);
    }

    #[test]
    fn both_sides_of_the_sigmoid_meet() {
        assert_eq!(sigmoid(0.0), 0.5);
        assert!((sigmoid(-30.0) + sigmoid(30.0) - 1.0).abs() < 1e-15);
        assert!((log_sigmoid(2.0) - sigmoid(2.0).ln()).abs() < 1e-15);
        assert!((log_sigmoid(-2.0) - sigmoid(-2.0).ln()).abs() < 1e-15);
    }
}
