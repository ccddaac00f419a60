//! Operations of candle: for Apple GPUs, and for what the CPU and NVIDIA GPUs have no kernel of ours for.
//!
//! Dropout and log-probabilities are computed on the CPU, wherever the tensors are. AdamW is for the CPU only.

use std::ops::Range;

use candle_core::{D, DType, Device, Tensor};
use gradus_kernels::Precision;
use gradus_kernels::rows::{self, log_sum_exp};
use rayon::prelude::*;

use super::slices::{compute, with_slices};
use super::{Norm, Store, WeightAndBias};
use crate::Result;
use crate::host_buffer::{HostBuffer, Pageable};

pub(super) use super::optimizer::adamw;

pub(super) fn add_product(y: Tensor, x: &Tensor, weight: &Tensor) -> Result<Tensor> {
    Ok((y + x.matmul(&weight.t()?)?)?)
}

pub(super) fn multiply_dense<const N: usize>(
    x: &Tensor,
    weights: [WeightAndBias<'_>; N],
) -> Result<[Tensor; N]> {
    let product = |(weight, bias): WeightAndBias<'_>| {
        let y = x.matmul(&weight.t()?)?;
        match bias {
            Some(bias) => super::add_bias(y, bias),
            None => Ok(y),
        }
    };
    let each: Vec<Tensor> = weights.into_iter().map(product).collect::<Result<_>>()?;
    Ok(each.try_into().expect("one for each"))
}

pub(super) fn gated_dense(x: &Tensor, gate: &Tensor, up: &Tensor) -> Result<Tensor> {
    super::silu_mul(&x.matmul(&gate.t()?)?, &x.matmul(&up.t()?)?)
}

pub(super) fn rms_norm(x: &Tensor, weight: &Tensor, eps: f32) -> Result<Tensor> {
    Ok(candle_nn::ops::rms_norm(&x.contiguous()?, weight, eps)?)
}

pub(super) fn add_rms_norm(
    x: &Tensor,
    added: &Tensor,
    weight: &Tensor,
    eps: f32,
) -> Result<(Tensor, Tensor)> {
    let sum = (x + added)?;
    let normed = super::rms_norm(&sum, weight, eps)?;
    Ok((sum, normed))
}

pub(super) fn rms_norm_backward(x: &Tensor, by: Norm, dy: &Tensor, past: Option<&Tensor>) -> Result<Tensor> {
    let Norm { weight, eps } = by;
    // x̂ = x / rms; dx = (w dy − x̂ mean(w dy x̂)) / rms
    let (x32, dy32) = (x.to_dtype(DType::F32)?, dy.to_dtype(DType::F32)?);
    let rms = (x32.sqr()?.mean_keepdim(D::Minus1)? + f64::from(eps))?.sqrt()?;
    let normed = x32.broadcast_div(&rms)?;
    let scaled = dy32.broadcast_mul(&weight.to_dtype(DType::F32)?)?;
    let along = (&scaled * &normed)?.mean_keepdim(D::Minus1)?;
    let dx = (scaled - normed.broadcast_mul(&along)?)?.broadcast_div(&rms)?;
    add_past(past, dx.to_dtype(x.dtype())?)
}

/// The gradient through a norm, with the one that comes past it.
pub(super) fn add_past(past: Option<&Tensor>, dx: Tensor) -> Result<Tensor> {
    match past {
        Some(past) => Ok((past + dx)?),
        None => Ok(dx),
    }
}

pub(super) fn rms_norm_weight_gradient(x: &Tensor, eps: f32, dy: &Tensor) -> Result<Tensor> {
    let width = x.dim(D::Minus1)?;
    let (x, dy) = (x.to_dtype(DType::F32)?, dy.to_dtype(DType::F32)?);
    let rms = (x.sqr()?.mean_keepdim(D::Minus1)? + f64::from(eps))?.sqrt()?;
    Ok((x.broadcast_div(&rms)? * dy)?.reshape(((), width))?.sum(0)?)
}

pub(super) fn layer_norm(x: &Tensor, weight: &Tensor, bias: &Tensor, eps: f32) -> Result<Tensor> {
    Ok(candle_nn::ops::layer_norm(&x.contiguous()?, weight, bias, eps)?)
}

#[allow(clippy::needless_pass_by_value, reason = "on an NVIDIA GPU it is written over")]
pub(super) fn add_bias(y: Tensor, bias: &Tensor) -> Result<Tensor> {
    Ok(y.broadcast_add(bias)?)
}

