//! Products on AMX.
//!
//! Two ways through the same arithmetic. Usually x is A and a panel of 32 outputs is B: x is rounded to
//! tiles once, and each panel meets all of it. Up to 32 rows of x against quantized weights go the other way
//! round: a decoded row of weights is a row of A as it comes, so nothing has to be transposed, and C stays
//! in registers while the panel is decoded piece by piece.

mod gradient;
mod interleaved;
pub(crate) mod kernel;
mod output;
pub(crate) mod pack;
mod panels;
mod rounded;
mod sums;
mod transpose;

use super::parallel::{Shared, share};
use super::scratch::Scratch;
use super::{Activations, Before, Blocks, Matrix, Storage};
use crate::amx::{TileConfig, Tiles};
use crate::blocks::avx512::{row_to_bf16, row_to_split};
pub(super) use gradient::gradient;
pub(super) use interleaved::Interleaved;
use kernel::{A, B, Operand, XIs, accumulate, clear};
use output::Output;
use pack::{TILE_COLUMNS, TileRow, row_to_tiles};
pub(super) use panels::Panels;
use panels::{Layout, PANEL};
use rounded::RoundedPart;
pub(super) use rounded::RoundedRows;
use std::ops::Range;
use std::sync::Mutex;
pub(super) use sums::{Sum, add_to, gated, gelu};
pub(super) use transpose::transposed;

/// Bytes of a full tile.
pub(crate) const TILE_BYTES: usize = 1024;

/// So many rows of x meet quantized weights the other way round.
pub(super) const FEW_ROWS: usize = 32;
/// Rows of x that are converted at once; more are worked off in turn.
const SLAB: usize = 4096;
/// A group of panels, and the piece of x that meets it, each take about this much of the second-level cache.
const CACHED_BYTES: usize = 512 << 10;
/// Longer rows are worked off in pieces of so many columns, a multiple of every block length.
const PIECE_COLUMNS: usize = 1024;
const PIECE_TILES: usize = PIECE_COLUMNS / TILE_COLUMNS;
/// Interleaved weights for few rows of x take shorter ones: the matrix unit works on a piece while the next is expanded.
const SHORT_PIECE_COLUMNS: usize = 64;

/// See [`Matrix::multiply`] and [`Matrix::add_multiply`]; sizes are checked there.
pub(super) fn product(
    matrix: &Matrix,
    x: &Activations<'_>,
    wanted: Option<&[usize]>,
    before: Before,
    y: &mut [f32],
) {
    let source = Source { before, ..Source::new(matrix, wanted) };
    let (columns, outputs, layout) = (matrix.columns, source.outputs, source.layout);
    let m = x.count() / columns;
    if let (Storage::Blocks(blocks), true) = (&matrix.storage, m <= FEW_ROWS) {
        assert!(before == Before::Forgotten, "sums of quantized weights begin at zero");
        return source.multiply_few(blocks, x.values(), y);
    }
    // The pieces of x that are multiplied one after another, or by a task each.
    let rows = source.rows_of_a_task(m);
    let parallel = if rows.is_some() { 0.0 } else { 1.0 };
    let rows = rows.unwrap_or(SLAB);
    let shared = x.tiles(layout.split, columns);
    let multiply = |first: usize, y: &mut [f32]| {
        let count = y.len() / outputs;
        match shared {
            Some(rounded) => source.multiply_many(rounded.part(first, count), y, parallel),
            None => {
                let values = &x.values()[first * columns..][..count * columns];
                let rounded = RoundedRows::new(values, layout.split, columns, parallel);
                source.multiply_many(rounded.all(), y, parallel);
            }
        }
    };
    if parallel > 0.0 {
        y.chunks_mut(rows * outputs).enumerate().for_each(|(slab, y)| multiply(slab * rows, y));
    } else {
        let slabs: Vec<Mutex<&mut [f32]>> = y.chunks_mut(rows * outputs).map(Mutex::new).collect();
        share(slabs.len(), source.nanoseconds(m), |range| {
            for slab in range {
                multiply(slab * rows, &mut slabs[slab].lock().expect("each slab is locked once"));
            }
        });
    }
}

/// Quantized weights as panels; see [`Matrix::expand`].
pub(super) fn expanded(matrix: &Matrix, blocks: &Blocks) -> Panels {
    let mut panels = Panels::zeros(matrix.rows, matrix.columns, blocks.precision);
    let source = Source { panels: None, ..Source::new(matrix, None) };
    let shared = Shared::new(panels.as_mut_ptr());
    let layout = source.layout;
    share(matrix.rows.div_ceil(PANEL), (matrix.rows * matrix.columns) as f64, |range| {
        for panel in range {
            // SAFETY: the caller has checked that AMX is there; every task writes its own panels.
            unsafe { source.panel(panel, 0..layout.k_tiles, shared.get().add(panel * layout.bytes())) };
        }
    });
    panels
}

/// Bytes of [`expanded`].
pub(super) fn expanded_bytes(matrix: &Matrix, blocks: &Blocks) -> usize {
    matrix.rows.div_ceil(PANEL) * Layout::new(matrix.columns, blocks.precision).bytes()
}

