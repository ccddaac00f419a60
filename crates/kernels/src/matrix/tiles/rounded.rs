//! Rows of activations as tiles of A, rounded once for any number of products.

use super::kernel::Operand;
use super::pack::{TileRow, row_to_tiles};
use super::panels::Layout;
use crate::matrix::parallel::{Shared, share};
use crate::matrix::scratch::Scratch;

/// Tiles of sixteen rows, one after another; of fewer if there are fewer rows in all.
pub(in crate::matrix) struct RoundedRows {
    room: Scratch,
    layout: Operand,
    tile_rows: usize,
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
    /// Rounds rows of `columns` values for weights of this layout; the estimate of the time is multiplied by `parallel`.
    ///
    /// The caller has checked that the level AMX is available.
    pub(super) fn new(x: &[f32], weights: Layout, columns: usize, parallel: f64) -> Self {
        let m = x.len() / columns;
        let tile_rows = m.min(16);
        let layout = Operand {
            base: std::ptr::null(),
            tile_step: weights.k_tiles * weights.parts() * tile_rows * 64,
            k_step: weights.parts() * tile_rows * 64,
            part_step: tile_rows * 64,
            row_step: 64,
        };
        let tiles = m.div_ceil(16);
        let mut room = Scratch::with_bytes(tiles * layout.tile_step);
        let packed = Shared::new(room.as_mut_ptr());
        share(tiles, parallel * (m * columns) as f64 * 0.15, |range| {
            for row in range.start * 16..range.end * 16 {
                // SAFETY: each task writes its own tiles. Rows beyond the last repeat it and are not looked at.
                unsafe {
                    let tile = packed.get().add(row / 16 * layout.tile_step);
                    if row % 16 >= tile_rows {
                        continue;
                    }
                    let to = TileRow {
                        first: tile.add(row % 16 * 64),
                        k_step: layout.k_step,
                        part_step: weights.split.then_some(layout.part_step),
                    };
                    row_to_tiles(&x[row.min(m - 1) * columns..][..columns], to);
                }
            }
        });
        RoundedRows { room, layout, tile_rows }
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
// SAFETY: as above, and nothing is written after `new`.
unsafe impl Sync for RoundedRows {}
