//! Segments of one row: decoding, where every key is read once and nothing is worth packing.
//!
//! The keys are cut into chunks of 512, counted from the first, each a task of its own: dot products straight
//! from the cache, softmax, weighted values. A row with several chunks is merged from their maxima,
//! sums and weighted values in order.

#![expect(clippy::needless_range_loop, reason = "loops over registers, which index several arrays alike")]

use super::product::exponentiate;
use super::scratch::{self, Carver};
use super::{Call, Output, Segment, Slots};
use crate::simd::{Simd, versions};
use std::ops::Range;

/// Keys in a chunk.
const KEYS: usize = 512;
/// Query heads that share a load of a key.
const HEADS: usize = 4;
/// Vectors of values that are summed at once.
const VECTORS: usize = 4;

/// Some keys of a row, for the heads of one key head.
pub(super) struct Chunk<'a> {
    call: &'a Call<'a>,
    segment: &'a Segment,
    kv_head: usize,
    keys: Range<usize>,
    /// Where among the partial results this one goes; `None` if there is no other chunk and it goes to the output.
    partial: Option<usize>,
}

/// The chunks of a row for the heads of one key head, whose partial results wait: for each chunk and head the largest
/// score, the sum of powers and the weighted values.
pub(super) struct Merge {
    /// Where the heads begin in the output.
    out: usize,
    partial: usize,
    chunks: usize,
}

/// Cuts the one row of `segment` into chunks, and reserves room for their results behind `partial_length`.
pub(super) fn chunks<'a>(
    call: &'a Call<'a>,
    segment: &'a Segment,
    keys: usize,
    kv_head: usize,
    partial_length: &mut usize,
) -> (impl Iterator<Item = Chunk<'a>>, Option<Merge>) {
    let seen = call.layer.visible(0, 1, keys);
    let first = seen.start / KEYS;
    let chunks = seen.end.div_ceil(KEYS).max(first + 1) - first;
    let record = call.layer.group() * (call.layer.head_dim + 2);
    let merge = (chunks > 1).then(|| Merge {
        out: call.query(segment.rows.start, kv_head),
        partial: *partial_length,
        chunks,
    });
    let partial = *partial_length;
    if chunks > 1 {
        *partial_length += chunks * record;
    }
    let chunks = (0..chunks).map(move |chunk| {
        let begin = (first + chunk) * KEYS;
        let keys = begin.max(seen.start)..(begin + KEYS).min(seen.end);
        let partial = (chunks > 1).then_some(partial + chunk * record);
        Chunk { call, segment, kv_head, keys, partial }
    });
    (chunks, merge)
}

pub(super) fn attend(chunk: &Chunk, partials: &Output) {
    let layer = chunk.call.layer;
    let wide = layer.head_dim.next_multiple_of(16);
    let group = layer.group();
    let mut slots = [0; KEYS];
    let slots = &mut slots[..chunk.keys.len()];
    Slots::starting_at(&chunk.segment.keys, chunk.keys.start).fill(slots);
    let carve = |carver: &mut Carver| Buffers {
        wide,
        q: carver.values(group * wide),
        scores: carver.values(group * KEYS),
        sum: carver.values(group),
    };
    // SAFETY: the level was checked; the buffers have the sizes that `Buffers` states; this task alone writes its part
    // of the output or of the partial results.
    scratch::with(carve, |buffers| unsafe { fill(chunk.call.level, chunk, slots, &buffers, partials) });
}

/// Writes Σ 2^(topᵢ − top) · valuesᵢ / Σ 2^(topᵢ − top) · sumᵢ over the chunks of a row.
pub(super) fn merge(call: &Call, merge: &Merge, partials: &[f32]) {
    let (dim, group) = (call.layer.head_dim, call.layer.group());
    let record = |chunk: usize, head: usize| {
        &partials[merge.partial + (chunk * group + head) * (dim + 2)..][..dim + 2]
    };
    for head in 0..group {
        let top = (0..merge.chunks).map(|chunk| record(chunk, head)[0]).fold(f32::NEG_INFINITY, f32::max);
        // SAFETY: all tasks are done, and this merge alone writes these heads of this row.
        let out = unsafe { std::slice::from_raw_parts_mut(call.out.0.add(merge.out + head * dim), dim) };
        out.fill(0.0);
        let mut sum = 0.0;
        for chunk in 0..merge.chunks {
            let record = record(chunk, head);
            let scale = (record[0] - top).exp2();
            sum += scale * record[1];
            for (out, value) in out.iter_mut().zip(&record[2..]) {
                *out += scale * value;
            }
        }
        out.iter_mut().for_each(|out| *out /= sum);
    }
}

