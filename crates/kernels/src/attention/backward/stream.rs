//! Gradients of a task in f32: AVX-512, AVX2 or plain Rust.
//!
//! All keys and values that the task sees are packed once. Strips of 48 stacked rows then compute their scores
//! against all of them, and go over blocks of 192 keys again for the gradients. Dividing do by a row's sum of powers
//! beforehand, and D with it, makes the powers themselves stand for the probabilities.

use super::super::Slots;
use super::super::product::{TILE_ROWS, exponentiate, multiply};
use super::super::scratch::{self, Carver};
use super::{TaskBuffers, TaskInputs, blocks_of};
use crate::cpu::Level;
use crate::simd::{Simd, versions};
use std::ops::Range;

/// Keys in a block: whole register tiles as rows, whole vectors as columns.
const KEYS: usize = 192;
/// The least that a block is cut to, for the same reason.
const KEY_STEP: usize = 48;
/// Stacked rows that meet a block of keys together.
const STRIP: usize = 48;
/// The most lanes that a vector has.
const WIDEST: usize = 16;

pub(super) fn run(level: Level, task: &TaskInputs) {
    let carve = |carver: &mut Carver| Buffers::carve(carver, task);
    // SAFETY: the level was checked, and the buffers have the sizes that `Buffers` states.
    scratch::with(carve, |buffers| unsafe { fill(level, task, &buffers) });
}

/// Buffers of a task.
struct Buffers {
    /// With `dk` and `dv` as [keys, wide], `powers` as [STRIP, keys].
    shared: TaskBuffers,
    /// Keys, transposed block by block: [keys / KEYS, dim, KEYS].
    kt: *mut f32,
    /// Values, likewise.
    vt: *mut f32,
    /// Keys: [keys, wide].
    k: *mut f32,
    /// Gradients of the scores in a block: [STRIP, KEYS].
    ds: *mut f32,
}

impl Buffers {
    fn carve(carver: &mut Carver, task: &TaskInputs) -> Self {
        let shared = TaskBuffers::carve(carver, task, STRIP, WIDEST, KEYS);
        Self {
            kt: carver.values(shared.dim * shared.keys),
            vt: carver.values(shared.dim * shared.keys),
            k: carver.values(shared.keys * shared.wide),
            ds: carver.values(STRIP * KEYS),
            shared,
        }
    }
}

versions! { unsafe fn fill(task: &TaskInputs, buffers: &Buffers) = fill_with; }

#[inline(always)]
unsafe fn fill_with<S: Simd>(s: S, task: &TaskInputs, buffers: &Buffers) {
    let Buffers { ds, ref shared, .. } = *buffers;
    let TaskBuffers { dim, wide, keys, dk, dv, q, dout, dq, d, powers } = *shared;
    let vectors = dim.div_ceil(S::LANES);
    // SAFETY: the buffers have their stated sizes; key and query offsets were checked by `backward`.
    unsafe {
        pack(s, task, buffers);
        dk.write_bytes(0, keys * wide);
        dv.write_bytes(0, keys * wide);
        for (strip, seen) in task.strips(STRIP) {
            shared.start(task, strip.clone(), STRIP);
            let tiles = strip.len().div_ceil(TILE_ROWS);
            for (at, width) in blocks(&seen) {
                let (kt, to) = (buffers.kt.add(at * dim), powers.add(at));
                multiply(s, (tiles, dim, width / S::LANES), (q, (wide, 1)), (kt, KEYS), (to, keys), false);
            }
            for row in 0..strip.len() {
                softmax(s, task, buffers, &strip, row, &seen);
            }
            for (at, width) in blocks(&seen) {
                let columns = width / S::LANES;
                let vt = buffers.vt.add(at * dim);
                multiply(s, (tiles, dim, columns), (dout, (wide, 1)), (vt, KEYS), (ds, KEYS), false);
                for row in 0..strip.len() {
                    let powers = powers.add(row * keys + at);
                    let ds = ds.add(row * KEYS);
                    let d = s.splat(*d.add(row));
                    for j in (0..width).step_by(S::LANES) {
                        let gradient = s.mul(s.load(powers.add(j)), s.sub(s.load(ds.add(j)), d));
                        s.store(ds.add(j), gradient);
                    }
                }
                let powers = powers.add(at);
                let (k, dk, dv) = (buffers.k.add(at * wide), dk.add(at * wide), dv.add(at * wide));
                let (rows, key_tiles) = (strip.len(), width / TILE_ROWS);
                let size = (key_tiles, rows, vectors);
                multiply(s, size, (powers, (1, keys)), (dout, wide), (dv, wide), true);
                multiply(s, size, (ds, (1, KEYS)), (q, wide), (dk, wide), true);
                multiply(s, (tiles, width, vectors), (ds, (KEYS, 1)), (k, wide), (dq, wide), true);
            }
            let scale = s.splat(task.block.call.layer.scale);
            for (i, row) in strip.enumerate() {
                let to = task.block.call.out.0.add(task.block.query(row));
                scaled(s, dq.add(i * wide), scale, to, dim);
            }
        }
        // The queries in dk carry a factor log₂ e too many.
        let (natural, one) = (s.splat(std::f32::consts::LN_2), s.splat(1.0));
        for key in 0..task.seen.len() {
            scaled(s, dk.add(key * wide), natural, task.dk.add(key * dim), dim);
            scaled(s, dv.add(key * wide), one, task.dv.add(key * dim), dim);
        }
    }
}

