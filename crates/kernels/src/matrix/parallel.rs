//! How a product is shared among rayon's threads.
//!
//! Work is cut along outputs or rows, never along the sums, so the number of threads cannot change a bit.

use crate::crew::{has_crew, share_awake};
use rayon::prelude::*;
use std::ops::Range;

/// Below this a product runs on the calling thread: waking another one costs tens of microseconds.
const ALONE_NANOSECONDS: f64 = 50_000.0;
/// Above this the work is cut finer than the number of threads, so that a disturbed thread gets less of it.
const FINE_NANOSECONDS: f64 = 400_000.0;

/// The same two limits for threads that are [awake](crate::awake).
const ALONE_AWAKE_NANOSECONDS: f64 = 3_000.0;
const FINE_AWAKE_NANOSECONDS: f64 = 20_000.0;

/// The least work that is worth a piece.
const PIECE_NANOSECONDS: f64 = 1_500.0;

/// Calls `work` on ranges that together cover `0..units`, in parallel when it is worth it.
pub(super) fn share(units: usize, nanoseconds: f64, work: impl Fn(Range<usize>) + Sync) {
    let threads = crate::threads::threads();
    let (alone, fine) = match has_crew() {
        true => (ALONE_AWAKE_NANOSECONDS, FINE_AWAKE_NANOSECONDS),
        false => (ALONE_NANOSECONDS, FINE_NANOSECONDS),
    };
    if units <= 1 || threads <= 1 || nanoseconds < alone {
        if units > 0 {
            work(0..units);
        }
        return;
    }
    let pieces = if nanoseconds < fine { threads } else { threads * 4 };
    // Not more than there is to do: on a machine of many cores, taking a piece costs as much as a small one.
    let pieces = pieces.min((nanoseconds / PIECE_NANOSECONDS).ceil() as usize);
    let pieces = pieces.min(units);
    let piece = |piece: usize| work(units * piece / pieces..units * (piece + 1) / pieces);
    if !share_awake(pieces, piece) {
        (0..pieces).into_par_iter().with_max_len(1).for_each(piece);
    }
}

/// A pointer that several tasks write through, each to its own part.
#[derive(Clone, Copy)]
pub(super) struct Shared<T>(*mut T);

// SAFETY: whoever makes one promises that the tasks write to different addresses.
unsafe impl<T> Send for Shared<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Shared<T> {}

impl<T> Shared<T> {
    pub(super) fn new(pointer: *mut T) -> Shared<T> {
        Shared(pointer)
    }

    pub(super) fn get(self) -> *mut T {
        self.0
    }
}
