//! Gradients of the row-wise operations and of weights: our kernels on the CPU and on NVIDIA GPUs, candle's elsewhere.

use candle_core::{D, DType, Tensor};
use gradus_kernels::{Precision, gradient, rows};

use super::{compute, with_slices};
use crate::Result;
#[cfg(feature = "cuda")]
use crate::cuda;

/// Gradient of [`super::rms_norm`] with respect to x.
pub fn rms_norm_backward(x: &Tensor, weight: &Tensor, eps: f32, dy: &Tensor) -> Result<Tensor> {
    #[cfg(feature = "cuda")]
    if x.device().is_cuda() {
        return cuda::rms_norm_backward(&x.contiguous()?, weight, eps, &dy.contiguous()?, None);
    }
    if x.device().is_cpu() {
        let (x, dy) = (x.contiguous()?, dy.contiguous()?);
        return compute([&x, weight, &dy], x.shape(), |[x, weight, dy], dx| {
            rows::rms_norm_backward(x, weight, eps, dy, dx);
        });
    }
    // x̂ = x / rms; dx = (w dy − x̂ mean(w dy x̂)) / rms
    let (x32, dy32) = (x.to_dtype(DType::F32)?, dy.to_dtype(DType::F32)?);
    let rms = (x32.sqr()?.mean_keepdim(D::Minus1)? + f64::from(eps))?.sqrt()?;
    let normed = x32.broadcast_div(&rms)?;
    let scaled = dy32.broadcast_mul(&weight.to_dtype(DType::F32)?)?;
    let along = (&scaled * &normed)?.mean_keepdim(D::Minus1)?;
    let dx = (scaled - normed.broadcast_mul(&along)?)?.broadcast_div(&rms)?;
    Ok(dx.to_dtype(x.dtype())?)
}

/// `past` + [`rms_norm_backward`]: the gradient that comes past the norm on the residual stream, and the one through it.
pub fn rms_norm_backward_onto(
    past: &Tensor,
    x: &Tensor,
    weight: &Tensor,
    eps: f32,
    dy: &Tensor,
) -> Result<Tensor> {
    #[cfg(feature = "cuda")]
    if x.device().is_cuda() {
        return cuda::rms_norm_backward(&x.contiguous()?, weight, eps, &dy.contiguous()?, Some(past));
    }
    Ok((past + rms_norm_backward(x, weight, eps, dy)?)?)
}

/// Gradient of [`super::rms_norm`] with respect to its weight, in f32.
pub fn rms_norm_weight_gradient(x: &Tensor, eps: f32, dy: &Tensor) -> Result<Tensor> {
    #[cfg(feature = "cuda")]
    if x.device().is_cuda() {
        return cuda::rms_norm_weight_gradient(&x.contiguous()?, eps, &dy.contiguous()?);
    }
    let width = x.dim(D::Minus1)?;
    if x.device().is_cpu() {
        let (x, dy) = (x.contiguous()?, dy.contiguous()?);
        return compute([&x, &dy], width, |[x, dy], gradient| {
            rows::rms_norm_weight_gradient(x, eps, dy, gradient);
        });
    }
    let (x, dy) = (x.to_dtype(DType::F32)?, dy.to_dtype(DType::F32)?);
    let rms = (x.sqr()?.mean_keepdim(D::Minus1)? + f64::from(eps))?.sqrt()?;
    Ok((x.broadcast_div(&rms)? * dy)?.reshape(((), width))?.sum(0)?)
}

/// Gradient of [`super::rope`]: the rotation the other way.
pub fn rope_back(dy: &Tensor, cos: &Tensor, sin: &Tensor) -> Result<Tensor> {
    #[cfg(feature = "cuda")]
    if dy.device().is_cuda() {
        return cuda::rope_backward(&dy.contiguous()?, cos, sin);
    }
    super::rope(dy, cos, &sin.neg()?)
}

/// Gradients of [`super::silu_mul`] with respect to gate and up.
pub fn silu_mul_backward(gate: &Tensor, up: &Tensor, dy: &Tensor) -> Result<(Tensor, Tensor)> {
    #[cfg(feature = "cuda")]
    if gate.device().is_cuda() {
        return cuda::silu_mul_backward(gate, up, &dy.contiguous()?);
    }
    if gate.device().is_cpu() {
        let dy = dy.contiguous()?;
        let (dgate, dup) = with_slices([gate, up, &dy], |[gate, up, dy]| {
            let (mut dgate, mut dup) = (vec![0.0; gate.len()], vec![0.0; gate.len()]);
            rows::silu_mul_backward(gate, up, dy, &mut dgate, &mut dup);
            (dgate, dup)
        })?;
        let back = |values| Tensor::from_vec(values, gate.shape(), gate.device());
        return Ok((back(dgate)?, back(dup)?));
    }
    let sigmoid = candle_nn::ops::sigmoid(gate)?;
    let silu = (gate * &sigmoid)?;
    // silu′ = σ + silu (1 − σ)
    let slope = (&sigmoid + (&silu * (1.0 - &sigmoid)?)?)?;
    Ok((((dy * up)? * slope)?, (dy * silu)?))
}

/// x / (1 − rate) where a hash of the seed and the place keeps it, 0 elsewhere. The same seed drops the same places.
pub fn dropout(x: &Tensor, rate: f32, seed: u64) -> Result<Tensor> {
    #[cfg(feature = "cuda")]
    if x.device().is_cuda() {
        return cuda::dropout(&x.contiguous()?, rate, seed);
    }
    let on_cpu = x.to_device(&candle_core::Device::Cpu)?.to_dtype(DType::F32)?.contiguous()?;
    let dropped = compute([&on_cpu], x.shape(), |[x], y| rows::dropout(x, rate, seed, y))?;
    Ok(dropped.to_device(x.device())?.to_dtype(x.dtype())?)
}

/// dYᵀ · X in f32: the gradient of a weight `[outputs, inputs]` from dY `[m, outputs]` and X `[m, inputs]`.
pub fn weight_gradient(dy: &Tensor, x: &Tensor, precision: Precision) -> Result<Tensor> {
    #[cfg(feature = "cuda")]
    if dy.device().is_cuda() {
        return cuda::weight_gradient(dy, x);
    }
    let ((m, outputs), inputs) = (dy.dims2()?, x.dim(1)?);
    if dy.device().is_cpu() {
        let (dy, x) = (dy.contiguous()?, x.contiguous()?);
        return compute([&dy, &x], (outputs, inputs), |[dy, x], product| {
            gradient(dy, x, m, precision, product);
        });
    }
    Ok(dy.t()?.matmul(x)?.to_dtype(DType::F32)?)
}
