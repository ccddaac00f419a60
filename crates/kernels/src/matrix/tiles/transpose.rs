//! Panels of Wᵀ from those of W.
//!
//! A panel of W is squares of 32 outputs by 32 columns, so panel p at k tile t is the transpose of panel t at
//! k tile p. Within a square, a line of a tile of B holds pairs along k: here two neighboring rows of W, woven.

use super::super::{Blocks, Matrix, Precision, Storage};
use super::TILE_BYTES;
use super::pack::weaves;
use super::panels::{Layout, PANEL, Panels};
use crate::blocks::avx512::{row_to_bf16, row_to_split};
use crate::matrix::parallel::{Shared, share};
use crate::matrix::scratch::Scratch;
use core::arch::x86_64::*;

/// See [`Matrix::transposed`]; the matrix is one of the AMX level.
pub(in crate::matrix) fn transposed(matrix: &Matrix) -> Panels {
    let from = match &matrix.storage {
        Storage::Tiles(panels) => panels.layout,
        Storage::Blocks(blocks) => Layout::new(matrix.columns, blocks.precision),
        _ => unreachable!("rows of f32 are transposed elsewhere"),
    };
    let precision = if from.split { Precision::Bf16x3 } else { Precision::Bf16 };
    let mut to = Panels::zeros(matrix.columns, matrix.rows, precision);
    let (layout, shared) = (to.layout, Shared::new(to.as_mut_ptr()));
    share(matrix.rows.div_ceil(PANEL), (matrix.rows * matrix.columns) as f64, |range| {
        let mut room = Scratch::with_bytes(from.bytes());
        let room = room.as_mut_ptr();
        for panel in range {
            // SAFETY: AMX implies the instructions; the room holds a panel; the square (k tile, panel) exists in the
            // transpose and belongs to this task.
            unsafe {
                match &matrix.storage {
                    Storage::Tiles(panels) => {
                        std::ptr::copy_nonoverlapping(panels.panel(panel, 0), room, from.bytes());
                        from.transpose(room);
                    }
                    Storage::Blocks(blocks) => decode(blocks, matrix, panel, from, room),
                    _ => unreachable!("rows of f32 are transposed elsewhere"),
                }
                for k_tile in 0..from.k_tiles {
                    let square = shared.get().add(k_tile * layout.bytes() + panel * layout.k_step());
                    weave_square(room.add(k_tile * from.k_step()), square, from.parts());
                }
            }
        }
    });
    to
}

/// The rows of a panel as tiles of A, zeros where there are no more rows.
///
/// # Safety
/// The level AMX is available and `room` has the bytes of a panel.
unsafe fn decode(blocks: &Blocks, matrix: &Matrix, panel: usize, layout: Layout, room: *mut u8) {
    let rows = PANEL.min(matrix.rows - panel * PANEL);
    // SAFETY: the caller's promise; a row of blocks is as long as a row of the matrix.
    unsafe {
        if rows < PANEL {
            room.write_bytes(0, layout.bytes());
        }
        for i in 0..rows {
            let to = layout.row(room, i);
            let decode = if layout.split { row_to_split } else { row_to_bf16 };
            decode(blocks.kind, blocks.row(panel * PANEL + i).as_ptr(), matrix.columns, to.first, to.k_step);
        }
    }
}

/// From the two tiles of A of 32 rows by 32 columns (each with its parts) to the tiles of B of the transpose.
///
/// # Safety
/// AVX-512 BW is available; both squares hold 2 · `parts` tiles.
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn weave_square(from: *const u8, to: *mut u8, parts: usize) {
    let (low, high) = weaves();
    for part in 0..parts {
        for pair in 0..16 {
            // Rows 2 · pair and 2 · pair + 1 of the square, of whose tiles each has sixteen.
            let at = (pair / 8 * parts + part) * TILE_BYTES + pair % 8 * 128;
            // SAFETY: the caller's promise.
            unsafe {
                let even = _mm512_loadu_si512(from.add(at).cast());
                let odd = _mm512_loadu_si512(from.add(at + 64).cast());
                let line = to.add(part * TILE_BYTES + pair * 64);
                _mm512_storeu_si512(line.cast(), _mm512_permutex2var_epi16(even, low, odd));
                let line = line.add(parts * TILE_BYTES);
                _mm512_storeu_si512(line.cast(), _mm512_permutex2var_epi16(even, high, odd));
            }
        }
    }
}
