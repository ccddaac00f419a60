//! Operations on the CPU, by our kernels. What has none is candle's.

use candle_core::{D, Device, Tensor};
use gradus_kernels::{Precision, gradient, rows};

use super::Norm;
use super::candle::add_past;
use super::slices::{compute, with_slices};
use crate::Result;

pub(super) use super::candle::{
    add_bias, add_product, add_rms_norm, dropout, gated_dense, host_buffer, multiply_dense, rope_into,
    slot_index, sum_of_squares, token_logprobs, token_logprobs_backward,
};
pub(super) use super::optimizer::adamw;

pub(super) fn rms_norm(x: &Tensor, weight: &Tensor, eps: f32) -> Result<Tensor> {
    compute([&x.contiguous()?, weight], x.shape(), |[x, weight], y| rows::rms_norm(x, weight, eps, y))
}

pub(super) fn rms_norm_backward(x: &Tensor, by: Norm, dy: &Tensor, past: Option<&Tensor>) -> Result<Tensor> {
    let (x, dy) = (x.contiguous()?, dy.contiguous()?);
    let dx = compute([&x, by.weight, &dy], x.shape(), |[x, weight, dy], dx| {
        rows::rms_norm_backward(x, weight, by.eps, dy, dx);
    })?;
    add_past(past, dx)
}

pub(super) fn rms_norm_weight_gradient(x: &Tensor, eps: f32, dy: &Tensor) -> Result<Tensor> {
    let width = x.dim(D::Minus1)?;
    let (x, dy) = (x.contiguous()?, dy.contiguous()?);
    compute([&x, &dy], width, |[x, dy], gradient| {
        rows::rms_norm_weight_gradient(x, eps, dy, gradient);
    })
}

pub(super) fn layer_norm(x: &Tensor, weight: &Tensor, bias: &Tensor, eps: f32) -> Result<Tensor> {
    compute([&x.contiguous()?, weight, bias], x.shape(), |[x, weight, bias], y| {
        rows::layer_norm(x, weight, bias, eps, y);
    })
}

pub(super) fn rope(x: &Tensor, cos: &Tensor, sin: &Tensor) -> Result<Tensor> {
    rotate(x, cos, sin, rows::rope_in_place)
}

pub(super) fn rope_backward(dy: &Tensor, cos: &Tensor, sin: &Tensor) -> Result<Tensor> {
    rotate(dy, cos, sin, rows::rope_backward_in_place)
}

/// Rotates heads in place: values, head dimension, cosines, sines, positions.
type Rotation = fn(&mut [f32], usize, &[f32], &[f32], &[u32]);

fn rotate(x: &Tensor, cos: &Tensor, sin: &Tensor, in_place: Rotation) -> Result<Tensor> {
    let (count, _, dim) = x.dims3()?;
    let own: Vec<u32> = (0..count as u32).collect();
    let rotated = with_slices([&x.contiguous()?, cos, sin], |[x, cos, sin]| {
        let mut y = x.to_vec();
        in_place(&mut y, dim, cos, sin, &own);
        y
    })?;
    Ok(Tensor::from_vec(rotated, x.shape(), &Device::Cpu)?)
}

pub(super) fn silu_mul(gate: &Tensor, up: &Tensor) -> Result<Tensor> {
    compute([gate, up], gate.shape(), |[gate, up], y| rows::silu_mul(gate, up, y))
}

pub(super) fn silu_mul_backward(gate: &Tensor, up: &Tensor, dy: &Tensor) -> Result<(Tensor, Tensor)> {
    let dy = dy.contiguous()?;
    let (dgate, dup) = with_slices([gate, up, &dy], |[gate, up, dy]| {
        let (mut dgate, mut dup) = (vec![0.0; gate.len()], vec![0.0; gate.len()]);
        rows::silu_mul_backward(gate, up, dy, &mut dgate, &mut dup);
        (dgate, dup)
    })?;
    let back = |values| Tensor::from_vec(values, gate.shape(), gate.device());
    Ok((back(dgate)?, back(dup)?))
}

pub(super) fn gelu(x: &Tensor) -> Result<Tensor> {
    let activated = with_slices([&x.contiguous()?], |[x]| {
        let mut y = x.to_vec();
        rows::gelu(&mut y);
        y
    })?;
    Ok(Tensor::from_vec(activated, x.shape(), &Device::Cpu)?)
}

pub(super) fn weight_gradient(dy: &Tensor, x: &Tensor, precision: Precision) -> Result<Tensor> {
    let ((m, outputs), inputs) = (dy.dims2()?, x.dim(1)?);
    let (dy, x) = (dy.contiguous()?, x.contiguous()?);
    compute([&dy, &x], (outputs, inputs), |[dy, x], product| {
        gradient(dy, x, m, precision, product);
    })
}
