//! Draws of tokens where the logits are.

use candle_core::{DType, Error, Tensor};

use super::launch::{Arg, Grid, SAMPLE, address, launch, variant};
use crate::Result;

/// As in the kernel.
const THREADS: u32 = 512;

/// Draws a token from each row of logits `[rows, vocabulary]` by the row's temperature and its number in [0, 1), f32 `[rows]`
/// each. `drawn` is u32 `[rows, 2]`: the token, `u32::MAX` where the logits are no distribution, and the bits of its
/// log-probability.
pub(super) fn draw(logits: &Tensor, temperatures: u64, uniforms: u64, drawn: &Tensor) -> Result<()> {
    let (rows, width) = logits.dims2()?;
    if drawn.dims() != [rows, 2] || drawn.dtype() != DType::U32 {
        return Err(Error::Msg(format!("draw: expected u32 [{rows}, 2] for tokens, found {drawn:?}")).into());
    }
    let kernel = variant("draw", width, &[logits])?;
    let arguments = [
        Arg::Address(address(logits)?),
        Arg::Address(temperatures),
        Arg::Address(uniforms),
        Arg::Address(address(drawn)?),
        Arg::U32(width as u32),
    ];
    let grid = Grid { blocks: rows as u32, threads: (THREADS, 1) };
    // SAFETY: the kernel's own arguments; the caller's numbers are as many as rows.
    Ok(unsafe { launch(logits.device().as_cuda_device()?, &SAMPLE, &kernel.name, grid, &arguments) }?)
}
