//! Starts kernels: addresses of tensors, uninitialized results, launches.

use candle_core::cuda_backend::WrapErr;
use candle_core::cuda_backend::cudarc::driver::{DevicePtr, LaunchConfig, PushKernelArg, sys};
use candle_core::cuda_backend::{CudaDevice, CudaStorageSlice};
use candle_core::{D, DType, Result, Shape, Storage, Tensor, bail};

/// A file of kernels.
pub(super) struct Kernels {
    name: &'static str,
    ptx: &'static str,
}

macro_rules! kernels {
    ($constant:ident, $name:literal) => {
        pub(super) const $constant: Kernels = Kernels {
            name: concat!("gradus-", $name),
            ptx: include_str!(concat!(env!("OUT_DIR"), "/", $name, ".ptx")),
        };
    };
}

kernels!(ATTENTION, "attention");
kernels!(FLASH, "flash");
kernels!(LOGPROBS, "logprobs");
kernels!(NORM, "norm");
kernels!(OPTIMIZER, "optimizer");
kernels!(POINTWISE, "pointwise");
kernels!(SAMPLE, "sample");
kernels!(VECTOR, "vector");

/// One argument of a kernel.
pub(super) enum Arg {
    Address(u64),
    U32(u32),
    U64(u64),
    F32(f32),
}

/// Blocks, and threads of a block.
#[derive(Clone, Copy)]
pub(super) struct Grid {
    pub(super) blocks: u32,
    pub(super) threads: (u32, u32),
}

impl Grid {
    /// One thread for every `pack` of `count` numbers.
    pub(super) fn numbers(count: usize, pack: usize) -> Self {
        Self { blocks: blocks(count.div_ceil(pack).div_ceil(256)), threads: (256, 1) }
    }

    /// A block for each of `rows` rows of `width` numbers.
    pub(super) fn block_per_row(rows: usize, width: usize, pack: usize, most: u32) -> Self {
        let threads = width.div_ceil(pack).next_multiple_of(32).min(most as usize) as u32;
        Self { blocks: blocks(rows), threads: (threads, 1) }
    }

    /// A warp for each row while a row is short, a block when it is long. A thread takes about `packs` packs.
    pub(super) fn rows(rows: usize, width: usize, pack: usize, packs: usize) -> Self {
        let wanted = width.div_ceil(pack * packs);
        if wanted <= 32 {
            return Self { blocks: blocks(rows.div_ceil(4)), threads: (32, 4) };
        }
        Self { blocks: blocks(rows), threads: (wanted.next_power_of_two().clamp(64, 1024) as u32, 1) }
    }
}

fn blocks(count: usize) -> u32 {
    u32::try_from(count).expect("fewer than 2³² blocks")
}

/// Starts `name` on the device's stream; does nothing for an empty grid.
///
/// # Safety
///
/// The arguments are those of the kernel, in its order, and every address belongs to a tensor that is alive and as large
/// as the kernel expects.
pub(super) unsafe fn launch(
    device: &CudaDevice,
    kernels: &Kernels,
    name: &str,
    grid: Grid,
    arguments: &[Arg],
) -> Result<()> {
    // SAFETY: the caller's promise.
    unsafe { launch_shared(device, kernels, name, grid, 0, arguments) }
}

/// Dynamic shared memory that every kernel may have without asking, what it has by itself left room for.
const PLAIN_SHARED: u32 = 32 << 10;

