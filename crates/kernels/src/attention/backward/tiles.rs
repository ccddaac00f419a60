//! Gradients of a task on AMX, each product as three products of split bf16.
//!
//! As `stream.rs`. What a product sums over lies in pairs in its operands, so the gradients of keys and values are
//! computed transposed, dKᵀ = Qᵀ · dS and dVᵀ = dOᵀ · P: then P and dS are right-hand sides, whose pairs are two
//! neighboring rows woven, and no block of scores is ever transposed.

use super::super::Slots;
use super::super::product::exponentiate;
use super::super::scratch::{self, Carver};
use super::{TaskBuffers, TaskInputs, blocks_of};
use crate::amx::{TileConfig, Tiles};
use crate::blocks::avx512::to_split;
use crate::matrix::TILE_BYTES;
use crate::matrix::tiles::kernel::{Operand, XIs, accumulate, clear, load, store};
use crate::matrix::tiles::pack::{TileRow, row_to_tiles, transpose, weave, weaves};
use crate::simd::{Avx512, Simd};
use std::arch::x86_64::*;
use std::ops::Range;

/// Keys in a block.
const KEYS: usize = 128;
/// Stacked rows that meet a block of keys together.
const STRIP: usize = 96;
/// What everything is padded to: the columns of one tile, the rows of two.
const STEP: usize = 32;
/// A tile and its remainder.
const PAIR: usize = 2 * TILE_BYTES;

pub(super) fn run(task: &TaskInputs) {
    let carve = |carver: &mut Carver| Buffers::carve(carver, task);
    // SAFETY: the level was checked, and the buffers have the sizes that `Buffers` states.
    scratch::with(carve, |buffers| unsafe { fill(task, &buffers) });
}

/// Buffers of a task. Tiles are each followed by their remainder.
struct Buffers {
    /// With transposed sums, `dk` and `dv` as [keys / KEYS, wide, KEYS], and `powers` as [keys / KEYS, STRIP, KEYS].
    shared: TaskBuffers,
    /// Keys as the right side of q·k: tiles [keys / 16, wide / 32].
    k: *mut u8,
    /// Values as the right side of do·v, likewise.
    v: *mut u8,
    /// Keys as the right side of dS·k: tiles [keys / 32, wide / 16].
    kw: *mut u8,
    /// Some keys or values: [STEP, wide].
    copy: *mut f32,
    /// The strip's queries.
    q: LeftSides,
    /// The gradients of its outputs.
    dout: LeftSides,
    /// do·v in a block: [STRIP, KEYS].
    dp: *mut f32,
    /// The powers of a block as a right side: tiles [STRIP / 32, KEYS / 16].
    p: *mut u8,
    /// Gradients of the scores in a block, likewise.
    ds: *mut u8,
    /// The same as a left side: tiles [STRIP / 16, KEYS / 32].
    ds_rows: *mut u8,
}

/// Rows of a strip as left sides.
struct LeftSides {
    /// As they are: tiles [STRIP / 16, wide / 32].
    rows: *mut u8,
    /// Transposed: tiles [wide / 16, STRIP / 32].
    transposed: *mut u8,
}

