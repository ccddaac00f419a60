//! Segments of several rows in f32: AVX-512, AVX2 or plain Rust.
//!
//! A block of 128 keys is packed (keys transposed, values padded), then strips of 24 stacked rows run
//! scores → softmax → weighted values, so that a strip's scores stay in the first cache.

use super::plan::Block;
use super::product::{TILE_ROWS, exponentiate, multiply};
use super::running::Running;
use super::scratch::{self, Carver};
use crate::exp::exp2;
use crate::simd::{Simd, versions};

/// Keys in a block.
const KEYS: usize = 128;
/// Stacked rows between packing and the next block of keys.
const STRIP: usize = 4 * TILE_ROWS;
/// The most lanes that a vector has.
const WIDEST: usize = 16;

pub(super) fn attend(block: &Block) {
    let dim = block.call.layer.head_dim;
    let wide = dim.next_multiple_of(WIDEST);
    let rows = block.stacked().next_multiple_of(TILE_ROWS);
    let carve = |carver: &mut Carver| Buffers {
        dim,
        running: Running::carve(carver, rows, wide, 1),
        q: carver.values(rows * dim),
        k: carver.values(dim * KEYS),
        v: carver.values(KEYS * wide),
        scores: carver.values(STRIP * KEYS),
    };
    // SAFETY: the level was checked, and the buffers have the sizes that `Buffers` states.
    scratch::with(carve, |buffers| unsafe { fill(block.call.level, block, &buffers) });
}

/// Buffers of a task.
struct Buffers {
    dim: usize,
    /// With heads padded to whole vectors, rows to whole register tiles.
    running: Running,
    /// Queries times scale · log₂ e: [rows, dim].
    q: *mut f32,
    /// Keys of the block: [dim, KEYS].
    k: *mut f32,
    /// Values of the block: [KEYS, wide].
    v: *mut f32,
    /// Scores, then probabilities: [STRIP, KEYS].
    scores: *mut f32,
}

versions! { unsafe fn fill(block: &Block, buffers: &Buffers) = fill_with; }

#[inline(always)]
unsafe fn fill_with<S: Simd>(s: S, block: &Block, buffers: &Buffers) {
    // SAFETY: the buffers have their stated sizes; key and query offsets were checked by `attend`.
    unsafe {
        start(block, buffers);
        let Buffers { dim, q, k, v, scores, running: Running { wide, out, .. }, .. } = *buffers;
        let columns = dim.div_ceil(S::LANES);
        let mut pieces = block.key_pieces::<KEYS>();
        while let Some((at, slots)) = pieces.next_piece() {
            pack(s, block, buffers, slots);
            for (strip, width) in block.strips(STRIP, at, slots.len()) {
                let vectors = width.div_ceil(S::LANES);
                let tiles = strip.len().div_ceil(TILE_ROWS);
                let q = (q.add(strip.start * dim).cast_const(), (dim, 1));
                multiply(s, (tiles, dim, vectors), q, (k, KEYS), (scores, KEYS), false);
                for (i, row) in strip.clone().enumerate() {
                    let seen = block.visible_within(row, at, width);
                    online_softmax(s, &buffers.running, row, scores.add(i * KEYS), seen, vectors * S::LANES);
                }
                let out = (out.add(strip.start * wide), wide);
                multiply(s, (tiles, width, columns), (scores, (KEYS, 1)), (v, wide), out, true);
            }
        }
        finish(s, block, buffers);
    }
}

/// Copies the queries; no keys seen yet.
#[inline(always)]
unsafe fn start(block: &Block, buffers: &Buffers) {
    let scale = block.call.layer.log2_scale();
    // SAFETY: the buffers have their stated sizes.
    unsafe {
        for row in 0..block.stacked() {
            let from = &block.call.q[block.query(row)..][..buffers.dim];
            let to = std::slice::from_raw_parts_mut(buffers.q.add(row * buffers.dim), buffers.dim);
            for (to, from) in to.iter_mut().zip(from) {
                *to = from * scale;
            }
        }
        let padding = buffers.running.rows - block.stacked();
        buffers.q.add(block.stacked() * buffers.dim).write_bytes(0, padding * buffers.dim);
        buffers.running.start();
    }
}

