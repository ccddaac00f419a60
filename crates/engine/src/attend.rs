//! Attention over a batch's segments: our kernel on the CPU, padded matrix products on a GPU, with kernels of their own on an
//! NVIDIA one (`cuda/attention.rs`).
//!
//! On a GPU, segments that share keys (a tree) form a group; groups of like size are padded to one shape and go through
//! batched products with an additive mask. The plan is made once per pass and used by every layer.

use std::collections::BTreeMap;
use std::ops::Range;

use candle_core::{DType, Device, Tensor};
use gradus_kernels::Precision;
use gradus_kernels::attention::{Attention, Mask, Segment};

use crate::Result;
use crate::ops::{compute, with_slices};

/// Shape of the attention of one model.
#[derive(Debug, Clone, Copy)]
pub struct Heads {
    /// Query heads.
    pub query: usize,
    /// Key and value heads.
    pub key: usize,
    /// Numbers in each.
    pub dim: usize,
}

/// How a batch's rows attend, ready for every layer.
pub enum Plan {
    /// Segments as they are.
    Cpu(Vec<Segment>),
    /// Padded groups.
    Gpu(Groups),
    /// Padded groups and our kernels.
    #[cfg(feature = "cuda")]
    Cuda(crate::cuda::Groups),
    /// Rows that each have keys of their own, in generation.
    #[cfg(feature = "cuda")]
    CudaRows(crate::cuda::Rows),
}

impl Plan {
    /// Plans `segments` over `rows` rows; `mask` has every mask that a layer uses.
    pub(crate) fn new(
        segments: &[Segment],
        rows: usize,
        mask: &[Mask],
        dtype: DType,
        device: &Device,
    ) -> Result<Self> {
        if device.is_cpu() {
            return Ok(Self::Cpu(segments.to_vec()));
        }
        #[cfg(feature = "cuda")]
        if device.is_cuda() {
            return Ok(Self::Cuda(crate::cuda::Groups::new(segments, mask, device)?));
        }
        Ok(Self::Gpu(Groups::new(segments, rows, mask, dtype, device)?))
    }

    /// Like [`Plan::new`] for rows over a cache, whose gradient nobody asks for.
    pub(crate) fn cached(
        segments: &[Segment],
        rows: usize,
        mask: &[Mask],
        heads: Heads,
        dtype: DType,
        device: &Device,
    ) -> Result<Self> {
        #[cfg(feature = "cuda")]
        if device.is_cuda()
            && let Some(rows) = crate::cuda::Rows::new(segments, mask, heads, dtype, device)?
        {
            return Ok(Self::CudaRows(rows));
        }
        let _ = heads;
        Self::new(segments, rows, mask, dtype, device)
    }

    /// q `[rows, query heads, dim]` over k and v `[slots, key heads, dim]` → `[rows, query heads · dim]`.
    pub fn attend(
        &self,
        q: &Tensor,
        k: &Tensor,
        v: &Tensor,
        heads: Heads,
        mask: Mask,
        precision: Precision,
    ) -> Result<Tensor> {
        match self {
            Self::Cpu(segments) => {
                let attention = attention(heads, mask, precision);
                let width = heads.query * heads.dim;
                compute([q, k, v], (q.elem_count() / width, width), |[q, k, v], out| {
                    attention.attend(q, k, v, segments, out);
                })
            }
            Self::Gpu(groups) => groups.attend(q, k, v, heads, mask),
            #[cfg(feature = "cuda")]
            Self::Cuda(groups) => groups.attend(q, k, v, heads, mask),
            #[cfg(feature = "cuda")]
            Self::CudaRows(rows) => rows.attend(q, k, v, heads, mask),
        }
    }
}