pub(super) fn rope(x: &Tensor, cos: &Tensor, sin: &Tensor) -> Result<Tensor> {
    // candle's kernel wants [batch, positions, heads, dim]: here one row is one position.
    let x = x.contiguous()?.unsqueeze(0)?;
    Ok(candle_nn::rotary_emb::rope_thd(&x, cos, sin)?.squeeze(0)?)
}

pub(super) fn rope_backward(dy: &Tensor, cos: &Tensor, sin: &Tensor) -> Result<Tensor> {
    super::rope(dy, cos, &sin.neg()?)
}

pub(super) fn silu_mul(gate: &Tensor, up: &Tensor) -> Result<Tensor> {
    Ok((candle_nn::ops::silu(gate)? * up)?)
}

pub(super) fn silu_mul_backward(gate: &Tensor, up: &Tensor, dy: &Tensor) -> Result<(Tensor, Tensor)> {
    let sigmoid = candle_nn::ops::sigmoid(gate)?;
    let silu = (gate * &sigmoid)?;
    // silu′ = σ + silu (1 − σ)
    let derivative = (&sigmoid + (&silu * (1.0 - &sigmoid)?)?)?;
    Ok((((dy * up)? * derivative)?, (dy * silu)?))
}

pub(super) fn gelu(x: &Tensor) -> Result<Tensor> {
    Ok(x.gelu_erf()?)
}

pub(super) fn dropout(x: &Tensor, rate: f32, seed: u64) -> Result<Tensor> {
    let on_cpu = in_f32_on_cpu(x)?;
    let dropped = compute([&on_cpu], x.shape(), |[x], y| rows::dropout(x, rate, seed, y))?;
    Ok(dropped.to_device(x.device())?.to_dtype(x.dtype())?)
}

pub(super) fn weight_gradient(dy: &Tensor, x: &Tensor, _: Precision) -> Result<Tensor> {
    Ok(dy.t()?.matmul(x)?.to_dtype(DType::F32)?)
}

pub(super) fn token_logprobs(logits: &Tensor, targets: &[u32]) -> Result<Vec<f32>> {
    let (_, width) = logits.dims2()?;
    let logits = in_f32_on_cpu(logits)?;
    let value = |(row, target): (&[f32], &u32)| row[*target as usize] - log_sum_exp(row);
    Ok(with_slices([&logits], |[logits]| logits.par_chunks_exact(width).zip(targets).map(value).collect())?)
}

#[allow(clippy::needless_pass_by_value, reason = "on an NVIDIA GPU they are written over")]
pub(super) fn token_logprobs_backward(
    logits: Tensor,
    targets: &[u32],
    coefficients: &[f32],
) -> Result<Tensor> {
    let (rows, width) = logits.dims2()?;
    let mut values: Vec<f32> = in_f32_on_cpu(&logits)?.flatten_all()?.to_vec1()?;
    values.par_chunks_exact_mut(width).zip(targets).zip(coefficients).for_each(|((row, target), c)| {
        let total = log_sum_exp(row);
        row.iter_mut().for_each(|logit| *logit = -c * (*logit - total).exp());
        row[*target as usize] += c;
    });
    Ok(Tensor::from_vec(values, (rows, width), logits.device())?.to_dtype(logits.dtype())?)
}

pub(super) fn sum_of_squares(tensors: &mut dyn Iterator<Item = &Tensor>) -> Result<f64> {
    let mut sum = 0.0;
    for tensor in tensors {
        sum += f64::from(tensor.sqr()?.sum_all()?.to_scalar::<f32>()?);
    }
    Ok(sum)
}

#[allow(clippy::unnecessary_wraps, reason = "NVIDIA GPUs make a tensor")]
pub(super) fn slot_index(_: &[Range<usize>], _: &Device) -> Result<Option<Tensor>> {
    Ok(None)
}

pub(super) fn rope_into(
    [q, k, v]: [&Tensor; 3],
    (cos, sin): (&Tensor, &Tensor),
    store: &Store<'_>,
) -> Result<Tensor> {
    let write = |x: &Tensor, to: &Tensor| -> Result<()> {
        let mut row = 0;
        for range in store.slots {
            to.slice_set(&x.narrow(0, row, range.len())?.contiguous()?, 0, range.start)?;
            row += range.len();
        }
        Ok(())
    };
    write(&super::rope(k, cos, sin)?, store.keys)?;
    write(v, store.values)?;
    super::rope(q, cos, sin)
}

pub(super) fn host_buffer() -> Box<dyn HostBuffer> {
    Box::new(Pageable::default())
}

fn in_f32_on_cpu(x: &Tensor) -> Result<Tensor> {
    Ok(x.to_device(&Device::Cpu)?.to_dtype(DType::F32)?.contiguous()?)
}
