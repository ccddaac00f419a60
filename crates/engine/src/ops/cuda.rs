//! Operations on an NVIDIA GPU, by the kernels of `crate::cuda`, which want contiguous tensors. What has none is candle's.

use std::ops::Range;

use candle_core::{Device, Tensor};
use gradus_kernels::Precision;

use super::optimizer::{AdamWStep, Moments, Updated};
use super::{Norm, Store, WeightAndBias};
use crate::Result;
use crate::cuda;
use crate::host_buffer::HostBuffer;

pub(super) use super::candle::{gelu, layer_norm};
pub(super) use crate::cuda::{add_rms_norm, silu_mul};

pub(super) fn add_product(y: Tensor, x: &Tensor, weight: &Tensor) -> Result<Tensor> {
    cuda::add_product(&y, x, &weight.t()?)?;
    Ok(y)
}

pub(super) fn multiply_dense<const N: usize>(
    x: &Tensor,
    weights: [WeightAndBias<'_>; N],
) -> Result<[Tensor; N]> {
    match cuda::vector_products(x, weights)? {
        Some(results) => Ok(results),
        None => super::candle::multiply_dense(x, weights),
    }
}

pub(super) fn gated_dense(x: &Tensor, gate: &Tensor, up: &Tensor) -> Result<Tensor> {
    match cuda::vector_gated(x, gate, up)? {
        Some(y) => Ok(y),
        None => super::candle::gated_dense(x, gate, up),
    }
}

pub(super) fn rms_norm(x: &Tensor, weight: &Tensor, eps: f32) -> Result<Tensor> {
    cuda::rms_norm(&x.contiguous()?, weight, eps)
}

pub(super) fn rms_norm_backward(x: &Tensor, by: Norm, dy: &Tensor, past: Option<&Tensor>) -> Result<Tensor> {
    cuda::rms_norm_backward(&x.contiguous()?, by.weight, by.eps, &dy.contiguous()?, past)
}

pub(super) fn rms_norm_weight_gradient(x: &Tensor, eps: f32, dy: &Tensor) -> Result<Tensor> {
    cuda::rms_norm_weight_gradient(&x.contiguous()?, eps, &dy.contiguous()?)
}

pub(super) fn add_bias(y: Tensor, bias: &Tensor) -> Result<Tensor> {
    cuda::add_bias(&y, bias)?;
    Ok(y)
}

pub(super) fn rope(x: &Tensor, cos: &Tensor, sin: &Tensor) -> Result<Tensor> {
    cuda::rope(&x.contiguous()?, cos, sin)
}

pub(super) fn rope_backward(dy: &Tensor, cos: &Tensor, sin: &Tensor) -> Result<Tensor> {
    cuda::rope_backward(&dy.contiguous()?, cos, sin)
}

pub(super) fn silu_mul_backward(gate: &Tensor, up: &Tensor, dy: &Tensor) -> Result<(Tensor, Tensor)> {
    cuda::silu_mul_backward(gate, up, &dy.contiguous()?)
}

pub(super) fn dropout(x: &Tensor, rate: f32, seed: u64) -> Result<Tensor> {
    cuda::dropout(&x.contiguous()?, rate, seed)
}

pub(super) fn weight_gradient(dy: &Tensor, x: &Tensor, _: Precision) -> Result<Tensor> {
    cuda::weight_gradient(dy, x)
}

pub(super) fn token_logprobs(logits: &Tensor, targets: &[u32]) -> Result<Vec<f32>> {
    let targets = Tensor::new(targets, logits.device())?;
    Ok(cuda::token_logprobs(&logits.contiguous()?, &targets)?.to_vec1()?)
}

pub(super) fn token_logprobs_backward(
    logits: Tensor,
    targets: &[u32],
    coefficients: &[f32],
) -> Result<Tensor> {
    let device = logits.device().clone();
    let (targets, coefficients) = (Tensor::new(targets, &device)?, Tensor::new(coefficients, &device)?);
    cuda::token_logprobs_backward(logits.contiguous()?, &targets, &coefficients)
}

pub(super) fn adamw(value: &Tensor, moments: &Moments, gradient: &Tensor, by: &AdamWStep) -> Result<Updated> {
    let corrections = by.corrections();
    let step = cuda::AdamW {
        rate: by.rate as f32,
        beta1: by.beta1 as f32,
        beta2: by.beta2 as f32,
        eps: by.epsilon as f32,
        decay: by.decay as f32,
        correction1: corrections[0] as f32,
        correction2: corrections[1] as f32,
    };
    cuda::adamw(value, &moments.0, &moments.1, &gradient.contiguous()?, step)?;
    Ok((value.clone(), moments.clone()))
}

pub(super) fn sum_of_squares(tensors: &mut dyn Iterator<Item = &Tensor>) -> Result<f64> {
    let mut on_device: Option<Tensor> = None;
    for tensor in tensors {
        // Added up there, so that the host waits once.
        let part = cuda::sum_of_squares(&tensor.contiguous()?)?;
        on_device = Some(match on_device {
            Some(sum) => (sum + part)?,
            None => part,
        });
    }
    Ok(on_device.map_or(Ok(0.0), |sum| sum.to_scalar::<f32>().map(f64::from))?)
}

pub(super) fn slot_index(slots: &[Range<usize>], device: &Device) -> Result<Option<Tensor>> {
    let each: Vec<u32> = slots.iter().cloned().flatten().map(|slot| slot as u32).collect();
    Ok(Some(Tensor::new(each, device)?))
}

pub(super) fn rope_into(
    [q, k, v]: [&Tensor; 3],
    angles: (&Tensor, &Tensor),
    store: &Store<'_>,
) -> Result<Tensor> {
    let (q, k, v) = (q.contiguous()?, k.contiguous()?, v.contiguous()?);
    let index = store.index.expect("made by `slot_index` on this device");
    cuda::rope_into([&q, &k, &v], angles, index, (store.keys, store.values))
}

pub(super) fn host_buffer() -> Box<dyn HostBuffer> {
    Box::new(cuda::Pinned::default())
}