/// Buffers of a task.
struct Buffers {
    /// The head's dimension padded to whole vectors.
    wide: usize,
    /// Queries times scale · log₂ e, padded with zeros: [group, wide].
    q: *mut f32,
    /// Scores, then powers: [group, KEYS].
    scores: *mut f32,
    /// Sums of powers: `[group]`.
    sum: *mut f32,
}

versions! { unsafe fn fill(chunk: &Chunk, slots: &[usize], buffers: &Buffers, partials: &Output) = fill_with; }

#[inline(always)]
unsafe fn fill_with<S: Simd>(s: S, chunk: &Chunk, slots: &[usize], buffers: &Buffers, partials: &Output) {
    let (call, dim, group) = (chunk.call, chunk.call.layer.head_dim, chunk.call.layer.group());
    let scale = call.layer.log2_scale();
    let query = call.query(chunk.segment.rows.start, chunk.kv_head);
    // SAFETY: the buffers have their stated sizes; the offsets of queries and keys were checked.
    unsafe {
        for head in 0..group {
            let to = std::slice::from_raw_parts_mut(buffers.q.add(head * buffers.wide), buffers.wide);
            to.fill(0.0);
            for (to, from) in to.iter_mut().zip(&call.q[query + head * dim..][..dim]) {
                *to = from * scale;
            }
        }
        for (i, four) in slots.chunks(4).enumerate() {
            let mut keys = [std::ptr::null(); 4];
            for (j, key) in keys.iter_mut().enumerate() {
                *key = call.key(four[j.min(four.len() - 1)], chunk.kv_head).0;
            }
            let mut head = 0;
            while head < group {
                let q = buffers.q.add(head * buffers.wide);
                let to = buffers.scores.add(head * KEYS + 4 * i);
                match group - head {
                    1 => dots::<S, 1>(s, dim, q, buffers.wide, keys, to),
                    2 => dots::<S, 2>(s, dim, q, buffers.wide, keys, to),
                    3 => dots::<S, 3>(s, dim, q, buffers.wide, keys, to),
                    _ => dots::<S, HEADS>(s, dim, q, buffers.wide, keys, to),
                }
                head += HEADS;
            }
        }
        for head in 0..group {
            let (top, sum) = softmax(s, buffers.scores.add(head * KEYS), slots.len());
            *buffers.sum.add(head) = sum;
            if let Some(partial) = chunk.partial {
                let record = partials.0.add(partial + head * (dim + 2));
                record.write(top);
                record.add(1).write(sum);
            }
        }
        let mut head = 0;
        while head < group {
            let mut d = 0;
            while d < dim {
                match group - head {
                    1 => weigh::<S, 1>(s, chunk, slots, buffers, head, d, partials),
                    2 => weigh::<S, 2>(s, chunk, slots, buffers, head, d, partials),
                    3 => weigh::<S, 3>(s, chunk, slots, buffers, head, d, partials),
                    _ => weigh::<S, HEADS>(s, chunk, slots, buffers, head, d, partials),
                }
                d += VECTORS * S::LANES;
            }
            head += HEADS;
        }
    }
}

