//! Attention that never writes its scores, over segments as they are: memory is linear in the length of a text, and a tree is
//! one launch. For bf16 and heads of 64 or 128 numbers; `attention.rs` has the rest.
//!
//! The kernels work on tiles: forward and for dQ, lines of one segment, each with all keys that they see; for dK and dV, keys that
//! lie side by side, each with all segments that see them. The lists of both are made here, those of the gradients when they are
//! first needed.

use std::ops::Range;
use std::sync::OnceLock;

use candle_core::{DType, Device, Result as Candle, Tensor};
use gradus_kernels::attention::{Mask, Segment};

use super::launch::{Arg, FLASH, Grid, address, launch_shared, unfilled};
use crate::Result;
use crate::attention::Heads;

/// As in the kernels.
const KEYS: usize = 64;
const LINES: usize = 64;
const FORWARD_LINES: usize = 128;
const THREADS: u32 = 128;

/// Segments, cut into tiles.
pub(crate) struct Flash {
    /// Segment and first line of each tile of `FORWARD_LINES` lines, those with the most keys first.
    tiles: Tensor,
    /// First row, rows, keys, first run and runs of each segment.
    segments: Tensor,
    /// First slot, slots and the number of the first key of each run.
    runs: Tensor,
    /// Rows of all segments.
    rows: usize,
    on_host: Vec<Segment>,
    keys: OnceLock<KeyTiles>,
}

/// Keys side by side, and who sees them.
struct KeyTiles {
    /// First slot, slots, first reader and readers of each tile, those with the most work first.
    tiles: Tensor,
    /// Segment, first slot, slots and the number of the first among the segment's keys.
    readers: Tensor,
    /// Slots of all tiles.
    slots: usize,
}

impl Flash {
    /// A plan where the kernels know tensors of this type and heads of this width.
    pub(crate) fn new(
        segments: &[Segment],
        heads: Heads,
        dtype: DType,
        device: &Device,
    ) -> Result<Option<Self>> {
        let fits =
            dtype == DType::BF16 && matches!(heads.dim, 64 | 128) && heads.query.is_multiple_of(heads.key);
        if !fits || segments.is_empty() {
            return Ok(None);
        }
        let shared = heads.query / heads.key;
        let (mut listed, mut runs, mut tiles) = (Vec::new(), Vec::new(), Vec::new());
        for (number, segment) in segments.iter().enumerate() {
            let first_run = runs.len() / 3;
            let keys = each_run(segment, |slot, count, first| {
                runs.extend([slot as u32, count as u32, first as u32]);
            });
            let count = segment.rows.len();
            let words = [segment.rows.start, count, keys, first_run, runs.len() / 3 - first_run];
            listed.extend(words.map(|word| word as u32));
            for line in (0..count * shared).step_by(FORWARD_LINES) {
                // How many keys its last row sees.
                let last = ((line + FORWARD_LINES).min(count * shared) - 1) / shared;
                tiles.push((keys + last + 1 - count, [number as u32, line as u32]));
            }
        }
        tiles.sort_by_key(|(work, _)| std::cmp::Reverse(*work));
        let tiles: Vec<u32> = tiles.into_iter().flat_map(|(_, tile)| tile).collect();
        let rows = segments.iter().map(|segment| segment.rows.len()).sum();
        Ok(Some(Self {
            tiles: Tensor::new(tiles, device)?,
            segments: Tensor::new(listed, device)?,
            runs: Tensor::new(runs, device)?,
            rows,
            on_host: segments.to_vec(),
            keys: OnceLock::new(),
        }))
    }

    /// q `[rows, query heads, dim]` over k and v `[slots, key heads, dim]` → `[rows, query heads · dim]`, and the logarithms of
    /// the sums that the gradient needs, `[rows, query heads]`.
    pub(crate) fn attend(
        &self,
        [q, k, v]: [&Tensor; 3],
        heads: Heads,
        mask: Mask,
    ) -> Result<(Tensor, Tensor)> {
        let (q, k, v) = (q.contiguous()?, k.contiguous()?, v.contiguous()?);
        let out = blank(&q, self.rows)?;
        let sums = unfilled((q.dim(0)?, heads.query), DType::F32, &q)?;
        let scale = Scale::of(heads);
        let [causal, window] = mask_words(mask);
        let arguments = [
            Arg::Address(address(&q)?),
            Arg::Address(address(&k)?),
            Arg::Address(address(&v)?),
            Arg::Address(address(&out)?),
            Arg::Address(address(&sums)?),
            Arg::Address(address(&self.tiles)?),
            Arg::Address(address(&self.segments)?),
            Arg::Address(address(&self.runs)?),
            Arg::U32(heads.query as u32),
            Arg::U32(heads.key as u32),
            causal,
            window,
            Arg::F32(scale.binary),
        ];
        let blocks = self.tiles.elem_count() / 2 * heads.key;
        let memory = (FORWARD_LINES + 4 * KEYS) * heads.dim * 2;
        self.start(&q, "flash", heads, blocks, memory, &arguments)?;
        Ok((out.flatten_from(1)?, sums))
    }

