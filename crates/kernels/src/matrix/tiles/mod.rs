//! Products on AMX.
//!
//! Two ways through the same arithmetic. Usually x is A and a panel of 32 outputs is B: x is rounded to
//! tiles once, and each panel meets all of it. Up to 32 rows of x against quantised weights go the other way
//! round: a decoded row of weights is a row of A as it comes, so nothing has to be transposed, and C stays
//! in registers while the panel is decoded piece by piece.

mod kernel;
mod pack;
mod panels;

use super::parallel::{Shared, share};
use super::scratch::{Line, Scratch};
use super::{Blocks, Matrix, Storage};
use crate::amx::{TileConfig, Tiles};
use crate::blocks::avx512::{row_to_bf16, row_to_split};
use kernel::{A, B, Operand, XIs, accumulate, clear, store};
use pack::{TILE_COLUMNS, TileRow, row_to_tiles, transpose};
pub(super) use panels::Panels;
use panels::{Layout, PANEL};

/// Bytes of a full tile.
pub(crate) const TILE_BYTES: usize = 1024;

/// Rows of x that are converted at once; more are worked off in turn.
const SLAB: usize = 4096;
/// Decoded panels, and the piece of x that meets them, each take about this much of the second-level cache.
const CACHED_BYTES: usize = 512 << 10;
/// Columns that are decoded at once when C waits in registers; a multiple of every block length.
const PIECE_COLUMNS: usize = 1024;

/// See [`Matrix::multiply`]; sizes are checked there.
pub(super) fn product(matrix: &Matrix, x: &[f32], wanted: Option<&[usize]>, y: &mut [f32]) {
    let outputs = wanted.map_or(matrix.rows, <[usize]>::len);
    let source = Source {
        matrix,
        wanted,
        outputs,
        layout: match &matrix.storage {
            Storage::Tiles(panels) => panels.layout,
            Storage::Blocks(blocks) => Layout::new(matrix.columns, blocks.precision),
            _ => unreachable!("rows of f32 are multiplied by `dot`"),
        },
    };
    let m = x.len() / matrix.columns;
    match &matrix.storage {
        Storage::Blocks(blocks) if m <= 32 => source.multiply_few(blocks, x, y),
        _ => {
            let slabs = x.chunks(SLAB * matrix.columns);
            for (x, y) in slabs.zip(y.chunks_mut(SLAB * outputs)) {
                source.multiply_many(x, y);
            }
        }
    }
}

/// The weights of one product.
struct Source<'a> {
    matrix: &'a Matrix,
    wanted: Option<&'a [usize]>,
    outputs: usize,
    layout: Layout,
}

