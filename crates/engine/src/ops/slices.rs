//! candle's CPU tensors as slices of f32, which the kernels work on.

use candle_core::{CpuStorage, Device, Error, Layout, Result as Candle, Shape, Storage, Tensor};

use crate::Result;

/// Calls `f` with the values of contiguous f32 tensors on the CPU.
pub(crate) fn with_slices<const N: usize, T>(
    tensors: [&Tensor; N],
    f: impl FnOnce([&[f32]; N]) -> T,
) -> Candle<T> {
    let guards = tensors.map(Tensor::storage_and_layout);
    let mut slices: [&[f32]; N] = [&[]; N];
    for (slice, (storage, layout)) in slices.iter_mut().zip(&guards) {
        let Storage::Cpu(storage) = &**storage else {
            candle_core::bail!("expected a tensor on the CPU");
        };
        *slice = contiguous(storage, layout)?;
    }
    Ok(f(slices))
}

/// A tensor on the CPU whose values `f` writes, given those of others.
pub(crate) fn compute<const N: usize>(
    tensors: [&Tensor; N],
    shape: impl Into<Shape>,
    f: impl FnOnce([&[f32]; N], &mut [f32]),
) -> Result<Tensor> {
    let shape = shape.into();
    let values = with_slices(tensors, |slices| {
        let mut values = vec![0.0; shape.elem_count()];
        f(slices, &mut values);
        values
    })?;
    Ok(Tensor::from_vec(values, shape, &Device::Cpu)?)
}

/// The values of a contiguous f32 tensor on the CPU.
fn contiguous<'a>(storage: &'a CpuStorage, layout: &Layout) -> Candle<&'a [f32]> {
    let (start, end) =
        layout.contiguous_offsets().ok_or_else(|| Error::Msg("expected a contiguous tensor".to_owned()))?;
    Ok(&storage.as_slice::<f32>()?[start..end])
}
