//! Gradients of attention, with the probabilities computed again instead of kept (FlashAttention, arXiv:2205.14135).
//!
//! For a row with output o and its gradient do:
//!
//! D = do·o,  dPⱼ = do·vⱼ,  dSⱼ = Pⱼ (dPⱼ − D),  dq = scale · Σⱼ dSⱼ kⱼ,  dkⱼ += scale · dSⱼ q,  dvⱼ += Pⱼ do
//!
//! A task is some rows of a segment for the heads of one key head. It holds its scores for all keys that its rows see,
//! and its own sums for dk and dv, which are added up afterwards in the order of the tasks. How a call is cut into
//! tasks depends on the call alone, so **the number of threads does not change a bit**.
//!
//! | level and precision             | file        |
//! |---------------------------------|-------------|
//! | AMX, `Bf16x3` and `Bf16`        | `tiles.rs`, three bf16 products for each product |
//! | otherwise                       | `stream.rs`, f32 |

mod stream;
#[cfg(test)]
mod tests;
#[cfg(target_arch = "x86_64")]
mod tiles;

use super::plan::Block;
use super::product::dot;
use super::scratch::Carver;
use super::{Attention, Call, Output, Segment};
use crate::cpu::Level;
use crate::matrix::scratch::Scratch;
use crate::simd::Simd;
use rayon::prelude::*;
use std::ops::Range;

/// Rows of stacked heads in a task: enough to spread the packing of keys thin, few enough to share evenly.
const STACKED_ROWS: usize = 512;
/// Sums for dk and dv that are held at once, in values: many branches of a tree are worked off in turn.
const HELD_VALUES: usize = 16 << 20;
/// Key slots whose sums are added up together.
const SLOTS: usize = 64;
/// Below this many multiplications and additions waking other threads costs more than it gains.
const WORTH_SHARING: usize = 1 << 21;

impl Attention {
    /// The gradients of [`attend`](Self::attend) for `dout`, the gradient of what it wrote to `out`.
    ///
    /// `dq`, `dk` and `dv` are overwritten, with zeros for rows and keys that no segment has. Keys that several
    /// segments or query heads share get the sum.
    ///
    /// ```
    /// # use gradus_kernels::{Precision, attention::{Attention, Mask, Segment}};
    /// # let (mask, precision) = (Mask::Full, Precision::F32);
    /// let layer = Attention { heads: 1, kv_heads: 1, head_dim: 2, scale: 1.0, mask, precision };
    /// let segments = [Segment { rows: 0..1, keys: vec![0..2] }];
    /// // Equal keys: the output is the mean of the values, each of which gets half of its gradient.
    /// let (q, k, v, out, dout) = ([1.0; 2], [1.0; 4], [0.0, 2.0, 0.0, 4.0], [0.0, 3.0], [0.0, 1.0]);
    /// let (mut dq, mut dk, mut dv) = ([9.0; 2], [9.0; 4], [9.0; 4]);
    /// layer.backward(&q, &k, &v, &out, &dout, &segments, &mut dq, &mut dk, &mut dv);
    /// assert_eq!((dq, dk, dv), ([0.0, 0.0], [-0.5, -0.5, 0.5, 0.5], [0.0, 0.5, 0.0, 0.5]));
    /// ```
    ///
    /// # Panics
    /// As [`attend`](Self::attend), and when a gradient is not as long as what it belongs to.
    #[expect(clippy::too_many_arguments, reason = "three inputs, an output, and the gradient of each")]
    pub fn backward(
        &self,
        q: &[f32],
        k: &[f32],
        v: &[f32],
        out: &[f32],
        dout: &[f32],
        segments: &[Segment],
        dq: &mut [f32],
        dk: &mut [f32],
        dv: &mut [f32],
    ) {
        let inputs = Inputs { q, k, v, out, dout, segments };
        self.backward_at(Level::current(), &inputs, dq, dk, dv);
    }

    /// As [`backward`](Self::backward), with the instructions of `level`.
    fn backward_at(&self, level: Level, inputs: &Inputs, dq: &mut [f32], dk: &mut [f32], dv: &mut [f32]) {
        let Inputs { q, k, v, out, dout, segments } = *inputs;
        assert!(level <= Level::detected(), "this machine has no {level:?}");
        self.check(q, k, v, segments, out);
        assert_eq!(q.len(), dout.len(), "q and dout differ in length");
        assert_eq!(q.len(), dq.len(), "q and dq differ in length");
        assert_eq!(k.len(), dk.len(), "k and dk differ in length");
        assert_eq!(v.len(), dv.len(), "v and dv differ in length");
        dq.fill(0.0);
        dk.fill(0.0);
        dv.fill(0.0);
        let call = Call { layer: self, level, q, k, v, segments, out: Output(dq.as_mut_ptr()) };
        let (tasks, work) = tasks(&call);
        let share = work >= WORTH_SHARING && crate::threads::threads() > 1;
        // Kept by the thread between calls: fresh pages from the kernel would take a good part of the time.
        let held = tasks.last().map_or(0, |task| task.at + task.values());
        let largest = tasks.iter().map(Task::values).max().unwrap_or(0);
        let mut room = Scratch::with_bytes(held.min(HELD_VALUES.max(largest)) * 4);
        let sums = Output(room.as_mut_ptr().cast());
        let mut rest = &tasks[..];
        while !rest.is_empty() {
            let start = rest[0].at;
            let count = rest.iter().take_while(|task| task.at + task.values() - start <= HELD_VALUES).count();
            let (now, after) = rest.split_at(count.max(1));
            rest = after;
            let one = |task: &Task| {
                let (dk, dv) = task.sums(start, &sums);
                run(&TaskInputs { out, dout, block: &task.block, seen: task.seen.clone(), dk, dv });
            };
            if share {
                now.par_iter().with_max_len(1).for_each(one);
            } else {
                now.iter().for_each(one);
            }
            add_up(self, now, &sums, share, dk, dv);
        }
    }
}