/// Whether products with this matrix split x.
pub(super) fn splits(matrix: &Matrix) -> bool {
    Source::new(matrix, None).layout.split
}

/// The weights as tiles of B, where they are kept so.
fn stored(matrix: &Matrix) -> Option<&Panels> {
    match &matrix.storage {
        Storage::Tiles(panels) => Some(panels),
        Storage::Blocks(blocks) => blocks.expanded.get(),
        _ => None,
    }
}

/// Rough time of a product on one thread: reading or decoding the weights, and multiplying.
fn nanoseconds(weights: usize, layout: Layout, m: usize) -> f64 {
    let products = if layout.split { 3.0 } else { 1.0 };
    weights as f64 * products * (0.1 + 2.0 * m.next_multiple_of(16) as f64 / 1500.0)
}

/// The weights of one product.
struct Source<'a> {
    matrix: &'a Matrix,
    /// The weights as tiles of B, where they are kept so.
    panels: Option<&'a Panels>,
    wanted: Option<&'a [usize]>,
    outputs: usize,
    layout: Layout,
    before: Before,
}

impl<'a> Source<'a> {
    fn new(matrix: &'a Matrix, wanted: Option<&'a [usize]>) -> Self {
        let layout = match &matrix.storage {
            Storage::Tiles(panels) => panels.layout,
            Storage::Blocks(blocks) => Layout::new(matrix.columns, blocks.precision),
            _ => unreachable!("rows of f32 are multiplied by `dot`"),
        };
        let panels = stored(matrix);
        let outputs = wanted.map_or(matrix.rows, <[usize]>::len);
        Source { matrix, panels, wanted, outputs, layout, before: Before::Forgotten }
    }

    /// Rough time on one thread.
    fn nanoseconds(&self, m: usize) -> f64 {
        nanoseconds(self.outputs * self.matrix.columns, self.layout, m)
    }

    /// Whether the weights are ready as tiles of B.
    fn is_stored(&self) -> bool {
        self.panels.is_some() && self.wanted.is_none()
    }

    /// How many rows of x a task should take, or `None` when tasks should share x and take panels instead.
    ///
    /// Rows are better when there are enough of them: the converted rows stay in the cache of the core that uses
    /// them, and threads do not wait for each other. Weights that have to be decoded would be decoded by each task.
    fn rows_of_a_task(&self, m: usize) -> Option<usize> {
        let tasks = 2 * crate::threads::threads();
        [256, 128].into_iter().find(|rows| self.is_stored() && m.div_ceil(*rows) >= tasks)
    }

    /// The row of W behind an output; outputs that pad the last panel repeat the last one.
    fn row_of(&self, output: usize) -> usize {
        let output = output.min(self.outputs - 1);
        self.wanted.map_or(output, |wanted| wanted[output])
    }