impl Plan {
    /// Gradients of [`Plan::attend`] with respect to q, k and v; `out` is what it returned.
    pub fn backward(
        &self,
        (q, k, v): (&Tensor, &Tensor, &Tensor),
        out: &Tensor,
        dout: &Tensor,
        heads: Heads,
        mask: Mask,
        precision: Precision,
    ) -> Result<(Tensor, Tensor, Tensor)> {
        match self {
            Self::Cpu(segments) => {
                let attention = attention(heads, mask, precision);
                let dout = dout.contiguous()?;
                let (dq, dk, dv) = with_slices([q, k, v, out, &dout], |[q, k, v, out, dout]| {
                    let (mut dq, mut dk, mut dv) =
                        (vec![0.0; q.len()], vec![0.0; k.len()], vec![0.0; v.len()]);
                    attention.backward(q, k, v, out, dout, segments, &mut dq, &mut dk, &mut dv);
                    (dq, dk, dv)
                })?;
                let back = |values, like: &Tensor| Tensor::from_vec(values, like.shape(), like.device());
                Ok((back(dq, q)?, back(dk, k)?, back(dv, v)?))
            }
            Self::Gpu(groups) => groups.backward(q, k, v, dout, heads, mask),
            #[cfg(feature = "cuda")]
            Self::Cuda(groups) => groups.backward(q, k, v, dout, heads, mask),
            #[cfg(feature = "cuda")]
            Self::CudaRows(_) => unreachable!("only passes over a cache are planned so"),
        }
    }
}

fn attention(heads: Heads, mask: Mask, precision: Precision) -> Attention {
    let scale = 1.0 / (heads.dim as f32).sqrt();
    Attention { heads: heads.query, kv_heads: heads.key, head_dim: heads.dim, scale, mask, precision }
}

/// Groups of rows that share keys, in batches of equal padded shape.
pub struct Groups {
    batches: Vec<Padded>,
    /// For each row of the batch, where its result is in the padded results one after another.
    order: Tensor,
}

struct Padded {
    count: usize,
    rows: usize,
    keys: usize,
    row_index: Tensor,
    key_index: Tensor,
    /// 0 where a row sees a key and −∞ where not, `[count, 1, rows, keys]`, one for each distinct mask.
    masks: Vec<(Mask, Tensor)>,
}

/// Rows and key slots that belong together.
pub(crate) struct Group {
    pub(crate) segments: Vec<usize>,
    pub(crate) keys: Vec<usize>,
}

impl Groups {
    fn new(segments: &[Segment], rows: usize, masks: &[Mask], dtype: DType, device: &Device) -> Result<Self> {
        let groups = connected(segments);
        let mut shapes: BTreeMap<(usize, usize), Vec<Group>> = BTreeMap::new();
        for group in groups {
            let count: usize = group.segments.iter().map(|segment| segments[*segment].rows.len()).sum();
            shapes.entry((padded(count), padded(group.keys.len()))).or_default().push(group);
        }
        let mut order = vec![0u32; rows];
        let mut start = 0;
        let mut batches = Vec::new();
        for ((height, width), groups) in shapes {
            let mut row_index = vec![0u32; groups.len() * height];
            let mut key_index = vec![0u32; groups.len() * width];
            let mut seen: Vec<Vec<f32>> =
                masks.iter().map(|_| vec![f32::NEG_INFINITY; groups.len() * height * width]).collect();
            for (number, group) in groups.iter().enumerate() {
                for (at, key) in group.keys.iter().enumerate() {
                    key_index[number * width + at] = *key as u32;
                }
                let column: BTreeMap<usize, usize> =
                    group.keys.iter().enumerate().map(|(at, key)| (*key, at)).collect();
                let mut line = number * height;
                for segment in group.segments.iter().map(|segment| &segments[*segment]) {
                    let keys: Vec<usize> =
                        segment.keys.iter().cloned().flatten().map(|key| column[&key]).collect();
                    for (within, row) in segment.rows.clone().enumerate() {
                        order[row] = (start + line) as u32;
                        row_index[line] = row as u32;
                        for (mask, seen) in masks.iter().zip(&mut seen) {
                            for key in &keys[visible(*mask, keys.len(), segment.rows.len(), within)] {
                                seen[line * width + key] = 0.0;
                            }
                        }
                        line += 1;
                    }
                }
                // Padding rows see one key, so that their softmax is a number; nobody reads them.
                for line in line..(number + 1) * height {
                    seen.iter_mut().for_each(|seen| seen[line * width] = 0.0);
                }
            }
            let shape = (groups.len(), 1, height, width);
            let masks = masks
                .iter()
                .zip(seen)
                .map(|(mask, seen)| Ok((*mask, Tensor::from_vec(seen, shape, device)?.to_dtype(dtype)?)));
            batches.push(Padded {
                count: groups.len(),
                rows: height,
                keys: width,
                row_index: Tensor::new(row_index, device)?,
                key_index: Tensor::new(key_index, device)?,
                masks: masks.collect::<Result<_>>()?,
            });
            start += groups.len() * height;
        }
        Ok(Self { batches, order: Tensor::new(order, device)? })
    }

