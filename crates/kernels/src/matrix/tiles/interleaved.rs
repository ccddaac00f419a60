//! Quantized weights regrouped for AMX: the blocks of 32 rows lie together, in the order in which tiles are filled.
//!
//! ggml's blocks are scales and codes by turns, and expanding one costs more for taking it apart than for its weights.
//! Here a *cell* holds the 32 blocks that fill two tiles (32 rows, 32 columns), whole cache lines of each sort:
//!
//! | kind | codes                                                             | then, f16 for each row |
//! |------|-------------------------------------------------------------------|------------------------|
//! | Q4_1 | for each four rows a word per column, the first row's code lowest | scales, minimums       |
//! | Q8_0 | 32 signed bytes for each row                                      | scales                 |
//!
//! A panel is its cells along k, so a product reads one stream from its first byte to its last. The expanded
//! weights have the bits of `blocks::avx512`. Other kinds are expanded from the file's blocks.

use super::TILE_BYTES;
use super::pack::TILE_COLUMNS;
use super::panels::PANEL;
use crate::amx::to_bf16;
use crate::blocks::BlockKind;
use crate::blocks::avx512::codes_from;
use crate::matrix::parallel::{Shared, share};
use crate::matrix::scratch::CacheLine;
use core::arch::x86_64::*;
use std::ops::Range;

/// How far ahead of its use memory is fetched: as long as its latency takes, and not more than the first-level cache spares.
const BYTES_AHEAD: usize = 4096;

/// The kinds that have an interleaved form.
#[derive(Clone, Copy)]
enum Kind {
    Q4_1,
    Q8_0,
}

impl Kind {
    fn of(kind: BlockKind) -> Option<Kind> {
        match kind {
            BlockKind::Q4_1 => Some(Kind::Q4_1),
            BlockKind::Q8_0 => Some(Kind::Q8_0),
            _ => None,
        }
    }

    fn code_bytes(self) -> usize {
        match self {
            Kind::Q4_1 => PANEL * TILE_COLUMNS / 2,
            Kind::Q8_0 => PANEL * TILE_COLUMNS,
        }
    }

    fn cell_bytes(self) -> usize {
        let numbers = match self {
            Kind::Q4_1 => 2,
            Kind::Q8_0 => 1,
        };
        self.code_bytes() + numbers * PANEL * 2
    }

    /// Puts the block of row `row` (of 32) into its cell, which was zero there.
    fn insert(self, block: &[u8], row: usize, cell: &mut [u8]) {
        let (codes, numbers) = cell.split_at_mut(self.code_bytes());
        numbers[row * 2..][..2].copy_from_slice(&block[..2]);
        match self {
            Kind::Q4_1 => {
                numbers[(PANEL + row) * 2..][..2].copy_from_slice(&block[2..4]);
                let words = &mut codes[row / 4 * 64..][..64];
                let (byte, shift) = (row % 4 / 2, row % 2 * 4);
                for (column, pair) in block[4..].iter().enumerate() {
                    words[column * 2 + byte] |= (pair & 15) << shift;
                    words[(column + 16) * 2 + byte] |= (pair >> 4) << shift;
                }
            }
            Kind::Q8_0 => codes[row * 32..][..32].copy_from_slice(&block[2..]),
        }
    }

    /// Fills the two tiles of A at `tiles` from a cell.
    ///
    /// # Safety
    /// AVX-512 F, BW and BF16 are there; `cell` has the bytes of a cell and `tiles` those of two tiles.
    #[inline(always)]
    unsafe fn expand(self, cell: *const u8, tiles: *mut u8) {
        // SAFETY: the caller's promise.
        unsafe {
            match self {
                Kind::Q4_1 => expand_q4_1(cell, cell.add(self.code_bytes()), tiles),
                Kind::Q8_0 => expand_q8_0(cell, cell.add(self.code_bytes()), tiles),
            }
        }
    }
}

/// A whole matrix, its last panel filled up with copies of the last row.
pub(in crate::matrix) struct Interleaved {
    kind: Kind,
    k_tiles: usize,
    lines: Vec<CacheLine>,
}

