//! A step of AdamW on one parameter, and the sum of squares for clipping. Everything in f32.

use candle_core::{DType, Error, Tensor};

use super::launch::{Arg, Grid, OPTIMIZER, address, launch, same_shape, unfilled};
use crate::Result;

/// Hyperparameters of one step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct AdamW {
    /// Learning rate.
    pub(crate) rate: f32,
    /// Decay rate of the first moment, the mean of gradients.
    pub(crate) beta1: f32,
    /// Decay rate of the second moment, the mean of squared gradients.
    pub(crate) beta2: f32,
    /// Added to the denominator for numerical stability.
    pub(crate) eps: f32,
    /// Decoupled weight decay.
    pub(crate) decay: f32,
    /// 1 − β₁ᵗ at step t, counted from 1.
    pub(crate) correction1: f32,
    /// 1 − β₂ᵗ.
    pub(crate) correction2: f32,
}

/// One step, in place on the value and both moments.
pub(crate) fn adamw(
    value: &Tensor,
    moment1: &Tensor,
    moment2: &Tensor,
    gradient: &Tensor,
    step: AdamW,
) -> Result<()> {
    let tensors = [value, moment1, moment2, gradient];
    same_shape("adamw", &tensors)?;
    tensors.iter().try_for_each(|tensor| in_f32("adamw", tensor))?;
    let count = value.elem_count();
    let arguments = [
        Arg::Address(address(value)?),
        Arg::Address(address(moment1)?),
        Arg::Address(address(moment2)?),
        Arg::Address(address(gradient)?),
        Arg::U64(count as u64),
        Arg::F32(step.rate),
        Arg::F32(step.beta1),
        Arg::F32(step.beta2),
        Arg::F32(step.eps),
        Arg::F32(step.decay),
        Arg::F32(step.correction1),
        Arg::F32(step.correction2),
    ];
    let device = value.device().as_cuda_device()?;
    // SAFETY: the kernel's own arguments; shapes and types were checked.
    unsafe { launch(device, &OPTIMIZER, "adamw", Grid::numbers(count, 1), &arguments)? };
    Ok(())
}

/// Σ x², a scalar tensor: several can be added up before anybody waits for a number.
pub(crate) fn sum_of_squares(x: &Tensor) -> Result<Tensor> {
    in_f32("sum_of_squares", x)?;
    let count = x.elem_count();
    let grid = Grid::numbers(count, 1);
    let grid = Grid { blocks: grid.blocks.clamp(1, 1024), ..grid };
    let parts = unfilled(grid.blocks as usize, DType::F32, x)?;
    let arguments = [Arg::Address(address(x)?), Arg::Address(address(&parts)?), Arg::U64(count as u64)];
    // SAFETY: the kernel's own arguments; each block fills its part.
    unsafe { launch(x.device().as_cuda_device()?, &OPTIMIZER, "sum_of_squares", grid, &arguments)? };
    Ok(parts.sum_all()?)
}

fn in_f32(name: &str, tensor: &Tensor) -> Result<()> {
    if tensor.dtype() != DType::F32 {
        return Err(Error::Msg(format!("{name}: expected f32, found {:?}", tensor.dtype())).into());
    }
    Ok(())
}