    fn attend(&self, q: &Tensor, k: &Tensor, v: &Tensor, heads: Heads, mask: Mask) -> Result<Tensor> {
        let width = heads.query * heads.dim;
        let parts: Result<Vec<Tensor>> =
            self.batches.iter().map(|batch| batch.attend(q, k, v, heads, mask)).collect();
        let all = Tensor::cat(&parts?, 0)?.reshape(((), width))?;
        Ok(all.index_select(&self.order, 0)?)
    }
}

impl Groups {
    fn backward(
        &self,
        _q: &Tensor,
        _k: &Tensor,
        _v: &Tensor,
        _dout: &Tensor,
        _heads: Heads,
        _mask: Mask,
    ) -> Result<(Tensor, Tensor, Tensor)> {
        Err(crate::Error::request("training on this device is not supported yet: use --device cpu"))
    }
}

impl Padded {
    fn attend(&self, q: &Tensor, k: &Tensor, v: &Tensor, heads: Heads, mask: Mask) -> Result<Tensor> {
        let (count, rows, keys) = (self.count, self.rows, self.keys);
        let shared = heads.query / heads.key;
        let seen =
            &self.masks.iter().find(|(known, _)| *known == mask).expect("every layer's mask is planned").1;
        // Query heads of one key head are stacked as more rows: [count · key heads, shared · rows, dim].
        let q = q.index_select(&self.row_index, 0)?.reshape((count, rows, heads.key, shared, heads.dim))?;
        let q = q.permute((0, 2, 3, 1, 4))?.contiguous()?;
        let q =
            (q.reshape((count * heads.key, shared * rows, heads.dim))? * (1.0 / (heads.dim as f64).sqrt()))?;
        let gathered = |x: &Tensor| -> candle_core::Result<Tensor> {
            let x = x.index_select(&self.key_index, 0)?.reshape((count, keys, heads.key, heads.dim))?;
            x.transpose(1, 2)?.contiguous()?.reshape((count * heads.key, keys, heads.dim))
        };
        let (k, v) = (gathered(k)?, gathered(v)?);
        let scores = q.matmul(&k.t()?)?.reshape((count, heads.key * shared, rows, keys))?;
        let weights = candle_nn::ops::softmax_last_dim(&scores.broadcast_add(seen)?)?;
        let out = weights.reshape((count * heads.key, shared * rows, keys))?.matmul(&v)?;
        let out = out.reshape((count, heads.key, shared, rows, heads.dim))?;
        Ok(out.permute((0, 3, 1, 2, 4))?.contiguous()?.reshape((count * rows, heads.query * heads.dim))?)
    }
}

/// Which of a segment's keys row `within` sees.
pub(crate) fn visible(mask: Mask, keys: usize, rows: usize, within: usize) -> Range<usize> {
    match mask {
        Mask::Full => 0..keys,
        Mask::Causal { window } => {
            let end = keys - rows + within + 1;
            end.saturating_sub(window.unwrap_or(end))..end
        }
    }
}

