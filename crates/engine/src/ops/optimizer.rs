//! One step of AdamW on one parameter, in f32, on the CPU.

use candle_core::Tensor;
use rayon::prelude::*;

use super::slices::with_slices;
use crate::Result;

/// Hyperparameters of one step of AdamW.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AdamWStep {
    /// Learning rate.
    pub rate: f64,
    /// Decay rate of the first moment, the mean of gradients.
    pub beta1: f64,
    /// Decay rate of the second moment, the mean of squared gradients.
    pub beta2: f64,
    /// Added to the denominator for numerical stability.
    pub epsilon: f64,
    /// Decoupled weight decay.
    pub decay: f64,
    /// Step number, counted from 1.
    pub step: usize,
}

/// The means of gradients and of their squares.
pub type Moments = (Tensor, Tensor);

/// A new value and its moments.
pub(super) type Updated = (Tensor, Moments);

impl AdamWStep {
    /// 1 − βᵗ of both means.
    pub(super) fn corrections(&self) -> [f64; 2] {
        [self.beta1, self.beta2].map(|beta| 1.0 - beta.powi(self.step as i32))
    }
}

pub(super) fn adamw(value: &Tensor, moments: &Moments, gradient: &Tensor, by: &AdamWStep) -> Result<Updated> {
    let corrections = by.corrections();
    let (beta1, beta2, epsilon) = (by.beta1 as f32, by.beta2 as f32, by.epsilon as f32);
    let keep = (1.0 - by.rate * by.decay) as f32;
    let (rate, root) = ((by.rate / corrections[0]) as f32, corrections[1].sqrt() as f32);
    let gradient = gradient.contiguous()?;
    let (new, mean, square) =
        with_slices([value, &moments.0, &moments.1, &gradient], |[value, mean, square, gradient]| {
            let (mut new, mut mean, mut square) = (value.to_vec(), mean.to_vec(), square.to_vec());
            let numbers =
                new.par_iter_mut().with_min_len(1 << 14).zip(&mut mean).zip(&mut square).zip(gradient);
            numbers.for_each(|(((value, mean), square), gradient)| {
                *mean = beta1 * *mean + (1.0 - beta1) * gradient;
                *square = beta2 * *square + (1.0 - beta2) * gradient * gradient;
                *value = keep * *value - rate * *mean / (square.sqrt() / root + epsilon);
            });
            (new, mean, square)
        })?;
    let back = |numbers| Tensor::from_vec(numbers, value.shape(), value.device());
    Ok((back(new)?, (back(mean)?, back(square)?)))
}