    /// Gradients of [`Flash::attend`] with respect to q, k and v; `out` and `sums` are what it returned.
    pub(crate) fn backward(
        &self,
        [q, k, v]: [&Tensor; 3],
        (out, sums): (&Tensor, &Tensor),
        dout: &Tensor,
        heads: Heads,
        mask: Mask,
    ) -> Result<(Tensor, Tensor, Tensor)> {
        let (q, k, v) = (q.contiguous()?, k.contiguous()?, v.contiguous()?);
        let (out, dout) = (out.contiguous()?, dout.contiguous()?);
        let keys = self.key_tiles(q.device())?;
        let lines = q.dim(0)? * heads.query;
        let deltas = unfilled((q.dim(0)?, heads.query), DType::F32, &q)?;
        let arguments = [
            Arg::Address(address(&out)?),
            Arg::Address(address(&dout)?),
            Arg::Address(address(&deltas)?),
            Arg::U32(lines as u32),
        ];
        let grid = Grid { blocks: lines.div_ceil(4) as u32, threads: (32, 4) };
        let device = q.device().as_cuda_device()?;
        // SAFETY: the kernel's own arguments; out and dout have `lines` lines of `dim`.
        unsafe { launch_shared(device, &FLASH, &format!("flash_delta_{}", heads.dim), grid, 0, &arguments) }?;

        let scale = Scale::of(heads);
        let [causal, window] = mask_words(mask);
        let [causal_too, window_too] = mask_words(mask);
        let given = |last: &Tensor| -> Candle<Vec<Arg>> {
            [&q, &k, &v, &dout, sums, &deltas, last].iter().map(|x| Ok(Arg::Address(address(x)?))).collect()
        };
        let dq = blank(&q, self.rows)?;
        let mut arguments = given(&dq)?;
        arguments.extend([
            Arg::Address(address(&self.tiles)?),
            Arg::Address(address(&self.segments)?),
            Arg::Address(address(&self.runs)?),
            Arg::U32(heads.query as u32),
            Arg::U32(heads.key as u32),
            causal,
            window,
            Arg::F32(scale.binary),
            Arg::F32(scale.plain),
        ]);
        let blocks = self.tiles.elem_count() / 2 * (FORWARD_LINES / LINES) * heads.key;
        let memory = (2 * LINES + 4 * KEYS) * heads.dim * 2;
        self.start(&q, "flash_query_gradient", heads, blocks, memory, &arguments)?;

        let (dk, dv) = (blank(&k, keys.slots)?, blank(&v, keys.slots)?);
        let mut arguments = given(&dk)?;
        arguments.extend([
            Arg::Address(address(&dv)?),
            Arg::Address(address(&keys.tiles)?),
            Arg::Address(address(&keys.readers)?),
            Arg::Address(address(&self.segments)?),
            Arg::U32(heads.query as u32),
            Arg::U32(heads.key as u32),
            causal_too,
            window_too,
            Arg::F32(scale.binary),
            Arg::F32(scale.plain),
        ]);
        let blocks = keys.tiles.elem_count() / 4 * heads.key;
        let memory = (2 * KEYS + 4 * LINES) * heads.dim * 2;
        self.start(&q, "flash_key_gradients", heads, blocks, memory, &arguments)?;
        Ok((dq, dk, dv))
    }

    fn key_tiles(&self, device: &Device) -> Result<&KeyTiles> {
        if self.keys.get().is_none() {
            let made = KeyTiles::new(&self.on_host, device)?;
            return Ok(self.keys.get_or_init(|| made));
        }
        Ok(self.keys.get().expect("just seen"))
    }

    fn start(
        &self,
        like: &Tensor,
        name: &str,
        heads: Heads,
        blocks: usize,
        memory: usize,
        arguments: &[Arg],
    ) -> Candle<()> {
        let grid =
            Grid { blocks: u32::try_from(blocks).expect("fewer than 2³² tiles"), threads: (THREADS, 1) };
        let name = format!("{name}_{}", heads.dim);
        // SAFETY: the callers give the kernel's own arguments, over the segments that the tensors were checked for by the model;
        // tiles, segments, runs and readers are the lists that the kernel documents.
        unsafe {
            launch_shared(like.device().as_cuda_device()?, &FLASH, &name, grid, memory as u32, arguments)
        }
    }
}