impl Source<'_> {
    /// Rough time on one thread: reading or decoding the weights, and multiplying.
    fn nanoseconds(&self, m: usize) -> f64 {
        let weights = (self.outputs * self.matrix.columns) as f64;
        let products = if self.layout.split { 3.0 } else { 1.0 };
        weights * products * (0.1 + 2.0 * m.next_multiple_of(16) as f64 / 1500.0)
    }

    /// The row of W behind an output; outputs that pad the last panel repeat the last one.
    fn row_of(&self, output: usize) -> usize {
        let output = output.min(self.outputs - 1);
        self.wanted.map_or(output, |wanted| wanted[output])
    }

    /// Panel `panel` as tiles of B, in place or written into `room`.
    ///
    /// # Safety
    /// The level AMX is available and `room` has the bytes of a panel.
    unsafe fn panel(&self, panel: usize, room: *mut u8) -> *const u8 {
        match (&self.matrix.storage, self.wanted) {
            (Storage::Tiles(panels), None) => return panels.panel(panel),
            (Storage::Tiles(panels), Some(_)) => {
                for output in 0..PANEL {
                    let row = self.row_of(panel * PANEL + output);
                    // SAFETY: the caller's promise.
                    unsafe { panels.gather(row, room, output) };
                }
            }
            (Storage::Blocks(blocks), _) => {
                let columns = 0..self.matrix.columns;
                // SAFETY: the caller's promise.
                unsafe {
                    self.decode(blocks, panel, columns, room);
                    self.layout.transpose(room);
                }
            }
            _ => unreachable!("rows of f32 are multiplied by `dot`"),
        }
        room
    }

    /// Decodes some columns (whole blocks) of the 32 rows of a panel into tiles of A.
    ///
    /// # Safety
    /// The level AMX is available and `room` has the bytes of a panel of so many columns.
    unsafe fn decode(&self, blocks: &Blocks, panel: usize, columns: std::ops::Range<usize>, room: *mut u8) {
        let whole_blocks = |columns| blocks.kind.bytes_of(columns).expect("whole blocks");
        let bytes = whole_blocks(columns.start)..whole_blocks(columns.end);
        for output in 0..PANEL {
            let row = &blocks.row(self.row_of(panel * PANEL + output))[bytes.clone()];
            // SAFETY: the caller's promise; the slice holds exactly these columns.
            unsafe {
                let to = self.layout.row(room, output);
                let decode = if self.layout.split { row_to_split } else { row_to_bf16 };
                decode(blocks.kind, row.as_ptr(), columns.len(), to.first, to.k_step);
            }
        }
    }

    /// x as A: any number of rows.
    fn multiply_many(&self, x: &[f32], y: &mut [f32]) {
        let (columns, layout) = (self.matrix.columns, self.layout);
        let m = x.len() / columns;
        let tile_rows = m.min(16);
        let x_tiles = m.div_ceil(16);
        let x_layout = Operand {
            base: std::ptr::null(),
            tile_step: layout.k_tiles * layout.parts() * tile_rows * 64,
            k_step: layout.parts() * tile_rows * 64,
            part_step: tile_rows * 64,
            row_step: 64,
        };
        let mut room = Scratch::with_bytes(x_tiles * x_layout.tile_step);
        let packed = Shared::new(room.as_mut_ptr());
        share(x_tiles, (m * columns) as f64 * 0.15, |range| {
            for row in range.start * 16..range.end * 16 {
                // SAFETY: each task writes its own tiles. Rows beyond the last repeat it and are not looked at.
                unsafe {
                    let tile = packed.get().add(row / 16 * x_layout.tile_step);
                    if row % 16 >= tile_rows {
                        continue;
                    }
                    let to = TileRow {
                        first: tile.add(row % 16 * 64),
                        k_step: x_layout.k_step,
                        part_step: layout.split.then_some(x_layout.part_step),
                    };
                    row_to_tiles(&x[row.min(m - 1) * columns..][..columns], to);
                }
            }
        });

        let config = (0..4).chain(A).fold(TileConfig::FULL, |config, tile| config.tile(tile, tile_rows, 64));
        let y = Output { y: Shared::new(y.as_mut_ptr()), m, outputs: self.outputs };
        let panels = self.outputs.div_ceil(PANEL);
        let stored = matches!(self.matrix.storage, Storage::Tiles(_)) && self.wanted.is_none();
        let group = (CACHED_BYTES / layout.bytes()).max(1);
        let x_piece = (CACHED_BYTES / x_layout.tile_step).max(2).next_multiple_of(2);
        share(panels, self.nanoseconds(m), |range| {
            let room_bytes = if stored { 0 } else { group * layout.bytes() };
            let mut room = Scratch::with_bytes(room_bytes);
            // SAFETY: the matrix was packed for AMX, so AMX is there; x's tiles are complete, panels have the bytes
            // of their layout, and tasks write different outputs.
            unsafe {
                let _tiles = Tiles::configure(&config);
                for first in range.clone().step_by(group) {
                    let last = (first + group).min(range.end);
                    let panels: Vec<*const u8> = (first..last)
                        .map(|panel| {
                            let at = if stored { 0 } else { (panel - first) * layout.bytes() };
                            self.panel(panel, room.as_mut_ptr().add(at))
                        })
                        .collect();
                    for start in (0..x_tiles).step_by(x_piece) {
                        let end = (start + x_piece).min(x_tiles);
                        for (panel, weights) in (first..).zip(&panels) {
                            for tile in (start..end).step_by(2) {
                                let tiles = (end - tile).min(2);
                                let base = packed.get().add(tile * x_layout.tile_step);
                                let x = Operand { base, ..x_layout };
                                let weights = layout.operand(*weights);
                                clear(tiles, 2);
                                accumulate((x, tiles), (weights, 2), layout.k_tiles, layout.split, XIs::A);
                                y.store_block(tile * 16, panel * PANEL, tiles);
                            }
                        }
                    }
                }
            }
        });
    }

    /// Weights as A: up to 32 rows of x, quantised weights.
    fn multiply_few(&self, blocks: &Blocks, x: &[f32], y: &mut [f32]) {
        let (columns, layout) = (self.matrix.columns, self.layout);
        let m = x.len() / columns;
        let x_tiles = m.div_ceil(16);
        let width = [m.min(16), m.saturating_sub(16)];
        let mut room = Scratch::with_bytes(layout.k_tiles * layout.parts() * TILE_BYTES * x_tiles);
        // Both tiles are as wide as the first, so that one layout describes them.
        let x_layout = Operand {
            base: room.as_mut_ptr(),
            tile_step: layout.k_tiles * layout.parts() * width[0] * 64,
            k_step: layout.parts() * width[0] * 64,
            part_step: width[0] * 64,
            row_step: width[0] * 4,
        };
        // SAFETY: the scratch has room for full tiles, of which these are parts.
        unsafe { scatter_pairs(x, columns, layout, x_layout, room.as_mut_ptr()) };

        let mut config = TileConfig::FULL;
        for (j, width) in width.into_iter().enumerate().filter(|(_, width)| *width > 0) {
            for tile in [j, j + 2, B[j]] {
                config = config.tile(tile, 16, width * 4);
            }
        }
        let y = Output { y: Shared::new(y.as_mut_ptr()), m, outputs: self.outputs };
        let packed = Shared::new(room.as_mut_ptr());
        let piece = Layout { k_tiles: PIECE_COLUMNS / TILE_COLUMNS, ..layout };
        let panels = self.outputs.div_ceil(PANEL);
        share(panels, self.nanoseconds(m), |range| {
            let mut room = Scratch::with_bytes(piece.bytes());
            // SAFETY: as in `multiply_many`.
            unsafe {
                let _tiles = Tiles::configure(&config);
                for panel in range {
                    clear(2, x_tiles);
                    for start in (0..columns).step_by(PIECE_COLUMNS) {
                        let end = (start + PIECE_COLUMNS).min(columns);
                        self.decode(blocks, panel, start..end, room.as_mut_ptr());
                        let base = packed.get().add(start / TILE_COLUMNS * x_layout.k_step);
                        accumulate(
                            (layout.operand(room.as_mut_ptr()), 2),
                            (Operand { base, ..x_layout }, x_tiles),
                            (end - start).div_ceil(TILE_COLUMNS),
                            layout.split,
                            XIs::B,
                        );
                    }
                    y.store_transposed(panel * PANEL, width);
                }
            }
        });
    }
}

