//! Exact attention over segments of packed rows, without ever holding a matrix of scores.
//!
//! For a row with query q that sees keys kⱼ and values vⱼ the output is Σⱼ pⱼ vⱼ with
//! p = softmax(scale · q·kⱼ). Keys are taken in blocks with a running maximum and sum (Milakov and
//! Gimelshein 2018, arXiv:1805.02867; FlashAttention, arXiv:2205.14135), statistics in f32. The query heads that
//! share a key head are stacked, so that a block of keys is packed once for all of them.
//!
//! | segment                      | file        |
//! |------------------------------|-------------|
//! | one row (decoding)           | `decode.rs` |
//! | more rows, bf16 on AMX       | `tiles.rs`  |
//! | more rows, otherwise         | `stream.rs` |
//!
//! **The bits of a row depend on its own segment only**: not on other segments, nor on how the keys are cut
//! into ranges or where they lie, nor on the number of threads. Blocks are therefore counted from a
//! segment's first key, and the path is chosen from the segment alone.
//!
//! The gradients are in `backward/`. Left out: dropout, additive biases.

mod backward;
mod decode;
mod plan;
mod product;
mod running;
mod scratch;
mod stream;
#[cfg(test)]
mod tests;
#[cfg(target_arch = "x86_64")]
mod tiles;

use crate::Precision;
use crate::cpu::Level;
use std::ops::Range;

/// Rows of queries that see the same keys up to causality.
///
/// A sequence of a packed batch has its own rows as keys; a branch of a tree adds the ranges of its trunk
/// before them; a sequence in a paged cache has one range for each page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    /// The query rows.
    pub rows: Range<usize>,
    /// Where the keys lie, in the order of their positions.
    pub keys: Vec<Range<usize>>,
}

/// Which keys of its segment a row sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mask {
    /// The last `rows.len()` keys are those of the rows themselves, and a row sees none after its own.
    Causal {
        /// Sliding window (Mistral): the last `window` of those, the row's own included.
        window: Option<usize>,
    },
    /// All keys (encoders).
    Full,
}

/// The shape of an attention layer.
///
/// ```
/// use gradus_kernels::Precision;
/// use gradus_kernels::attention::{Attention, Mask, Segment};
///
/// let layer = Attention {
///     heads: 2,
///     kv_heads: 1,
///     head_dim: 2,
///     scale: 1.0,
///     mask: Mask::Causal { window: None },
///     precision: Precision::F32,
/// };
/// // Two sequences in one call, of two rows and of one. Equal keys: each row gets the mean of its values.
/// let (q, k) = ([1.0; 3 * 2 * 2], [1.0; 3 * 2]);
/// let v = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
/// let segments = [Segment { rows: 0..2, keys: vec![0..2] }, Segment { rows: 2..3, keys: vec![2..3] }];
/// let mut out = [0.0; 12];
/// layer.attend(&q, &k, &v, &segments, &mut out);
/// assert_eq!(out, [1.0, 2.0, 1.0, 2.0, 2.0, 3.0, 2.0, 3.0, 5.0, 6.0, 5.0, 6.0]);
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Attention {
    /// Query heads.
    pub heads: usize,
    /// Key and value heads, a divisor of `heads`; query head h uses key head h / (heads / kv_heads).
    pub kv_heads: usize,
    /// Head dimension.
    pub head_dim: usize,
    /// What scores are multiplied by, usually 1 / √head_dim. Positive.
    pub scale: f32,
    /// Which keys a row sees.
    pub mask: Mask,
    /// `Bf16` rounds queries, keys, values and probabilities to bfloat16 where AMX multiplies those, in segments of
    /// more than one row; elsewhere it is the same as `F32`.
    pub precision: Precision,
}

impl Attention {
    /// Writes the attention of every row of every segment to `out`; other rows keep what they hold. A row that sees
    /// no key gets zeros.
    ///
    /// `q` and `out` are [rows, heads, head_dim]; `k` and `v` are [slots, kv_heads, head_dim].
    ///
    /// # Panics
    /// When a length does not fit the shape, a segment reaches outside `q` or `k`, two segments share a row, or a
    /// causal segment has fewer keys than rows.
    pub fn attend(&self, q: &[f32], k: &[f32], v: &[f32], segments: &[Segment], out: &mut [f32]) {
        self.attend_at(Level::current(), q, k, v, segments, out);
    }

    /// As [`attend`](Self::attend), with the instructions of `level`.
    fn attend_at(
        &self,
        level: Level,
        q: &[f32],
        k: &[f32],
        v: &[f32],
        segments: &[Segment],
        out: &mut [f32],
    ) {
        assert!(level <= Level::detected(), "this machine has no {level:?}");
        self.check(q, k, v, segments, out);
        plan::run(&Call { layer: self, level, q, k, v, segments, out: Output(out.as_mut_ptr()) });
    }

