//! Cuts a call into tasks and runs them.

use super::{Call, Output, Segment, Slots, decode, stream};
use crate::crew::{has_crew, share_awake};
use rayon::prelude::*;
use std::ops::Range;

/// Below this many multiplications and additions waking other threads costs more than it gains.
const WORTH_SHARING: usize = 1 << 21;
/// The same for threads that are [awake](crate::awake).
const WORTH_SHARING_AWAKE: usize = 1 << 16;

/// Rows of stacked heads in a task: enough to spread the packing of keys thin, few enough to share evenly.
const STACKED_ROWS: usize = 256;

/// Some rows of a segment, for the heads of one key head.
pub(super) struct Block<'a> {
    pub(super) call: &'a Call<'a>,
    pub(super) segment: &'a Segment,
    /// Keys of the segment.
    pub(super) keys: usize,
    pub(super) kv_head: usize,
    /// Counted from the segment's first.
    pub(super) rows: Range<usize>,
}

impl Block<'_> {
    /// The number of stacked rows: head h of row i is i · group + h.
    pub(super) fn stacked(&self) -> usize {
        self.rows.len() * self.call.layer.group()
    }

    /// The keys that a stacked row sees.
    pub(super) fn visible(&self, stacked: usize) -> Range<usize> {
        let row = self.rows.start + stacked / self.call.layer.group();
        self.call.layer.visible(row, self.segment.rows.len(), self.keys)
    }

    /// The keys that any of some stacked rows sees.
    pub(super) fn visible_to(&self, stacked: Range<usize>) -> Range<usize> {
        let last = stacked.end.min(self.stacked()) - 1;
        self.visible(stacked.start).start..self.visible(last).end
    }

    /// Of `width` keys from `at` on, those that a stacked row sees, counted from `at`.
    pub(super) fn visible_within(&self, stacked: usize, at: usize, width: usize) -> Range<usize> {
        let seen = self.visible(stacked);
        seen.start.clamp(at, at + width) - at..seen.end.clamp(at, at + width) - at
    }

    /// The keys that any row sees, in pieces of `KEYS` counted from the segment's first.
    pub(super) fn key_pieces<const KEYS: usize>(&self) -> KeyPieces<'_, KEYS> {
        let seen = self.visible_to(0..self.stacked());
        let at = seen.start / KEYS * KEYS;
        let rest = Slots::starting_at(&self.segment.keys, at);
        KeyPieces { rest, slots: [0; KEYS], at, end: seen.end }
    }

    /// The strips of `size` stacked rows that see some of `keys` keys from `at` on; with each how many of these it takes
    /// to reach the last that it sees.
    pub(super) fn strips(
        &self,
        size: usize,
        at: usize,
        keys: usize,
    ) -> impl Iterator<Item = (Range<usize>, usize)> {
        let count = self.stacked();
        (0..count).step_by(size).filter_map(move |start| {
            let strip = start..(start + size).min(count);
            let seen = self.visible_to(strip.clone());
            (seen.start < at + keys && seen.end > at).then(|| (strip, keys.min(seen.end - at)))
        })
    }

    /// Where the queries of a stacked row begin; in `out` the same offset.
    pub(super) fn query(&self, stacked: usize) -> usize {
        let group = self.call.layer.group();
        let row = self.segment.rows.start + self.rows.start + stacked / group;
        self.call.query(row, self.kv_head) + stacked % group * self.call.layer.head_dim
    }
}

/// See [`Block::key_pieces`].
pub(super) struct KeyPieces<'a, const KEYS: usize> {
    rest: Slots<'a>,
    slots: [usize; KEYS],
    at: usize,
    end: usize,
}

impl<const KEYS: usize> KeyPieces<'_, KEYS> {
    /// Where the next piece begins, and the slots of its keys.
    pub(super) fn next_piece(&mut self) -> Option<(usize, &[usize])> {
        if self.at >= self.end {
            return None;
        }
        let at = self.at;
        let slots = &mut self.slots[..KEYS.min(self.end - at)];
        self.rest.fill(slots);
        self.at += slots.len();
        Some((at, slots))
    }
}

enum Task<'a> {
    Block(Block<'a>),
    Decode(decode::Chunk<'a>),
}

pub(super) fn run(call: &Call) {
    let layer = call.layer;
    let mut tasks = Vec::new();
    let mut merges = Vec::new();
    let mut partial_length = 0;
    let mut pairs = 0;
    for segment in call.segments {
        let keys = segment.key_count();
        pairs += segment.rows.len() * keys;
        for kv_head in 0..layer.kv_heads {
            if segment.rows.len() == 1 {
                let (chunks, merge) = decode::chunks(call, segment, keys, kv_head, &mut partial_length);
                tasks.extend(chunks.map(Task::Decode));
                merges.extend(merge);
                continue;
            }
            let step = (STACKED_ROWS / layer.group()).max(1);
            tasks.extend((0..segment.rows.len()).step_by(step).map(|start| {
                let rows = start..(start + step).min(segment.rows.len());
                Task::Block(Block { call, segment, keys, kv_head, rows })
            }));
        }
    }
    let mut partials = vec![0.0; partial_length];
    let shared = Output(partials.as_mut_ptr());
    let one = |task: &Task| match task {
        Task::Block(block) => attend(block),
        Task::Decode(chunk) => decode::attend(chunk, &shared),
    };
    let worth = if has_crew() { WORTH_SHARING_AWAKE } else { WORTH_SHARING };
    let share =
        tasks.len() > 1 && pairs * layer.heads * layer.head_dim * 4 >= worth && crate::threads::threads() > 1;
    if share && has_crew() {
        share_awake(tasks.len(), |task| one(&tasks[task]));
        share_awake(merges.len(), |merge| decode::merge(call, &merges[merge], &partials));
    } else if share {
        tasks.par_iter().with_max_len(1).for_each(one);
        merges.par_iter().for_each(|merge| decode::merge(call, merge, &partials));
    } else {
        tasks.iter().for_each(one);
        merges.iter().for_each(|merge| decode::merge(call, merge, &partials));
    }
}

fn attend(block: &Block) {
    #[cfg(target_arch = "x86_64")]
    if block.call.level == crate::cpu::Level::Amx && block.call.layer.precision == crate::Precision::Bf16 {
        return super::tiles::attend(block);
    }
    stream::attend(block);
}
