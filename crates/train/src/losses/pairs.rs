//! Right against wrong continuations of the same steps: the right one should have the higher score.
//!
//! ```text
//! L = mean over pairs of −log σ(v(right) − v(wrong)),   v = log odds of 'right'
//! ```
//!
//! As the ranking loss of a reward model from preferences (Ouyang et al., 2022), between steps in place of answers; the
//! Process Q-value Model (Li and Li, 2025) ranks the steps of a solution likewise. Left out: its margin, and its ranking
//! among the right steps of one solution.

use super::Loss;
use super::stable::{log_sigmoid, log_softmax, sigmoid};

/// The loss of `pairs`, each a right row and a wrong one. With several `classes` a row is their logits, and v is the log odds
/// of class `positive` against all others; with one it is v itself.
pub(crate) fn pair_ranking(
    outputs: &[f32],
    classes: usize,
    positive: usize,
    pairs: &[(usize, usize)],
) -> Loss {
    assert!(
        classes > 0 && outputs.len().is_multiple_of(classes) && positive < classes,
        "{} outputs are no rows of {classes} classes with class {positive}",
        outputs.len()
    );
    let rows: Vec<(f64, Vec<f64>)> =
        outputs.chunks_exact(classes).map(|row| log_odds(row, positive)).collect();
    let mut derivatives = vec![0.0; rows.len()];
    let count = pairs.len().max(1) as f64;
    let mut value = 0.0;
    for &(right, wrong) in pairs {
        let difference = rows[right].0 - rows[wrong].0;
        value -= log_sigmoid(difference) / count;
        let slope = sigmoid(-difference) / count;
        derivatives[right] -= slope;
        derivatives[wrong] += slope;
    }
    let gradient = rows
        .iter()
        .zip(derivatives)
        .flat_map(|((_, inner), outer)| inner.iter().map(move |inner| (inner * outer) as f32));
    Loss { value, gradient: gradient.collect() }
}

/// The log odds of one class against all others, and their derivative with respect to each logit.
fn log_odds(row: &[f32], positive: usize) -> (f64, Vec<f64>) {
    if row.len() == 1 {
        return (f64::from(row[0]), vec![1.0]);
    }
    let others: Vec<f32> =
        row.iter().enumerate().filter(|(class, _)| *class != positive).map(|(_, logit)| *logit).collect();
    let log_p = log_softmax(&others);
    // log Σ exp(others) is any of them less its own log-probability.
    let value = f64::from(row[positive]) - (f64::from(others[0]) - log_p[0]);
    let mut shares = log_p.into_iter().map(|log_p| -log_p.exp());
    let derivative = (0..row.len())
        .map(|class| if class == positive { 1.0 } else { shares.next().expect("one for each other class") });
    (value, derivative.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_by_hand() {
        // Values ln 3 and 0: σ(ln 3) = 3/4.
        let loss = pair_ranking(&[3f32.ln(), 0.0], 1, 0, &[(0, 1)]);
        assert!((loss.value + 0.75f64.ln()).abs() < 1e-7);
        assert!((loss.gradient[0] + 0.25).abs() < 1e-7 && (loss.gradient[1] - 0.25).abs() < 1e-7);
        // The same as log odds of two classes.
        let same = pair_ranking(&[0.0, 3f32.ln(), 5.0, 5.0], 2, 1, &[(0, 1)]);
        assert!((same.value - loss.value).abs() < 1e-7);
        assert!((same.gradient[0] - 0.25).abs() < 1e-7 && (same.gradient[1] + 0.25).abs() < 1e-7);
    }

    #[test]
    fn far_apart_nothing_overflows() {
        let loss = pair_ranking(&[-1000.0, 1000.0], 1, 0, &[(0, 1)]);
        assert_eq!((loss.value, loss.gradient), (2000.0, vec![-1.0, 1.0]));
        assert!(pair_ranking(&[f32::NAN, 0.0], 1, 0, &[(0, 1)]).value.is_nan());
    }

    #[test]
    fn no_pairs_no_loss() {
        assert_eq!(pair_ranking(&[1.0, 2.0], 2, 0, &[]), Loss { value: 0.0, gradient: vec![0.0, 0.0] });
        assert_eq!(pair_ranking(&[], 2, 0, &[]), Loss { value: 0.0, gradient: Vec::new() });
    }
}
