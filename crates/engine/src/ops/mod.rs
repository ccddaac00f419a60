//! Row-wise operations and matrix products: our kernels on the CPU and on NVIDIA GPUs, candle's elsewhere.

mod backward;
mod logprobs;
mod optimise;

use candle_core::{CpuStorage, Device, Error, Layout, Result as Candle, Shape, Storage, Tensor};
use gradus_kernels::{Matrix, rows};

use crate::Result;
#[cfg(feature = "cuda")]
use crate::cuda;

pub use backward::{
    dropout, rms_norm_backward, rms_norm_backward_onto, rms_norm_weight_gradient, rope_back,
    silu_mul_backward, weight_gradient,
};
pub use logprobs::{token_logprobs, token_logprobs_backward};
pub use optimise::{AdamWStep, adamw, sum_of_squares};

/// Calls `work` with the numbers of contiguous f32 tensors on the CPU.
pub(crate) fn with_slices<const N: usize, T>(
    tensors: [&Tensor; N],
    work: impl FnOnce([&[f32]; N]) -> T,
) -> Candle<T> {
    let guards = tensors.map(Tensor::storage_and_layout);
    let mut slices: [&[f32]; N] = [&[]; N];
    for (slice, (storage, layout)) in slices.iter_mut().zip(&guards) {
        let Storage::Cpu(storage) = &**storage else {
            candle_core::bail!("expected a tensor on the CPU");
        };
        *slice = contiguous(storage, layout)?;
    }
    Ok(work(slices))
}

/// A tensor on the CPU whose numbers `work` writes, given those of others.
pub(crate) fn compute<const N: usize>(
    tensors: [&Tensor; N],
    shape: impl Into<Shape>,
    work: impl FnOnce([&[f32]; N], &mut [f32]),
) -> Result<Tensor> {
    let shape = shape.into();
    let numbers = with_slices(tensors, |slices| {
        let mut numbers = vec![0.0; shape.elem_count()];
        work(slices, &mut numbers);
        numbers
    })?;
    Ok(Tensor::from_vec(numbers, shape, &Device::Cpu)?)
}

/// The numbers of a contiguous f32 tensor on the CPU.
fn contiguous<'a>(storage: &'a CpuStorage, layout: &Layout) -> Candle<&'a [f32]> {
    let (start, end) =
        layout.contiguous_offsets().ok_or_else(|| Error::Msg("expected a contiguous tensor".to_owned()))?;
    Ok(&storage.as_slice::<f32>()?[start..end])
}

/// x `[m, inputs]` · Wᵀ.
pub(crate) fn multiply(x: &Tensor, matrix: &Matrix) -> Result<Tensor> {
    let (m, inputs) = x.dims2()?;
    assert_eq!(inputs, matrix.columns(), "shapes were checked when the weights were loaded");
    compute([&x.contiguous()?], (m, matrix.rows()), |[x], y| matrix.multiply(x, y))
}

/// x `[m, inputs]` · Wᵀ for a few of W's rows.
pub(crate) fn multiply_rows(x: &Tensor, matrix: &Matrix, wanted: &[u32]) -> Result<Tensor> {
    let wanted: Vec<usize> = wanted.iter().map(|row| *row as usize).collect();
    let (m, _) = x.dims2()?;
    compute([&x.contiguous()?], (m, wanted.len()), |[x], y| matrix.multiply_rows(x, &wanted, y))
}

/// x / √(mean x² + ε) · weight, over the last dimension.
pub fn rms_norm(x: &Tensor, weight: &Tensor, eps: f32) -> Result<Tensor> {
    #[cfg(feature = "cuda")]
    if x.device().is_cuda() {
        return cuda::rms_norm(&x.contiguous()?, weight, eps);
    }
    if !x.device().is_cpu() {
        return Ok(candle_nn::ops::rms_norm(&x.contiguous()?, weight, eps)?);
    }
    compute([&x.contiguous()?, weight], x.shape(), |[x, weight], y| rows::rms_norm(x, weight, eps, y))
}

/// x + added, and the norm of that.
pub fn add_rms_norm(x: &Tensor, added: &Tensor, weight: &Tensor, eps: f32) -> Result<(Tensor, Tensor)> {
    #[cfg(feature = "cuda")]
    if x.device().is_cuda() {
        return cuda::add_rms_norm(x, added, weight, eps);
    }
    let sum = (x + added)?;
    let normed = rms_norm(&sum, weight, eps)?;
    Ok((sum, normed))
}

/// y + bias in every row; may write over y.
#[allow(clippy::needless_pass_by_value, reason = "on an NVIDIA GPU it is written over")]
pub fn add_bias(y: Tensor, bias: &Tensor) -> Result<Tensor> {
    #[cfg(feature = "cuda")]
    if y.device().is_cuda() {
        cuda::add_bias(&y, bias)?;
        return Ok(y);
    }
    Ok(y.broadcast_add(bias)?)
}

/// (x − mean) / √(variance + ε) · weight + bias, over the last dimension.
pub(crate) fn layer_norm(x: &Tensor, weight: &Tensor, bias: &Tensor, eps: f32) -> Result<Tensor> {
    if !x.device().is_cpu() {
        return Ok(candle_nn::ops::layer_norm(&x.contiguous()?, weight, bias, eps)?);
    }
    compute([&x.contiguous()?, weight, bias], x.shape(), |[x, weight, bias], y| {
        rows::layer_norm(x, weight, bias, eps, y);
    })
}

/// Rotates pairs (i, i + dim/2) of x `[rows, heads, dim]` by the angles of each row, `[rows, dim/2]`.
pub fn rope(x: &Tensor, cos: &Tensor, sin: &Tensor) -> Result<Tensor> {
    #[cfg(feature = "cuda")]
    if x.device().is_cuda() {
        return cuda::rope(&x.contiguous()?, cos, sin);
    }
    if !x.device().is_cpu() {
        // candle's kernel wants [batch, positions, heads, dim]: here one row is one position.
        let x = x.contiguous()?.unsqueeze(0)?;
        return Ok(candle_nn::rotary_emb::rope_thd(&x, cos, sin)?.squeeze(0)?);
    }
    let (count, _, dim) = x.dims3()?;
    let own: Vec<u32> = (0..count as u32).collect();
    let rotated = with_slices([&x.contiguous()?, cos, sin], |[x, cos, sin]| {
        let mut y = x.to_vec();
        rows::rope_in_place(&mut y, dim, cos, sin, &own);
        y
    })?;
    Ok(Tensor::from_vec(rotated, x.shape(), &Device::Cpu)?)
}

/// silu(gate) · up.
pub fn silu_mul(gate: &Tensor, up: &Tensor) -> Result<Tensor> {
    #[cfg(feature = "cuda")]
    if gate.device().is_cuda() {
        return cuda::silu_mul(gate, up);
    }
    if !gate.device().is_cpu() {
        return Ok((candle_nn::ops::silu(gate)? * up)?);
    }
    compute([gate, up], gate.shape(), |[gate, up], y| rows::silu_mul(gate, up, y))
}

/// The Gaussian error linear unit, exact.
pub(crate) fn gelu(x: &Tensor) -> Result<Tensor> {
    if !x.device().is_cpu() {
        return Ok(x.gelu_erf()?);
    }
    let bent = with_slices([&x.contiguous()?], |[x]| {
        let mut y = x.to_vec();
        rows::gelu(&mut y);
        y
    })?;
    Ok(Tensor::from_vec(bent, x.shape(), &Device::Cpu)?)
}