/// Segments that share keys, each set with the union of its keys, sorted.
///
/// Works on ranges and not on keys: a pass has thousands of times more of the latter, and generation plans anew for every token.
pub(crate) fn connected(segments: &[Segment]) -> Vec<Group> {
    let ranges = |number: usize| segments[number].keys.iter().filter(|keys| !keys.is_empty());
    let mut sorted: Vec<(&Range<usize>, usize)> =
        (0..segments.len()).flat_map(|number| ranges(number).map(move |keys| (keys, number))).collect();
    sorted.sort_unstable_by_key(|(keys, number)| (keys.start, *number));

    let mut parent: Vec<usize> = (0..segments.len()).collect();
    let mut reached: Option<(usize, usize)> = None;
    for (keys, number) in sorted {
        reached = match reached {
            Some((end, other)) if keys.start < end => {
                let (a, b) = (root(&mut parent, number), root(&mut parent, other));
                parent[b.max(a)] = b.min(a);
                Some((end.max(keys.end), other))
            }
            _ => Some((keys.end, number)),
        };
    }
    let mut groups: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for number in 0..segments.len() {
        groups.entry(root(&mut parent, number)).or_default().push(number);
    }
    let group = |members: Vec<usize>| Group {
        keys: union(members.iter().copied().flat_map(ranges)),
        segments: members,
    };
    groups.into_values().map(group).collect()
}

/// The set that a segment belongs to, by its first member.
fn root(parent: &mut [usize], mut node: usize) -> usize {
    while parent[node] != node {
        parent[node] = parent[parent[node]];
        node = parent[node];
    }
    node
}

/// All keys of some ranges, sorted, each once.
fn union<'a>(ranges: impl Iterator<Item = &'a Range<usize>>) -> Vec<usize> {
    let mut ranges: Vec<&Range<usize>> = ranges.collect();
    ranges.sort_unstable_by_key(|keys| keys.start);
    let mut keys: Vec<usize> = Vec::new();
    for range in ranges {
        let start = keys.last().map_or(range.start, |last| range.start.max(last + 1));
        keys.extend(start..range.end);
    }
    keys
}

/// Rounded up so that few shapes occur: to 8 up to 64, then to an eighth of the next power of two.
pub(crate) fn padded(count: usize) -> usize {
    let unit = if count <= 1 {
        1
    } else if count <= 64 {
        8
    } else {
        count.next_power_of_two() / 8
    };
    count.next_multiple_of(unit)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    /// Segments whose keys are runs anywhere, of any order; some share, some touch, some are empty.
    fn segments() -> impl Strategy<Value = Vec<Segment>> {
        let run = (0usize..60, 0usize..8).prop_map(|(start, length)| start..start + length);
        prop::collection::vec(prop::collection::vec(run, 0..4), 0..12).prop_map(|all| {
            let segment = |(row, keys)| Segment { rows: row..row + 1, keys };
            all.into_iter().enumerate().map(segment).collect()
        })
    }

    proptest! {
        /// Against sets of single keys that are joined until no two overlap.
        #[test]
        fn segments_that_share_a_key_are_one_group(segments in segments()) {
            let mut expected: Vec<(BTreeSet<usize>, BTreeSet<usize>)> = Vec::new();
            for (number, segment) in segments.iter().enumerate() {
                let mut joined = (BTreeSet::from([number]), segment.keys.iter().cloned().flatten().collect::<BTreeSet<_>>());
                expected.retain(|(members, keys)| {
                    let apart = keys.is_disjoint(&joined.1);
                    if !apart {
                        joined.0.extend(members);
                        joined.1.extend(keys);
                    }
                    apart
                });
                expected.push(joined);
            }
            expected.sort_by_key(|(members, _)| members.first().copied());
            let found: Vec<_> = connected(&segments)
                .into_iter()
                .map(|group| (group.segments.into_iter().collect(), group.keys.into_iter().collect()))
                .collect();
            prop_assert_eq!(found, expected);
        }

        #[test]
        fn a_groups_keys_are_sorted_and_each_once(segments in segments()) {
            for group in connected(&segments) {
                prop_assert!(group.keys.is_sorted_by(|a, b| a < b));
            }
        }
    }
}
