//! Gradients of a task in f32: AVX-512, AVX2 or plain Rust.
//!
//! All keys and values that the task sees are packed once. Strips of 48 stacked rows then compute their scores
//! against all of them, and go over blocks of 192 keys again for the gradients. Dividing do by a row's sum of powers
//! beforehand, and D with it, makes the powers themselves stand for the probabilities.

use super::super::product::{TILE_ROWS, dot, multiply};
use super::super::{Slots, scratch};
use super::Work;
use crate::cpu::Level;
use crate::exp::exp2;
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

pub(super) fn run(level: Level, work: &Work) {
    let dim = work.block.call.layer.head_dim;
    let wide = dim.next_multiple_of(WIDEST);
    let keys = work.seen.len().next_multiple_of(KEYS);
    let sizes = [
        dim * keys,
        dim * keys,
        keys * wide,
        keys * wide,
        keys * wide,
        STRIP * wide,
        STRIP * wide,
        STRIP * wide,
        STRIP,
        STRIP * keys,
        STRIP * KEYS,
    ];
    scratch::with(sizes, |[kt, vt, k, dk, dv, q, dout, dq, d, powers, ds]| {
        let room = Room { dim, wide, keys, kt, vt, k, dk, dv, q, dout, dq, d, powers, ds };
        // SAFETY: the level was checked, and the buffers have the sizes that `Room` states.
        unsafe { fill(level, work, &room) }
    });
}

/// Buffers of a task.
struct Room {
    dim: usize,
    /// `dim` padded to whole vectors.
    wide: usize,
    /// Keys seen, padded to whole blocks.
    keys: usize,
    /// Keys, transposed block by block: [keys / KEYS, dim, KEYS].
    kt: *mut f32,
    /// Values, likewise.
    vt: *mut f32,
    /// Keys: [keys, wide].
    k: *mut f32,
    /// Gradients of the keys, but for a factor: [keys, wide].
    dk: *mut f32,
    /// Gradients of the values: [keys, wide].
    dv: *mut f32,
    /// Queries of a strip times scale · log₂ e: [STRIP, wide].
    q: *mut f32,
    /// Gradients of its outputs, over the sums of powers: [STRIP, wide].
    dout: *mut f32,
    /// Gradients of its queries, but for a factor: [STRIP, wide].
    dq: *mut f32,
    /// do·o over the sums of powers: `[STRIP]`.
    d: *mut f32,
    /// Scores, then powers: [STRIP, keys].
    powers: *mut f32,
    /// Gradients of the scores in a block: [STRIP, KEYS].
    ds: *mut f32,
}

versions! { unsafe fn fill(work: &Work, room: &Room) = fill_with; }

#[inline(always)]
unsafe fn fill_with<S: Simd>(s: S, work: &Work, room: &Room) {
    let Room { dim, wide, keys, .. } = *room;
    let vectors = dim.div_ceil(S::LANES);
    let count = work.block.stacked();
    // SAFETY: the buffers have their stated sizes; key and query offsets were checked by `backward`.
    unsafe {
        pack(s, work, room);
        room.dk.write_bytes(0, keys * wide);
        room.dv.write_bytes(0, keys * wide);
        for strip in (0..count).step_by(STRIP) {
            let strip = strip..(strip + STRIP).min(count);
            let seen = relative(work, work.block.visible_to(strip.clone()));
            if seen.is_empty() {
                // Its gradients stay zero.
                continue;
            }
            start(work, room, strip.clone());
            let tiles = strip.len().div_ceil(TILE_ROWS);
            for (at, width) in blocks(&seen) {
                let (kt, to) = (room.kt.add(at * dim), room.powers.add(at));
                multiply(s, tiles, dim, width / S::LANES, room.q, (wide, 1), kt, KEYS, to, keys, false);
            }
            for row in 0..strip.len() {
                soften(s, work, room, &strip, row, &seen);
            }
            for (at, width) in blocks(&seen) {
                let columns = width / S::LANES;
                let vt = room.vt.add(at * dim);
                multiply(s, tiles, dim, columns, room.dout, (wide, 1), vt, KEYS, room.ds, KEYS, false);
                for row in 0..strip.len() {
                    let powers = room.powers.add(row * keys + at);
                    let ds = room.ds.add(row * KEYS);
                    let d = s.splat(*room.d.add(row));
                    for j in (0..width).step_by(S::LANES) {
                        let gradient = s.mul(s.load(powers.add(j)), s.sub(s.load(ds.add(j)), d));
                        s.store(ds.add(j), gradient);
                    }
                }
                let powers = room.powers.add(at);
                let (k, dk, dv) = (room.k.add(at * wide), room.dk.add(at * wide), room.dv.add(at * wide));
                let (rows, key_tiles) = (strip.len(), width / TILE_ROWS);
                multiply(s, key_tiles, rows, vectors, powers, (1, keys), room.dout, wide, dv, wide, true);
                multiply(s, key_tiles, rows, vectors, room.ds, (1, KEYS), room.q, wide, dk, wide, true);
                multiply(s, tiles, width, vectors, room.ds, (KEYS, 1), k, wide, room.dq, wide, true);
            }
            let scale = s.splat(work.block.call.layer.scale);
            for (i, row) in strip.enumerate() {
                let to = work.block.call.out.0.add(work.block.query(row));
                scaled(s, room.dq.add(i * wide), scale, to, dim);
            }
        }
        // The queries in dk carry a factor log₂ e too many.
        let (natural, one) = (s.splat(std::f32::consts::LN_2), s.splat(1.0));
        for key in 0..work.seen.len() {
            scaled(s, room.dk.add(key * wide), natural, work.dk.add(key * dim), dim);
            scaled(s, room.dv.add(key * wide), one, work.dv.add(key * dim), dim);
        }
    }
}

