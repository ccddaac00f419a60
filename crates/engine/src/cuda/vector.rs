//! Products of few rows with weights, which take as long as reading the weights: projections of the same rows are one launch.

use candle_core::{DType, Result as Candle, Tensor};

use super::launch::{Arg, Grid, VECTOR, address, launch, unfilled};
use crate::Result;
use crate::ops::WeightAndBias;

/// As in the kernels.
const WARPS: usize = 8;
const PACK: usize = 8;
/// Matrices of one launch.
const MOST: usize = 3;

/// Whether the kernels know these rows and weights: 1, 2 or 4 rows in bf16, whole packs.
fn fits(x: &Tensor, weights: &[WeightAndBias<'_>]) -> Candle<bool> {
    let (rows, width) = x.dims2()?;
    let known = |tensor: &Tensor| -> Candle<bool> {
        Ok(tensor.dtype() == DType::BF16 && tensor.is_contiguous() && address(tensor)?.is_multiple_of(16))
    };
    if !matches!(rows, 1 | 2 | 4) || !width.is_multiple_of(PACK) || weights.len() > MOST || !known(x)? {
        return Ok(false);
    }
    for (weight, bias) in weights {
        if !known(weight)? || weight.dim(1)? != width || bias.is_some_and(|bias| bias.dtype() != DType::BF16)
        {
            return Ok(false);
        }
    }
    Ok(true)
}

/// x `[m, inputs]` · Wᵀ + bias of each weight, where the kernels know them.
pub(crate) fn vector_products<const N: usize>(
    x: &Tensor,
    weights: [WeightAndBias<'_>; N],
) -> Result<Option<[Tensor; N]>> {
    if !fits(x, &weights)? {
        return Ok(None);
    }
    let rows = x.dim(0)?;
    let mut results = Vec::with_capacity(N);
    for (weight, _) in weights {
        results.push(unfilled((rows, weight.dim(0)?), DType::BF16, x)?);
    }
    into(x, &weights, &results)?;
    Ok(results.try_into().ok())
}

/// The same for one weight, into `y`; false where the kernels do not know it.
pub(super) fn vector_product_into(y: &Tensor, x: &Tensor, weight: &Tensor) -> Result<bool> {
    let fits =
        fits(x, &[(weight, None)])? && y.dtype() == DType::BF16 && y.dims2()? == (x.dim(0)?, weight.dim(0)?);
    if fits {
        into(x, &[(weight, None)], std::slice::from_ref(y))?;
    }
    Ok(fits)
}

fn into(x: &Tensor, weights: &[WeightAndBias<'_>], results: &[Tensor]) -> Result<()> {
    let (rows, width) = x.dims2()?;
    let mut arguments = vec![Arg::Address(address(x)?), Arg::U32(width as u32)];
    let mut outputs = 0;
    for ((weight, bias), y) in weights.iter().zip(results) {
        let count = weight.dim(0)?;
        arguments.extend([
            Arg::Address(address(weight)?),
            Arg::Address(bias.map_or(Ok(0), address)?),
            Arg::Address(address(y)?),
            Arg::U32(count as u32),
        ]);
        outputs += count;
    }
    for _ in weights.len()..MOST {
        arguments.extend([Arg::Address(0), Arg::Address(0), Arg::Address(0), Arg::U32(0)]);
    }
    // SAFETY: the kernel's own arguments; widths, types and addresses were checked.
    Ok(unsafe { start(x, &format!("vector_products_{rows}"), outputs, &arguments) }?)
}

/// silu(x · gateᵀ) · (x · upᵀ), where the kernels know them.
pub(crate) fn vector_gated(x: &Tensor, gate: &Tensor, up: &Tensor) -> Result<Option<Tensor>> {
    if !fits(x, &[(gate, None), (up, None)])? || gate.dims() != up.dims() {
        return Ok(None);
    }
    let ((rows, width), outputs) = (x.dims2()?, gate.dim(0)?);
    let y = unfilled((rows, outputs), DType::BF16, x)?;
    let arguments = [
        Arg::Address(address(x)?),
        Arg::U32(width as u32),
        Arg::Address(address(gate)?),
        Arg::Address(address(up)?),
        Arg::Address(address(&y)?),
        Arg::U32(outputs as u32),
    ];
    // SAFETY: the kernel's own arguments; shapes, types and addresses were checked.
    unsafe { start(x, &format!("vector_gated_{rows}"), outputs, &arguments) }?;
    Ok(Some(y))
}

/// A warp for each output.
///
/// # Safety
///
/// As [`launch`].
unsafe fn start(x: &Tensor, name: &str, outputs: usize, arguments: &[Arg]) -> Candle<()> {
    let grid = Grid { blocks: outputs.div_ceil(WARPS) as u32, threads: (32 * WARPS as u32, 1) };
    // SAFETY: the caller's promise.
    unsafe { launch(x.device().as_cuda_device()?, &VECTOR, name, grid, arguments) }
}
