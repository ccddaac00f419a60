//! The tile instructions and the rounding to bf16 in plain Rust, so that what is written for AMX is tested on machines
//! with AVX-512 alone. Bit for bit what the processor does, as Intel's manual defines it: see the test beside the
//! instructions, which compares the two where both are there.

use super::TileConfig;
use std::cell::RefCell;

/// Rows of a tile, and bytes of a row.
const ROWS: usize = 16;
const ROW_BYTES: usize = 64;

struct State {
    config: TileConfig,
    tiles: [[[u8; ROW_BYTES]; ROWS]; 8],
}

thread_local! {
    static STATE: RefCell<State> =
        const { RefCell::new(State { config: TileConfig::EMPTY, tiles: [[[0; ROW_BYTES]; ROWS]; 8] }) };
}

impl State {
    /// Rows of a tile, and bytes of each.
    fn shape(&self, tile: usize) -> (usize, usize) {
        let shape = (usize::from(self.config.rows[tile]), usize::from(self.config.row_bytes[tile]));
        assert!(shape.0 > 0 && shape.1 > 0, "tile {tile} has no shape");
        shape
    }
}

/// `ldtilecfg`, and with an empty configuration `tilerelease`.
pub(super) fn configure(config: &TileConfig) {
    STATE.with_borrow_mut(|state| {
        state.config = *config;
        state.tiles = [[[0; ROW_BYTES]; ROWS]; 8];
    });
}

pub(super) fn zero(tile: usize) {
    STATE.with_borrow_mut(|state| {
        state.shape(tile);
        state.tiles[tile] = [[0; ROW_BYTES]; ROWS];
    });
}

/// # Safety
/// That of [`super::tile_load`].
pub(super) unsafe fn load(tile: usize, base: *const u8, stride: usize) {
    STATE.with_borrow_mut(|state| {
        let (rows, bytes) = state.shape(tile);
        state.tiles[tile] = [[0; ROW_BYTES]; ROWS];
        for (row, to) in state.tiles[tile][..rows].iter_mut().enumerate() {
            // SAFETY: the caller's promise.
            unsafe { std::ptr::copy_nonoverlapping(base.wrapping_add(row * stride), to.as_mut_ptr(), bytes) };
        }
    });
}

/// # Safety
/// That of [`super::tile_store`].
pub(super) unsafe fn store(tile: usize, base: *mut u8, stride: usize) {
    STATE.with_borrow(|state| {
        let (rows, bytes) = state.shape(tile);
        for (row, from) in state.tiles[tile][..rows].iter().enumerate() {
            // SAFETY: the caller's promise.
            unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), base.wrapping_add(row * stride), bytes) };
        }
    });
}

/// `tdpbf16ps`.
pub(super) fn multiply(c: usize, a: usize, b: usize) {
    STATE.with_borrow_mut(|state| {
        let ((rows, inner), (pairs, width)) = (state.shape(a), state.shape(b));
        assert_eq!(state.shape(c), (rows, width), "C has the rows of A and the columns of B");
        assert_eq!(pairs * 4, inner, "B has a row for each pair of A's columns");
        assert!(c != a && c != b && a != b, "three tiles");
        let (left, right) = (state.tiles[a], state.tiles[b]);
        // SAFETY: emulation stands for AMX on processors with AVX-512, which have FMA.
        unsafe { add_products(&left[..rows], &right[..pairs], &mut state.tiles[c]) };
    });
}

/// What lies beyond the columns of C is zero in B, and stays so.
///
/// # Safety
/// The processor has AVX-512 F.
#[target_feature(enable = "avx512f")]
unsafe fn add_products(
    left: &[[u8; ROW_BYTES]],
    right: &[[u8; ROW_BYTES]],
    sums: &mut [[u8; ROW_BYTES]; ROWS],
) {
    let mut factors = [[[0f32; ROWS]; 2]; ROWS];
    for (factors, row) in factors.iter_mut().zip(right) {
        for (half, factors) in factors.iter_mut().enumerate() {
            for (factor, pair) in factors.iter_mut().zip(row.chunks_exact(4)) {
                *factor = bf16(pair, half);
            }
        }
    }
    for (left, sums) in left.iter().zip(sums) {
        let mut totals = [[0f32; ROWS]; 2];
        for (pair, right) in left.chunks_exact(4).zip(&factors[..right.len()]) {
            for (half, (totals, right)) in totals.iter_mut().zip(right).enumerate() {
                let factor = bf16(pair, half);
                for (total, right) in totals.iter_mut().zip(right) {
                    *total = flushed(factor.mul_add(*right, *total));
                }
            }
        }
        for (column, sum) in sums.chunks_exact_mut(4).enumerate() {
            let added = flushed(totals[0][column] + totals[1][column]);
            let before = flushed(f32::from_le_bytes([sum[0], sum[1], sum[2], sum[3]]));
            sum.copy_from_slice(&flushed(before + added).to_le_bytes());
        }
    }
}

/// One of a pair of bf16 numbers.
#[inline(always)]
fn bf16(pair: &[u8], half: usize) -> f32 {
    flushed(f32::from_bits(u32::from_le_bytes([0, 0, pair[half * 2], pair[half * 2 + 1]])))
}

/// Subnormal numbers count as zero.
#[inline(always)]
fn flushed(value: f32) -> f32 {
    if value.abs() < f32::MIN_POSITIVE { 0f32.copysign(value) } else { value }
}

/// `vcvtneps2bf16`: to the nearest, ties to even.
pub(crate) fn rounded(value: f32) -> u16 {
    let bits = flushed(value).to_bits();
    if value.is_nan() {
        return (bits >> 16) as u16 | 0x40;
    }
    ((bits + 0x7fff + (bits >> 16 & 1)) >> 16) as u16
}
