//! Attention by candle's matrix products, for Apple GPUs.
//!
//! Segments that share keys (a tree) form a group; groups of like size are padded to one shape and go through batched
//! products with an additive mask. Gradients are left out.

use std::collections::BTreeMap;

use candle_core::Tensor;
use gradus_kernels::attention::Mask;

use super::groups::{Group, connected, padded};
use super::{Attend, Attended, Inputs, PlanRequest, visible};
use crate::Result;

/// Groups of rows that share keys, in batches of equal padded shape.
struct Groups {
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

pub(super) fn plan(request: &PlanRequest<'_>) -> Result<Box<dyn Attend>> {
    Ok(Box::new(Groups::new(request)?))
}

impl Groups {
    fn new(request: &PlanRequest<'_>) -> Result<Self> {
        let PlanRequest { segments, rows, masks, dtype, device, .. } = *request;
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
}

impl Attend for Groups {
    fn attend(&self, inputs: &Inputs<'_>) -> Result<Attended> {
        let width = inputs.heads.query * inputs.heads.dim;
        let parts: Result<Vec<Tensor>> = self.batches.iter().map(|batch| batch.attend(inputs)).collect();
        let all = Tensor::cat(&parts?, 0)?.reshape(((), width))?;
        Ok(all.index_select(&self.order, 0)?.into())
    }

    fn backward(&self, _: &Inputs<'_>, _: &Attended, _: &Tensor) -> Result<(Tensor, Tensor, Tensor)> {
        Err(crate::Error::request("training on this device is not supported yet: use --device cpu"))
    }
}

impl Padded {
    fn attend(&self, inputs: &Inputs<'_>) -> Result<Tensor> {
        let Inputs { q, k, v, heads, mask, .. } = *inputs;
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
