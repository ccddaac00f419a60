//! Operations of a pass and of its gradient, on whichever device the tensors are.
//!
//! | file           | what                                                                                |
//! |----------------|-------------------------------------------------------------------------------------|
//! | `cpu.rs`       | our kernels (`gradus-kernels`)                                                      |
//! | `cuda.rs`      | our CUDA kernels (`crate::cuda`), with the feature of that name                     |
//! | `candle.rs`    | candle's own operations: Apple GPUs, and what the others have no kernel for         |
//! | `slices.rs`    | candle's CPU tensors as slices                                                      |
//! | `optimizer.rs` | AdamW on the CPU                                                                    |
//!
//! Each operation is one function here, which chooses one of the three by `on_device!`.

mod candle;
mod cpu;
#[cfg(feature = "cuda")]
mod cuda;
mod optimizer;
mod slices;

use std::ops::Range;

use candle_core::{Device, Tensor};
use gradus_kernels::{Activations, Matrix, Precision, Projection};

use crate::Result;
use crate::device::on_device;
use crate::host_buffer::HostBuffer;

pub use optimizer::{AdamWStep, Moments};
pub(crate) use slices::{compute, with_slices};

/// The weight and ε of an RMSNorm.
#[derive(Clone, Copy)]
struct Norm<'a> {
    weight: &'a Tensor,
    eps: f32,
}

/// x `[m, inputs]` · Wᵀ.
pub(crate) fn multiply(x: &Tensor, matrix: &Matrix) -> Result<Tensor> {
    let (m, inputs) = x.dims2()?;
    assert_eq!(inputs, matrix.columns(), "shapes were checked when the weights were loaded");
    compute([&x.contiguous()?], (m, matrix.rows()), |[x], y| matrix.multiply(x, y))
}

/// y + x `[m, inputs]` · Wᵀ.
pub(crate) fn add_multiply(y: &Tensor, x: &Tensor, matrix: &Matrix) -> Result<Tensor> {
    compute([&y.contiguous()?, &x.contiguous()?], y.shape(), |[y, x], sum| {
        sum.copy_from_slice(y);
        matrix.add_multiply(x, sum);
    })
}

/// x `[m, inputs]` · Wᵀ + (x · Aᵀ) · Bᵀ + bias, where the last two are there. All is added where the product lies: a tensor
/// more of its size would cost as much as the product.
pub(crate) fn project(
    x: &Tensor,
    weight: &Matrix,
    bias: Option<&Tensor>,
    lora: Option<(&Matrix, &Matrix)>,
) -> Result<Tensor> {
    let (m, inputs) = x.dims2()?;
    assert_eq!(inputs, weight.columns(), "shapes were checked when the weights were loaded");
    let bias = bias.map(Tensor::to_vec1::<f32>).transpose()?;
    let projection = Projection { weights: weight, bias, adapter: lora };
    compute([&x.contiguous()?], (m, weight.rows()), |[x], y| {
        let x = if lora.is_some() { Activations::new(x) } else { Activations::for_one(x) };
        projection.apply(&x, y);
    })
}

/// A weight `[outputs, inputs]` that is a tensor, and its bias.
pub(crate) type WeightAndBias<'a> = (&'a Tensor, Option<&'a Tensor>);

