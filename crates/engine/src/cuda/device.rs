//! How a GPU is opened: one stream for all threads, memory kept for the next allocation.

use std::sync::{Mutex, MutexGuard, PoisonError};

use candle_core::cuda_backend::WrapErr;
use candle_core::cuda_backend::cudarc::driver::{result, sys};
use candle_core::{Device, Result};

/// Held while a graph is captured and while a GPU is opened: opening one waits for all that the process does on it, and the driver
/// refuses to wait for a stream that is being captured.
static ALONE: Mutex<()> = Mutex::new(());

/// Keeps other threads from opening a GPU or capturing a graph.
pub(super) fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The GPU `number`.
pub(crate) fn open(number: usize) -> Result<Device> {
    let _alone = alone();
    let device = Device::new_cuda_with_stream(number)?;
    // Giving cuBLAS back waits like opening does, at an instant that nobody knows, so a model's handle stays for good.
    std::mem::forget(device.as_cuda_device()?.cublas_handle());
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