/// The blocks that hold some keys: where each begins, and how much of it is needed.
fn blocks(seen: &Range<usize>) -> impl Iterator<Item = (usize, usize)> + use<> {
    blocks_of(seen, KEYS, KEY_STEP)
}

/// `length` values times a factor.
#[inline(always)]
unsafe fn scaled<S: Simd>(s: S, from: *const f32, factor: S::V, to: *mut f32, length: usize) {
    let whole = length / S::LANES * S::LANES;
    // SAFETY: the caller vouches for whole vectors at `from` and for `length` values at `to`.
    unsafe {
        for d in (0..whole).step_by(S::LANES) {
            s.store(to.add(d), s.mul(s.load(from.add(d)), factor));
        }
        if whole < length {
            s.store_part(to.add(whole), s.mul(s.load(from.add(whole)), factor), length - whole);
        }
    }
}

/// Copies keys, and transposes keys and values, with zeros for keys that pad the last block.
#[inline(always)]
unsafe fn pack<S: Simd>(s: S, task: &TaskInputs, buffers: &Buffers) {
    let TaskBuffers { dim, wide, keys, .. } = buffers.shared;
    let mut slots = Slots::starting_at(&task.block.segment.keys, task.seen.start);
    let mut group = [0; WIDEST];
    let zeros = [0f32; WIDEST];
    let whole = dim / S::LANES * S::LANES;
    // SAFETY: keys and values hold `dim` numbers; the buffers have their stated sizes.
    unsafe {
        for first in (0..keys).step_by(S::LANES) {
            let count = S::LANES.min(task.seen.len().saturating_sub(first));
            slots.fill(&mut group[..count]);
            buffers.k.add(first * wide).write_bytes(0, S::LANES * wide);
            for (i, slot) in group[..count].iter().enumerate() {
                let key = task.block.call.key(*slot, task.block.kv_head).0;
                std::ptr::copy_nonoverlapping(key, buffers.k.add((first + i) * wide), dim);
            }
            let at = first / KEYS * KEYS * dim + first % KEYS;
            for (to, values) in [(buffers.kt, false), (buffers.vt, true)] {
                let to = to.add(at);
                let row = |i: usize| {
                    let (key, value) = task.block.call.key(group[i], task.block.kv_head);
                    if values { value } else { key }
                };
                let mut rows = [zeros.as_ptr(); WIDEST];
                for d in (0..whole).step_by(S::LANES) {
                    for (i, pointer) in rows[..count].iter_mut().enumerate() {
                        *pointer = row(i).add(d);
                    }
                    s.transpose(&rows[..S::LANES], to.add(d * KEYS), KEYS);
                }
                for d in whole..dim {
                    for i in 0..S::LANES {
                        *to.add(d * KEYS + i) = if i < count { *row(i).add(d) } else { 0.0 };
                    }
                }
            }
        }
    }
}

/// Turns a row of scores into powers relative to their maximum, and brings do and D to the same measure.
#[inline(always)]
unsafe fn softmax<S: Simd>(
    s: S,
    task: &TaskInputs,
    buffers: &Buffers,
    strip: &Range<usize>,
    row: usize,
    strip_seen: &Range<usize>,
) {
    let TaskBuffers { keys, powers, d, .. } = buffers.shared;
    let first = strip_seen.start / KEYS * KEYS;
    let (last, width) = blocks(strip_seen).last().expect("the strip sees keys");
    let seen = task.relative(task.block.visible(strip.start + row));
    // SAFETY: the buffers have their stated sizes, and blocks are whole vectors.
    unsafe {
        let scores = powers.add(row * keys);
        let all = std::slice::from_raw_parts_mut(scores.add(first), last + width - first);
        all[..seen.start - first].fill(f32::NEG_INFINITY);
        all[seen.end - first..].fill(f32::NEG_INFINITY);
        let mut tops = s.splat(f32::NEG_INFINITY);
        for j in (first..last + width).step_by(S::LANES) {
            tops = s.max(tops, s.load(scores.add(j)));
        }
        let top = s.largest(tops);
        if top == f32::NEG_INFINITY {
            // The row sees nothing: its do stays zero.
            all.fill(0.0);
            *d.add(row) = 0.0;
            return;
        }
        let shift = s.splat(top);
        let sum = exponentiate(s, scores.add(first), last + width - first, shift, s.splat(0.0));
        buffers.shared.set_gradient(s, task, strip.start + row, row, s.sum(sum));
    }
}
