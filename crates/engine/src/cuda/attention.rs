//! Attention over a batch's segments: matrix products by cuBLAS, the rest by our kernels.
//!
//! Segments that share keys (a tree) form a group; groups of like size are padded to one shape and go through batched
//! products. Padding rows and keys are zeros that reach nobody. Which keys a row sees is a range, with one bit per key
//! beside it in a tree; no mask of numbers is made.
//!
//! ```text
//! P = softmax(s Q Kᵀ)      out = P V
//! dV = Pᵀ dout      dP = dout Vᵀ      dS = s P ∘ (dP − Σ P ∘ dP)      dQ = dS K      dK = dSᵀ Q
//! ```
//!
//! The gradient makes P anew. The plan is made once per pass and used by every layer.

use std::collections::BTreeMap;
use std::ops::Range;

use candle_core::{DType, Device, Result as Candle, Tensor};
use gradus_kernels::attention::{Mask, Segment};

use super::launch::{ATTENTION, Arg, Grid, address, launch, unfilled, variant};
use crate::Result;
use crate::attention::{Group, Heads, connected, padded, visible};

/// The row or key of padding.
const NOBODY: u32 = u32::MAX;

/// Groups of rows that share keys, in batches of equal padded shape.
pub(crate) struct Groups {
    pub(super) batches: Vec<Padded>,
    /// Rows and keys that occur.
    rows: usize,
    keys: usize,
    /// Bytes of scores that are held at once, where one key head's do not take more.
    pub(super) scores: usize,
}

/// Groups of one padded shape.
pub(super) struct Padded {
    count: usize,
    rows: usize,
    keys: usize,
    /// `[count · rows]` and `[count · keys]`: where each comes from, or nobody.
    pub(super) row_index: Tensor,
    key_index: Tensor,
    sights: Vec<(Mask, Sight)>,
}

/// Which keys each row sees under one mask.
struct Sight {
    /// First key and the one after the last, `[count, rows, 2]`.
    ranges: Tensor,
    /// One bit per key in 32-bit words, `[count, rows, words]`, where ranges alone do not say it.
    bits: Option<Tensor>,
}

/// Tensors gathered into groups: `[count · key heads, lines, dim]`, query heads of one key head being more lines.
pub(super) struct Gathered {
    pub(super) q: Tensor,
    pub(super) k: Tensor,
    pub(super) v: Tensor,
}

impl Groups {
    pub(crate) fn new(segments: &[Segment], masks: &[Mask], device: &Device) -> Result<Self> {
        let mut shapes: BTreeMap<(usize, usize), Vec<Group>> = BTreeMap::new();
        let (mut rows, mut keys) = (0, 0);
        for mut group in connected(segments) {
            // Alone, a segment's keys keep its own order: what a row sees is then one range.
            if let [only] = group.segments[..] {
                group.keys = segments[only].keys.iter().cloned().flatten().collect();
            }
            let count: usize = group.segments.iter().map(|segment| segments[*segment].rows.len()).sum();
            rows += count;
            keys += group.keys.len();
            shapes.entry((padded(count), padded(group.keys.len()))).or_default().push(group);
        }
        let batches =
            shapes.iter().map(|(shape, groups)| Padded::new(segments, groups, *shape, masks, device));
        Ok(Self { batches: batches.collect::<Result<_>>()?, rows, keys, scores: 2 << 30 })
    }

    /// q `[rows, query heads, dim]` over k and v `[slots, key heads, dim]` → `[rows, query heads · dim]`.
    pub(crate) fn attend(&self, [q, k, v]: [&Tensor; 3], heads: Heads, mask: Mask) -> Result<Tensor> {
        let (q, k, v) = (q.contiguous()?, k.contiguous()?, v.contiguous()?);
        let out = blank(&q, self.rows)?;
        for batch in &self.batches {
            let gathered = batch.gather(&q, &k, &v, heads)?;
            let parts = batch.chunks(heads, q.dtype(), self.scores).map(|chunk| {
                let part = gathered.narrow(&chunk)?;
                batch.weights(&part, heads, mask, chunk.start)?.matmul(&part.v)
            });
            batch.scatter(&joined(parts.collect::<Candle<_>>()?)?, &batch.row_index, batch.rows, &out)?;
        }
        Ok(out.flatten_from(1)?)
    }