/// What a gradient is computed from.
struct Inputs<'a> {
    q: &'a [f32],
    k: &'a [f32],
    v: &'a [f32],
    out: &'a [f32],
    dout: &'a [f32],
    segments: &'a [Segment],
}

/// Some rows of a segment, for the heads of one key head.
struct Task<'a> {
    block: Block<'a>,
    /// The keys that any of the rows sees, counted from the segment's first.
    seen: Range<usize>,
    /// Where the sums of this task would begin if all tasks were held.
    at: usize,
}

impl Task<'_> {
    /// How many sums the task has, half of them for dk.
    fn values(&self) -> usize {
        2 * self.seen.len() * self.block.call.layer.head_dim
    }

    /// Where the sums for dk and dv lie when those that are held begin with `start`.
    fn sums(&self, start: usize, sums: &Output) -> (*mut f32, *mut f32) {
        let dk = sums.0.wrapping_add(self.at - start);
        (dk, dk.wrapping_add(self.values() / 2))
    }
}

/// What a kernel gets. It writes the rows' dq to `block.call.out`.
struct TaskInputs<'a> {
    out: &'a [f32],
    dout: &'a [f32],
    block: &'a Block<'a>,
    seen: Range<usize>,
    /// Gradients of the keys seen: [seen, head_dim], to be written in full.
    dk: *mut f32,
    /// Gradients of the values seen, likewise.
    dv: *mut f32,
}

impl TaskInputs<'_> {
    /// Keys counted from the first that the task sees.
    fn relative(&self, seen: Range<usize>) -> Range<usize> {
        seen.start.saturating_sub(self.seen.start)..seen.end.saturating_sub(self.seen.start)
    }

    /// The strips of `size` stacked rows with the keys that any of their rows sees, counted as by [`Self::relative`].
    /// Those that see none are left out: their gradients stay zero.
    fn strips(&self, size: usize) -> impl Iterator<Item = (Range<usize>, Range<usize>)> {
        let count = self.block.stacked();
        let all = (0..count).step_by(size).map(move |start| {
            let strip = start..(start + size).min(count);
            (strip.clone(), self.relative(self.block.visible_to(strip)))
        });
        all.filter(|(_, seen)| !seen.is_empty())
    }
}

/// The blocks of `size` keys that hold some keys: where each begins, and how much of it is needed, in whole `step`s.
fn blocks_of(seen: &Range<usize>, size: usize, step: usize) -> impl Iterator<Item = (usize, usize)> + use<> {
    let end = seen.end;
    let first = seen.start / size * size;
    (first..end).step_by(size).map(move |at| (at, size.min((end - at).next_multiple_of(step))))
}

/// The buffers of a task that every kernel has; `strip` is the number of rows in a strip.
struct TaskBuffers {
    dim: usize,
    /// `dim`, padded.
    wide: usize,
    /// Keys seen, padded to whole blocks.
    keys: usize,
    /// Sums for dk, but for a factor: keys · wide values.
    dk: *mut f32,
    /// Sums for dv: keys · wide values.
    dv: *mut f32,
    /// Queries of a strip times scale · log₂ e: [strip, wide].
    q: *mut f32,
    /// Gradients of its outputs, over the sums of powers: [strip, wide].
    dout: *mut f32,
    /// Gradients of its queries, but for a factor: [strip, wide].
    dq: *mut f32,
    /// do·o over the sums of powers: `[strip]`.
    d: *mut f32,
    /// Scores, then powers: strip · keys values.
    powers: *mut f32,
}

impl TaskBuffers {
    /// For strips of `strip` rows, with heads padded to `step` values and keys to `block`.
    fn carve(carver: &mut Carver, task: &TaskInputs, strip: usize, step: usize, block: usize) -> Self {
        let dim = task.block.call.layer.head_dim;
        let (wide, keys) = (dim.next_multiple_of(step), task.seen.len().next_multiple_of(block));
        let [dk, dv] = std::array::from_fn(|_| carver.values(keys * wide));
        let [q, dout, dq] = std::array::from_fn(|_| carver.values(strip * wide));
        let (d, powers) = (carver.values(strip), carver.values(strip * keys));
        Self { dim, wide, keys, dk, dv, q, dout, dq, d, powers }
    }

