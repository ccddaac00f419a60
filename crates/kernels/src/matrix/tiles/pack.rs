//! Tiles in memory: rows of f32 into bf16 tiles, and the transpose that makes a tile of A one of B.

use super::TILE_BYTES;
use crate::amx::to_bf16;
use crate::blocks::avx512::to_split;
use core::arch::x86_64::*;

/// Columns of a tile.
pub(crate) const TILE_COLUMNS: usize = 32;

/// Where the 64-byte rows of consecutive tiles go.
#[derive(Clone, Copy)]
pub(crate) struct TileRow {
    pub(crate) first: *mut u8,
    /// Bytes from one tile to the next along k.
    pub(crate) k_step: usize,
    /// Bytes from the main part to the remainder; `None` keeps no remainder.
    pub(crate) part_step: Option<usize>,
}

/// Rounds a row of f32 into one row of consecutive tiles; the last tile is padded with zeros.
///
/// # Safety
/// The level AMX is available, and all the tile rows are writable.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")]
pub(crate) unsafe fn row_to_tiles(values: &[f32], to: TileRow) {
    for (index, chunk) in values.chunks(TILE_COLUMNS).enumerate() {
        // SAFETY: masked loads stay within the chunk; the caller promises the destination.
        unsafe {
            let mask = (1u64 << chunk.len()) - 1;
            let low = _mm512_maskz_loadu_ps(mask as u16, chunk.as_ptr());
            let high = _mm512_maskz_loadu_ps((mask >> 16) as u16, chunk.as_ptr().wrapping_add(16));
            let at = to.first.add(index * to.k_step);
            match to.part_step {
                None => _mm512_storeu_si512(at.cast(), to_bf16(low, high)),
                Some(step) => {
                    let (main, rest) = to_split(low, high);
                    _mm512_storeu_si512(at.cast(), main);
                    _mm512_storeu_si512(at.add(step).cast(), rest);
                }
            }
        }
    }
}

/// Transposes 16×16 dwords in place, rows 64 bytes apart.
///
/// # Safety
/// AVX-512 is available and the 1,024 bytes are readable and writable.
#[target_feature(enable = "avx512f")]
pub(crate) unsafe fn transpose(tile: *mut u8) {
    // SAFETY: the caller's promise.
    unsafe {
        let tile = tile.cast::<i32>();
        let r: [__m512i; 16] = core::array::from_fn(|i| _mm512_loadu_si512(tile.add(i * 16).cast()));
        // Pairs of rows, then pairs of pairs: afterwards lane l of row (4q + c) is column 4l + c of rows 4q…4q+3.
        let mut s = [_mm512_setzero_si512(); 16];
        for q in 0..4 {
            let a = _mm512_unpacklo_epi32(r[4 * q], r[4 * q + 1]);
            let b = _mm512_unpackhi_epi32(r[4 * q], r[4 * q + 1]);
            let c = _mm512_unpacklo_epi32(r[4 * q + 2], r[4 * q + 3]);
            let d = _mm512_unpackhi_epi32(r[4 * q + 2], r[4 * q + 3]);
            s[4 * q] = _mm512_unpacklo_epi64(a, c);
            s[4 * q + 1] = _mm512_unpackhi_epi64(a, c);
            s[4 * q + 2] = _mm512_unpacklo_epi64(b, d);
            s[4 * q + 3] = _mm512_unpackhi_epi64(b, d);
        }
        // Then the 4×4 transpose of 128-bit lanes.
        for c in 0..4 {
            let a = _mm512_shuffle_i32x4::<0x88>(s[c], s[4 + c]);
            let b = _mm512_shuffle_i32x4::<0xdd>(s[c], s[4 + c]);
            let e = _mm512_shuffle_i32x4::<0x88>(s[8 + c], s[12 + c]);
            let f = _mm512_shuffle_i32x4::<0xdd>(s[8 + c], s[12 + c]);
            let columns = [
                _mm512_shuffle_i32x4::<0x88>(a, e),
                _mm512_shuffle_i32x4::<0x88>(b, f),
                _mm512_shuffle_i32x4::<0xdd>(a, e),
                _mm512_shuffle_i32x4::<0xdd>(b, f),
            ];
            for (lane, column) in columns.into_iter().enumerate() {
                _mm512_storeu_si512(tile.add((4 * lane + c) * 16).cast(), column);
            }
        }
    }
}

/// A tile of B: 32 rows from `first` on, woven in pairs, by sixteen columns from `column` on; its remainder follows
/// when it is split. Rows and columns that do not exist are zero.
///
/// # Safety
/// The level AMX is available and `to` has room for the tile and its remainder.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")]
pub(crate) unsafe fn weave(
    (values, rows, width): (&[f32], usize, usize),
    first: usize,
    column: usize,
    split: bool,
    to: *mut u8,
) {
    let order = weave_order(0, 16);
    let count = width.saturating_sub(column).min(16);
    let mask = ((1u32 << count) - 1) as __mmask16;
    let line = |row: usize| {
        let mask = if row < rows { mask } else { 0 };
        // SAFETY: masked lanes are not read; the others exist.
        unsafe { _mm512_maskz_loadu_ps(mask, values.as_ptr().wrapping_add(row * width + column)) }
    };
    for pair in 0..16 {
        let (even, odd) = (line(first + 2 * pair), line(first + 2 * pair + 1));
        // SAFETY: the caller's promise.
        unsafe {
            let at = to.add(pair * 64);
            if split {
                let (main, rest) = to_split(even, odd);
                _mm512_storeu_si512(at.cast(), _mm512_permutexvar_epi16(order, main));
                _mm512_storeu_si512(at.add(TILE_BYTES).cast(), _mm512_permutexvar_epi16(order, rest));
            } else {
                _mm512_storeu_si512(at.cast(), _mm512_permutexvar_epi16(order, to_bf16(even, odd)));
            }
        }
    }
}

/// Orders that weave two rows of 32 bf16 into pairs: of the first sixteen columns, and of the others.
#[inline]
#[target_feature(enable = "avx512f")]
pub(crate) fn weaves() -> (__m512i, __m512i) {
    (weave_order(0, 32), weave_order(16, 32))
}

/// The order that weaves sixteen bf16 from `first` on with those `apart` behind them.
#[inline]
#[target_feature(enable = "avx512f")]
pub(crate) fn weave_order(first: u16, apart: u16) -> __m512i {
    let mut order = [0u16; 32];
    for i in 0..16 {
        order[2 * i] = first + i as u16;
        order[2 * i + 1] = first + i as u16 + apart;
    }
    // SAFETY: both are 64 bytes.
    unsafe { core::mem::transmute::<[u16; 32], __m512i>(order) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transposing_swaps_rows_and_columns() {
        if !is_x86_feature_detected!("avx512f") {
            return;
        }
        let mut tile: Vec<u32> = (0..256).collect();
        // SAFETY: AVX-512 is there and the tile is 1,024 bytes.
        unsafe { transpose(tile.as_mut_ptr().cast()) };
        for (at, value) in tile.iter().enumerate() {
            assert_eq!(*value as usize, at % 16 * 16 + at / 16);
        }
    }
}
