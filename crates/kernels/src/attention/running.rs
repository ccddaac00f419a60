//! What online softmax keeps of each row between blocks of keys.

use super::scratch::Carver;

/// The state of stacked rows, `rows` of them padded to whole tiles.
pub(super) struct Running {
    pub(super) rows: usize,
    /// The head dimension, padded.
    pub(super) wide: usize,
    /// Weighted values so far: [rows, wide].
    pub(super) out: *mut f32,
    /// Largest exponent so far: `[rows]`.
    pub(super) top: *mut f32,
    /// Sums of powers so far, `lanes` for each row: [rows, lanes].
    pub(super) sum: *mut f32,
    lanes: usize,
}

impl Running {
    pub(super) fn carve(carver: &mut Carver, rows: usize, wide: usize, lanes: usize) -> Self {
        let (out, top, sum) = (carver.values(rows * wide), carver.values(rows), carver.values(rows * lanes));
        Self { rows, wide, out, top, sum, lanes }
    }

    /// No keys seen yet.
    ///
    /// # Safety
    /// The buffers are of memory, not of a measurement.
    #[inline(always)]
    pub(super) unsafe fn start(&self) {
        // SAFETY: the buffers have their stated sizes.
        unsafe {
            self.out.write_bytes(0, self.rows * self.wide);
            self.sum.write_bytes(0, self.rows * self.lanes);
            std::slice::from_raw_parts_mut(self.top, self.rows).fill(f32::NEG_INFINITY);
        }
    }
}