    /// Copies the queries of a strip; the rows that pad it to `rows` are zero, and all gradients are.
    ///
    /// # Safety
    /// The buffers have `rows` rows, and the strip no more.
    #[inline(always)]
    unsafe fn start(&self, task: &TaskInputs, strip: Range<usize>, rows: usize) {
        let dim = task.block.call.layer.head_dim;
        let scale = task.block.call.layer.log2_scale();
        // SAFETY: the caller's promise; a row is at least as wide as a head.
        unsafe {
            self.q.write_bytes(0, rows * self.wide);
            self.dout.write_bytes(0, rows * self.wide);
            self.dq.write_bytes(0, rows * self.wide);
            for (i, row) in strip.enumerate() {
                let from = &task.block.call.q[task.block.query(row)..][..dim];
                let to = std::slice::from_raw_parts_mut(self.q.add(i * self.wide), dim);
                for (to, from) in to.iter_mut().zip(from) {
                    *to = from * scale;
                }
            }
        }
    }

    /// Sets D and do of row `row` of the strip, divided by its sum of powers, so that the powers stand for the
    /// probabilities.
    ///
    /// # Safety
    /// The buffers have the row.
    #[inline(always)]
    unsafe fn set_gradient<S: Simd>(&self, s: S, task: &TaskInputs, stacked: usize, row: usize, sum: f32) {
        let dim = task.block.call.layer.head_dim;
        let share = 1.0 / sum;
        let at = task.block.query(stacked);
        let (out, dout) = (&task.out[at..at + dim], &task.dout[at..at + dim]);
        // SAFETY: the caller's promise; out and do of a row are as long.
        let to = unsafe {
            *self.d.add(row) = share * dot(s, out, dout);
            std::slice::from_raw_parts_mut(self.dout.add(row * self.wide), dim)
        };
        for (to, dout) in to.iter_mut().zip(dout) {
            *to = dout * share;
        }
    }
}

/// The tasks of a call and about how many operations they take.
fn tasks<'a>(call: &'a Call<'a>) -> (Vec<Task<'a>>, usize) {
    let layer = call.layer;
    let (mut tasks, mut at, mut pairs) = (Vec::new(), 0, 0);
    let step = (STACKED_ROWS / layer.group()).max(1);
    for segment in call.segments {
        let keys = segment.key_count();
        for kv_head in 0..layer.kv_heads {
            for start in (0..segment.rows.len()).step_by(step) {
                let rows = start..(start + step).min(segment.rows.len());
                let block = Block { call, segment, keys, kv_head, rows };
                let seen = block.visible_to(0..block.stacked());
                if seen.is_empty() {
                    continue;
                }
                pairs += block.stacked() * seen.len();
                let task = Task { block, seen, at };
                at += task.values();
                tasks.push(task);
            }
        }
    }
    (tasks, pairs * layer.head_dim * 10)
}

fn run(task: &TaskInputs) {
    let call = task.block.call;
    #[cfg(target_arch = "x86_64")]
    if call.level == Level::Amx && call.layer.precision != crate::Precision::F32 {
        return tiles::run(task);
    }
    stream::run(call.level, task);
}

/// Adds the sums of tasks to dk and dv, in the order of the tasks.
fn add_up(layer: &Attention, tasks: &[Task], sums: &Output, share: bool, dk: &mut [f32], dv: &mut [f32]) {
    let (dim, stride) = (layer.head_dim, layer.kv_heads * layer.head_dim);
    let first = tasks[0].at;
    let one = |(piece, (dk, dv)): (usize, (&mut [f32], &mut [f32]))| {
        let here = piece * SLOTS..piece * SLOTS + dk.len() / stride;
        for task in tasks {
            let (of_keys, of_values) = task.sums(first, sums);
            // SAFETY: the task has written all its sums, and nobody writes them now.
            let [of_keys, of_values] = [of_keys, of_values]
                .map(|sums| unsafe { std::slice::from_raw_parts(sums, task.values() / 2) });
            let mut key = 0;
            for slots in &task.block.segment.keys {
                // The part of the range that is seen by the task and lies in this piece.
                let end = slots.end.min(slots.start + task.seen.end.saturating_sub(key)).min(here.end);
                let start = (slots.start + task.seen.start.saturating_sub(key)).max(here.start);
                for slot in start..end {
                    let from = (key + slot - slots.start - task.seen.start) * dim;
                    let to = (slot - here.start) * stride + task.block.kv_head * dim;
                    for (to, from) in dk[to..to + dim].iter_mut().zip(&of_keys[from..]) {
                        *to += from;
                    }
                    for (to, from) in dv[to..to + dim].iter_mut().zip(&of_values[from..]) {
                        *to += from;
                    }
                }
                key += slots.len();
            }
        }
    };
    let step = SLOTS * stride;
    if share {
        dk.par_chunks_mut(step).zip(dv.par_chunks_mut(step)).enumerate().for_each(one);
    } else {
        dk.chunks_mut(step).zip(dv.chunks_mut(step)).enumerate().for_each(one);
    }
}