/// The dot products of `N` queries with four keys, to four columns of `N` rows of scores.
#[inline(always)]
unsafe fn dots<S: Simd, const N: usize>(
    s: S,
    dim: usize,
    q: *const f32,
    q_stride: usize,
    keys: [*const f32; 4],
    to: *mut f32,
) {
    // SAFETY: the caller vouches for `N` padded queries, for `dim` values at each key and for the scores.
    unsafe {
        let mut sums = [[s.splat(0.0); 4]; N];
        let whole = dim / S::LANES * S::LANES;
        for d in (0..whole).step_by(S::LANES) {
            for j in 0..4 {
                let key = s.load(keys[j].add(d));
                for i in 0..N {
                    sums[i][j] = s.fma(s.load(q.add(i * q_stride + d)), key, sums[i][j]);
                }
            }
        }
        if whole < dim {
            for j in 0..4 {
                let key = s.load_part(keys[j].add(whole), dim - whole);
                for i in 0..N {
                    sums[i][j] = s.fma(s.load(q.add(i * q_stride + whole)), key, sums[i][j]);
                }
            }
        }
        for i in 0..N {
            to.add(i * KEYS).cast::<[f32; 4]>().write_unaligned(s.sums(sums[i]));
        }
    }
}

/// Turns scores into powers relative to their maximum; returns that and the sum of the powers.
#[inline(always)]
unsafe fn softmax<S: Simd>(s: S, scores: *mut f32, count: usize) -> (f32, f32) {
    let width = count.next_multiple_of(S::LANES);
    // SAFETY: the row of scores holds KEYS values, whole vectors.
    unsafe {
        std::slice::from_raw_parts_mut(scores, width)[count..].fill(f32::NEG_INFINITY);
        let mut top = s.splat(f32::NEG_INFINITY);
        for j in (0..width).step_by(S::LANES) {
            top = s.max(top, s.load(scores.add(j)));
        }
        let top = s.largest(top);
        let shift = s.splat(top);
        let sum = exponentiate(s, scores, width, shift, s.splat(0.0));
        (top, s.sum(sum))
    }
}

/// Sums the weighted values of `N` heads from dimension `d` on, as far as registers reach, and writes them.
#[inline(always)]
unsafe fn weigh<S: Simd, const N: usize>(
    s: S,
    chunk: &Chunk,
    slots: &[usize],
    buffers: &Buffers,
    head: usize,
    d: usize,
    partials: &Output,
) {
    let (call, dim) = (chunk.call, chunk.call.layer.head_dim);
    let left = dim - d;
    // SAFETY: the buffers have their stated sizes; values and outputs are read and written within `dim`.
    unsafe {
        let powers = buffers.scores.add(head * KEYS);
        let mut sums = [[s.splat(0.0); VECTORS]; N];
        for (i, &slot) in slots.iter().enumerate() {
            let value = call.key(slot, chunk.kv_head).1.add(d);
            let mut values = [s.splat(0.0); VECTORS];
            if left >= VECTORS * S::LANES {
                for j in 0..VECTORS {
                    values[j] = s.load(value.add(j * S::LANES));
                }
            } else {
                for j in 0..VECTORS {
                    values[j] = load_up_to(s, value, j * S::LANES, left);
                }
            }
            for h in 0..N {
                let power = s.splat(*powers.add(h * KEYS + i));
                for j in 0..VECTORS {
                    sums[h][j] = s.fma(power, values[j], sums[h][j]);
                }
            }
        }
        for h in 0..N {
            let (to, share) = match chunk.partial {
                Some(partial) => (partials.0.add(partial + (head + h) * (dim + 2) + 2), 1.0),
                None => {
                    let sum = *buffers.sum.add(head + h);
                    let at = call.query(chunk.segment.rows.start, chunk.kv_head) + (head + h) * dim;
                    (call.out.0.add(at), if sum > 0.0 { 1.0 / sum } else { 0.0 })
                }
            };
            for j in 0..VECTORS {
                let part = s.mul(sums[h][j], s.splat(share));
                let at = j * S::LANES;
                if at + S::LANES <= left {
                    s.store(to.add(d + at), part);
                } else if at < left {
                    s.store_part(to.add(d + at), part, left - at);
                }
            }
        }
    }
}

/// A vector at `at` of a row of `length` values, zeros beyond.
#[inline(always)]
unsafe fn load_up_to<S: Simd>(s: S, row: *const f32, at: usize, length: usize) -> S::V {
    // SAFETY: nothing beyond `length` is read.
    unsafe {
        if at + S::LANES <= length {
            s.load(row.add(at))
        } else if at < length {
            s.load_part(row.add(at), length - at)
        } else {
            s.splat(0.0)
        }
    }
}
