//! Products whose results are used while they are in the core's first cache: added to a residual, or gated and rounded for
//! the next product. What a layer computes in between is never whole in memory, which takes longer to write and read than
//! the products take.
//!
//! A block of 32 rows by 32 outputs is summed over all of k, then over its adapter's rank, gets its bias, and is used. Where rows are so
//! long that neither rows nor weights stay in the second cache, several blocks are summed piece by piece.

use super::kernel::{Operand, XIs, accumulate, clear, load, store};
use super::pack::{TILE_COLUMNS, row_to_tiles};
use super::panels::{PANEL, Panels};
use super::rounded::{RoundedPart, RoundedRows};
use super::{CACHED_BYTES, FEW_ROWS, PIECE_TILES, chunks, nanoseconds, stored};
use crate::amx::{TileConfig, Tiles};
use crate::cpu::Level;
use crate::matrix::parallel::{Shared, share};
use crate::matrix::scratch::Scratch;
use crate::matrix::{Activations, Matrix, Projection, Storage};
use crate::rows::{add_values, gelu_values, silu_values};
use std::ops::Range;

/// Values of a block.
const BLOCK: usize = PANEL * PANEL;
/// Rows of up to so many tiles are multiplied in one piece.
const WHOLE_TILES: usize = 64;

/// x · Wᵀ + low · Bᵀ + bias, where the last two are there.
pub(in crate::matrix) struct Sum<'a> {
    main: Term<'a>,
    bias: Option<&'a [f32]>,
    adapter: Option<Term<'a>>,
    outputs: usize,
}

/// One of its products.
struct Term<'a> {
    x: RoundedPart<'a>,
    panels: &'a Panels,
}

impl<'a> Sum<'a> {
    /// A projection of many rows; `low` are its adapter's. `None` if rows are few or weights not stored as tiles.
    pub(in crate::matrix) fn of(
        projection: &'a Projection<'_>,
        x: &'a Activations<'_>,
        low: Option<&'a Activations<'_>>,
    ) -> Option<Self> {
        let main = Term::of(projection.weights, x)?;
        let adapter = match (projection.adapter, low) {
            // Only sums over tiles go on from others: see [`Matrix::add_multiply`].
            (Some((_, b)), Some(low)) if matches!(b.storage, Storage::Tiles(_)) => Some(Term::of(b, low)?),
            (Some(_), _) => return None,
            (None, _) => None,
        };
        let outputs = projection.weights.rows();
        let bias = projection.bias.as_deref();
        assert!(
            bias.is_none_or(|bias| bias.len() == outputs),
            "a bias for each of {outputs} outputs expected"
        );
        if let Some(adapter) = &adapter {
            let (_, b) = projection.adapter.expect("an adapter has a term");
            assert_eq!((adapter.x.m, b.rows()), (main.x.m, outputs), "the adapter fits rows and outputs");
        }
        (main.x.m > FEW_ROWS).then_some(Self { main, bias, adapter, outputs })
    }
}

impl<'a> Term<'a> {
    fn of(matrix: &'a Matrix, x: &'a Activations<'_>) -> Option<Self> {
        let panels = stored(matrix)?;
        let x = x.tiles(panels.layout.split, matrix.columns)?.all();
        Some(Self { x, panels })
    }

    /// The tiles of C += some of k, for a pair of tiles of x and a panel.
    ///
    /// # Safety
    /// The tiles are configured, and these parts exist.
    unsafe fn accumulate(&self, pair: &Range<usize>, panel: usize, k_tiles: Range<usize>) {
        let layout = self.panels.layout;
        let at = pair.start * self.x.layout.tile_step + k_tiles.start * self.x.layout.k_step;
        let x = Operand { base: self.x.tiles.wrapping_add(at), ..self.x.layout };
        let weights = layout.operand(self.panels.panel(panel, k_tiles.start));
        // SAFETY: the caller's promise.
        unsafe { accumulate((x, pair.len()), (weights, 2), k_tiles.len(), layout.split, XIs::A) };
    }
}

