//! Weights as AMX tiles: panels of 32 outputs.
//!
//! A panel is, for each 32 columns, two tiles of 16 outputs (each followed by its remainder when split):
//! `[k tile][half][part][1,024 bytes]`. Stored panels hold tiles of B (pairs of columns down, outputs across).
//! Rows and columns that the matrix does not have are zero.

use super::TILE_BYTES;
use super::kernel::Operand;
use super::pack::{TILE_COLUMNS, TileRow, row_to_tiles, transpose};
use crate::matrix::Precision;
use crate::matrix::parallel::{Shared, share};
use crate::matrix::scratch::{CacheLine, Scratch};
use half::bf16;
use std::ops::Range;

/// Outputs of a panel.
pub(super) const PANEL: usize = 32;

/// The shape of a panel.
#[derive(Clone, Copy)]
pub(super) struct Layout {
    pub(super) k_tiles: usize,
    pub(super) split: bool,
}

impl Layout {
    pub(super) fn new(columns: usize, precision: Precision) -> Layout {
        Layout { k_tiles: columns.div_ceil(TILE_COLUMNS), split: precision == Precision::Bf16x3 }
    }

    /// The same for so many tiles along k.
    pub(super) fn with_k_tiles(self, k_tiles: usize) -> Layout {
        Layout { k_tiles, ..self }
    }

    pub(super) fn parts(self) -> usize {
        if self.split { 2 } else { 1 }
    }

    /// Bytes of both halves of one k.
    pub(super) fn k_step(self) -> usize {
        2 * self.parts() * TILE_BYTES
    }

    pub(super) fn bytes(self) -> usize {
        self.k_tiles * self.k_step()
    }

    /// Where the first tile of output `output` (of 32) begins.
    pub(super) fn half(self, output: usize) -> usize {
        output / 16 * self.parts() * TILE_BYTES
    }

    /// The row of output `output` (of 32) in a panel of tiles of A.
    ///
    /// # Safety
    /// `panel` has the bytes of this layout.
    pub(super) unsafe fn row(self, panel: *mut u8, output: usize) -> TileRow {
        TileRow {
            // SAFETY: the caller's promise.
            first: unsafe { panel.add(self.half(output) + output % 16 * 64) },
            k_step: self.k_step(),
            part_step: self.split.then_some(TILE_BYTES),
        }
    }

    /// A panel as one side of the tile product.
    pub(super) fn operand(self, panel: *const u8) -> Operand {
        Operand {
            base: panel,
            tile_step: self.half(16),
            k_step: self.k_step(),
            part_step: TILE_BYTES,
            row_step: 64,
        }
    }

    /// Turns a panel of tiles of A into tiles of B.
    ///
    /// # Safety
    /// The level AMX is available and `panel` has the bytes of this layout.
    pub(super) unsafe fn transpose(self, panel: *mut u8) {
        for tile in 0..self.bytes() / TILE_BYTES {
            // SAFETY: the caller's promise.
            unsafe { transpose(panel.add(tile * TILE_BYTES)) };
        }
    }
}

/// A whole matrix in panels.
pub(in crate::matrix) struct Panels {
    rows: usize,
    pub(super) layout: Layout,
    lines: Vec<CacheLine>,
}

impl Panels {
    /// Packs rows that `fill` writes as f32.
    ///
    /// The caller has checked that the level AMX is available.
    pub(in crate::matrix) fn pack(
        rows: usize,
        columns: usize,
        precision: Precision,
        fill: impl Fn(usize, &mut [f32]) + Sync,
    ) -> Panels {
        let mut panels = Panels::zeros(rows, columns, precision);
        let layout = panels.layout;
        let shared = Shared::new(panels.as_mut_ptr());
        share(rows.div_ceil(PANEL), (rows * columns) as f64, |range| {
            let mut room = Scratch::with_bytes(columns * 4);
            // SAFETY: the scratch is initialized and large enough.
            let values = unsafe { std::slice::from_raw_parts_mut(room.as_mut_ptr().cast::<f32>(), columns) };
            for panel in range {
                // SAFETY: every task writes its own panels, and AMX implies AVX-512 BF16.
                unsafe {
                    let at = shared.get().add(panel * layout.bytes());
                    for row in panel * PANEL..rows.min((panel + 1) * PANEL) {
                        fill(row, values);
                        row_to_tiles(values, layout.row(at, row % PANEL));
                    }
                    layout.transpose(at);
                }
            }
        });
        panels
    }

    /// A matrix of zeros.
    pub(super) fn zeros(rows: usize, columns: usize, precision: Precision) -> Panels {
        let layout = Layout::new(columns, precision);
        let lines = vec![CacheLine([0; 64]); rows.div_ceil(PANEL) * layout.bytes() / 64];
        Panels { rows, layout, lines }
    }

    pub(super) fn as_mut_ptr(&mut self) -> *mut u8 {
        self.lines.as_mut_ptr().cast()
    }

    pub(in crate::matrix) fn bytes(&self) -> usize {
        size_of_val(&self.lines[..])
    }

    /// Panel `panel` from tile `k_tile` on.
    pub(super) fn panel(&self, panel: usize, k_tile: usize) -> *const u8 {
        let at = panel * self.layout.bytes() + k_tile * self.layout.k_step();
        self.lines[at / 64..].as_ptr().cast()
    }

    /// The pairs of columns of row `row`: for each k tile, part and pair, a dword.
    fn pair(&self, row: usize, k_tile: usize, part: usize, pair: usize) -> u32 {
        assert!(row < self.rows && k_tile < self.layout.k_tiles && pair < 16);
        let at = row / PANEL * self.layout.bytes()
            + k_tile * self.layout.k_step()
            + self.layout.half(row % PANEL)
            + part * TILE_BYTES;
        let line = &self.lines[at / 64 + pair].0;
        let at = row % 16 * 4;
        u32::from_le_bytes([line[at], line[at + 1], line[at + 2], line[at + 3]])
    }

    /// See `Matrix::row`.
    pub(in crate::matrix) fn row(&self, row: usize, out: &mut [f32]) {
        let value = |pair: u32, side: usize| bf16::from_bits((pair >> (side * 16)) as u16).to_f32();
        for (k_tile, out) in out.chunks_mut(TILE_COLUMNS).enumerate() {
            for (pair, out) in out.chunks_mut(2).enumerate() {
                let high = self.pair(row, k_tile, 0, pair);
                let low = if self.layout.split { self.pair(row, k_tile, 1, pair) } else { 0 };
                for (side, out) in out.iter_mut().enumerate() {
                    *out = value(high, side) + value(low, side);
                }
            }
        }
    }

    /// Copies some tiles of row `row` to output `output` of another panel.
    ///
    /// # Safety
    /// `panel` has the bytes of this matrix's layout for so many tiles.
    pub(super) unsafe fn gather(&self, row: usize, k_tiles: Range<usize>, panel: *mut u8, output: usize) {
        let first = k_tiles.start;
        for k_tile in k_tiles {
            for part in 0..self.layout.parts() {
                for pair in 0..16 {
                    let at = (k_tile - first) * self.layout.k_step()
                        + self.layout.half(output)
                        + part * TILE_BYTES
                        + pair * 64
                        + output % 16 * 4;
                    // SAFETY: the caller's promise.
                    unsafe {
                        let at = panel.add(at).cast::<u32>();
                        at.write(self.pair(row, k_tile, part, pair).to_le());
                    }
                }
            }
        }
    }
}
