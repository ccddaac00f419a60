//! Keys and values of earlier tokens, for all sequences of a model together.
//!
//! One pair of tensors per layer holds numbered slots. A sequence owns blocks of slots and grows a block at a time; the
//! slots of a prompt are shared by its samples simply because all of them name the same ranges.

use std::ops::Range;

use candle_core::{DType, Device, Tensor};

use crate::{Result, ops};

/// Slots that are handed out together.
const BLOCK: usize = 64;

/// Keys and values in numbered slots.
pub(crate) struct Cache {
    layers: Vec<(Tensor, Tensor)>,
    /// Shape of a slot: key heads and their width.
    shape: (usize, usize),
    dtype: DType,
    device: Device,
    /// Blocks that nobody owns, by number.
    free: Vec<usize>,
    blocks: usize,
    /// How often the tensors were replaced.
    generation: u64,
}

impl Cache {
    pub(crate) fn new(
        layers: usize,
        kv_heads: usize,
        dim: usize,
        dtype: DType,
        device: &Device,
    ) -> Result<Self> {
        let empty = || Tensor::zeros((0, kv_heads, dim), dtype, device);
        let layers = (0..layers).map(|_| Ok((empty()?, empty()?))).collect::<Result<_>>()?;
        Ok(Self {
            layers,
            shape: (kv_heads, dim),
            dtype,
            device: device.clone(),
            free: Vec::new(),
            blocks: 0,
            generation: 0,
        })
    }

    /// Room for `tokens` tokens.
    pub(crate) fn take(&mut self, tokens: usize) -> Result<Slots> {
        let mut slots = Slots::default();
        self.extend(&mut slots, tokens)?;
        Ok(slots)
    }

    /// Makes `slots` hold `tokens` more tokens; returns where those go.
    pub(crate) fn extend(&mut self, slots: &mut Slots, tokens: usize) -> Result<Vec<Range<usize>>> {
        let wanted = (slots.used + tokens).div_ceil(BLOCK) - slots.blocks.len();
        if wanted > self.free.len() {
            self.grow(wanted - self.free.len())?;
        }
        // The lowest blocks first, so that a sequence tends to be one run.
        for _ in 0..wanted {
            slots.blocks.push(self.free.pop().expect("grown above"));
        }
        let start = slots.used;
        slots.used += tokens;
        Ok(slots.ranges(start..slots.used))
    }

    /// Gives a sequence's slots back.
    pub(crate) fn give_back(&mut self, slots: Slots) {
        self.free.extend(slots.blocks);
        self.free.sort_unstable_by(|a, b| b.cmp(a));
    }

    /// At least doubles the store, so that growing costs little in the long run. Where memory does not suffice the store stays as it
    /// was, which is why no layer is replaced before all have their larger ones.
    fn grow(&mut self, missing: usize) -> Result<()> {
        let blocks = self.blocks + missing.max(self.blocks);
        let larger = self.layers.iter().map(|(keys, values)| {
            let keys = self.enlarged(keys, blocks)?;
            Ok((keys, self.enlarged(values, blocks)?))
        });
        self.layers = larger.collect::<Result<_>>()?;
        self.generation += 1;
        self.free.extend(self.blocks..blocks);
        self.free.sort_unstable_by(|a, b| b.cmp(a));
        self.blocks = blocks;
        Ok(())
    }

    /// A copy of a layer's keys or values with room for `blocks` blocks.
    fn enlarged(&self, store: &Tensor, blocks: usize) -> Result<Tensor> {
        let (heads, dim) = self.shape;
        let larger = Tensor::zeros((blocks * BLOCK, heads, dim), self.dtype, &self.device)?;
        if self.blocks > 0 {
            larger.slice_set(store, 0, 0)?;
        }
        Ok(larger)
    }

    /// Another number once the tensors have been replaced.
    #[cfg(any(feature = "cuda", test))]
    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    /// Prepares where a pass writes its rows, for every layer.
    pub(crate) fn targets<'a>(&self, slots: &'a [Range<usize>]) -> Result<WriteTargets<'a>> {
        Ok(WriteTargets { slots, index: ops::slot_index(slots, &self.device)? })
    }

    /// Turns queries and keys by their rows' angles, writes the new keys and values to their slots, and returns the queries and the
    /// whole store of a layer.
    pub(crate) fn write(
        &self,
        layer: usize,
        [q, k, v]: [&Tensor; 3],
        angles: (&Tensor, &Tensor),
        targets: &WriteTargets<'_>,
    ) -> Result<(Tensor, Tensor, Tensor)> {
        let (keys, values) = &self.layers[layer];
        let store = ops::Store { slots: targets.slots, index: targets.index.as_ref(), keys, values };
        let q = ops::rope_into([q, k, v], angles, &store)?;
        Ok((q, keys.clone(), values.clone()))
    }
}

/// Where a pass writes its keys and values.
pub(crate) struct WriteTargets<'a> {
    /// Runs of slots, row after row.
    slots: &'a [Range<usize>],
    /// The slot of each row, where one kernel writes them all, however many sequences there are.
    index: Option<Tensor>,
}

#[cfg(feature = "cuda")]
impl WriteTargets<'_> {
    /// The slot of each row, on the device already.
    pub(crate) fn of_index(index: Tensor) -> Self {
        Self { slots: &[], index: Some(index) }
    }
}

/// A sequence's slots.
#[derive(Debug, Default)]
pub(crate) struct Slots {
    blocks: Vec<usize>,
    used: usize,
}

impl Slots {
    /// The slots of all tokens, in order, as few ranges.
    pub(crate) fn all(&self) -> Vec<Range<usize>> {
        self.ranges(0..self.used)
    }

    fn ranges(&self, tokens: Range<usize>) -> Vec<Range<usize>> {
        let mut ranges: Vec<Range<usize>> = Vec::new();
        let mut token = tokens.start;
        while token < tokens.end {
            let end = ((token / BLOCK + 1) * BLOCK).min(tokens.end);
            let start = self.blocks[token / BLOCK] * BLOCK + token % BLOCK;
            let range = start..start + (end - token);
            match ranges.last_mut() {
                Some(last) if last.end == range.start => last.end = range.end,
                _ => ranges.push(range),
            }
            token = end;
        }
        ranges
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_reused_and_ranges_joined() -> Result<()> {
        let mut cache = Cache::new(1, 1, 2, DType::F32, &Device::Cpu)?;
        let mut first = cache.take(100)?;
        assert_eq!(first.all(), [0..100]);
        let second = cache.take(10)?;
        assert_eq!(second.all(), [128..138]);
        assert_eq!(cache.extend(&mut first, 30)?, [100..128, 192..194]);
        cache.give_back(second);
        let generation = cache.generation();
        assert_eq!(cache.take(1)?.all(), [128..129]);
        assert_eq!(cache.generation(), generation);
        cache.take(1000)?;
        assert_eq!(cache.generation(), generation + 1);
        Ok(())
    }
}
