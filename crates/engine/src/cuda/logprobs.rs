//! Log-probabilities of one token per row of logits, and their gradient.

use candle_core::{DType, Error, Tensor};

use super::launch::{Arg, Grid, LOGPROBS, address, launch, unfilled, variant};
use crate::Result;

/// log softmax(logits)[target] of each row of logits `[rows, vocabulary]`, in f32; targets are u32 `[rows]`, and one
/// outside the vocabulary gives NaN.
pub(crate) fn token_logprobs(logits: &Tensor, targets: &Tensor) -> Result<Tensor> {
    let (rows, width) = checked(logits, targets)?;
    let y = unfilled(rows, DType::F32, logits)?;
    let kernel = variant("token_logprobs", width, &[logits])?;
    let arguments = [
        Arg::Address(address(logits)?),
        Arg::Address(address(targets)?),
        Arg::Address(address(&y)?),
        Arg::U32(width as u32),
    ];
    let grid = Grid::block_per_row(rows, width, kernel.pack, 512);
    // SAFETY: the kernel's own arguments; shapes and types were checked.
    unsafe { launch(logits.device().as_cuda_device()?, &LOGPROBS, &kernel.name, grid, &arguments)? };
    Ok(y)
}

/// Gradient of Σ coefficient · [`token_logprobs`] with respect to the logits, written over them; returns the same tensor.
/// Coefficients are f32 `[rows]`.
pub(crate) fn token_logprobs_backward(
    logits: Tensor,
    targets: &Tensor,
    coefficients: &Tensor,
) -> Result<Tensor> {
    let (rows, width) = checked(&logits, targets)?;
    if coefficients.dims() != [rows] || coefficients.dtype() != DType::F32 {
        let message =
            format!("token_logprobs_backward: expected {rows} f32 coefficients, found {coefficients:?}");
        return Err(Error::Msg(message).into());
    }
    let kernel = variant("token_logprobs_backward", width, &[&logits])?;
    let arguments = [
        Arg::Address(address(&logits)?),
        Arg::Address(address(targets)?),
        Arg::Address(address(coefficients)?),
        Arg::U32(width as u32),
    ];
    let grid = Grid::block_per_row(rows, width, kernel.pack, 512);
    // SAFETY: the kernel's own arguments; shapes and types were checked.
    unsafe { launch(logits.device().as_cuda_device()?, &LOGPROBS, &kernel.name, grid, &arguments)? };
    Ok(logits)
}

fn checked(logits: &Tensor, targets: &Tensor) -> Result<(usize, usize)> {
    let (rows, width) = logits.dims2()?;
    if targets.dims() != [rows] || targets.dtype() != DType::U32 {
        return Err(
            Error::Msg(format!("token_logprobs: expected {rows} u32 targets, found {targets:?}")).into()
        );
    }
    Ok((rows, width))
}