    /// The part of a panel that belongs to some tiles along k, as tiles of B, in place or written into `room`.
    ///
    /// # Safety
    /// The level AMX is available and `room` has the bytes of that part.
    unsafe fn panel(&self, panel: usize, k_tiles: Range<usize>, room: *mut u8) -> *const u8 {
        match (self.panels, &self.matrix.storage) {
            (Some(panels), _) if self.wanted.is_none() => return panels.panel(panel, k_tiles.start),
            (Some(panels), _) => {
                for output in 0..PANEL {
                    let row = self.row_of(panel * PANEL + output);
                    // SAFETY: the caller's promise.
                    unsafe { panels.gather(row, k_tiles.clone(), room, output) };
                }
            }
            (None, Storage::Blocks(blocks)) => {
                // Whole blocks are whole tiles, so these columns exist.
                let columns = k_tiles.start * TILE_COLUMNS..k_tiles.end * TILE_COLUMNS;
                // SAFETY: the caller's promise.
                unsafe {
                    self.decode(blocks, panel, columns, room);
                    self.layout.with_k_tiles(k_tiles.len()).transpose(room);
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
    unsafe fn decode(&self, blocks: &Blocks, panel: usize, columns: Range<usize>, room: *mut u8) {
        if let (Some(interleaved), None) = (&blocks.interleaved, self.wanted) {
            let k_tiles = columns.start / TILE_COLUMNS..columns.end / TILE_COLUMNS;
            // SAFETY: the caller's promise; only matrices in plain bf16 are interleaved.
            unsafe { interleaved.expand(panel, k_tiles, room) };
            return;
        }
        let whole_blocks = |columns| blocks.kind.bytes_of(columns).expect("whole blocks");
        let bytes = whole_blocks(columns.start)..whole_blocks(columns.end);
        for output in 0..PANEL {
            let row = &blocks.row(self.row_of(panel * PANEL + output))[bytes.clone()];
            // The same columns a panel ahead: a mapped file is read from memory, which takes longer than decoding a row.
            let ahead = &blocks.row(self.row_of((panel + 1) * PANEL + output))[bytes.clone()];
            for line in ahead.chunks(64) {
                // SAFETY: a prefetch touches nothing, and the pointer is inside the slice.
                unsafe {
                    std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(
                        line.as_ptr().cast(),
                    )
                };
            }
            // SAFETY: the caller's promise; the slice holds exactly these columns.
            unsafe {
                let to = self.layout.row(room, output);
                let decode = if self.layout.split { row_to_split } else { row_to_bf16 };
                decode(blocks.kind, row.as_ptr(), columns.len(), to.first, to.k_step);
            }
        }
    }

    /// x as A: any number of rows. The estimate of the time is multiplied by `parallel`: 0 keeps to this thread.
    fn multiply_many(&self, x: RoundedPart<'_>, y: &mut [f32], parallel: f64) {
        let layout = self.layout;
        let RoundedPart { tiles: packed, layout: x_layout, tile_rows, m, .. } = x;
        let packed = Shared::new(packed.cast_mut());
        let x_tiles = m.div_ceil(16);
        let config = (0..4).chain(A).fold(TileConfig::FULL, |config, tile| config.tile(tile, tile_rows, 64));
        let y = Output { y: Shared::new(y.as_mut_ptr()), m, outputs: self.outputs, tile_rows };
        let panels = self.outputs.div_ceil(PANEL);
        let stored = self.is_stored();
        let piece = layout.with_k_tiles(layout.k_tiles.min(PIECE_TILES));
        let group = (CACHED_BYTES / piece.bytes()).max(1);
        let x_piece = CACHED_BYTES / (piece.k_tiles * x_layout.k_step);
        let x_piece = x_piece.max(2).next_multiple_of(2);
        share(panels, parallel * self.nanoseconds(m), |range| {
            let mut room = Scratch::with_bytes(if stored { 0 } else { group * piece.bytes() });
            let room_of = |i: usize| if stored { 0 } else { i * piece.bytes() };
            let room = room.as_mut_ptr();
            // SAFETY: the matrix was packed for AMX, so AMX is there; x's tiles are complete, panels have the bytes
            // of their layout, and tasks write different outputs.
            unsafe {
                let _tiles = Tiles::configure(&config);
                for group in chunks(range, group) {
                    for k_tiles in chunks(0..layout.k_tiles, PIECE_TILES) {
                        let weights: Vec<*const u8> = (0..group.len())
                            .map(|i| {
                                let room = room.add(room_of(i));
                                self.panel(group.start + i, k_tiles.clone(), room)
                            })
                            .collect();
                        for x_tiles in chunks(0..x_tiles, x_piece) {
                            for (panel, weights) in group.clone().zip(&weights) {
                                for pair in chunks(x_tiles.clone(), 2) {
                                    let at =
                                        pair.start * x_layout.tile_step + k_tiles.start * x_layout.k_step;
                                    let base = packed.get().add(at);
                                    let (row, output) = (pair.start * 16, panel * PANEL);
                                    if k_tiles.start == 0 && self.before == Before::Forgotten {
                                        clear(pair.len(), 2);
                                    } else {
                                        y.load_block(row, output, pair.len());
                                    }
                                    accumulate(
                                        (Operand { base, ..x_layout }, pair.len()),
                                        (layout.operand(*weights), 2),
                                        k_tiles.len(),
                                        layout.split,
                                        XIs::A,
                                    );
                                    y.store_block(row, output, pair.len());
                                }
                            }
                        }
                    }
                }
            }
        });
    }

    /// Weights as A: up to 32 rows of x, quantized weights.
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
        let y = Output { y: Shared::new(y.as_mut_ptr()), m, outputs: self.outputs, tile_rows: width[0] };
        let packed = Shared::new(room.as_mut_ptr());
        let is_interleaved = self.wanted.is_none() && blocks.interleaved.is_some();
        let piece_columns = if is_interleaved { SHORT_PIECE_COLUMNS } else { PIECE_COLUMNS };
        let piece = layout.with_k_tiles(piece_columns / TILE_COLUMNS);
        let panels = self.outputs.div_ceil(PANEL);
        share(panels, self.nanoseconds(m), |range| {
            let mut room = Scratch::with_bytes(piece.bytes());
            // SAFETY: as in `multiply_many`.
            unsafe {
                let _tiles = Tiles::configure(&config);
                for panel in range {
                    clear(2, x_tiles);
                    for columns in chunks(0..columns, piece_columns) {
                        self.decode(blocks, panel, columns.clone(), room.as_mut_ptr());
                        let k_tile = columns.start / TILE_COLUMNS;
                        let base = packed.get().add(k_tile * x_layout.k_step);
                        accumulate(
                            (layout.operand(room.as_mut_ptr()), 2),
                            (Operand { base, ..x_layout }, x_tiles),
                            columns.len() / TILE_COLUMNS,
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

/// `range` in pieces of `size`, the last one shorter.
fn chunks(range: Range<usize>, size: usize) -> impl Iterator<Item = Range<usize>> {
    let end = range.end;
    range.step_by(size).map(move |start| start..end.min(start + size))
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