    /// Gradients of [`Groups::attend`] with respect to q, k and v, from `dout` of the shape of its result.
    pub(crate) fn backward(
        &self,
        [q, k, v]: [&Tensor; 3],
        dout: &Tensor,
        heads: Heads,
        mask: Mask,
    ) -> Result<(Tensor, Tensor, Tensor)> {
        let (q, k, v) = (q.contiguous()?, k.contiguous()?, v.contiguous()?);
        let dout = dout.contiguous()?.reshape(q.shape())?;
        let (dq, dk, dv) = (blank(&q, self.rows)?, blank(&k, self.keys)?, blank(&v, self.keys)?);
        for batch in &self.batches {
            let gathered = batch.gather(&q, &k, &v, heads)?;
            let gradients = batch.gather_rows(&dout, heads)?;
            let (mut dqs, mut dks, mut dvs) = (Vec::new(), Vec::new(), Vec::new());
            for chunk in batch.chunks(heads, q.dtype(), self.scores) {
                let part = gathered.narrow(&chunk)?;
                let gradients = gradients.narrow(0, chunk.start, chunk.len())?;
                let weights = batch.weights(&part, heads, mask, chunk.start)?;
                dvs.push(weights.t()?.matmul(&gradients)?);
                let scores = gradients.matmul(&part.v.t()?)?;
                batch.softmax_backward(&weights, &scores, heads, mask, chunk.start)?;
                dqs.push(scores.matmul(&part.k)?);
                dks.push(scores.t()?.matmul(&part.q)?);
            }
            batch.scatter(&joined(dqs)?, &batch.row_index, batch.rows, &dq)?;
            batch.scatter(&joined(dks)?, &batch.key_index, batch.keys, &dk)?;
            batch.scatter(&joined(dvs)?, &batch.key_index, batch.keys, &dv)?;
        }
        Ok((dq, dk, dv))
    }
}

/// A tensor of the shape of `like` to scatter into: zeros where not all of its rows will be written.
fn blank(like: &Tensor, written: usize) -> Candle<Tensor> {
    if written == like.dim(0)? { unfilled(like.shape(), like.dtype(), like) } else { like.zeros_like() }
}

/// Chunks one after another, without a copy when there is one.
fn joined(mut parts: Vec<Tensor>) -> Candle<Tensor> {
    if parts.len() == 1 { Ok(parts.remove(0)) } else { Tensor::cat(&parts, 0) }
}

impl Gathered {
    fn narrow(&self, chunk: &Range<usize>) -> Candle<Self> {
        let part = |x: &Tensor| x.narrow(0, chunk.start, chunk.len());
        Ok(Self { q: part(&self.q)?, k: part(&self.k)?, v: part(&self.v)? })
    }
}

impl Padded {
    fn new(
        segments: &[Segment],
        groups: &[Group],
        (rows, keys): (usize, usize),
        masks: &[Mask],
        device: &Device,
    ) -> Result<Self> {
        let count = groups.len();
        let mut row_index = vec![NOBODY; count * rows];
        let mut key_index = vec![NOBODY; count * keys];
        for (number, group) in groups.iter().enumerate() {
            for (slot, key) in key_index[number * keys..].iter_mut().zip(&group.keys) {
                *slot = *key as u32;
            }
            let all = group.segments.iter().flat_map(|segment| segments[*segment].rows.clone());
            for (slot, row) in row_index[number * rows..].iter_mut().zip(all) {
                *slot = row as u32;
            }
        }
        let sights = masks.iter().map(|mask| {
            let sight = Sight::new(segments, groups, (rows, keys), *mask, device)?;
            Ok((*mask, sight))
        });
        let sights = sights.collect::<Result<_>>()?;
        let (row_index, key_index) = (Tensor::new(row_index, device)?, Tensor::new(key_index, device)?);
        Ok(Self { count, rows, keys, row_index, key_index, sights })
    }

    pub(super) fn gather(&self, q: &Tensor, k: &Tensor, v: &Tensor, heads: Heads) -> Candle<Gathered> {
        let lines = |x: &Tensor| gather(x, &self.key_index, self.count, self.keys, heads.key);
        Ok(Gathered { q: self.gather_rows(q, heads)?, k: lines(k)?, v: lines(v)? })
    }