impl Buffers {
    fn carve(carver: &mut Carver, task: &TaskInputs) -> Self {
        let shared = TaskBuffers::carve(carver, task, STRIP, STEP, KEYS);
        let TaskBuffers { wide, keys, .. } = shared;
        let [k, v, kw] = std::array::from_fn(|_| carver.split(keys * wide));
        let (copy, dp) = (carver.values(STEP * wide), carver.values(STRIP * KEYS));
        let mut sides =
            || LeftSides { rows: carver.split(STRIP * wide), transposed: carver.split(STRIP * wide) };
        let (q, dout) = (sides(), sides());
        let [p, ds, ds_rows] = std::array::from_fn(|_| carver.split(STRIP * KEYS));
        Self { shared, k, v, kw, copy, q, dout, dp, p, ds, ds_rows }
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")]
unsafe fn fill(task: &TaskInputs, buffers: &Buffers) {
    let Buffers { ref shared, .. } = *buffers;
    let TaskBuffers { dim, wide, keys, dk, dv, dq, powers, .. } = *shared;
    // SAFETY: the buffers have their stated sizes; key and query offsets were checked by `backward`.
    unsafe {
        let _tiles = Tiles::configure(&TileConfig::FULL);
        pack(task, buffers);
        dk.write_bytes(0, keys * wide);
        dv.write_bytes(0, keys * wide);
        // Left and right sides; the arguments are the steps from tile to tile, and along the sum.
        let by_dim = |base: *mut u8| side(base, wide / 32 * PAIR, PAIR);
        let by_row = |base: *mut u8| side(base, STRIP / 32 * PAIR, PAIR);
        let by_key = |base: *mut u8| side(base, KEYS / 32 * PAIR, PAIR);
        let woven = |base: *mut u8| side(base, PAIR, KEYS / 16 * PAIR);
        for (strip, seen) in task.strips(STRIP) {
            let rows = strip.len().next_multiple_of(STEP);
            shared.start(task, strip.clone(), rows);
            pack_strip(shared.q, wide, rows, &buffers.q);
            for (at, width) in blocks(&seen) {
                let k = by_dim(buffers.k.add(at * wide * 4));
                let to = powers.add(at * STRIP);
                product((by_dim(buffers.q.rows), rows), (k, width), wide, (to, KEYS), false);
            }
            for row in 0..rows {
                softmax(task, buffers, &strip, row, &seen);
            }
            pack_strip(shared.dout, wide, rows, &buffers.dout);
            for (at, width) in blocks(&seen) {
                let v = by_dim(buffers.v.add(at * wide * 4));
                product((by_dim(buffers.dout.rows), rows), (v, width), wide, (buffers.dp, KEYS), false);
                differentiate(buffers, powers.add(at * STRIP), rows, width);
                let (dk, dv) = (dk.add(at * wide), dv.add(at * wide));
                let (q, dout) = (by_row(buffers.q.transposed), by_row(buffers.dout.transposed));
                product((dout, wide), (woven(buffers.p), width), rows, (dv, KEYS), true);
                product((q, wide), (woven(buffers.ds), width), rows, (dk, KEYS), true);
                let k = side(buffers.kw.add(at * wide * 4), PAIR, wide / 16 * PAIR);
                product((by_key(buffers.ds_rows), rows), (k, wide), width, (dq, wide), true);
            }
            let scale = task.block.call.layer.scale;
            for (i, row) in strip.enumerate() {
                let from = std::slice::from_raw_parts(dq.add(i * wide), dim);
                let to = task.block.call.out.0.add(task.block.query(row));
                for (to, from) in std::slice::from_raw_parts_mut(to, dim).iter_mut().zip(from) {
                    *to = from * scale;
                }
            }
        }
        // The queries in dk carry a factor log₂ e too many.
        transpose_back(task, shared, dk, std::f32::consts::LN_2, task.dk);
        transpose_back(task, shared, dv, 1.0, task.dv);
    }
}

/// The blocks that hold some keys: where each begins, and how much of it is needed.
fn blocks(seen: &Range<usize>) -> impl Iterator<Item = (usize, usize)> + use<> {
    blocks_of(seen, KEYS, STEP)
}

fn side(base: *const u8, tile_step: usize, k_step: usize) -> Operand {
    Operand { base, tile_step, k_step, part_step: TILE_BYTES, row_step: 64 }
}

/// C = A·B, or C += A·B: sizes in values, multiples of 32; C with its row stride in values.
#[inline]
unsafe fn product(
    (a, rows): (Operand, usize),
    (b, columns): (Operand, usize),
    depth: usize,
    (c, c_stride): (*mut f32, usize),
    add: bool,
) {
    for column in (0..columns).step_by(32) {
        let b = Operand { base: b.base.wrapping_add(column / 16 * b.tile_step), ..b };
        for row in (0..rows).step_by(32) {
            let a = Operand { base: a.base.wrapping_add(row / 16 * a.tile_step), ..a };
            let at = |i: usize, j: usize| c.wrapping_add((row + i * 16) * c_stride + column + j * 16);
            // SAFETY: tiles are configured; the caller vouches for both sides and for C.
            unsafe {
                if add {
                    for (i, j) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
                        load(i, j, at(i, j), c_stride * 4);
                    }
                } else {
                    clear(2, 2);
                }
                accumulate((a, 2), (b, 2), depth / 32, true, XIs::A);
                for (i, j) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
                    store(i, j, at(i, j), c_stride * 4);
                }
            }
        }
    }
}

