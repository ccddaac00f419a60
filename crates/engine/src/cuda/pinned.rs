//! A pinned host buffer: the GPU writes it directly. Into other memory the driver copies values a second time.

use candle_core::cuda_backend::WrapErr;
use candle_core::cuda_backend::cudarc::driver::PinnedHostSlice;
use candle_core::{Error, Storage, Tensor};

use crate::Result;
use crate::host_buffer::HostBuffer;

/// Pinned memory that grows to the largest tensor it was asked for.
#[derive(Default)]
pub(crate) struct Pinned(Option<PinnedHostSlice<f32>>);

impl HostBuffer for Pinned {
    fn read(&mut self, x: &Tensor) -> Result<&[f32]> {
        let x = x.contiguous()?;
        let (storage, layout) = x.storage_and_layout();
        let Storage::Cuda(storage) = &*storage else {
            return Err(Error::Msg("expected a tensor on an NVIDIA GPU".to_owned()).into());
        };
        let stream = storage.device.cuda_stream();
        let count = x.elem_count();
        if self.0.as_ref().is_none_or(|memory| memory.len() < count) {
            // Not the memory that is fast to write and slow to read. SAFETY: it is read only where a copy has written it.
            self.0 = Some(unsafe { stream.context().alloc_pinned_with_flags(count, 0) }.w()?);
        }
        let memory = &mut self.0.as_mut().expect("made above").as_mut_slice().w()?[..count];
        let start = layout.start_offset();
        stream.memcpy_dtoh(&storage.as_cuda_slice::<f32>()?.slice(start..start + count), memory).w()?;
        stream.synchronize().w()?;
        Ok(memory)
    }
}
