//! Generation's attention: every row is a sequence of its own, with keys of any number anywhere in the cache. One kernel reads them
//! where they lie, without groups, copies or padding.

use std::ops::Range;

use candle_core::{DType, Device, Tensor};
use gradus_kernels::attention::{Mask, Segment};

use super::attention::move_heads;
use super::launch::{ATTENTION, Arg, Grid, address, launch, unfilled, variant};
use crate::Result;
use crate::attention::{Heads, visible};

/// Rows that are segments of their own.
pub(crate) struct Rows {
    /// Slots of all keys, row after row.
    keys: Tensor,
    /// Where among them a row's keys begin and end, `[rows, 2]`, for each mask.
    ranges: Vec<(Mask, Tensor)>,
    /// Threads of a block, for one row and head.
    threads: usize,
}

impl Rows {
    /// A plan where each segment is one row, in order, and the kernel knows heads of this width.
    pub(crate) fn new(
        segments: &[Segment],
        masks: &[Mask],
        heads: Heads,
        dtype: DType,
        device: &Device,
    ) -> Result<Option<Self>> {
        if !Self::fits(heads, dtype)
            || segments.iter().enumerate().any(|(row, segment)| segment.rows != (row..row + 1))
        {
            return Ok(None);
        }
        let keys: Vec<u32> = segments
            .iter()
            .flat_map(|segment| segment.keys.iter().cloned().flatten())
            .map(|key| key as u32)
            .collect();
        let counts: Vec<usize> =
            segments.iter().map(|segment| segment.keys.iter().map(Range::len).sum()).collect();
        let ranges = masks.iter().map(|mask| {
            let mut start = 0;
            let mut ranges = Vec::with_capacity(2 * counts.len());
            for count in &counts {
                let seen = visible(*mask, *count, 1, 0);
                ranges.extend([(start + seen.start) as u32, (start + seen.end) as u32]);
                start += count;
            }
            Ok((*mask, Tensor::from_vec(ranges, (counts.len(), 2), device)?))
        });
        let ranges = ranges.collect::<Result<_>>()?;
        let threads = Self::threads(counts.iter().copied().max().unwrap_or(0), heads, dtype);
        Ok(Some(Self { keys: Tensor::new(keys, device)?, ranges, threads }))
    }

    /// Rows whose lists are on the device already.
    pub(crate) fn over(keys: Tensor, ranges: Vec<(Mask, Tensor)>, threads: usize) -> Self {
        Self { keys, ranges, threads }
    }

    /// Whether the kernel knows heads of this width: the threads of a key are a power of two within a warp.
    pub(crate) fn fits(heads: Heads, dtype: DType) -> bool {
        let pack = 16 / dtype.size_in_bytes();
        let lanes = heads.dim / pack;
        heads.dim.is_multiple_of(pack) && lanes.is_power_of_two() && lanes <= 32
    }

    /// Threads of a block where a row sees at most `most` keys: about four for each group of threads, where there are so many.
    pub(crate) fn threads(most: usize, heads: Heads, dtype: DType) -> usize {
        (most * heads.dim * dtype.size_in_bytes() / 64).next_power_of_two().clamp(64, 512)
    }

    /// Like [`Groups::attend`].
    pub(crate) fn attend(&self, [q, k, v]: [&Tensor; 3], heads: Heads, mask: Mask) -> Result<Tensor> {
        let (q, k, v) = (q.contiguous()?, k.contiguous()?, v.contiguous()?);
        let out = unfilled(q.shape(), q.dtype(), &q)?;
        let ranges =
            &self.ranges.iter().find(|(known, _)| *known == mask).expect("every layer's mask is planned").1;
        let kernel = variant("attend_rows", heads.dim, &[&q, &k, &v, &out])?;
        assert!(kernel.pack > 1, "heads begin at multiples of 16 bytes");
        let rows = q.dim(0)?;
        let arguments = [
            Arg::Address(address(&q)?),
            Arg::Address(address(&k)?),
            Arg::Address(address(&v)?),
            Arg::Address(address(&self.keys)?),
            Arg::Address(address(ranges)?),
            Arg::Address(address(&out)?),
            Arg::U32(heads.query as u32),
            Arg::U32(heads.key as u32),
            Arg::U32(heads.dim as u32),
            Arg::F32(1.0 / (heads.dim as f32).sqrt()),
        ];
        let grid = Grid { blocks: (rows * heads.query) as u32, threads: (self.threads as u32, 1) };
        // SAFETY: the kernel's own arguments; every key is a slot of k and v, and the ranges lie within the keys.
        unsafe { launch(q.device().as_cuda_device()?, &ATTENTION, &kernel.name, grid, &arguments) }?;
        Ok(out.flatten_from(1)?)
    }
}

/// The rows of a table `[any, width]` that `index` names.
pub(super) fn take_rows(table: &Tensor, index: &Tensor) -> Result<Tensor> {
    let (_, width) = table.dims2()?;
    let y = unfilled((index.elem_count(), width), table.dtype(), table)?;
    move_heads("gather_heads", table, index, &y, 1, 1, width)?;
    Ok(y)
}