/// Like [`launch`], with `shared` bytes of dynamic shared memory for each block.
///
/// # Safety
///
/// As [`launch`].
pub(super) unsafe fn launch_shared(
    device: &CudaDevice,
    kernels: &Kernels,
    name: &str,
    grid: Grid,
    shared: u32,
    arguments: &[Arg],
) -> Result<()> {
    if grid.blocks == 0 {
        return Ok(());
    }
    let function = device.get_or_load_custom_func(name, kernels.name, kernels.ptx)?;
    if shared > PLAIN_SHARED {
        let attribute = sys::CUfunction_attribute_enum::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        function.set_attribute(attribute, shared as i32).w()?;
    }
    let mut builder = function.builder();
    for argument in arguments {
        match argument {
            Arg::Address(value) | Arg::U64(value) => builder.arg(value),
            Arg::U32(value) => builder.arg(value),
            Arg::F32(value) => builder.arg(value),
        };
    }
    let (x, y) = grid.threads;
    let config =
        LaunchConfig { grid_dim: (grid.blocks, 1, 1), block_dim: (x, y, 1), shared_mem_bytes: shared };
    // SAFETY: the caller's promise.
    unsafe { builder.launch(config) }.w()?;
    Ok(())
}

/// Where a contiguous tensor begins on its GPU. Work on the same stream is ordered, so the address stays good for a launch
/// while the tensor is alive.
pub(super) fn address(tensor: &Tensor) -> Result<u64> {
    if !tensor.is_contiguous() {
        bail!("expected a contiguous tensor, found {:?}", tensor.layout());
    }
    start(tensor)
}

/// Where a tensor's first number is, however the others lie.
pub(super) fn start(tensor: &Tensor) -> Result<u64> {
    let (storage, layout) = tensor.storage_and_layout();
    let Storage::Cuda(storage) = &*storage else { bail!("expected a tensor on an NVIDIA GPU") };
    let stream = storage.device.cuda_stream();
    let base = match &storage.slice {
        CudaStorageSlice::BF16(slice) => slice.device_ptr(&stream).0,
        CudaStorageSlice::F32(slice) => slice.device_ptr(&stream).0,
        CudaStorageSlice::U32(slice) => slice.device_ptr(&stream).0,
        _ => bail!("expected numbers in bf16, f32 or u32, found {:?}", tensor.dtype()),
    };
    Ok(base + (layout.start_offset() * tensor.dtype().size_in_bytes()) as u64)
}

/// A tensor that the next kernel fills completely.
pub(super) fn unfilled(shape: impl Into<Shape>, dtype: DType, like: &Tensor) -> Result<Tensor> {
    // SAFETY: every caller passes it as the result of a kernel that writes all of it before anything reads it.
    unsafe { Tensor::empty(shape, dtype, like.device()) }
}

/// How a kernel reads its tensors: its full name, and how many numbers a thread moves at once.
pub(super) struct Variant {
    pub(super) name: String,
    pub(super) pack: usize,
}

/// The kernel for these tensors of one type: 16 bytes at once where `width`, the length of a row, and all addresses allow it.
pub(super) fn variant(name: &str, width: usize, tensors: &[&Tensor]) -> Result<Variant> {
    let dtype = tensors[0].dtype();
    let (suffix, pack) = match dtype {
        DType::BF16 => ("bf16", 8),
        DType::F32 => ("f32", 4),
        other => bail!("{name}: expected bf16 or f32, found {other:?}"),
    };
    let mut aligned = width.is_multiple_of(pack);
    for tensor in tensors {
        if tensor.dtype() != dtype {
            bail!("{name}: tensors of {dtype:?} and {:?}", tensor.dtype());
        }
        aligned &= address(tensor)?.is_multiple_of(16);
    }
    Ok(match aligned {
        true => Variant { name: format!("{name}_{suffix}"), pack },
        false => Variant { name: format!("{name}_{suffix}_single"), pack: 1 },
    })
}

/// Rows and their length: all dimensions but the last, and the last.
pub(super) fn rows_of(tensor: &Tensor) -> Result<(usize, usize)> {
    let width = tensor.dim(D::Minus1)?;
    Ok((tensor.elem_count() / width.max(1), width))
}

/// Refuses tensors of different shape.
pub(super) fn same_shape(name: &str, tensors: &[&Tensor]) -> Result<()> {
    match tensors.iter().find(|tensor| tensor.dims() != tensors[0].dims()) {
        None => Ok(()),
        Some(other) => bail!("{name}: shapes {:?} and {:?} differ", tensors[0].dims(), other.dims()),
    }
}