    fn check(&self, q: &[f32], k: &[f32], v: &[f32], segments: &[Segment], out: &[f32]) {
        let Attention { heads, kv_heads, head_dim, scale, .. } = *self;
        assert!(heads > 0 && kv_heads > 0 && head_dim > 0, "an attention layer of no size: {self:?}");
        assert!(heads.is_multiple_of(kv_heads), "{heads} heads cannot share {kv_heads} key heads evenly");
        assert!(
            scale > 0.0 && scale.is_finite(),
            "the scale of attention is {scale}, expected a positive number"
        );
        assert!(q.len().is_multiple_of(heads * head_dim), "q has {} values for {self:?}", q.len());
        assert!(k.len().is_multiple_of(kv_heads * head_dim), "k has {} values for {self:?}", k.len());
        assert_eq!(k.len(), v.len(), "k and v differ in length");
        assert_eq!(q.len(), out.len(), "q and out differ in length");
        let (rows, slots) = (q.len() / (heads * head_dim), k.len() / (kv_heads * head_dim));
        let mut taken: Vec<&Range<usize>> = Vec::with_capacity(segments.len());
        for segment in segments {
            assert!(segment.rows.end <= rows, "{:?} reaches past {rows} rows", segment.rows);
            for keys in &segment.keys {
                assert!(keys.end <= slots, "{keys:?} reaches past {slots} key slots");
            }
            if matches!(self.mask, Mask::Causal { .. }) {
                let (own, keys) = (segment.rows.len(), segment.key_count());
                assert!(own <= keys, "a causal segment has {own} rows but {keys} keys");
            }
            if !segment.rows.is_empty() {
                taken.push(&segment.rows);
            }
        }
        taken.sort_unstable_by_key(|rows| rows.start);
        for pair in taken.windows(2) {
            assert!(pair[0].end <= pair[1].start, "segments share rows: {:?} and {:?}", pair[0], pair[1]);
        }
    }

    /// The keys, counted from the first of the segment, that row `row` of `rows` sees among `keys`.
    fn visible(&self, row: usize, rows: usize, keys: usize) -> Range<usize> {
        match self.mask {
            Mask::Full => 0..keys,
            Mask::Causal { window } => {
                let end = keys - rows + row + 1;
                window.map_or(0, |window| end.saturating_sub(window))..end
            }
        }
    }

    /// Query heads for each key head.
    fn group(&self) -> usize {
        self.heads / self.kv_heads
    }

    /// What turns q·k into the exponent of two.
    fn log2_scale(&self) -> f32 {
        self.scale * std::f32::consts::LOG2_E
    }
}

impl Segment {
    fn key_count(&self) -> usize {
        self.keys.iter().map(ExactSizeIterator::len).sum()
    }
}

/// A checked call.
struct Call<'a> {
    layer: &'a Attention,
    level: Level,
    q: &'a [f32],
    k: &'a [f32],
    v: &'a [f32],
    segments: &'a [Segment],
    out: Output,
}

impl Call<'_> {
    /// Where the queries of a row begin for the heads of `kv_head`; in `out` the same offset.
    fn query(&self, row: usize, kv_head: usize) -> usize {
        let layer = self.layer;
        (row * layer.heads + kv_head * layer.group()) * layer.head_dim
    }

    /// The keys and the values of `kv_head` at `slot`.
    fn key(&self, slot: usize, kv_head: usize) -> (*const f32, *const f32) {
        let at = (slot * self.layer.kv_heads + kv_head) * self.layer.head_dim;
        (self.k[at..].as_ptr(), self.v[at..].as_ptr())
    }
}

/// The start of `out`. Tasks write disjoint parts: a task owns its rows for the heads of its key head.
struct Output(*mut f32);

// SAFETY: see the type: no two tasks write the same value, and nobody reads before all are done.
unsafe impl Sync for Output {}

/// The slots of a segment's keys in logical order.
struct Slots<'a> {
    ranges: std::slice::Iter<'a, Range<usize>>,
    current: Range<usize>,
}

impl<'a> Slots<'a> {
    fn starting_at(ranges: &'a [Range<usize>], mut first: usize) -> Self {
        let mut ranges = ranges.iter();
        let mut current = 0..0;
        while first >= current.len() {
            first -= current.len();
            match ranges.next() {
                Some(range) => current = range.clone(),
                None => break,
            }
        }
        current.start += first;
        Slots { ranges, current }
    }

    /// The next `into.len()` slots.
    fn fill(&mut self, into: &mut [usize]) {
        for slot in into {
            *slot = loop {
                match self.current.next() {
                    Some(slot) => break slot,
                    None => self.current = self.ranges.next().expect("keys were counted").clone(),
                }
            };
        }
    }
}