    pub(super) fn gather_rows(&self, x: &Tensor, heads: Heads) -> Candle<Tensor> {
        gather(x, &self.row_index, self.count, self.rows, heads.key)
    }

    /// Writes `[count · key heads, lines, dim]` to the rows of `out` that `index` names.
    pub(super) fn scatter(&self, x: &Tensor, index: &Tensor, rows: usize, out: &Tensor) -> Candle<()> {
        let (_, heads, dim) = out.dims3()?;
        assert_eq!(x.elem_count(), self.count * rows * heads * dim, "as gathered");
        move_heads("scatter_heads", x, index, out, rows, heads, dim)
    }

    /// Which of the `count · key heads` products are done at once.
    fn chunks(
        &self,
        heads: Heads,
        dtype: DType,
        scores: usize,
    ) -> impl Iterator<Item = Range<usize>> + use<> {
        let one = heads.query / heads.key * self.rows * self.keys * dtype.size_in_bytes();
        let (all, step) = (self.count * heads.key, (scores / one.max(1)).max(1));
        (0..all).step_by(step).map(move |start| start..(start + step).min(all))
    }

    /// P of a chunk that begins with product `first`.
    pub(super) fn weights(&self, part: &Gathered, heads: Heads, mask: Mask, first: usize) -> Candle<Tensor> {
        let scores = part.q.matmul(&part.k.t()?)?;
        let sight = self.sight(mask);
        let bits = sight.bits.as_ref().map_or(Ok(0), address)?;
        let tensors =
            [Arg::Address(address(&scores)?), Arg::Address(address(&sight.ranges)?), Arg::Address(bits)];
        self.over_scores("softmax", tensors, &[&scores], heads, first)?;
        Ok(scores)
    }

    /// From the gradient of P to that of the scores, in place on `gradients`.
    pub(super) fn softmax_backward(
        &self,
        weights: &Tensor,
        gradients: &Tensor,
        heads: Heads,
        mask: Mask,
        first: usize,
    ) -> Candle<()> {
        let ranges = address(&self.sight(mask).ranges)?;
        let tensors =
            [Arg::Address(address(weights)?), Arg::Address(address(gradients)?), Arg::Address(ranges)];
        self.over_scores("softmax_backward", tensors, &[weights, gradients], heads, first)
    }

    fn sight(&self, mask: Mask) -> &Sight {
        &self.sights.iter().find(|(known, _)| *known == mask).expect("every layer's mask is planned").1
    }

    /// Starts a kernel over lines of scores, in its variant for lines of this length.
    fn over_scores(
        &self,
        name: &str,
        tensors: [Arg; 3],
        scores: &[&Tensor],
        heads: Heads,
        first: usize,
    ) -> Candle<()> {
        /// Packs of a line that a thread keeps, as in the kernel.
        const PACKS: usize = 4;
        let shared = heads.query / heads.key;
        let lines = scores[0].elem_count() / self.keys;
        let mut kernel = variant(name, self.keys, scores)?;
        let grid = if self.keys <= 1024 * PACKS * kernel.pack {
            Grid::rows(lines, self.keys, kernel.pack, PACKS)
        } else {
            kernel = variant(&format!("{name}_long"), self.keys, scores)?;
            Grid::block_per_row(lines, self.keys, kernel.pack, 1024)
        };
        let [a, b, c] = tensors;
        let arguments = [
            a,
            b,
            c,
            Arg::U64((first * shared * self.rows) as u64),
            Arg::U64(lines as u64),
            Arg::U32(heads.query as u32),
            Arg::U32(self.rows as u32),
            Arg::U32(self.keys as u32),
            Arg::F32(1.0 / (heads.dim as f32).sqrt()),
        ];
        let device = scores[0].device().as_cuda_device()?;
        // SAFETY: the kernel's own arguments; scores are whole lines of `keys`, and sights were made for these groups.
        unsafe { launch(device, &ATTENTION, &kernel.name, grid, &arguments) }
    }
}

/// x `[any, heads, dim]` → `[count · key heads, lines, dim]`.
fn gather(x: &Tensor, index: &Tensor, count: usize, rows: usize, key_heads: usize) -> Candle<Tensor> {
    let (_, heads, dim) = x.dims3()?;
    let y = unfilled((count * key_heads, heads / key_heads * rows, dim), x.dtype(), x)?;
    move_heads("gather_heads", x, index, &y, rows, heads, dim)?;
    Ok(y)
}

