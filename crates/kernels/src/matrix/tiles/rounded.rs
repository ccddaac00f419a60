//! Rows of activations as tiles of A, rounded once for any number of products.

use super::kernel::Operand;
use super::pack::{TILE_COLUMNS, TileRow, row_to_tiles};
use crate::cpu::Level;
use crate::matrix::parallel::{Shared, share};
use crate::matrix::scratch::Scratch;
use crate::rows::rms_rows;

/// Tiles of sixteen rows, one after another; of fewer if there are fewer rows in all. Rows beyond the last repeat it.
pub(in crate::matrix) struct RoundedRows {
    room: Scratch,
    layout: Operand,
    tile_rows: usize,
    m: usize,
    columns: usize,
}

/// Some of the rows, from the beginning of a tile on.
#[derive(Clone, Copy)]
pub(super) struct RoundedPart<'a> {
    pub(super) tiles: *const u8,
    pub(super) layout: Operand,
    pub(super) tile_rows: usize,
    pub(super) m: usize,
    rows: std::marker::PhantomData<&'a RoundedRows>,
}

impl RoundedRows {
    /// Rounds rows of `columns` values; the estimate of the time is multiplied by `parallel`.
    ///
    /// The caller has checked that the level AMX is available.
    pub(in crate::matrix) fn new(x: &[f32], split: bool, columns: usize, parallel: f64) -> Self {
        let mut rows = Self::room(x.len() / columns, columns, split);
        rows.fill(parallel * x.len() as f64 * 0.15, 0, |row, _, to| {
            // SAFETY: the tiles have room for every row.
            unsafe { row_to_tiles(&x[row * columns..][..columns], to) };
        });
        rows
    }

    /// Normalizes and rounds rows that are as long as `weight`.
    ///
    /// The caller has checked that the level AMX is available.
    pub(in crate::matrix) fn rms_norm(x: &[f32], weight: &[f32], eps: f32, split: bool) -> Self {
        let columns = weight.len();
        let mut rows = Self::room(x.len() / columns, columns, split);
        assert_eq!(x.len(), rows.m * columns, "x is not whole rows of {columns} columns");
        rows.fill(x.len() as f64 * 0.4, columns, |row, normalized, to| {
            // SAFETY: the machine has the level, and the tiles have room for every row.
            unsafe {
                rms_rows(Level::current(), &x[row * columns..][..columns], weight, eps, normalized);
                row_to_tiles(normalized, to);
            }
        });
        rows
    }

    /// Room for `m` rows, whose contents are arbitrary.
    pub(super) fn room(m: usize, columns: usize, split: bool) -> Self {
        let (tile_rows, parts) = (m.min(16), if split { 2 } else { 1 });
        let part_step = tile_rows * 64;
        let k_step = parts * part_step;
        let tile_step = columns.div_ceil(TILE_COLUMNS) * k_step;
        let layout = Operand { base: std::ptr::null(), tile_step, k_step, part_step, row_step: 64 };
        RoundedRows { room: Scratch::with_bytes(m.div_ceil(16) * tile_step), layout, tile_rows, m, columns }
    }

    /// Calls `write` for each row with `width` values of working memory and where the row goes.
    fn fill(&mut self, nanoseconds: f64, width: usize, write: impl Fn(usize, &mut [f32], TileRow) + Sync) {
        let (start, rows) = (self.start(), &*self);
        share(rows.m.div_ceil(16), nanoseconds, |range| {
            let mut room = Scratch::with_bytes(width * 4);
            // SAFETY: the scratch is initialized and has room for so many values.
            let room = unsafe { std::slice::from_raw_parts_mut(room.as_mut_ptr().cast::<f32>(), width) };
            for row in range.start * 16..range.end * 16 {
                if row % 16 < rows.tile_rows {
                    write(row.min(rows.m - 1), room, rows.place(start, row, 0));
                }
            }
        });
    }

    /// The first tile's address, for tasks that write different tiles.
    pub(super) fn start(&mut self) -> Shared<u8> {
        Shared::new(self.room.as_mut_ptr())
    }

    /// Where the columns of a row from tile `k_tile` on go, counted from [`RoundedRows::start`].
    pub(super) fn place(&self, start: Shared<u8>, row: usize, k_tile: usize) -> TileRow {
        let Operand { tile_step, k_step, part_step, row_step, .. } = self.layout;
        TileRow {
            first: start.get().wrapping_add(row / 16 * tile_step + k_tile * k_step + row % 16 * row_step),
            k_step,
            part_step: (k_step > part_step).then_some(part_step),
        }
    }

    /// How long the rows are.
    pub(in crate::matrix) fn columns(&self) -> usize {
        self.columns
    }

    /// All rows.
    pub(super) fn all(&self) -> RoundedPart<'_> {
        self.part(0, self.m)
    }

    /// `count` rows from row `first` on, which begins a tile.
    pub(super) fn part(&self, first: usize, count: usize) -> RoundedPart<'_> {
        debug_assert!(first.is_multiple_of(16), "row {first} begins no tile");
        RoundedPart {
            tiles: self.room.as_ptr().wrapping_add(first / 16 * self.layout.tile_step),
            layout: self.layout,
            tile_rows: self.tile_rows,
            m: count,
            rows: std::marker::PhantomData,
        }
    }
}

// SAFETY: the operand's pointer is null here; it only describes steps.
unsafe impl Send for RoundedRows {}
// SAFETY: as above, and nothing is written once others see it.
unsafe impl Sync for RoundedRows {}

// SAFETY: the pointers are to rows that are borrowed, and only read.
unsafe impl Sync for RoundedPart<'_> {}
