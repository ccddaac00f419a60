//! Matrix products that candle does not offer: added to a tensor, or with an f32 result of bf16 factors. Through cuBLAS.

use candle_core::cuda_backend::WrapErr;
use candle_core::cuda_backend::cudarc::cublas::{result, sys};
use candle_core::{DType, Error, Tensor};

use super::launch::{address, start, unfilled};
use crate::Result;

/// out += a `[m, k]` · b `[k, n]`, in place, rounded once to the type of `out`: the factors' or f32.
pub(crate) fn add_product(out: &Tensor, a: &Tensor, b: &Tensor) -> Result<()> {
    product(out, a, b, 1.0)
}

/// out ← a `[m, k]` · b `[k, n]`, rounded to the type of `out`: the factors' or f32.
pub(super) fn product_into(out: &Tensor, a: &Tensor, b: &Tensor) -> Result<()> {
    product(out, a, b, 0.0)
}

/// dYᵀ · X in f32: the gradient of a weight `[outputs, inputs]` from dY `[m, outputs]` and X `[m, inputs]`.
pub(crate) fn weight_gradient(dy: &Tensor, x: &Tensor) -> Result<Tensor> {
    let out = unfilled((dy.dim(1)?, x.dim(1)?), DType::F32, dy)?;
    product(&out, &dy.t()?, x, 0.0)?;
    Ok(out)
}

/// out ← a · b + keep · out.
fn product(out: &Tensor, a: &Tensor, b: &Tensor, keep: f32) -> Result<()> {
    let ((m, inner), (k, n)) = (a.dims2()?, b.dims2()?);
    if inner != k || out.dims() != [m, n] || a.dtype() != b.dtype() {
        return Err(Error::Msg(format!("product: {a:?} · {b:?} into {out:?}")).into());
    }
    let kind = |tensor: &Tensor| match tensor.dtype() {
        DType::BF16 => Ok(sys::cudaDataType::CUDA_R_16BF),
        DType::F32 => Ok(sys::cudaDataType::CUDA_R_32F),
        other => Err(Error::Msg(format!("product: expected bf16 or f32, found {other:?}"))),
    };
    let blas = out.device().as_cuda_device()?.cublas_handle();
    let one = 1.0f32;
    let ((turn_a, line_a), (turn_b, line_b)) = (lines(a)?, lines(b)?);
    // cuBLAS counts by columns: what it takes for bᵀ · aᵀ is our a · b, transposed, which is our rows.
    // SAFETY: three tensors that are alive, whose shapes fit each other; the factors of the sum are read during the call.
    unsafe {
        result::gemm_ex(
            *blas.handle(),
            turn_b,
            turn_a,
            n as i32,
            m as i32,
            k as i32,
            (&raw const one).cast(),
            start(b)? as *const _,
            kind(b)?,
            line_b,
            start(a)? as *const _,
            kind(a)?,
            line_a,
            (&raw const keep).cast(),
            address(out)? as *mut _,
            kind(out)?,
            n as i32,
            sys::cublasComputeType_t::CUBLAS_COMPUTE_32F,
            sys::cublasGemmAlgo_t::CUBLAS_GEMM_DEFAULT_TENSOR_OP,
        )
    }
    .w()?;
    Ok(())
}

/// Whether a matrix lies transposed, and the distance between its stored lines.
fn lines(matrix: &Tensor) -> Result<(sys::cublasOperation_t, i32)> {
    let (rows, columns) = matrix.dims2()?;
    if matrix.is_contiguous() {
        return Ok((sys::cublasOperation_t::CUBLAS_OP_N, columns as i32));
    }
    if matrix.t()?.is_contiguous() {
        return Ok((sys::cublasOperation_t::CUBLAS_OP_T, rows as i32));
    }
    Err(Error::Msg(format!("product: a factor is neither contiguous nor transposed: {:?}", matrix.layout()))
        .into())
}
