//! Segments of several rows in bfloat16 on AMX.
//!
//! As `stream.rs`, with tiles of 16 × 16 sums. A block of keys is packed once for all stacked rows of the task:
//! keys as pairs along the dimension for 16 keys (a transpose of 32-bit pairs), values as pairs of keys.
//! Strips of 32 rows then run scores → softmax → weighted values; the probabilities are rounded to
//! bfloat16 in place of the scores.

use super::plan::Block;
use super::running::Running;
use super::scratch::{self, Carver};
use crate::amx::{TileConfig, Tiles, tile_load, tile_multiply, tile_store, tile_zero, to_bf16};
use crate::matrix::tiles::pack::weave_order;
use crate::simd::transpose16;
use std::arch::x86_64::*;
use std::ops::Range;

/// Keys in a block.
const KEYS: usize = 256;
/// Stacked rows that share the loads of keys and values: two tiles.
const STRIP: usize = 32;
/// Bytes of a tile.
const TILE: usize = 1024;
/// Bytes from one row of scores to the next.
const SCORE_STRIDE: usize = KEYS * 4;

pub(super) fn attend(block: &Block) {
    let dim = block.call.layer.head_dim;
    let (deep, wide) = (dim.next_multiple_of(32), dim.next_multiple_of(16));
    let rows = block.stacked().next_multiple_of(16);
    let keys = block.keys.next_multiple_of(32).min(KEYS);
    let carve = |carver: &mut Carver| Buffers {
        dim,
        deep,
        q: carver.halves(rows * deep),
        k: carver.halves(keys * deep),
        v: carver.halves(keys * wide),
        scores: carver.values(STRIP * KEYS),
        running: Running::carve(carver, rows, wide, 16),
    };
    // SAFETY: the level was checked, and the buffers have the sizes that `Buffers` states.
    scratch::with(carve, |buffers| unsafe { fill(block, &buffers) });
}

