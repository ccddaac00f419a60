//! out += dYᵀ · X on AMX.
//!
//! The sums run over rows, so rows are the pairs of a tile: two rows woven are a line of a tile of B as they come,
//! and the transpose of such a tile is one of A. All of dY becomes tiles of A first; then each task packs its
//! columns of X as tiles of B, a piece of the rows at a time, and lets all outputs pass over them.

use super::kernel::{A, Operand, XIs, accumulate};
use super::output::Output;
use super::pack::{transpose, weave};
use super::panels::PANEL;
use super::{TILE_BYTES, chunks};
use crate::amx::{TileConfig, Tiles};
use crate::matrix::Precision;
use crate::matrix::gradient::{Sides, piece, pieces_of_outputs};
use crate::matrix::parallel::{Shared, share};
use crate::matrix::scratch::Scratch;

/// Rows of dY that are packed at once; more are worked off in turn.
const SLAB: usize = 2048;
/// Rows of X that are packed before they are multiplied: tiles of 32 rows.
const PIECE_TILES: usize = 16;
/// Panels of 32 columns of X that a task packs together, so that a pair of tiles of dY is read less often.
const GROUP: usize = 8;
/// Rows of a tile.
const TILE_ROWS: usize = 32;

/// See [`gradient`](crate::matrix::gradient::gradient); the level AMX is there.
pub(in crate::matrix) fn gradient(sides: &Sides, precision: Precision, out: &mut [f32]) {
    let Sides { dy, x, rows, n, k } = *sides;
    for first in (0..rows).step_by(SLAB) {
        let rows = SLAB.min(rows - first);
        let slab = Sides { dy: &dy[first * n..][..rows * n], x: &x[first * k..][..rows * k], rows, n, k };
        add_slab(&slab, precision == Precision::Bf16x3, out);
    }
}

fn add_slab(sides: &Sides, split: bool, out: &mut [f32]) {
    let Sides { dy, x, rows, n, k } = *sides;
    let parts = if split { 2 } else { 1 };
    let (n_tiles, row_tiles) = (n.div_ceil(16), rows.div_ceil(TILE_ROWS));
    let a_layout = Operand {
        base: std::ptr::null(),
        tile_step: row_tiles * parts * TILE_BYTES,
        k_step: parts * TILE_BYTES,
        part_step: TILE_BYTES,
        row_step: 64,
    };
    let mut room = Scratch::with_bytes(n_tiles * a_layout.tile_step);
    let packed = Shared::new(room.as_mut_ptr());
    share(row_tiles, (rows * n) as f64 * 0.5, |range| {
        for row_tile in range {
            for n_tile in 0..n_tiles {
                // SAFETY: every task writes its own tiles.
                unsafe {
                    let to = packed.get().add(n_tile * a_layout.tile_step + row_tile * a_layout.k_step);
                    weave((dy, rows, n), row_tile * TILE_ROWS, n_tile * 16, split, to);
                    for part in 0..parts {
                        transpose(to.add(part * TILE_BYTES));
                    }
                }
            }
        }
    });

    let tile_rows = n.min(16);
    let config = (0..4).chain(A).fold(TileConfig::FULL, |config, tile| config.tile(tile, tile_rows, 64));
    let y = Output { y: Shared::new(out.as_mut_ptr()), m: n, outputs: k, tile_rows };
    let b_layout = Operand { tile_step: parts * TILE_BYTES, k_step: 2 * parts * TILE_BYTES, ..a_layout };
    let panel_bytes = PIECE_TILES * b_layout.k_step;
    let (panels, pairs) = (k.div_ceil(PANEL), n_tiles.div_ceil(2));
    // A group of panels is one task, unless that leaves threads idle.
    let group = GROUP.min(panels.div_ceil(2 * crate::threads::threads())).max(1);
    let groups = panels.div_ceil(group);
    let pieces = pieces_of_outputs(pairs, groups);
    let nanoseconds = (rows * n * k) as f64 / if split { 150.0 } else { 400.0 } + (rows * k) as f64 * 0.3;
    share(groups * pieces, nanoseconds, |range| {
        let mut room = Scratch::with_bytes(group * panel_bytes);
        let room = room.as_mut_ptr();
        for task in range {
            let panels = task / pieces * group..panels.min((task / pieces + 1) * group);
            let pairs = piece(pairs, pieces, task % pieces);
            // SAFETY: AMX is there; all tiles are packed before they are read, and tasks add to different outputs.
            unsafe {
                let _tiles = Tiles::configure(&config);
                for row_tiles in chunks(0..row_tiles, PIECE_TILES) {
                    for (i, panel) in panels.clone().enumerate() {
                        for (at, row_tile) in row_tiles.clone().enumerate() {
                            for half in 0..2 {
                                let to = room
                                    .add(i * panel_bytes + at * b_layout.k_step + half * b_layout.tile_step);
                                let column = panel * PANEL + half * 16;
                                weave((x, rows, k), row_tile * TILE_ROWS, column, split, to);
                            }
                        }
                    }
                    for pair in pairs.clone() {
                        let tiles = (n_tiles - pair * 2).min(2);
                        let at = pair * 2 * a_layout.tile_step + row_tiles.start * a_layout.k_step;
                        let a = Operand { base: packed.get().add(at), ..a_layout };
                        for (i, panel) in panels.clone().enumerate() {
                            let b = Operand { base: room.add(i * panel_bytes), ..b_layout };
                            y.load_block(pair * 32, panel * PANEL, tiles);
                            accumulate((a, tiles), (b, 2), row_tiles.len(), split, XIs::B);
                            y.store_block(pair * 32, panel * PANEL, tiles);
                        }
                    }
                }
            }
        }
    });
}