/// x `[m, inputs]` · Wᵀ + bias of each weight.
pub(crate) fn multiply_dense<const N: usize>(
    x: &Tensor,
    weights: [WeightAndBias<'_>; N],
) -> Result<[Tensor; N]> {
    on_device!(x.device(), multiply_dense(x, weights))
}

/// silu(x · gateᵀ) · (x · upᵀ).
pub(crate) fn gated_dense(x: &Tensor, gate: &Tensor, up: &Tensor) -> Result<Tensor> {
    on_device!(x.device(), gated_dense(x, gate, up))
}

/// x `[m, inputs]` · Wᵀ for a few of W's rows.
pub(crate) fn multiply_rows(x: &Tensor, matrix: &Matrix, wanted: &[u32]) -> Result<Tensor> {
    let wanted: Vec<usize> = wanted.iter().map(|row| *row as usize).collect();
    let (m, _) = x.dims2()?;
    compute([&x.contiguous()?], (m, wanted.len()), |[x], y| matrix.multiply_rows(x, &wanted, y))
}

/// y + x `[m, inputs]` · Wᵀ; may write over y.
pub(crate) fn add_product(y: Tensor, x: &Tensor, weight: &Tensor) -> Result<Tensor> {
    on_device!(y.device(), add_product(y, x, weight))
}

/// x / √(mean x² + ε) · weight, over the last dimension.
pub fn rms_norm(x: &Tensor, weight: &Tensor, eps: f32) -> Result<Tensor> {
    on_device!(x.device(), rms_norm(x, weight, eps))
}

/// x + added, and the norm of that.
pub fn add_rms_norm(x: &Tensor, added: &Tensor, weight: &Tensor, eps: f32) -> Result<(Tensor, Tensor)> {
    on_device!(x.device(), add_rms_norm(x, added, weight, eps))
}

/// Gradient of [`rms_norm`] with respect to x.
pub fn rms_norm_backward(x: &Tensor, weight: &Tensor, eps: f32, dy: &Tensor) -> Result<Tensor> {
    on_device!(x.device(), rms_norm_backward(x, Norm { weight, eps }, dy, None))
}

/// `past` + [`rms_norm_backward`]: the gradient that comes past the norm on the residual stream, and the one through it.
pub fn rms_norm_backward_onto(
    past: &Tensor,
    x: &Tensor,
    weight: &Tensor,
    eps: f32,
    dy: &Tensor,
) -> Result<Tensor> {
    on_device!(x.device(), rms_norm_backward(x, Norm { weight, eps }, dy, Some(past)))
}

/// Gradient of [`rms_norm`] with respect to its weight, in f32.
pub fn rms_norm_weight_gradient(x: &Tensor, eps: f32, dy: &Tensor) -> Result<Tensor> {
    on_device!(x.device(), rms_norm_weight_gradient(x, eps, dy))
}

/// (x − mean) / √(variance + ε) · weight + bias, over the last dimension.
pub(crate) fn layer_norm(x: &Tensor, weight: &Tensor, bias: &Tensor, eps: f32) -> Result<Tensor> {
    on_device!(x.device(), layer_norm(x, weight, bias, eps))
}

/// y + bias in every row; may write over y.
pub fn add_bias(y: Tensor, bias: &Tensor) -> Result<Tensor> {
    on_device!(y.device(), add_bias(y, bias))
}

/// Rotates pairs (i, i + dim/2) of x `[rows, heads, dim]` by the angles of each row, `[rows, dim/2]`.
pub fn rope(x: &Tensor, cos: &Tensor, sin: &Tensor) -> Result<Tensor> {
    on_device!(x.device(), rope(x, cos, sin))
}

/// Gradient of [`rope`]: the rotation the other way.
pub fn rope_backward(dy: &Tensor, cos: &Tensor, sin: &Tensor) -> Result<Tensor> {
    on_device!(dy.device(), rope_backward(dy, cos, sin))
}

/// silu(gate) · up.
pub fn silu_mul(gate: &Tensor, up: &Tensor) -> Result<Tensor> {
    on_device!(gate.device(), silu_mul(gate, up))
}

/// Gradients of [`silu_mul`] with respect to gate and up.
pub fn silu_mul_backward(gate: &Tensor, up: &Tensor, dy: &Tensor) -> Result<(Tensor, Tensor)> {
    on_device!(gate.device(), silu_mul_backward(gate, up, dy))
}

/// The Gaussian error linear unit, exact.
pub(crate) fn gelu(x: &Tensor) -> Result<Tensor> {
    on_device!(x.device(), gelu(x))
}

/// x / (1 − rate) where a hash of the seed and the position keeps it, 0 elsewhere. The same seed drops the same positions.
pub fn dropout(x: &Tensor, rate: f32, seed: u64) -> Result<Tensor> {
    on_device!(x.device(), dropout(x, rate, seed))
}

/// dYᵀ · X in f32: the gradient of a weight `[outputs, inputs]` from dY `[m, outputs]` and X `[m, inputs]`.
pub fn weight_gradient(dy: &Tensor, x: &Tensor, precision: Precision) -> Result<Tensor> {
    on_device!(dy.device(), weight_gradient(dy, x, precision))
}

/// The log softmax of the target in each row of logits `[rows, vocabulary]`.
pub fn token_logprobs(logits: &Tensor, targets: &[u32]) -> Result<Vec<f32>> {
    on_device!(logits.device(), token_logprobs(logits, targets))
}

/// Gradient of Σ coefficient · [`token_logprobs`] with respect to the logits, in their type: c (one-hot − softmax). The
/// logits may be overwritten.
pub fn token_logprobs_backward(logits: Tensor, targets: &[u32], coefficients: &[f32]) -> Result<Tensor> {
    on_device!(logits.device(), token_logprobs_backward(logits, targets, coefficients))
}

/// A step of AdamW: the new value and moments. On an NVIDIA GPU the old ones are overwritten.
pub fn adamw(
    value: &Tensor,
    moments: &Moments,
    gradient: &Tensor,
    by: &AdamWStep,
) -> Result<(Tensor, Moments)> {
    on_device!(value.device(), adamw(value, moments, gradient, by))
}

/// Σ x², over all tensors, which are on one device.
pub fn sum_of_squares<'a>(tensors: impl Iterator<Item = &'a Tensor>) -> Result<f64> {
    let mut tensors = tensors.peekable();
    match tensors.peek() {
        None => Ok(0.0),
        Some(first) => on_device!(first.device(), sum_of_squares(&mut tensors)),
    }
}

/// The slot of each row, where one kernel writes all rows to their slots.
pub(crate) fn slot_index(slots: &[Range<usize>], device: &Device) -> Result<Option<Tensor>> {
    on_device!(device, slot_index(slots, device))
}

/// Where new keys and values go.
#[derive(Clone, Copy)]
pub(crate) struct Store<'a> {
    pub(crate) slots: &'a [Range<usize>],
    /// The [`slot_index`] of `slots`.
    #[cfg_attr(not(feature = "cuda"), expect(dead_code, reason = "only NVIDIA GPUs have one"))]
    pub(crate) index: Option<&'a Tensor>,
    pub(crate) keys: &'a Tensor,
    pub(crate) values: &'a Tensor,
}

/// [`rope`] of q and k, and the rows of k and v written to their slots, in order; returns the turned q.
pub(crate) fn rope_into(qkv: [&Tensor; 3], angles: (&Tensor, &Tensor), store: &Store<'_>) -> Result<Tensor> {
    on_device!(qkv[0].device(), rope_into(qkv, angles, store))
}

/// Memory of the host for tensors of a device.
pub(crate) fn host_buffer(device: &Device) -> Box<dyn HostBuffer> {
    on_device!(device, host_buffer())
}
