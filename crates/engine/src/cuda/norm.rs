//! RMSNorm over the last dimension, with the residual addition before it, and its gradients.

use candle_core::{DType, Tensor};

use super::launch::{Arg, Grid, NORM, address, launch, rows_of, same_shape, unfilled, variant};
use crate::Result;

/// Threads and packs that suit the rows of a norm.
fn grid(rows: usize, width: usize, pack: usize) -> Grid {
    Grid::rows(rows, width, pack, 2)
}

/// x / √(mean x² + ε) · weight, over the last dimension.
pub(crate) fn rms_norm(x: &Tensor, weight: &Tensor, eps: f32) -> Result<Tensor> {
    let (rows, width) = checked(x, weight)?;
    let y = unfilled(x.shape(), x.dtype(), x)?;
    let kernel = variant("rms_norm", width, &[x, weight, &y])?;
    let arguments = [
        Arg::Address(address(x)?),
        Arg::Address(address(weight)?),
        Arg::Address(address(&y)?),
        Arg::U32(rows as u32),
        Arg::U32(width as u32),
        Arg::F32(eps),
    ];
    let device = x.device().as_cuda_device()?;
    // SAFETY: the kernel's own arguments; shapes were compared.
    unsafe { launch(device, &NORM, &kernel.name, grid(rows, width, kernel.pack), &arguments)? };
    Ok(y)
}

/// x + added, and the norm of that.
pub(crate) fn add_rms_norm(
    x: &Tensor,
    added: &Tensor,
    weight: &Tensor,
    eps: f32,
) -> Result<(Tensor, Tensor)> {
    let (rows, width) = checked(x, weight)?;
    same_shape("add_rms_norm", &[x, added])?;
    let (sum, y) = (unfilled(x.shape(), x.dtype(), x)?, unfilled(x.shape(), x.dtype(), x)?);
    let kernel = variant("add_rms_norm", width, &[x, added, weight, &sum, &y])?;
    let arguments = [
        Arg::Address(address(x)?),
        Arg::Address(address(added)?),
        Arg::Address(address(weight)?),
        Arg::Address(address(&sum)?),
        Arg::Address(address(&y)?),
        Arg::U32(rows as u32),
        Arg::U32(width as u32),
        Arg::F32(eps),
    ];
    let device = x.device().as_cuda_device()?;
    // SAFETY: the kernel's own arguments; shapes were compared.
    unsafe { launch(device, &NORM, &kernel.name, grid(rows, width, kernel.pack), &arguments)? };
    Ok((sum, y))
}

/// Gradient of [`rms_norm`] with respect to x, plus `add`: the gradient that comes past the norm on the residual stream.
pub(crate) fn rms_norm_backward(
    x: &Tensor,
    weight: &Tensor,
    eps: f32,
    dy: &Tensor,
    add: Option<&Tensor>,
) -> Result<Tensor> {
    let (rows, width) = checked(x, weight)?;
    same_shape("rms_norm_backward", &[x, dy, add.unwrap_or(dy)])?;
    let dx = unfilled(x.shape(), x.dtype(), x)?;
    let kernel = variant("rms_norm_backward", width, &[x, weight, dy, add.unwrap_or(dy), &dx])?;
    let arguments = [
        Arg::Address(address(x)?),
        Arg::Address(address(weight)?),
        Arg::Address(address(dy)?),
        Arg::Address(add.map_or(Ok(0), address)?),
        Arg::Address(address(&dx)?),
        Arg::U32(rows as u32),
        Arg::U32(width as u32),
        Arg::F32(eps),
    ];
    let device = x.device().as_cuda_device()?;
    // SAFETY: the kernel's own arguments; shapes were compared, and it takes a null `add`.
    unsafe { launch(device, &NORM, &kernel.name, grid(rows, width, kernel.pack), &arguments)? };
    Ok(dx)
}

/// Gradient of [`rms_norm`] with respect to its weight, in f32.
pub(crate) fn rms_norm_weight_gradient(x: &Tensor, eps: f32, dy: &Tensor) -> Result<Tensor> {
    let (rows, width) = rows_of(x)?;
    same_shape("rms_norm_weight_gradient", &[x, dy])?;
    let kernel = variant("rms_norm_weight_gradient", width, &[x, dy])?;
    let blocks = rows.clamp(1, 264);
    let parts = unfilled((blocks, width), DType::F32, x)?;
    let arguments = [
        Arg::Address(address(x)?),
        Arg::Address(address(dy)?),
        Arg::Address(address(&parts)?),
        Arg::U32(rows as u32),
        Arg::U32(width as u32),
        Arg::F32(eps),
    ];
    let device = x.device().as_cuda_device()?;
    let grid = Grid::block_per_row(blocks, width, kernel.pack, 512);
    // SAFETY: the kernel's own arguments; each block fills its line of `parts`.
    unsafe { launch(device, &NORM, &kernel.name, grid, &arguments)? };
    Ok(parts.sum(0)?)
}

fn checked(x: &Tensor, weight: &Tensor) -> Result<(usize, usize)> {
    let (rows, width) = rows_of(x)?;
    if weight.dims() != [width] {
        let message = format!("rms_norm: a weight of shape {:?} for rows of {width}", weight.dims());
        return Err(candle_core::Error::Msg(message).into());
    }
    Ok((rows, width))
}
