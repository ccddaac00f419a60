//! Losses of step labels, each a mean over rows (steps).
//!
//! | head | hard labels | soft labels |
//! |---|---|---|
//! | classes (or answer tokens) | cross-entropy: −log p(target) | squared error: (p(positive) − t)², or cross-entropy: −t·log p(positive) − (1 − t)·log p(negative) |
//! | one value v | binary cross-entropy: −t·log σ(v) − (1 − t)·log σ(−v) | squared error: (σ(v) − t)², or the same binary cross-entropy |
//!
//! A soft target is used as it is: 7 of 8 completions that succeeded are 0.875, never 0 or 1.

use serde::{Deserialize, Serialize};

use super::Loss;
use super::stable::{log_sigmoid, log_softmax, sigmoid};

/// The loss of a reward model.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum LabelLoss {
    /// Cross-entropy, for hard labels.
    #[default]
    CrossEntropy,
    /// Squared error, for soft labels between 0 and 1, which are not rounded.
    SquaredError,
    /// Cross-entropy with soft labels between 0 and 1: what another model says, for instance.
    SoftCrossEntropy,
}

impl LabelLoss {
    /// Whether labels are used as they are rather than as right or wrong.
    pub(crate) fn is_soft(self) -> bool {
        self != Self::CrossEntropy
    }
}

/// Cross-entropy of rows of `classes` logits; `targets` has the right class of each row.
pub(crate) fn cross_entropy(logits: &[f32], classes: usize, targets: &[usize]) -> Loss {
    check_rows(logits, classes, targets.len());
    let mut loss = Accumulator::over(targets.len());
    for (row, &target) in logits.chunks_exact(classes).zip(targets) {
        assert!(target < classes, "the target class is {target}, but there are {classes} classes (0-based)");
        let log_p = log_softmax(row);
        loss.add(-log_p[target]);
        for (class, log_p) in log_p.into_iter().enumerate() {
            loss.add_gradient(log_p.exp() - f64::from(u8::from(class == target)));
        }
    }
    loss.finish()
}

/// Binary cross-entropy of a value head's outputs before the sigmoid; targets in [0, 1].
pub(crate) fn binary_cross_entropy(values: &[f32], targets: &[f32]) -> Loss {
    check_values(values, targets);
    let mut loss = Accumulator::over(values.len());
    for (value, target) in pairs(values, targets) {
        loss.add(-target * log_sigmoid(value) - (1.0 - target) * log_sigmoid(-value));
        loss.add_gradient(sigmoid(value) - target);
    }
    loss.finish()
}

/// Cross-entropy of two classes with the probability that a target gives to class `positive`; targets in [0, 1].
pub(crate) fn cross_entropy_of_probability(logits: &[f32], positive: usize, targets: &[f32]) -> Loss {
    check_rows(logits, 2, targets.len());
    assert!(positive < 2, "the positive class is {positive}, but there are 2 classes (0-based)");
    let mut loss = Accumulator::over(targets.len());
    for (row, &target) in logits.chunks_exact(2).zip(targets) {
        let (log_p, target) = (log_softmax(row), f64::from(target));
        loss.add(-target * log_p[positive] - (1.0 - target) * log_p[1 - positive]);
        let d = log_p[positive].exp() - target;
        (0..2).for_each(|class| loss.add_gradient(if class == positive { d } else { -d }));
    }
    loss.finish()
}

/// Squared error of the probability of class `positive`; targets in [0, 1].
pub(crate) fn squared_error_of_probability(
    logits: &[f32],
    classes: usize,
    positive: usize,
    targets: &[f32],
) -> Loss {
    check_rows(logits, classes, targets.len());
    assert!(
        positive < classes,
        "the positive class is {positive}, but there are {classes} classes (0-based)"
    );
    let mut loss = Accumulator::over(targets.len());
    for (row, &target) in logits.chunks_exact(classes).zip(targets) {
        let log_p = log_softmax(row);
        let p = log_p[positive].exp();
        let error = p - f64::from(target);
        loss.add(error * error);
        // dp/dlogit of the positive class is p·(1 − p); 1 − p is the sum of the others, which does not cancel.
        let others: f64 =
            log_p.iter().enumerate().filter(|(c, _)| *c != positive).map(|(_, l)| l.exp()).sum();
        for (class, log_p) in log_p.iter().enumerate() {
            let dp = if class == positive { p * others } else { -p * log_p.exp() };
            loss.add_gradient(2.0 * error * dp);
        }
    }
    loss.finish()
}

/// Squared error of the sigmoid of a value head's outputs; targets in [0, 1].
pub(crate) fn squared_error_of_sigmoid(values: &[f32], targets: &[f32]) -> Loss {
    check_values(values, targets);
    let mut loss = Accumulator::over(values.len());
    for (value, target) in pairs(values, targets) {
        let error = sigmoid(value) - target;
        loss.add(error * error);
        loss.add_gradient(2.0 * error * sigmoid(value) * sigmoid(-value));
    }
    loss.finish()
}

/// A mean over rows with its gradient.
struct Accumulator {
    rows: f64,
    sum: f64,
    gradient: Vec<f32>,
}