/// Transposes the keys and copies the values of `slots`.
#[inline(always)]
unsafe fn pack<S: Simd>(s: S, block: &Block, buffers: &Buffers, slots: &[usize]) {
    let dim = buffers.dim;
    let whole = dim / S::LANES * S::LANES;
    let mut rows = [std::ptr::null(); WIDEST];
    for (group, slots) in slots.chunks(S::LANES).enumerate() {
        for (lane, row) in rows[..S::LANES].iter_mut().enumerate() {
            // Beyond the last key comes that key again: its scores are masked, and it holds no stray NaN.
            *row = block.call.key(slots[lane.min(slots.len() - 1)], block.kv_head).0;
        }
        // SAFETY: each key holds `dim` values; `k` holds KEYS columns, of which this is one group of lanes.
        unsafe {
            let to = buffers.k.add(group * S::LANES);
            for d in (0..whole).step_by(S::LANES) {
                s.transpose(&rows[..S::LANES], to.add(d * KEYS), KEYS);
                for row in &mut rows[..S::LANES] {
                    *row = row.add(S::LANES);
                }
            }
            for d in whole..dim {
                for (lane, row) in rows[..S::LANES].iter().enumerate() {
                    *to.add(d * KEYS + lane) = *row.add(d - whole);
                }
            }
        }
    }
    for (i, &slot) in slots.iter().enumerate() {
        let from = block.call.key(slot, block.kv_head).1;
        // SAFETY: a value holds `dim` numbers; `v` holds KEYS rows of `wide`.
        unsafe {
            let to = buffers.v.add(i * buffers.running.wide);
            for d in (0..whole).step_by(S::LANES) {
                s.store(to.add(d), s.load(from.add(d)));
            }
            if whole < dim {
                s.store(to.add(whole), s.load_part(from.add(whole), dim - whole));
            }
        }
    }
}

/// A step of online softmax: turns a row of scores into powers relative to the new maximum, and scales what the row
/// has so far to it.
#[inline(always)]
unsafe fn online_softmax<S: Simd>(
    s: S,
    running: &Running,
    row: usize,
    scores: *mut f32,
    seen: std::ops::Range<usize>,
    width: usize,
) {
    // SAFETY: `scores` holds `width` values, whole vectors; the other buffers have their stated sizes.
    unsafe {
        let all = std::slice::from_raw_parts_mut(scores, width);
        all[..seen.start].fill(f32::NEG_INFINITY);
        all[seen.end..].fill(f32::NEG_INFINITY);
        let mut top = s.splat(f32::NEG_INFINITY);
        for j in (0..width).step_by(S::LANES) {
            top = s.max(top, s.load(scores.add(j)));
        }
        let before = *running.top.add(row);
        let top = s.largest(top).max(before);
        if top == f32::NEG_INFINITY {
            scores.write_bytes(0, width);
            return;
        }
        let shift = s.splat(top);
        let sum = exponentiate(s, scores, width, shift, s.splat(0.0));
        let mut kept = *running.sum.add(row);
        *running.top.add(row) = top;
        // Nothing is kept yet where no key was seen.
        if top > before && before > f32::NEG_INFINITY {
            let scale = exp2(s, s.splat(before - top));
            kept *= s.largest(scale);
            let out = running.out.add(row * running.wide);
            for d in (0..running.wide).step_by(S::LANES) {
                s.store(out.add(d), s.mul(s.load(out.add(d)), scale));
            }
        }
        *running.sum.add(row) = kept + s.sum(sum);
    }
}

/// Divides by the sums and writes the rows to the output.
#[inline(always)]
unsafe fn finish<S: Simd>(s: S, block: &Block, buffers: &Buffers) {
    for row in 0..block.stacked() {
        // SAFETY: the buffers have their stated sizes; this task alone writes these rows and heads.
        unsafe {
            let sum = *buffers.running.sum.add(row);
            let share = s.splat(if sum > 0.0 { 1.0 / sum } else { 0.0 });
            let from = buffers.running.out.add(row * buffers.running.wide);
            let to = block.call.out.0.add(block.query(row));
            let whole = buffers.dim / S::LANES * S::LANES;
            for d in (0..whole).step_by(S::LANES) {
                s.store(to.add(d), s.mul(s.load(from.add(d)), share));
            }
            if whole < buffers.dim {
                s.store_part(to.add(whole), s.mul(s.load(from.add(whole)), share), buffers.dim - whole);
            }
        }
    }
}
