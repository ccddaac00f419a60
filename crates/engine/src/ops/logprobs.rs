//! Log-probabilities of one token per row of logits, and their gradient.

use candle_core::{DType, Tensor};
use gradus_kernels::rows::log_sum_exp;
use rayon::prelude::*;

use super::with_slices;
use crate::Result;

/// The log softmax of the target in each row of logits `[rows, vocabulary]`.
pub fn token_logprobs(logits: &Tensor, targets: &[u32]) -> Result<Vec<f32>> {
    #[cfg(feature = "cuda")]
    if logits.device().is_cuda() {
        let targets = Tensor::new(targets, logits.device())?;
        return Ok(crate::cuda::token_logprobs(&logits.contiguous()?, &targets)?.to_vec1()?);
    }
    let (_, width) = logits.dims2()?;
    let logits = on_cpu(logits)?;
    let value = |(row, target): (&[f32], &u32)| row[*target as usize] - log_sum_exp(row);
    Ok(with_slices([&logits], |[logits]| logits.par_chunks_exact(width).zip(targets).map(value).collect())?)
}

/// Gradient of Σ coefficient · [`token_logprobs`] with respect to the logits, in their type: c (one-hot − softmax). The
/// logits may be overwritten.
#[allow(clippy::needless_pass_by_value, reason = "a GPU writes over them")]
pub fn token_logprobs_backward(logits: Tensor, targets: &[u32], coefficients: &[f32]) -> Result<Tensor> {
    #[cfg(feature = "cuda")]
    if logits.device().is_cuda() {
        let device = logits.device().clone();
        let (targets, coefficients) = (Tensor::new(targets, &device)?, Tensor::new(coefficients, &device)?);
        return crate::cuda::token_logprobs_backward(logits.contiguous()?, &targets, &coefficients);
    }
    let (rows, width) = logits.dims2()?;
    let mut numbers: Vec<f32> = on_cpu(&logits)?.flatten_all()?.to_vec1()?;
    numbers.par_chunks_exact_mut(width).zip(targets).zip(coefficients).for_each(|((row, target), c)| {
        let total = log_sum_exp(row);
        row.iter_mut().for_each(|logit| *logit = -c * (*logit - total).exp());
        row[*target as usize] += c;
    });
    Ok(Tensor::from_vec(numbers, (rows, width), logits.device())?.to_dtype(logits.dtype())?)
}

fn on_cpu(logits: &Tensor) -> Result<Tensor> {
    Ok(logits.to_device(&candle_core::Device::Cpu)?.to_dtype(DType::F32)?.contiguous()?)
}