/// Packs all keys and values that the task sees, with zeros up to whole blocks.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")]
unsafe fn pack(task: &TaskInputs, buffers: &Buffers) {
    let TaskBuffers { dim, wide, .. } = buffers.shared;
    let mut slots = Slots::starting_at(&task.block.segment.keys, task.seen.start);
    let mut group = [0; STEP];
    for first in (0..task.seen.len().next_multiple_of(KEYS)).step_by(STEP) {
        let count = STEP.min(task.seen.len().saturating_sub(first));
        slots.fill(&mut group[..count]);
        for values in [false, true] {
            // SAFETY: keys and values hold `dim` numbers; the buffers have their stated sizes.
            unsafe {
                buffers.copy.write_bytes(0, STEP * wide);
                for (i, slot) in group[..count].iter().enumerate() {
                    let (key, value) = task.block.call.key(*slot, task.block.kv_head);
                    let from = if values { value } else { key };
                    std::ptr::copy_nonoverlapping(from, buffers.copy.add(i * wide), dim);
                }
                let to = if values { buffers.v } else { buffers.k }.add(first * wide * 4);
                rows_to_tiles(buffers.copy, wide, STEP, to);
                for tile in 0..STEP * wide * 4 / TILE_BYTES {
                    transpose(to.add(tile * TILE_BYTES));
                }
                if !values {
                    let copy = std::slice::from_raw_parts(buffers.copy, STEP * wide);
                    for d in (0..wide).step_by(16) {
                        let to = buffers.kw.add(first * wide * 4 + d / 16 * PAIR);
                        weave((copy, STEP, wide), 0, d, true, to);
                    }
                }
            }
        }
    }
}

/// Rows of f32 as a left side: tiles [rows / 16, wide / 32].
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")]
unsafe fn rows_to_tiles(from: *const f32, wide: usize, rows: usize, to: *mut u8) {
    for row in 0..rows {
        // SAFETY: the caller vouches for `rows` rows of `wide` at both.
        unsafe {
            let first = to.add(row / 16 * (wide / 32) * PAIR + row % 16 * 64);
            let values = std::slice::from_raw_parts(from.add(row * wide), wide);
            row_to_tiles(values, TileRow { first, k_step: PAIR, part_step: Some(TILE_BYTES) });
        }
    }
}

/// Packs rows of a strip as a left side, and their transpose as another.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")]
unsafe fn pack_strip(from: *const f32, wide: usize, rows: usize, to: &LeftSides) {
    // SAFETY: the buffers have their stated sizes.
    unsafe {
        rows_to_tiles(from, wide, rows, to.rows);
        let values = std::slice::from_raw_parts(from, rows * wide);
        for d in (0..wide).step_by(16) {
            for row in (0..rows).step_by(32) {
                let to = to.transposed.add((d / 16 * (STRIP / 32) + row / 32) * PAIR);
                weave((values, rows, wide), row, d, true, to);
                transpose(to);
                transpose(to.add(TILE_BYTES));
            }
        }
    }
}

/// Turns a row of scores into powers relative to their maximum, and brings do and D to the same measure.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")]
unsafe fn softmax(
    task: &TaskInputs,
    buffers: &Buffers,
    strip: &Range<usize>,
    row: usize,
    strip_seen: &Range<usize>,
) {
    let s = Avx512;
    let seen = if row < strip.len() { task.relative(task.block.visible(strip.start + row)) } else { 0..0 };
    // SAFETY: the buffers have their stated sizes, and blocks are whole vectors.
    unsafe {
        let scores = |at: usize| buffers.shared.powers.add(at * STRIP + row * KEYS);
        *buffers.shared.d.add(row) = 0.0;
        if seen.is_empty() {
            // The row sees nothing: its do stays zero.
            for (at, width) in blocks(strip_seen) {
                scores(at).write_bytes(0, width);
            }
            return;
        }
        let mut tops = s.splat(f32::NEG_INFINITY);
        for (at, width) in blocks(strip_seen) {
            let all = std::slice::from_raw_parts_mut(scores(at), width);
            let seen = seen.start.clamp(at, at + width) - at..seen.end.clamp(at, at + width) - at;
            all[..seen.start].fill(f32::NEG_INFINITY);
            all[seen.end..].fill(f32::NEG_INFINITY);
            for j in (0..width).step_by(16) {
                tops = s.max(tops, s.load(all.as_ptr().add(j)));
            }
        }
        let shift = s.splat(s.largest(tops));
        let mut sum = s.splat(0.0);
        for (at, width) in blocks(strip_seen) {
            sum = exponentiate(s, scores(at), width, shift, sum);
        }
        buffers.shared.set_gradient(s, task, strip.start + row, row, s.sum(sum));
    }
}