/// Buffers of a task; those of bf16 are counted in bytes.
struct Buffers {
    dim: usize,
    /// `dim` padded to whole tiles as the inner dimension of q·k.
    deep: usize,
    /// Queries: bf16 [rows, deep].
    q: *mut u8,
    /// Keys of the block: tiles [keys / 16, deep / 32].
    k: *mut u8,
    /// Values of the block: tiles [keys / 32, wide / 16].
    v: *mut u8,
    /// Scores, [STRIP, KEYS]; then probabilities in bf16, at the same row stride.
    scores: *mut f32,
    /// With heads padded to whole tiles as columns of the output, rows to whole tiles; a sum for each lane.
    running: Running,
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")]
unsafe fn fill(block: &Block, buffers: &Buffers) {
    // SAFETY: the buffers have their stated sizes; key and query offsets were checked by `attend`.
    unsafe {
        let _tiles = Tiles::configure(&TileConfig::FULL);
        start(block, buffers);
        let scale = block.call.layer.log2_scale();
        let mut pieces = block.key_pieces::<KEYS>();
        while let Some((at, slots)) = pieces.next_piece() {
            pack_keys(block, buffers, slots);
            pack_values(block, buffers, slots);
            for (strip, width) in block.strips(STRIP, at, slots.len()) {
                let width = width.next_multiple_of(32);
                score(buffers, strip.clone(), width);
                for (i, row) in strip.clone().enumerate() {
                    let seen = block.visible_within(row, at, width);
                    online_softmax(scale, &buffers.running, row, buffers.scores.add(i * KEYS), seen, width);
                }
                weigh(buffers, strip, width);
            }
        }
        finish(block, buffers);
    }
}

/// The first `n` of 16 lanes.
#[inline]
fn lanes(n: usize) -> __mmask16 {
    if n >= 16 { u16::MAX } else { (1 << n) - 1 }
}

/// Up to 32 values as bf16, zeros beyond.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")]
unsafe fn load_pairs(from: *const f32, count: usize) -> __m512i {
    // SAFETY: the caller vouches for `count` values; masked lanes are not read.
    unsafe {
        let low = _mm512_maskz_loadu_ps(lanes(count), from);
        let high = _mm512_maskz_loadu_ps(lanes(count.saturating_sub(16)), from.wrapping_add(16));
        to_bf16(low, high)
    }
}

/// Asks for a row that will be read soon. Rows of one head lie too far apart for the processor to guess.
#[inline(always)]
fn prefetch(row: *const f32, length: usize) {
    for at in (0..length).step_by(16) {
        // SAFETY: a hint, which reads nothing.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(row.wrapping_add(at).cast()) };
    }
}

/// Rounds the queries; no keys seen yet.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")]
unsafe fn start(block: &Block, buffers: &Buffers) {
    // SAFETY: the buffers have their stated sizes.
    unsafe {
        for row in 0..block.stacked() {
            let ahead = (row + 16).min(block.stacked() - 1);
            prefetch(block.call.q[block.query(ahead)..].as_ptr(), buffers.dim);
            let from = block.call.q[block.query(row)..][..buffers.dim].as_ptr();
            for d in (0..buffers.deep).step_by(32) {
                let pairs = load_pairs(from.wrapping_add(d), buffers.dim.saturating_sub(d));
                _mm512_storeu_si512(buffers.q.add((row * buffers.deep + d) * 2).cast(), pairs);
            }
        }
        let padding = buffers.running.rows - block.stacked();
        buffers.q.add(block.stacked() * buffers.deep * 2).write_bytes(0, padding * buffers.deep * 2);
        buffers.running.start();
    }
}

/// Packs keys in groups of 16, with zeros up to a multiple of 32 keys.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")]
unsafe fn pack_keys(block: &Block, buffers: &Buffers, slots: &[usize]) {
    let mut to = buffers.k;
    for group in 0..slots.len().next_multiple_of(32) / 16 {
        let slots = slots.get(group * 16..).unwrap_or_default();
        for (i, &slot) in slots.iter().take(32).enumerate() {
            let (key, value) = block.call.key(slot, block.kv_head);
            if i < 16 {
                prefetch(value, buffers.dim);
            } else {
                prefetch(key, buffers.dim);
            }
        }
        for d in (0..buffers.deep).step_by(32) {
            // SAFETY: a key holds `dim` values; the tile lies within `k`.
            unsafe {
                let mut pairs = [_mm512_setzero_ps(); 16];
                for (pairs, &slot) in pairs.iter_mut().zip(slots) {
                    let key = block.call.key(slot, block.kv_head).0;
                    *pairs =
                        _mm512_castsi512_ps(load_pairs(key.wrapping_add(d), buffers.dim.saturating_sub(d)));
                }
                for (i, pairs) in transpose16(pairs).into_iter().enumerate() {
                    _mm512_store_ps(to.add(i * 64).cast(), pairs);
                }
                to = to.add(TILE);
            }
        }
    }
}

/// Packs values in pairs of keys, with zeros up to a multiple of 32 keys.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")]
unsafe fn pack_values(block: &Block, buffers: &Buffers, slots: &[usize]) {
    // Takes sixteen values of one key followed by sixteen of the next to their pairs.
    let interleave = weave_order(0, 16);
    for pair in 0..slots.len().next_multiple_of(32) / 2 {
        let row = |i: usize| slots.get(2 * pair + i).map(|&slot| block.call.key(slot, block.kv_head).1);
        let (even, odd) = (row(0), row(1));
        for d in (0..buffers.running.wide).step_by(16) {
            let mask = lanes(buffers.dim - d);
            // SAFETY: a value holds `dim` numbers; the row of the tile lies within `v`.
            unsafe {
                let load = |row: Option<*const f32>| match row {
                    Some(row) => _mm512_maskz_loadu_ps(mask, row.add(d)),
                    None => _mm512_setzero_ps(),
                };
                let both = to_bf16(load(even), load(odd));
                let tile = pair / 16 * (buffers.running.wide / 16) + d / 16;
                let to = buffers.v.add(tile * TILE + pair % 16 * 64);
                _mm512_store_si512(to.cast(), _mm512_permutexvar_epi16(interleave, both));
            }
        }
    }
}

/// Scores of a strip of rows with the first `width` keys of the block.
#[inline]
unsafe fn score(buffers: &Buffers, strip: Range<usize>, width: usize) {
    let steps = buffers.deep / 32;
    let stride = buffers.deep * 2;
    // SAFETY: tiles are configured; all tiles lie within their buffers.
    unsafe {
        let q = buffers.q.add(strip.start * stride);
        for key in (0..width).step_by(32) {
            let k = buffers.k.add(key / 16 * steps * TILE);
            let to = buffers.scores.add(key).cast::<u8>();
            tile_zero::<0>();
            tile_zero::<1>();
            if strip.len() <= 16 {
                for step in 0..steps {
                    tile_load::<4>(q.add(step * 64), stride);
                    tile_load::<6>(k.add(step * TILE), 64);
                    tile_load::<7>(k.add((steps + step) * TILE), 64);
                    tile_multiply::<0, 4, 6>();
                    tile_multiply::<1, 4, 7>();
                }
            } else {
                tile_zero::<2>();
                tile_zero::<3>();
                for step in 0..steps {
                    tile_load::<4>(q.add(step * 64), stride);
                    tile_load::<5>(q.add(step * 64 + 16 * stride), stride);
                    tile_load::<6>(k.add(step * TILE), 64);
                    tile_load::<7>(k.add((steps + step) * TILE), 64);
                    tile_multiply::<0, 4, 6>();
                    tile_multiply::<1, 4, 7>();
                    tile_multiply::<2, 5, 6>();
                    tile_multiply::<3, 5, 7>();
                }
                tile_store::<2>(to.add(16 * SCORE_STRIDE), SCORE_STRIDE);
                tile_store::<3>(to.add(16 * SCORE_STRIDE + 64), SCORE_STRIDE);
            }
            tile_store::<0>(to, SCORE_STRIDE);
            tile_store::<1>(to.add(64), SCORE_STRIDE);
        }
    }
}

/// 2ᵗ to within 10⁻⁵, which is far finer than bf16; 0 for t = −∞ and 1 for t = 0.
#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
fn rough_exp2(t: __m512) -> __m512 {
    let rest = _mm512_reduce_ps::<{ _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC }>(t);
    let p = _mm512_set1_ps(0.012_763_114);
    let p = _mm512_fmadd_ps(p, rest, _mm512_set1_ps(0.053_441_03));
    let p = _mm512_fmadd_ps(p, rest, _mm512_set1_ps(0.240_647_05));
    let p = _mm512_fmadd_ps(p, rest, _mm512_set1_ps(0.693_134));
    let p = _mm512_fmadd_ps(p, rest, _mm512_set1_ps(1.0));
    // `scalef` multiplies by two to the floor of t.
    _mm512_scalef_ps(p, t)
}

/// A step of online softmax: turns a row of scores into probabilities in bf16, relative to the new maximum, and
/// scales what the row has so far to it.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")]
unsafe fn online_softmax(
    scale: f32,
    running: &Running,
    row: usize,
    scores: *mut f32,
    seen: Range<usize>,
    width: usize,
) {
    // SAFETY: `scores` holds `width` values, a multiple of 32; the other buffers have their stated sizes.
    unsafe {
        if seen.start > 0 || seen.end < width {
            let all = std::slice::from_raw_parts_mut(scores, width);
            all[..seen.start].fill(f32::NEG_INFINITY);
            all[seen.end..].fill(f32::NEG_INFINITY);
        }
        let mut tops = [_mm512_set1_ps(f32::NEG_INFINITY); 2];
        for j in (0..width).step_by(32) {
            tops[0] = _mm512_max_ps(tops[0], _mm512_load_ps(scores.add(j)));
            tops[1] = _mm512_max_ps(tops[1], _mm512_load_ps(scores.add(j + 16)));
        }
        let before = *running.top.add(row);
        let top = (_mm512_reduce_max_ps(_mm512_max_ps(tops[0], tops[1])) * scale).max(before);
        if top == f32::NEG_INFINITY {
            scores.write_bytes(0, width);
            return;
        }
        let kept = running.sum.add(row * 16);
        let mut sum = _mm512_load_ps(kept);
        *running.top.add(row) = top;
        // Nothing is kept yet where no key was seen.
        if top > before && before > f32::NEG_INFINITY {
            let shrink = rough_exp2(_mm512_set1_ps(before - top));
            sum = _mm512_mul_ps(sum, shrink);
            let out = running.out.add(row * running.wide);
            for d in (0..running.wide).step_by(16) {
                _mm512_store_ps(out.add(d), _mm512_mul_ps(_mm512_load_ps(out.add(d)), shrink));
            }
        }
        let (factor, shift) = (_mm512_set1_ps(scale), _mm512_set1_ps(top));
        let probabilities = scores.cast::<u16>();
        for j in (0..width).step_by(32) {
            let low = rough_exp2(_mm512_fmsub_ps(_mm512_load_ps(scores.add(j)), factor, shift));
            let high = rough_exp2(_mm512_fmsub_ps(_mm512_load_ps(scores.add(j + 16)), factor, shift));
            sum = _mm512_add_ps(sum, _mm512_add_ps(low, high));
            let both = to_bf16(low, high);
            _mm512_store_si512(probabilities.add(j).cast(), both);
        }
        _mm512_store_ps(kept, sum);
    }
}

/// Adds the values of the first `width` keys, weighted with the probabilities of a strip of rows.
#[inline]
unsafe fn weigh(buffers: &Buffers, strip: Range<usize>, width: usize) {
    let columns = buffers.running.wide / 16;
    let stride = buffers.running.wide * 4;
    let two = strip.len() > 16;
    let p = buffers.scores.cast::<u8>();
    // SAFETY: tiles are configured; all tiles lie within their buffers.
    unsafe {
        let mut column = 0;
        while column < columns {
            let pair = column + 1 < columns;
            let to = buffers.running.out.add(strip.start * buffers.running.wide + column * 16).cast::<u8>();
            tile_load::<0>(to, stride);
            if pair {
                tile_load::<1>(to.add(64), stride);
            }
            if two {
                tile_load::<2>(to.add(16 * stride), stride);
                if pair {
                    tile_load::<3>(to.add(16 * stride + 64), stride);
                }
            }
            for step in 0..width / 32 {
                let v = buffers.v.add((step * columns + column) * TILE);
                tile_load::<4>(p.add(step * 64), SCORE_STRIDE);
                tile_load::<6>(v, 64);
                tile_multiply::<0, 4, 6>();
                if pair {
                    tile_load::<7>(v.add(TILE), 64);
                    tile_multiply::<1, 4, 7>();
                }
                if two {
                    tile_load::<5>(p.add(step * 64 + 16 * SCORE_STRIDE), SCORE_STRIDE);
                    tile_multiply::<2, 5, 6>();
                    if pair {
                        tile_multiply::<3, 5, 7>();
                    }
                }
            }
            tile_store::<0>(to, stride);
            if pair {
                tile_store::<1>(to.add(64), stride);
            }
            if two {
                tile_store::<2>(to.add(16 * stride), stride);
                if pair {
                    tile_store::<3>(to.add(16 * stride + 64), stride);
                }
            }
            column += 2;
        }
    }
}

/// Divides by the sums and writes the rows to the output.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")]
unsafe fn finish(block: &Block, buffers: &Buffers) {
    for row in 0..block.stacked() {
        // SAFETY: the buffers have their stated sizes; this task alone writes these rows and heads.
        unsafe {
            let sum = _mm512_reduce_add_ps(_mm512_load_ps(buffers.running.sum.add(row * 16)));
            let share = _mm512_set1_ps(if sum > 0.0 { 1.0 / sum } else { 0.0 });
            let from = buffers.running.out.add(row * buffers.running.wide);
            let to = block.call.out.0.add(block.query(row));
            for d in (0..buffers.dim).step_by(16) {
                let part = _mm512_mul_ps(_mm512_load_ps(from.add(d)), share);
                _mm512_mask_storeu_ps(to.add(d), lanes(buffers.dim - d), part);
            }
        }
    }
}
