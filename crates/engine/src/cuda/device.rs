//! How a GPU is opened: one stream for all threads, memory kept for the next allocation.

use candle_core::cuda_backend::WrapErr;
use candle_core::cuda_backend::cudarc::driver::{result, sys};
use candle_core::{Device, Result};

/// The GPU `number`.
pub(crate) fn open(number: usize) -> Result<Device> {
    let device = Device::new_cuda_with_stream(number)?;
    let stream = device.as_cuda_device()?;
    // SAFETY: all work on this device goes through its one stream, whichever thread starts it, so that no order between
    // streams has to be kept. Two events are spared per tensor.
    unsafe { stream.disable_event_tracking() };
    keep_memory(number)?;
    Ok(device)
}

/// Lets the driver keep freed memory: it gives it back at every wait for the GPU otherwise, and maps it anew after.
fn keep_memory(number: usize) -> Result<()> {
    let mut threshold = u64::MAX;
    // SAFETY: the device exists, it was opened above; the attribute is a u64 that the call only reads.
    unsafe {
        let pool = result::device::get_default_mem_pool(result::device::get(number as i32).w()?).w()?;
        let attribute = sys::CUmemPool_attribute_enum::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
        sys::cuMemPoolSetAttribute(pool, attribute, (&raw mut threshold).cast()).result().w()?;
    }
    Ok(())
}