/// From powers and do·v of a block to the gradients of its scores; these and the powers as sides of products.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")]
unsafe fn differentiate(buffers: &Buffers, powers: *const f32, rows: usize, width: usize) {
    let (low, high) = weaves();
    // SAFETY: the buffers have their stated sizes.
    unsafe {
        for row in (0..rows).step_by(2) {
            let d = [0, 1].map(|i| _mm512_set1_ps(*buffers.shared.d.add(row + i)));
            for column in (0..width).step_by(32) {
                // Main parts and remainders of two rows by 32 columns.
                let mut p = [_mm512_setzero_si512(); 4];
                let mut ds = [_mm512_setzero_si512(); 4];
                for i in 0..2 {
                    let at = (row + i) * KEYS + column;
                    let p_low = _mm512_loadu_ps(powers.add(at));
                    let p_high = _mm512_loadu_ps(powers.add(at + 16));
                    let dp_low = _mm512_loadu_ps(buffers.dp.add(at));
                    let dp_high = _mm512_loadu_ps(buffers.dp.add(at + 16));
                    let ds_low = _mm512_mul_ps(p_low, _mm512_sub_ps(dp_low, d[i]));
                    let ds_high = _mm512_mul_ps(p_high, _mm512_sub_ps(dp_high, d[i]));
                    (p[i], p[2 + i]) = to_split(p_low, p_high);
                    (ds[i], ds[2 + i]) = to_split(ds_low, ds_high);
                    let tile = (row + i) / 16 * (KEYS / 32) + column / 32;
                    let to = buffers.ds_rows.add(tile * PAIR + (row + i) % 16 * 64);
                    _mm512_store_si512(to.cast(), ds[i]);
                    _mm512_store_si512(to.add(TILE_BYTES).cast(), ds[2 + i]);
                }
                let at = (row / 32 * (KEYS / 16) + column / 16) * PAIR + row % 32 * 32;
                for (to, [even, odd, even_rest, odd_rest]) in [(buffers.p, p), (buffers.ds, ds)] {
                    let to = to.add(at);
                    for (to, order) in [(to, low), (to.add(PAIR), high)] {
                        _mm512_store_si512(to.cast(), _mm512_permutex2var_epi16(even, order, odd));
                        let rest = _mm512_permutex2var_epi16(even_rest, order, odd_rest);
                        _mm512_store_si512(to.add(TILE_BYTES).cast(), rest);
                    }
                }
            }
        }
    }
}

/// Writes transposed sums times a factor as rows of keys.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")]
unsafe fn transpose_back(
    task: &TaskInputs,
    shared: &TaskBuffers,
    from: *const f32,
    factor: f32,
    to: *mut f32,
) {
    let TaskBuffers { dim, wide, .. } = *shared;
    let mut square = [0f32; 256];
    for first in (0..task.seen.len()).step_by(16) {
        let block = first / KEYS * KEYS * wide + first % KEYS;
        for d in (0..dim).step_by(16) {
            let rows: [*const f32; 16] = std::array::from_fn(|i| from.wrapping_add(block + (d + i) * KEYS));
            // SAFETY: the sums hold `wide` rows of a block, a multiple of 16; `to` holds all keys seen.
            unsafe {
                Avx512.transpose(&rows, square.as_mut_ptr(), 16);
                for key in 0..16.min(task.seen.len() - first) {
                    let to = to.add((first + key) * dim + d);
                    let to = std::slice::from_raw_parts_mut(to, 16.min(dim - d));
                    for (to, from) in to.iter_mut().zip(&square[key * 16..]) {
                        *to = from * factor;
                    }
                }
            }
        }
    }
}