impl Accumulator {
    fn over(rows: usize) -> Self {
        // At least 1: an empty batch is 0 and not 0 / 0.
        Self { rows: rows.max(1) as f64, sum: 0.0, gradient: Vec::new() }
    }

    fn add(&mut self, value: f64) {
        self.sum += value;
    }

    /// Adds the derivative of a row's value with respect to the next input.
    fn add_gradient(&mut self, derivative: f64) {
        self.gradient.push((derivative / self.rows) as f32);
    }

    fn finish(self) -> Loss {
        Loss { value: self.sum / self.rows, gradient: self.gradient }
    }
}

fn pairs<'a>(values: &'a [f32], targets: &'a [f32]) -> impl Iterator<Item = (f64, f64)> + 'a {
    values.iter().zip(targets).map(|(&value, &target)| (f64::from(value), f64::from(target)))
}

fn check_rows(logits: &[f32], classes: usize, rows: usize) {
    assert!(
        classes > 0 && logits.len() == rows * classes,
        "{} logits are not {rows} rows of {classes} classes",
        logits.len()
    );
}

fn check_values(values: &[f32], targets: &[f32]) {
    assert!(
        values.len() == targets.len(),
        "{} values for {} targets: every value needs exactly one",
        values.len(),
        targets.len()
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(found: f64, expected: f64) {
        assert!((found - expected).abs() < 1e-6, "{found} is not {expected}");
    }

    #[test]
    fn cross_entropy_by_hand() {
        // p = (1/4, 3/4) and (1/2, 1/2).
        let loss = cross_entropy(&[0.0, 3f32.ln(), 5.0, 5.0], 2, &[0, 1]);
        near(loss.value, f64::midpoint(4f64.ln(), 2f64.ln()));
        for (found, expected) in loss.gradient.iter().zip([-0.375, 0.375, 0.25, -0.25]) {
            near(f64::from(*found), expected);
        }
    }

    #[test]
    fn a_soft_target_is_not_rounded() {
        // σ(ln 3) = 3/4.
        let loss = squared_error_of_sigmoid(&[3f32.ln()], &[0.875]);
        near(loss.value, 0.125 * 0.125);
        near(f64::from(loss.gradient[0]), 2.0 * -0.125 * 0.75 * 0.25);
        let same = squared_error_of_probability(&[0.0, 3f32.ln()], 2, 1, &[0.875]);
        near(same.value, loss.value);
        near(f64::from(same.gradient[1]), f64::from(loss.gradient[0]));
        near(f64::from(same.gradient[0]), -f64::from(loss.gradient[0]));
        let entropy = binary_cross_entropy(&[3f32.ln()], &[0.75]);
        near(entropy.value, -0.75 * 0.75f64.ln() - 0.25 * 0.25f64.ln());
        near(f64::from(entropy.gradient[0]), 0.0);
        let classes = cross_entropy_of_probability(&[3f32.ln(), 0.0], 0, &[0.5]);
        near(classes.value, -0.5 * 0.75f64.ln() - 0.5 * 0.25f64.ln());
        near(f64::from(classes.gradient[0]), 0.25);
        near(f64::from(classes.gradient[1]), -0.25);
    }

    #[test]
    fn far_from_zero_nothing_overflows() {
        let loss = binary_cross_entropy(&[1000.0, -1000.0], &[0.0, 0.0]);
        near(loss.value, 500.0);
        assert_eq!(loss.gradient, [0.5, 0.0]);
        near(cross_entropy(&[1e30, 0.0], 2, &[0]).value, 0.0);
    }

    #[test]
    fn what_is_not_a_number_stays_so() {
        assert!(cross_entropy(&[f32::NAN, 0.0], 2, &[1]).value.is_nan());
        assert!(binary_cross_entropy(&[f32::NAN], &[0.0]).value.is_nan());
        assert!(binary_cross_entropy(&[0.0], &[f32::NAN]).value.is_nan());
        assert!(squared_error_of_probability(&[0.0, f32::NAN], 2, 0, &[1.0]).value.is_nan());
        assert!(squared_error_of_sigmoid(&[f32::NAN], &[0.5]).value.is_nan());
        assert!(cross_entropy_of_probability(&[0.0, f32::NAN], 0, &[0.5]).value.is_nan());
    }

    #[test]
    fn no_rows_no_loss() {
        let nothing = Loss { value: 0.0, gradient: Vec::new() };
        assert_eq!(cross_entropy(&[], 2, &[]), nothing);
        assert_eq!(binary_cross_entropy(&[], &[]), nothing);
        assert_eq!(squared_error_of_probability(&[], 2, 1, &[]), nothing);
        assert_eq!(squared_error_of_sigmoid(&[], &[]), nothing);
        assert_eq!(cross_entropy_of_probability(&[], 0, &[]), nothing);
    }

    #[test]
    #[should_panic(expected = "3 logits are not 2 rows of 2 classes")]
    fn rows_that_do_not_fit() {
        cross_entropy(&[0.0; 3], 2, &[0, 1]);
    }
}
