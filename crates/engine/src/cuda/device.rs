//! How a GPU is opened: one stream for all threads, memory kept for the next allocation.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use candle_core::cuda_backend::WrapErr;
use candle_core::cuda_backend::cudarc::driver::{result, sys};
use candle_core::{Device, DeviceLocation, Result};

/// The devices that were opened. Each has a stream and a cuBLAS handle of its own, and none is ever given up: giving a handle back waits for all
/// that the process does on the GPU, and the driver refuses to wait while a stream is being captured. A device whose model is gone serves the
/// next model on its GPU.
///
/// Locked while a graph is captured and while a GPU is opened, which waits in the same way.
static OPENED: Mutex<Vec<Device>> = Mutex::new(Vec::new());

/// Keeps other threads from opening a GPU or capturing a graph.
pub(super) fn alone() -> MutexGuard<'static, Vec<Device>> {
    OPENED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The GPU `number`, with a stream that nobody else uses.
pub(crate) fn open(number: usize) -> Result<Device> {
    let mut opened = alone();
    for device in opened.iter() {
        if is_idle(device, number)? {
            return Ok(device.clone());
        }
    }
    let device = Device::new_cuda_with_stream(number)?;
    // SAFETY: all work on this device goes through its one stream, whichever thread starts it, so that no order between
    // streams has to be kept. Two events are spared per tensor.
    unsafe { device.as_cuda_device()?.disable_event_tracking() };
    keep_memory(number)?;
    opened.push(device.clone());
    Ok(device)
}

/// Whether this is the GPU `number` and no model or tensor has it any more: every copy of a device shares its cuBLAS handle.
fn is_idle(device: &Device, number: usize) -> Result<bool> {
    let handle = device.as_cuda_device()?.cublas_handle();
    // The handle is held by the list and by this function.
    Ok(device.location() == DeviceLocation::Cuda { gpu_id: number } && Arc::strong_count(&handle) == 2)
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