/// Keys counted from the first that the task sees.
fn relative(work: &Work, seen: Range<usize>) -> Range<usize> {
    seen.start.saturating_sub(work.seen.start)..seen.end.saturating_sub(work.seen.start)
}

/// The blocks that hold some keys: where each begins, and how much of it is needed.
fn blocks(seen: &Range<usize>) -> impl Iterator<Item = (usize, usize)> + use<> {
    let end = seen.end;
    let first = seen.start / KEYS * KEYS;
    (first..end).step_by(KEYS).map(move |at| (at, KEYS.min((end - at).next_multiple_of(KEY_STEP))))
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
unsafe fn pack<S: Simd>(s: S, work: &Work, room: &Room) {
    let Room { dim, wide, keys, .. } = *room;
    let mut slots = Slots::starting_at(&work.block.segment.keys, work.seen.start);
    let mut group = [0; WIDEST];
    let zeros = [0f32; WIDEST];
    let whole = dim / S::LANES * S::LANES;
    // SAFETY: keys and values hold `dim` numbers; the buffers have their stated sizes.
    unsafe {
        for first in (0..keys).step_by(S::LANES) {
            let count = S::LANES.min(work.seen.len().saturating_sub(first));
            slots.fill(&mut group[..count]);
            room.k.add(first * wide).write_bytes(0, S::LANES * wide);
            for (i, slot) in group[..count].iter().enumerate() {
                let key = work.block.call.key(*slot, work.block.kv_head).0;
                std::ptr::copy_nonoverlapping(key, room.k.add((first + i) * wide), dim);
            }
            let at = first / KEYS * KEYS * dim + first % KEYS;
            for (to, values) in [(room.kt, false), (room.vt, true)] {
                let to = to.add(at);
                let row = |i: usize| {
                    let (key, value) = work.block.call.key(group[i], work.block.kv_head);
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

/// Copies the queries of a strip; its other rows are zero.
#[inline(always)]
unsafe fn start(work: &Work, room: &Room, strip: Range<usize>) {
    let Room { dim, wide, .. } = *room;
    let scale = work.block.call.layer.log2_scale();
    // SAFETY: the buffers have their stated sizes.
    unsafe {
        room.q.write_bytes(0, STRIP * wide);
        room.dout.write_bytes(0, STRIP * wide);
        room.dq.write_bytes(0, STRIP * wide);
        for (i, row) in strip.enumerate() {
            let from = &work.block.call.q[work.block.query(row)..][..dim];
            let to = std::slice::from_raw_parts_mut(room.q.add(i * wide), dim);
            for (to, from) in to.iter_mut().zip(from) {
                *to = from * scale;
            }
        }
    }
}

/// Turns a row of scores into powers relative to their maximum, and brings do and D to the same measure.
#[inline(always)]
unsafe fn soften<S: Simd>(
    s: S,
    work: &Work,
    room: &Room,
    strip: &Range<usize>,
    row: usize,
    strip_seen: &Range<usize>,
) {
    let Room { dim, wide, keys, .. } = *room;
    let first = strip_seen.start / KEYS * KEYS;
    let (last, width) = blocks(strip_seen).last().expect("the strip sees keys");
    let seen = relative(work, work.block.visible(strip.start + row));
    // SAFETY: the buffers have their stated sizes, and blocks are whole vectors.
    unsafe {
        let scores = room.powers.add(row * keys);
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
            *room.d.add(row) = 0.0;
            return;
        }
        let shift = s.splat(top);
        let mut sum = s.splat(0.0);
        for j in (first..last + width).step_by(S::LANES) {
            let power = exp2(s, s.sub(s.load(scores.add(j)), shift));
            sum = s.add(sum, power);
            s.store(scores.add(j), power);
        }
        let share = 1.0 / s.sum(sum);
        let at = work.block.query(strip.start + row);
        let (out, dout) = (&work.out[at..at + dim], &work.dout[at..at + dim]);
        *room.d.add(row) = share * dot(s, out, dout);
        let to = std::slice::from_raw_parts_mut(room.dout.add(row * wide), dim);
        for (to, dout) in to.iter_mut().zip(dout) {
            *to = dout * share;
        }
    }
}
