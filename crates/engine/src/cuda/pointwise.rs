//! Operations on single numbers: SwiGLU and its gradients, biases, rotary positions, dropout.

use candle_core::{Error, Tensor};

use super::launch::{Arg, Grid, POINTWISE, address, launch, rows_of, same_shape, unfilled, variant};
use crate::Result;

/// silu(gate) · up.
pub(crate) fn silu_mul(gate: &Tensor, up: &Tensor) -> Result<Tensor> {
    same_shape("silu_mul", &[gate, up])?;
    let count = gate.elem_count();
    let y = unfilled(gate.shape(), gate.dtype(), gate)?;
    let kernel = variant("silu_mul", count, &[gate, up, &y])?;
    let arguments = [
        Arg::Address(address(gate)?),
        Arg::Address(address(up)?),
        Arg::Address(address(&y)?),
        Arg::U64(count as u64),
    ];
    let device = gate.device().as_cuda_device()?;
    // SAFETY: the kernel's own arguments; shapes were compared.
    unsafe { launch(device, &POINTWISE, &kernel.name, Grid::numbers(count, kernel.pack), &arguments)? };
    Ok(y)
}

/// Gradients of [`silu_mul`] with respect to gate and up.
pub(crate) fn silu_mul_backward(gate: &Tensor, up: &Tensor, dy: &Tensor) -> Result<(Tensor, Tensor)> {
    same_shape("silu_mul_backward", &[gate, up, dy])?;
    let count = gate.elem_count();
    let empty = || unfilled(gate.shape(), gate.dtype(), gate);
    let (dgate, dup) = (empty()?, empty()?);
    let kernel = variant("silu_mul_backward", count, &[gate, up, dy, &dgate, &dup])?;
    let arguments = [
        Arg::Address(address(gate)?),
        Arg::Address(address(up)?),
        Arg::Address(address(dy)?),
        Arg::Address(address(&dgate)?),
        Arg::Address(address(&dup)?),
        Arg::U64(count as u64),
    ];
    let device = gate.device().as_cuda_device()?;
    // SAFETY: the kernel's own arguments; shapes were compared.
    unsafe { launch(device, &POINTWISE, &kernel.name, Grid::numbers(count, kernel.pack), &arguments)? };
    Ok((dgate, dup))
}

/// y + bias in every row, in place.
pub(crate) fn add_bias(y: &Tensor, bias: &Tensor) -> Result<()> {
    let (rows, width) = rows_of(y)?;
    if bias.dims() != [width] {
        let message = format!("add_bias: a bias of shape {:?} for rows of {width}", bias.dims());
        return Err(Error::Msg(message).into());
    }
    let kernel = variant("add_bias", width, &[y, bias])?;
    let count = rows * width;
    let arguments = [
        Arg::Address(address(y)?),
        Arg::Address(address(bias)?),
        Arg::U64(count as u64),
        Arg::U32(width as u32),
    ];
    let device = y.device().as_cuda_device()?;
    // SAFETY: the kernel's own arguments; shapes were compared.
    unsafe { launch(device, &POINTWISE, &kernel.name, Grid::numbers(count, kernel.pack), &arguments)? };
    Ok(())
}

/// Rotates pairs (i, i + dim/2) of x `[rows, heads, dim]` by the angles of each row, `[rows, dim/2]`.
pub(crate) fn rope(x: &Tensor, cos: &Tensor, sin: &Tensor) -> Result<Tensor> {
    turn(x, cos, sin, 1.0)
}

/// Gradient of [`rope`]: the rotation the other way.
pub(crate) fn rope_backward(dy: &Tensor, cos: &Tensor, sin: &Tensor) -> Result<Tensor> {
    turn(dy, cos, sin, -1.0)
}

