//! Row-wise operations and matrix products: our kernels on the CPU and on NVIDIA GPUs, candle's elsewhere.

mod backward;
mod logprobs;
mod optimise;

use candle_core::{
    CpuStorage, CustomOp1, CustomOp2, CustomOp3, Error, Layout, Result as Candle, Shape, Tensor,
};
use gradus_kernels::{Matrix, rows};

use crate::Result;
#[cfg(feature = "cuda")]
use crate::cuda;

pub(crate) use backward::with_slices;
pub use backward::{
    dropout, rms_norm_backward, rms_norm_backward_onto, rms_norm_weight_gradient, rope_back,
    silu_mul_backward, weight_gradient,
};
pub use logprobs::{token_logprobs, token_logprobs_backward};
pub use optimise::{AdamWStep, adamw, sum_of_squares};

/// The numbers of a contiguous f32 tensor on the CPU.
pub(crate) fn contiguous<'a>(storage: &'a CpuStorage, layout: &Layout) -> Candle<&'a [f32]> {
    let (start, end) =
        layout.contiguous_offsets().ok_or_else(|| Error::Msg("expected a contiguous tensor".to_owned()))?;
    Ok(&storage.as_slice::<f32>()?[start..end])
}

/// An operation on one f32 tensor: numbers and shape in, numbers and shape out.
struct Cpu1<F>(&'static str, F);

impl<F: Fn(&[f32], &Shape) -> Candle<(Vec<f32>, Shape)>> CustomOp1 for Cpu1<F> {
    fn name(&self) -> &'static str {
        self.0
    }

    fn cpu_fwd(&self, storage: &CpuStorage, layout: &Layout) -> Candle<(CpuStorage, Shape)> {
        let (values, shape) = self.1(contiguous(storage, layout)?, layout.shape())?;
        Ok((CpuStorage::F32(values), shape))
    }
}

/// An operation on two f32 tensors whose result has the shape of the first.
struct Cpu2<F>(&'static str, F);

impl<F: Fn(&[f32], &[f32]) -> Vec<f32>> CustomOp2 for Cpu2<F> {
    fn name(&self) -> &'static str {
        self.0
    }

    fn cpu_fwd(
        &self,
        a: &CpuStorage,
        la: &Layout,
        b: &CpuStorage,
        lb: &Layout,
    ) -> Candle<(CpuStorage, Shape)> {
        Ok((CpuStorage::F32(self.1(contiguous(a, la)?, contiguous(b, lb)?)), la.shape().clone()))
    }
}

/// An operation on three f32 tensors whose result has the shape of the first.
struct Cpu3<F>(&'static str, F);

impl<F: Fn(&[f32], &Shape, &[f32], &[f32]) -> Candle<Vec<f32>>> CustomOp3 for Cpu3<F> {
    fn name(&self) -> &'static str {
        self.0
    }

    fn cpu_fwd(
        &self,
        a: &CpuStorage,
        la: &Layout,
        b: &CpuStorage,
        lb: &Layout,
        c: &CpuStorage,
        lc: &Layout,
    ) -> Candle<(CpuStorage, Shape)> {
        let values = self.1(contiguous(a, la)?, la.shape(), contiguous(b, lb)?, contiguous(c, lc)?)?;
        Ok((CpuStorage::F32(values), la.shape().clone()))
    }
}

/// x `[m, inputs]` · Wᵀ.
pub(crate) fn multiply(x: &Tensor, matrix: &Matrix) -> Result<Tensor> {
    let product = Cpu1("matrix product", |x: &[f32], shape: &Shape| {
        let (m, inputs) = shape.dims2()?;
        assert_eq!(inputs, matrix.columns(), "shapes were checked when the weights were loaded");
        let mut y = vec![0.0; m * matrix.rows()];
        matrix.multiply(x, &mut y);
        Ok((y, Shape::from((m, matrix.rows()))))
    });
    Ok(x.contiguous()?.apply_op1_no_bwd(&product)?)
}

/// x `[m, inputs]` · Wᵀ for a few of W's rows.
pub(crate) fn multiply_rows(x: &Tensor, matrix: &Matrix, wanted: &[u32]) -> Result<Tensor> {
    let wanted: Vec<usize> = wanted.iter().map(|row| *row as usize).collect();
    let product = Cpu1("matrix product of a few rows", |x: &[f32], shape: &Shape| {
        let (m, _) = shape.dims2()?;
        let mut y = vec![0.0; m * wanted.len()];
        matrix.multiply_rows(x, &wanted, &mut y);
        Ok((y, Shape::from((m, wanted.len()))))
    });
    Ok(x.contiguous()?.apply_op1_no_bwd(&product)?)
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
    let norm = Cpu2("rms norm", |x: &[f32], weight: &[f32]| {
        let mut y = vec![0.0; x.len()];
        rows::rms_norm(x, weight, eps, &mut y);
        y
    });
    Ok(x.contiguous()?.apply_op2_no_bwd(weight, &norm)?)
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
    let norm = Cpu3("layer norm", |x: &[f32], _: &Shape, weight: &[f32], bias: &[f32]| {
        let mut y = vec![0.0; x.len()];
        rows::layer_norm(x, weight, bias, eps, &mut y);
        Ok(y)
    });
    Ok(x.contiguous()?.apply_op3_no_bwd(weight, bias, &norm)?)
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
    let rotate = Cpu3("rope", |x: &[f32], shape: &Shape, cos: &[f32], sin: &[f32]| {
        let (count, _, dim) = shape.dims3()?;
        let mut y = x.to_vec();
        let own: Vec<u32> = (0..count as u32).collect();
        rows::rope_in_place(&mut y, dim, cos, sin, &own);
        Ok(y)
    });
    Ok(x.contiguous()?.apply_op3_no_bwd(cos, sin, &rotate)?)
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
    let product = Cpu2("silu mul", |gate: &[f32], up: &[f32]| {
        let mut y = vec![0.0; gate.len()];
        rows::silu_mul(gate, up, &mut y);
        y
    });
    Ok(gate.apply_op2_no_bwd(up, &product)?)
}

/// The Gaussian error linear unit, exact.
pub(crate) fn gelu(x: &Tensor) -> Result<Tensor> {
    if !x.device().is_cpu() {
        return Ok(x.gelu_erf()?);
    }
    let gelu = Cpu1("gelu", |x: &[f32], shape: &Shape| {
        let mut y = x.to_vec();
        rows::gelu(&mut y);
        Ok((y, shape.clone()))
    });
    Ok(x.contiguous()?.apply_op1_no_bwd(&gelu)?)
}