/// y += the sum.
pub(in crate::matrix) fn add_to(sum: &Sum<'_>, y: &mut [f32]) {
    let (m, outputs) = (sum.main.x.m, sum.outputs);
    assert_eq!(y.len(), m * outputs, "y is not {m} rows of {outputs} outputs");
    let start = Shared::new(y.as_mut_ptr());
    for_blocks(std::array::from_ref(sum), |at, [block]| {
        // SAFETY: AVX-512 is there, and each task adds to outputs of its own, which exist.
        unsafe { add_block(block, start.get(), at, (m, outputs)) };
    });
}

/// silu(first sum) · second sum, value by value, as rows for the next product.
pub(in crate::matrix) fn gated(sums: [Sum<'_>; 2], split: bool) -> RoundedRows {
    let (m, outputs) = (sums[0].main.x.m, sums[0].outputs);
    let shape = |sum: &Sum<'_>| (sum.main.x.m, sum.outputs, sum.main.panels.layout.k_tiles);
    assert_eq!(shape(&sums[0]), shape(&sums[1]), "gate and up differ in shape");
    let mut rows = RoundedRows::room(m, outputs, split);
    let start = rows.start();
    for_blocks(&sums, |at, [gate, up]| {
        let values = at.rows * PANEL;
        // SAFETY: AVX-512 is there; the blocks have these values, and each task writes tiles of its own.
        unsafe {
            silu_values(Level::Amx, gate, std::slice::from_raw_parts(up, values), gate);
            round_block(gate, at, &rows, start);
        }
    });
    rows
}

/// gelu(sum), value by value, as rows for the next product.
pub(in crate::matrix) fn gelu(sum: &Sum<'_>, split: bool) -> RoundedRows {
    let mut rows = RoundedRows::room(sum.main.x.m, sum.outputs, split);
    let start = rows.start();
    for_blocks(std::array::from_ref(sum), |at, [block]| {
        // SAFETY: AVX-512 is there; the block has these values, and each task writes tiles of its own.
        unsafe {
            gelu_values(Level::Amx, std::slice::from_raw_parts_mut(block, at.rows * PANEL));
            round_block(block, at, &rows, start);
        }
    });
    rows
}

/// Which rows and outputs a block has.
#[derive(Clone, Copy)]
struct Place {
    row: usize,
    /// 16 or 32; those beyond the last are there, too.
    rows: usize,
    panel: usize,
}

/// Makes all blocks of the sums, which are as many and have the same rows, and calls `use_blocks` with each.
fn for_blocks<const N: usize>(sums: &[Sum<'_>; N], use_blocks: impl Fn(Place, [*mut f32; N]) + Sync) {
    let Sum { main: Term { x, panels }, outputs, .. } = &sums[0];
    let k_tiles = panels.layout.k_tiles;
    let piece_tiles = if k_tiles <= WHOLE_TILES { k_tiles } else { PIECE_TILES };
    // Panels and rows that stay in the second cache while they meet.
    let group = (CACHED_BYTES / N / panels.layout.with_k_tiles(piece_tiles).bytes()).max(1);
    let x_tiles = (CACHED_BYTES / (piece_tiles * x.layout.k_step)).max(2).next_multiple_of(2);
    let x_tiles = x_tiles.min(x.m.div_ceil(16).next_multiple_of(2));
    // Blocks that are waiting for the rest of k.
    let waiting = if piece_tiles == k_tiles { 1 } else { group * x_tiles / 2 };
    let weights = N * outputs * k_tiles * TILE_COLUMNS;
    share(outputs.div_ceil(PANEL), nanoseconds(weights, panels.layout, x.m), |range| {
        let mut room = Scratch::with_bytes(waiting * N * BLOCK * 4);
        let room = room.as_mut_ptr().cast::<f32>();
        // SAFETY: the weights are packed for AMX, so AMX is there; rows and panels are complete, and the room holds
        // all blocks.
        unsafe {
            let block = |number: usize| room.add(number % (waiting * N) * BLOCK);
            let _tiles = Tiles::configure(&TileConfig::FULL);
            for group in chunks(range, group) {
                for x_tiles in chunks(0..x.m.div_ceil(16), x_tiles) {
                    for piece in chunks(0..k_tiles, piece_tiles) {
                        let mut number = 0;
                        for panel in group.clone() {
                            for pair in chunks(x_tiles.clone(), 2) {
                                let blocks = std::array::from_fn(|sum| block(number + sum));
                                number += N;
                                for (sum, block) in sums.iter().zip(blocks) {
                                    sum.add_piece(&pair, panel, &piece, block);
                                }
                                if piece.end == k_tiles {
                                    use_blocks(
                                        Place { row: pair.start * 16, rows: pair.len() * 16, panel },
                                        blocks,
                                    );
                                }
                            }
                        }
                    }
                }
            }
        }
    });
}

impl Sum<'_> {
    /// Adds some of k to a block; after the last of it the adapter's product, and then the bias.
    ///
    /// # Safety
    /// The level AMX is available, the tiles are configured, and the block is there.
    unsafe fn add_piece(&self, pair: &Range<usize>, panel: usize, piece: &Range<usize>, block: *mut f32) {
        let is_last = piece.end == self.main.panels.layout.k_tiles;
        // SAFETY: the caller's promise; the bias has values for all outputs, and the block rows of a panel's width.
        unsafe {
            if piece.start == 0 {
                clear(pair.len(), 2);
            } else {
                for (i, j, tile) in tiles(block, pair.len()) {
                    load(i, j, tile, PANEL * 4);
                }
            }
            self.main.accumulate(pair, panel, piece.clone());
            if let (true, Some(adapter)) = (is_last, &self.adapter) {
                // A rank is small, so all of it is one piece.
                adapter.accumulate(pair, panel, 0..adapter.panels.layout.k_tiles);
            }
            store_block(block, pair.len());
            if let (true, Some(bias)) = (is_last, self.bias) {
                let bias = &bias[panel * PANEL..self.outputs.min((panel + 1) * PANEL)];
                for row in 0..pair.len() * 16 {
                    let row = std::slice::from_raw_parts_mut(block.add(row * PANEL), bias.len());
                    add_values(Level::Amx, row, bias);
                }
            }
        }
    }
}

/// Where the tiles (i, j) of C lie in a block.
fn tiles(block: *mut f32, a_tiles: usize) -> impl Iterator<Item = (usize, usize, *mut f32)> {
    (0..a_tiles * 2).map(move |tile| {
        let (i, j) = (tile / 2, tile % 2);
        (i, j, block.wrapping_add(i * 16 * PANEL + j * 16))
    })
}

/// # Safety
/// The tiles are configured, and the block is there.
unsafe fn store_block(block: *mut f32, a_tiles: usize) {
    for (i, j, tile) in tiles(block, a_tiles) {
        // SAFETY: the caller's promise.
        unsafe { store(i, j, tile, PANEL * 4) };
    }
}

/// # Safety
/// AVX-512 is there, and `y` has m rows of so many outputs, of which no other task writes these.
#[target_feature(enable = "avx512f")]
unsafe fn add_block(block: *const f32, y: *mut f32, at: Place, (m, outputs): (usize, usize)) {
    let first = at.panel * PANEL;
    let width = PANEL.min(outputs - first);
    for row in 0..at.rows.min(m - at.row) {
        // SAFETY: the caller's promise.
        unsafe {
            let added = std::slice::from_raw_parts(block.add(row * PANEL), width);
            let y = std::slice::from_raw_parts_mut(y.add((at.row + row) * outputs + first), width);
            y.iter_mut().zip(added).for_each(|(y, added)| *y += added);
        }
    }
}

/// Rounds a block to the tiles of its rows. What stands for outputs that do not exist is arbitrary but finite: the next
/// matrix has zeros there.
///
/// # Safety
/// The level AMX is available, and no other task writes these tiles.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")]
unsafe fn round_block(block: *const f32, at: Place, rows: &RoundedRows, start: Shared<u8>) {
    for row in 0..at.rows {
        // SAFETY: the caller's promise.
        unsafe {
            let values = std::slice::from_raw_parts(block.add(row * PANEL), PANEL);
            row_to_tiles(values, rows.place(start, at.row + row, at.panel));
        }
    }
}
