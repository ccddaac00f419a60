//! From the tiles of C to y and back, minding the edges where a tile is larger than what is left of y.

use super::kernel::{clear, load, store};
use super::pack::transpose;
use crate::matrix::parallel::Shared;
use crate::matrix::scratch::CacheLine;

/// The result, of which tasks write different columns.
#[derive(Clone, Copy)]
pub(super) struct Output {
    pub(super) y: Shared<f32>,
    pub(super) m: usize,
    pub(super) outputs: usize,
    /// Rows of a tile of x.
    pub(super) tile_rows: usize,
}

impl Output {
    /// The tiles (i, j) of a block that lie within y: where each begins, and its size.
    fn tiles(self, row: usize, output: usize, tiles: usize) -> impl Iterator<Item = (usize, usize, Edge)> {
        (0..tiles * 2).filter_map(move |tile| {
            let (i, j) = (tile / 2, tile % 2);
            let (row, output) = (row + i * 16, output + j * 16);
            let width = 16.min(self.outputs.checked_sub(output)?);
            let edge = Edge {
                at: self.y.get().wrapping_add(row * self.outputs + output),
                height: 16.min(self.m - row),
                width,
            };
            (width > 0).then_some((i, j, edge))
        })
    }

    /// Whether a tile can go to y directly.
    fn is_whole(self, edge: Edge) -> bool {
        edge.width == 16 && edge.height == self.tile_rows
    }

    /// Stores C as rows of x by outputs, without what lies beyond the edges.
    ///
    /// # Safety
    /// The tiles are configured with x as A, `row` and `output` exist, and no other task writes these outputs.
    #[inline]
    pub(super) unsafe fn store_block(self, row: usize, output: usize, tiles: usize) {
        for (i, j, edge) in self.tiles(row, output, tiles) {
            // SAFETY: the part of y that is written exists and is this task's.
            unsafe {
                if self.is_whole(edge) {
                    store(i, j, edge.at, self.outputs * 4);
                } else {
                    let mut tile = [CacheLine([0; 64]); 16];
                    let tile = tile.as_mut_ptr().cast::<f32>();
                    store(i, j, tile, 64);
                    for r in 0..edge.height {
                        let to = edge.at.add(r * self.outputs);
                        std::ptr::copy_nonoverlapping(tile.add(r * 16), to, edge.width);
                    }
                }
            }
        }
    }

    /// Takes back into C what [`Output::store_block`] stored, to go on with the sums.
    ///
    /// # Safety
    /// As there.
    #[inline]
    pub(super) unsafe fn load_block(self, row: usize, output: usize, tiles: usize) {
        // SAFETY: the tiles are configured.
        unsafe { clear(tiles, 2) };
        for (i, j, edge) in self.tiles(row, output, tiles) {
            // SAFETY: the part of y that is read exists and is this task's.
            unsafe {
                if self.is_whole(edge) {
                    load(i, j, edge.at, self.outputs * 4);
                } else {
                    let mut tile = [CacheLine([0; 64]); 16];
                    let tile = tile.as_mut_ptr().cast::<f32>();
                    for r in 0..edge.height {
                        let from = edge.at.add(r * self.outputs);
                        std::ptr::copy_nonoverlapping(from, tile.add(r * 16), edge.width);
                    }
                    load(i, j, tile, 64);
                }
            }
        }
    }

    /// Stores C as outputs by rows of x, transposed back.
    ///
    /// # Safety
    /// The tiles are configured with x as B, `width` rows of x in each, `output` exists, and no other task
    /// writes these outputs.
    #[inline]
    pub(super) unsafe fn store_transposed(self, output: usize, width: [usize; 2]) {
        for (j, rows) in width.into_iter().enumerate().filter(|(_, rows)| *rows > 0) {
            for i in 0..2 {
                let output = output + i * 16;
                if output >= self.outputs {
                    break;
                }
                let count = 16.min(self.outputs - output);
                let mut tile = [CacheLine([0; 64]); 16];
                let tile = tile.as_mut_ptr().cast::<f32>();
                // SAFETY: the part of y that is written exists and is this task's.
                unsafe {
                    if rows == 1 {
                        // One column: the tile is already a row when its rows lie side by side.
                        store(i, j, tile, 4);
                    } else {
                        store(i, j, tile, 64);
                        transpose(tile.cast());
                    }
                    for row in 0..rows {
                        let to = self.y.get().add((j * 16 + row) * self.outputs + output);
                        std::ptr::copy_nonoverlapping(tile.add(row * 16), to, count);
                    }
                }
            }
        }
    }
}

/// The part of a tile that lies within y.
#[derive(Clone, Copy)]
struct Edge {
    at: *mut f32,
    height: usize,
    width: usize,
}