fn turn(x: &Tensor, cos: &Tensor, sin: &Tensor, sign: f32) -> Result<Tensor> {
    let (rows, heads, dim) = x.dims3()?;
    let half = dim / 2;
    if cos.dims() != [rows, half] || sin.dims() != [rows, half] || dim % 2 != 0 {
        let message = format!("rope: angles {:?} and {:?} for {:?}", cos.dims(), sin.dims(), x.dims());
        return Err(Error::Msg(message).into());
    }
    let y = unfilled(x.shape(), x.dtype(), x)?;
    let kernel = variant("rope", half, &[x, cos, sin, &y])?;
    let arguments = [
        Arg::Address(address(x)?),
        Arg::Address(address(cos)?),
        Arg::Address(address(sin)?),
        Arg::Address(address(&y)?),
        Arg::U32(heads as u32),
        Arg::U32(half as u32),
        Arg::F32(sign),
    ];
    let device = x.device().as_cuda_device()?;
    let grid = Grid::block_per_row(rows, heads * half, kernel.pack, 256);
    // SAFETY: the kernel's own arguments; shapes were compared.
    unsafe { launch(device, &POINTWISE, &kernel.name, grid, &arguments)? };
    Ok(y)
}

/// [`rope`] of q and k, and the rows of k and v written to `slots` of `keys` and `values`; returns the turned q.
pub(crate) fn rope_into(
    [q, k, v]: [&Tensor; 3],
    (cos, sin): (&Tensor, &Tensor),
    slots: &Tensor,
    (keys, values): (&Tensor, &Tensor),
) -> Result<Tensor> {
    let ((rows, heads, dim), key_heads, half) = (q.dims3()?, k.dim(1)?, q.dim(2)? / 2);
    let expected = [rows, key_heads, dim];
    if k.dims() != expected
        || v.dims() != expected
        || cos.dims() != [rows, half]
        || slots.elem_count() != rows
    {
        let message = format!(
            "rope_into: {:?}, {:?} and angles {:?} for {:?}",
            k.dims(),
            v.dims(),
            cos.dims(),
            q.dims()
        );
        return Err(Error::Msg(message).into());
    }
    let y = unfilled(q.shape(), q.dtype(), q)?;
    let kernel = variant("rope_into", half, &[q, k, v, cos, sin, &y, keys, values])?;
    let arguments = [
        Arg::Address(address(q)?),
        Arg::Address(address(k)?),
        Arg::Address(address(v)?),
        Arg::Address(address(cos)?),
        Arg::Address(address(sin)?),
        Arg::Address(address(slots)?),
        Arg::Address(address(&y)?),
        Arg::Address(address(keys)?),
        Arg::Address(address(values)?),
        Arg::U32(heads as u32),
        Arg::U32(key_heads as u32),
        Arg::U32(half as u32),
    ];
    let grid = Grid::block_per_row(rows, (heads + key_heads) * half, kernel.pack, 256);
    // SAFETY: the kernel's own arguments; shapes were compared, and slots are of the cache that keys and values belong to.
    unsafe { launch(q.device().as_cuda_device()?, &POINTWISE, &kernel.name, grid, &arguments)? };
    Ok(y)
}

/// x / (1 − rate) where a hash of the seed and the position keeps it, 0 elsewhere: the positions that `gradus_kernels::rows::dropout`
/// keeps on the CPU. The gradient is the same call on the gradient.
pub(crate) fn dropout(x: &Tensor, rate: f32, seed: u64) -> Result<Tensor> {
    if !(0.0..1.0).contains(&rate) {
        return Err(Error::Msg(format!("a dropout rate of {rate}, expected 0 ≤ rate < 1")).into());
    }
    let count = x.elem_count();
    let y = unfilled(x.shape(), x.dtype(), x)?;
    let kernel = variant("dropout", count, &[x, &y])?;
    let first = mix((seed as u32).wrapping_add(0x9e37_79b9));
    let arguments = [
        Arg::Address(address(x)?),
        Arg::Address(address(&y)?),
        Arg::U64(count as u64),
        Arg::U32(first),
        Arg::U32(mix(first ^ (seed >> 32) as u32)),
        Arg::U32((f64::from(rate) * 4_294_967_296.0) as u32),
        Arg::F32(1.0 / (1.0 - rate)),
    ];
    let device = x.device().as_cuda_device()?;
    // SAFETY: the kernel's own arguments; both tensors have `count` numbers.
    unsafe { launch(device, &POINTWISE, &kernel.name, Grid::numbers(count, kernel.pack), &arguments)? };
    Ok(y)
}

/// Chris Wellons' lowbias32.
pub(super) fn mix(mut h: u32) -> u32 {
    h ^= h >> 16;
    h = h.wrapping_mul(0x7feb_352d);
    h ^= h >> 15;
    h = h.wrapping_mul(0x846c_a68b);
    h ^ (h >> 16)
}
