//! One step of AdamW on one parameter, in f32.

use candle_core::Tensor;
use rayon::prelude::*;

use super::with_slices;
use crate::Result;

/// One step's numbers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AdamWStep {
    /// Learning rate.
    pub rate: f64,
    /// How much of the mean of gradients is kept.
    pub beta1: f64,
    /// How much of the mean of squared gradients is kept.
    pub beta2: f64,
    /// Added to the denominator.
    pub epsilon: f64,
    /// Decoupled weight decay.
    pub decay: f64,
    /// Counted from 1.
    pub step: usize,
}

/// The new value and moments. On a GPU the old ones are overwritten.
pub fn adamw(
    value: &Tensor,
    moments: &(Tensor, Tensor),
    gradient: &Tensor,
    by: &AdamWStep,
) -> Result<(Tensor, (Tensor, Tensor))> {
    let corrections = [by.beta1, by.beta2].map(|beta| 1.0 - beta.powi(by.step as i32));
    #[cfg(feature = "cuda")]
    if value.device().is_cuda() {
        let step = crate::cuda::AdamW {
            rate: by.rate as f32,
            beta1: by.beta1 as f32,
            beta2: by.beta2 as f32,
            eps: by.epsilon as f32,
            decay: by.decay as f32,
            correction1: corrections[0] as f32,
            correction2: corrections[1] as f32,
        };
        crate::cuda::adamw(value, &moments.0, &moments.1, &gradient.contiguous()?, step)?;
        return Ok((value.clone(), moments.clone()));
    }
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

/// Σ x², over all tensors.
pub fn sum_of_squares<'a>(tensors: impl Iterator<Item = &'a Tensor>) -> Result<f64> {
    let mut sum = 0.0;
    #[cfg(feature = "cuda")]
    let mut on_device: Option<Tensor> = None;
    for tensor in tensors {
        #[cfg(feature = "cuda")]
        if tensor.device().is_cuda() {
            // Added up there, so that the host waits once.
            let part = crate::cuda::sum_of_squares(&tensor.contiguous()?)?;
            on_device = Some(match on_device {
                Some(sum) => (sum + part)?,
                None => part,
            });
            continue;
        }
        sum += f64::from(tensor.sqr()?.sum_all()?.to_scalar::<f32>()?);
    }
    #[cfg(feature = "cuda")]
    if let Some(part) = on_device {
        sum += f64::from(part.to_scalar::<f32>()?);
    }
    Ok(sum)
}