impl Interleaved {
    /// Regroups the blocks that `row` returns for each of `rows` rows, or `None` for kinds that stay as they are.
    pub(in crate::matrix) fn new<'a>(
        kind: BlockKind,
        (rows, columns): (usize, usize),
        row: impl Fn(usize) -> &'a [u8] + Sync,
    ) -> Option<Interleaved> {
        let block_bytes = kind.block_bytes();
        let kind = Kind::of(kind)?;
        let k_tiles = columns / TILE_COLUMNS;
        let panels = rows.div_ceil(PANEL);
        let panel_bytes = k_tiles * kind.cell_bytes();
        let mut lines = vec![CacheLine([0; 64]); panels * panel_bytes / 64];
        let shared = Shared::new(lines.as_mut_ptr().cast::<u8>());
        share(panels, (rows * columns) as f64, |range| {
            for panel in range {
                // SAFETY: the lines are as many as the panels need, and every task writes its own panels.
                let cells = unsafe {
                    std::slice::from_raw_parts_mut(shared.get().add(panel * panel_bytes), panel_bytes)
                };
                for output in 0..PANEL {
                    let blocks = row((panel * PANEL + output).min(rows - 1)).chunks_exact(block_bytes);
                    for (block, cell) in blocks.zip(cells.chunks_exact_mut(kind.cell_bytes())) {
                        kind.insert(block, output, cell);
                    }
                }
            }
        });
        Some(Interleaved { kind, k_tiles, lines })
    }

    pub(in crate::matrix) fn bytes(&self) -> usize {
        size_of_val(&self.lines[..])
    }

    /// Expands some tiles along k of a panel into tiles of A.
    ///
    /// # Safety
    /// The level AMX is available and `room` has two tiles for each of `k_tiles`, which the matrix has.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,f16c")]
    pub(super) unsafe fn expand(&self, panel: usize, k_tiles: Range<usize>, room: *mut u8) {
        let cell_bytes = self.kind.cell_bytes();
        let first = (panel * self.k_tiles + k_tiles.start) * cell_bytes;
        let cells = &self.lines[first / 64..][..k_tiles.len() * cell_bytes / 64];
        for (index, cell) in cells.chunks_exact(cell_bytes / 64).enumerate() {
            for line in cell {
                // A prefetch may name any address, so the end of the matrix needs no care.
                _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(line).wrapping_byte_add(BYTES_AHEAD).cast());
            }
            // SAFETY: the caller's promise, and the cell is a whole one.
            unsafe { self.kind.expand(cell.as_ptr().cast(), room.add(index * 2 * TILE_BYTES)) };
        }
    }
}

/// 32 numbers of f16 as f32, in memory: from there each is broadcast by the load unit, while taking it out of a register
/// would cost the unit that looks weights up.
///
/// # Safety
/// AVX-512 F is there and 64 bytes are readable.
#[inline(always)]
unsafe fn halves(at: *const u8) -> [f32; PANEL] {
    let mut numbers = [0f32; PANEL];
    // SAFETY: the caller's promise.
    unsafe {
        for half in [0, 16] {
            let sixteen = _mm256_loadu_si256(at.add(half * 2).cast());
            _mm512_storeu_ps(numbers.as_mut_ptr().add(half), _mm512_cvtph_ps(sixteen));
        }
    }
    // Hides from the compiler that it could keep them in registers.
    std::hint::black_box(numbers)
}

/// As a row's codes share a scale, the value of each of the 16 codes is computed once and weights are looked up.
///
/// # Safety
/// That of [`Kind::expand`].
#[inline(always)]
unsafe fn expand_q4_1(codes: *const u8, numbers: *const u8, tiles: *mut u8) {
    // SAFETY: the caller's promise.
    unsafe {
        let scales = halves(numbers);
        let minimums = halves(numbers.add(PANEL * 2));
        for four in 0..PANEL / 4 {
            let codes = _mm512_loadu_si512(codes.add(four * 64).cast());
            // The table is there twice, so whatever lies above a code's four bits does not matter.
            let shifted = [
                codes,
                _mm512_srli_epi16::<4>(codes),
                _mm512_srli_epi16::<8>(codes),
                _mm512_srli_epi16::<12>(codes),
            ];
            for (row, codes) in shifted.into_iter().enumerate() {
                let row = four * 4 + row;
                let scaled = _mm512_mul_ps(_mm512_set1_ps(scales[row]), codes_from(0.0));
                let table = _mm512_add_ps(scaled, _mm512_set1_ps(minimums[row]));
                let weights = _mm512_permutexvar_epi16(codes, to_bf16(table, table));
                _mm512_storeu_si512(tiles.add(row * 64).cast(), weights);
            }
        }
    }
}

/// # Safety
/// That of [`Kind::expand`].
#[inline(always)]
unsafe fn expand_q8_0(codes: *const u8, numbers: *const u8, tiles: *mut u8) {
    // SAFETY: the caller's promise.
    unsafe {
        let scales = halves(numbers);
        for (row, scale) in scales.iter().enumerate() {
            let scale = _mm512_set1_ps(*scale);
            let sixteen = |at: usize| {
                let bytes = _mm_loadu_si128(codes.add(row * 32 + at).cast());
                _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes)), scale)
            };
            let weights = to_bf16(sixteen(0), sixteen(16));
            _mm512_storeu_si512(tiles.add(row * 64).cast(), weights);
        }
    }
}
