//! Host buffers: memory of this machine that a device's tensors are read into, the same for every token.
//!
//! On CUDA the buffer is pinned (`cuda/pinned.rs`), which spares the driver a copy.

use candle_core::Tensor;

use crate::Result;

/// Memory that tensors are read into.
pub(crate) trait HostBuffer: Send {
    /// All values of `x`, which is f32, row after row.
    fn read(&mut self, x: &Tensor) -> Result<&[f32]>;
}

/// Ordinary memory.
#[derive(Default)]
pub(crate) struct Pageable(Vec<f32>);

impl HostBuffer for Pageable {
    fn read(&mut self, x: &Tensor) -> Result<&[f32]> {
        self.0 = x.flatten_all()?.to_vec1()?;
        Ok(&self.0)
    }
}