impl KeyTiles {
    fn new(segments: &[Segment], device: &Device) -> Result<Self> {
        let tiles = cut(segments);
        let mut readers: Vec<Vec<[u32; 4]>> = vec![Vec::new(); tiles.len()];
        let mut work = vec![0; tiles.len()];
        for (number, segment) in segments.iter().enumerate() {
            each_run(segment, |slot, count, first| {
                let from = tiles.partition_point(|tile| tile.end <= slot);
                for (tile, at) in
                    tiles[from..].iter().zip(from..).take_while(|(tile, _)| tile.start < slot + count)
                {
                    let (start, end) = (tile.start.max(slot), tile.end.min(slot + count));
                    readers[at]
                        .push([number, start, end - start, first + start - slot].map(|word| word as u32));
                    work[at] += segment.rows.len();
                }
            });
        }
        let mut order: Vec<usize> = (0..tiles.len()).collect();
        order.sort_by_key(|at| std::cmp::Reverse(work[*at]));
        let (mut listed, mut flat): (Vec<u32>, Vec<[u32; 4]>) = (Vec::new(), Vec::new());
        for at in order {
            let words = [tiles[at].start, tiles[at].len(), flat.len(), readers[at].len()];
            listed.extend(words.map(|word| word as u32));
            flat.extend(&readers[at]);
        }
        let flat: Vec<u32> = flat.into_iter().flatten().collect();
        let slots = tiles.iter().map(Range::len).sum();
        Ok(Self { tiles: Tensor::new(listed, device)?, readers: Tensor::new(flat, device)?, slots })
    }
}

/// All slots that segments see, in tiles of at most `KEYS` that begin where a segment's own rows do.
fn cut(segments: &[Segment]) -> Vec<Range<usize>> {
    let mut runs: Vec<Range<usize>> = segments
        .iter()
        .flat_map(|segment| segment.keys.iter().filter(|run| !run.is_empty()).cloned())
        .collect();
    runs.sort_unstable_by_key(|run| run.start);
    let mut own: Vec<usize> =
        segments.iter().filter_map(|segment| segment.keys.last().map(|run| run.start)).collect();
    own.sort_unstable();
    let (mut tiles, mut done) = (Vec::new(), 0);
    for run in runs {
        let mut start = run.start.max(done);
        while start < run.end {
            let after = own.partition_point(|cut| *cut <= start);
            let cut = own.get(after).copied().unwrap_or(usize::MAX);
            let end = (start + KEYS).min(run.end).min(cut);
            tiles.push(start..end);
            start = end;
        }
        done = done.max(run.end);
    }
    tiles
}

/// Calls `each` with first slot, slots and the number of the first key of every run; returns the number of keys.
fn each_run(segment: &Segment, mut each: impl FnMut(usize, usize, usize)) -> usize {
    let mut first = 0;
    for run in segment.keys.iter().filter(|run| !run.is_empty()) {
        each(run.start, run.len(), first);
        first += run.len();
    }
    first
}

/// 1/√dim, plain and for powers of two.
struct Scale {
    plain: f32,
    binary: f32,
}

impl Scale {
    fn of(heads: Heads) -> Self {
        let plain = 1.0 / (heads.dim as f32).sqrt();
        Self { plain, binary: plain * std::f32::consts::LOG2_E }
    }
}

/// Whether a mask is causal, and its window, 0 for none.
fn mask_words(mask: Mask) -> [Arg; 2] {
    match mask {
        Mask::Full => [Arg::U32(0), Arg::U32(0)],
        Mask::Causal { window } => [Arg::U32(1), Arg::U32(window.unwrap_or(0) as u32)],
    }
}

/// A tensor of the shape of `like` to write into: zeros where not all of its rows will be written.
fn blank(like: &Tensor, written: usize) -> Candle<Tensor> {
    if written == like.dim(0)? { unfilled(like.shape(), like.dtype(), like) } else { like.zeros_like() }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Every slot that is seen lies in one tile, and no other does.
        #[test]
        fn tiles_are_what_segments_see(all in prop::collection::vec(prop::collection::vec((0usize..300, 0usize..200), 0..4), 0..6)) {
            let segments: Vec<Segment> = all
                .iter()
                .map(|runs| Segment { rows: 0..1, keys: runs.iter().map(|(start, count)| *start..start + count).collect() })
                .collect();
            let mut seen = [0u32; 500];
            segments.iter().flat_map(|segment| segment.keys.iter().cloned().flatten()).for_each(|slot| seen[slot] = 1);
            let tiles = cut(&segments);
            prop_assert!(tiles.iter().all(|tile| !tile.is_empty() && tile.len() <= KEYS));
            prop_assert!(tiles.windows(2).all(|two| two[0].end <= two[1].start));
            let mut found = [0u32; 500];
            tiles.into_iter().flatten().for_each(|slot| found[slot] += 1);
            prop_assert_eq!(found, seen);
        }
    }
}