pub(super) fn move_heads(
    name: &str,
    x: &Tensor,
    index: &Tensor,
    y: &Tensor,
    rows: usize,
    heads: usize,
    dim: usize,
) -> Candle<()> {
    let kernel = variant(name, dim, &[x, y])?;
    let arguments = [
        Arg::Address(address(x)?),
        Arg::Address(address(index)?),
        Arg::Address(address(y)?),
        Arg::U32(rows as u32),
        Arg::U32(heads as u32),
        Arg::U32(dim as u32),
    ];
    let grid = Grid::block_per_row(index.elem_count(), heads * dim, kernel.pack, 256);
    // SAFETY: the kernel's own arguments; indices name rows of the ungrouped tensor, which the plan's segments are about.
    unsafe { launch(x.device().as_cuda_device()?, &ATTENTION, &kernel.name, grid, &arguments) }
}

impl Sight {
    fn new(
        segments: &[Segment],
        groups: &[Group],
        (rows, keys): (usize, usize),
        mask: Mask,
        device: &Device,
    ) -> Result<Self> {
        let words = keys.div_ceil(32);
        let is_tree = groups.iter().any(|group| group.segments.len() > 1);
        // Padding rows see one key, so that their softmax is a number; nobody reads them.
        let mut ranges = [0u32, 1].repeat(groups.len() * rows);
        let mut bits = if is_tree { vec![0u32; groups.len() * rows * words] } else { Vec::new() };
        for (number, group) in groups.iter().enumerate() {
            let mut line = number * rows;
            for segment in group.segments.iter().map(|segment| &segments[*segment]) {
                let runs = columns(group, segment);
                let count = runs.iter().map(Range::len).sum();
                for within in 0..segment.rows.len() {
                    let seen = clipped(&runs, visible(mask, count, segment.rows.len(), within));
                    if let (Some(start), Some(end)) =
                        (seen.iter().map(|run| run.start).min(), seen.iter().map(|run| run.end).max())
                    {
                        ranges[2 * line] = start as u32;
                        ranges[2 * line + 1] = end as u32;
                    }
                    if is_tree {
                        let bits = &mut bits[line * words..(line + 1) * words];
                        seen.into_iter().for_each(|run| set(bits, run));
                    }
                    line += 1;
                }
            }
            if is_tree {
                (line..(number + 1) * rows).for_each(|line| set(&mut bits[line * words..], 0..1));
            }
        }
        let ranges = Tensor::from_vec(ranges, (groups.len(), rows, 2), device)?;
        let bits = is_tree.then(|| Tensor::from_vec(bits, (groups.len(), rows, words), device));
        Ok(Self { ranges, bits: bits.transpose()? })
    }
}

/// A segment's keys, in its order, as runs of columns of its group.
fn columns(group: &Group, segment: &Segment) -> Vec<Range<usize>> {
    if group.segments.len() == 1 {
        return vec![0..group.keys.len()];
    }
    let mut runs: Vec<Range<usize>> = Vec::new();
    for keys in segment.keys.iter().filter(|keys| !keys.is_empty()) {
        // A group's keys are sorted and have all of this range, so it is one run of columns.
        let start = group.keys.binary_search(&keys.start).expect("a group has all keys of its segments");
        match runs.last_mut() {
            Some(last) if last.end == start => last.end += keys.len(),
            _ => runs.push(start..start + keys.len()),
        }
    }
    runs
}

/// The part of the runs that lies in `wanted`, counted along them.
fn clipped(runs: &[Range<usize>], wanted: Range<usize>) -> Vec<Range<usize>> {
    let mut before = 0;
    let mut seen = Vec::with_capacity(runs.len());
    for run in runs {
        let start = wanted.start.max(before) - before;
        let end = wanted.end.min(before + run.len()).saturating_sub(before);
        if start < end {
            seen.push(run.start + start..run.start + end);
        }
        before += run.len();
    }
    seen
}

fn set(bits: &mut [u32], run: Range<usize>) {
    let mut at = run.start;
    while at < run.end {
        let end = run.end.min((at / 32 + 1) * 32);
        let ones = u32::MAX >> (32 - (end - at));
        bits[at / 32] |= ones << (at % 32);
        at = end;
    }
}