/// Writes up to 32 rows of x as tiles of B: pairs of columns down, rows of x across.
///
/// # Safety
/// The level AMX is available and `room` holds the tiles that `to` describes.
unsafe fn scatter_pairs(x: &[f32], columns: usize, layout: Layout, to: Operand, room: *mut u8) {
    let mut row_room = Scratch::with_bytes(layout.k_tiles * layout.parts() * 64);
    let from = row_room.as_mut_ptr();
    for (row, values) in x.chunks_exact(columns).enumerate() {
        // SAFETY: the row has room for its parts of 64 bytes, and the caller promises the rest.
        unsafe {
            let line =
                TileRow { first: from, k_step: layout.parts() * 64, part_step: layout.split.then_some(64) };
            row_to_tiles(values, line);
            let first = room.add(row / 16 * to.tile_step + row % 16 * 4);
            for part in 0..layout.k_tiles * layout.parts() {
                let at = first.add(part * to.part_step);
                for pair in 0..16 {
                    let dword = from.add(part * 64 + pair * 4).cast::<u32>().read();
                    at.add(pair * to.row_step).cast::<u32>().write_unaligned(dword);
                }
            }
        }
    }
}

/// The result, of which tasks write different columns.
#[derive(Clone, Copy)]
struct Output {
    y: Shared<f32>,
    m: usize,
    outputs: usize,
}

impl Output {
    /// Stores C as rows of x by outputs, without what lies beyond the edges.
    ///
    /// # Safety
    /// The tiles are configured with x as A, `row` and `output` exist, and no other task writes these outputs.
    #[inline]
    unsafe fn store_block(self, row: usize, output: usize, tiles: usize) {
        for i in 0..tiles {
            for j in 0..2 {
                let (row, output) = (row + i * 16, output + j * 16);
                if output >= self.outputs {
                    break;
                }
                let height = 16.min(self.m - row);
                let width = 16.min(self.outputs - output);
                // SAFETY: the part of y that is written exists and is this task's.
                unsafe {
                    let at = self.y.get().add(row * self.outputs + output);
                    // With fewer than 16 rows in all, the tile itself has only so many.
                    if width == 16 && (height == 16 || self.m < 16) {
                        store(i, j, at, self.outputs * 4);
                    } else {
                        let mut tile = [Line([0; 64]); 16];
                        let tile = tile.as_mut_ptr().cast::<f32>();
                        store(i, j, tile, 64);
                        for r in 0..height {
                            let to = at.add(r * self.outputs);
                            std::ptr::copy_nonoverlapping(tile.add(r * 16), to, width);
                        }
                    }
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
    unsafe fn store_transposed(self, output: usize, width: [usize; 2]) {
        for (j, rows) in width.into_iter().enumerate().filter(|(_, rows)| *rows > 0) {
            for i in 0..2 {
                let output = output + i * 16;
                if output >= self.outputs {
                    break;
                }
                let count = 16.min(self.outputs - output);
                let mut tile = [Line([0; 64]); 16];
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
