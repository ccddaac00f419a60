//! Products of four rows and up to four queries in AVX-512: sixteen sums of sixteen lanes stay in registers, and are
//! added up together, so that a product costs three instructions at its end instead of eight.

use std::arch::x86_64::*;

use super::{Scan, TILE};

/// Floats in a register.
const LANES: usize = 16;
/// Rows whose sums run side by side.
const ROWS: usize = 4;
/// Bytes between what is read and what is fetched for later: a few queries wait for memory, not for products.
const AHEAD: usize = 4096;

/// The products of [`super::scan`].
#[target_feature(enable = "avx512f")]
pub(super) fn run(scan: Scan) {
    match scan.queries.len() {
        0 => {}
        1 => tiles::<1>(scan),
        2 => tiles::<2>(scan),
        _ => tiles::<4>(scan),
    }
}

/// `Q` queries and `16 / Q` rows make a register of products.
#[target_feature(enable = "avx512f")]
fn tiles<const Q: usize>(scan: Scan) {
    let Scan { rows, dimension, queries, floors, found } = scan;
    let (count, at_once) = (rows.len() / dimension, LANES / Q);
    let mut taken = [queries[0]; Q];
    taken[..queries.len()].copy_from_slice(queries);
    // Whatever is compared with NaN is not found: a query that is not there finds nothing.
    let level = |floors: &[f32; TILE]| {
        let mut lanes = [f32::NAN; LANES];
        for (query, lanes) in lanes.chunks_mut(at_once).take(queries.len()).enumerate() {
            lanes.fill(floors[query]);
        }
        lanes
    };
    let mut lowest = level(floors);
    for first in (0..count).step_by(at_once) {
        let mut sums = [_mm512_setzero_ps(); LANES];
        for group in 0..ROWS / Q {
            let mut four = [&rows[..dimension]; ROWS];
            for (within, row) in four.iter_mut().enumerate() {
                // The last register is filled up with copies of the last row.
                let number = (first + group * ROWS + within).min(count - 1);
                *row = &rows[number * dimension..][..dimension];
            }
            let part = products::<Q>(taken, four);
            for row in 0..ROWS {
                for query in 0..Q {
                    sums[row * ROWS + query * (ROWS / Q) + group] = part[row][query];
                }
            }
        }
        let scores = add(sums);
        // SAFETY: an array of sixteen floats is read.
        let floor = unsafe { _mm512_loadu_ps(lowest.as_ptr()) };
        let mut above = _mm512_cmp_ps_mask::<_CMP_GE_OQ>(scores, floor);
        if above != 0 {
            let mut values = [0.0; LANES];
            // SAFETY: an array of sixteen floats is written.
            unsafe {
                _mm512_storeu_ps(values.as_mut_ptr(), scores);
            }
            while above != 0 {
                let lane = above.trailing_zeros() as usize;
                above &= above - 1;
                let (query, row) = (lane / at_once, first + lane % at_once);
                if row < count && values[lane] >= floors[query] {
                    floors[query] = found(query, row, values[lane]);
                }
            }
            lowest = level(floors);
        }
    }
}

/// Sixteen sums for each row and query.
#[inline]
#[target_feature(enable = "avx512f")]
#[allow(clippy::needless_range_loop, reason = "loops of a known length over registers")]
fn products<const Q: usize>(queries: [&[f32]; Q], rows: [&[f32]; ROWS]) -> [[__m512; Q]; ROWS] {
    let length = rows[0].len();
    assert!(queries.iter().chain(&rows).all(|values| values.len() == length), "vectors of one length");
    let (queries, rows) = (queries.map(<[f32]>::as_ptr), rows.map(<[f32]>::as_ptr));
    let mut sums = [[_mm512_setzero_ps(); Q]; ROWS];
    for at in (0..length / LANES * LANES).step_by(LANES) {
        // SAFETY: sixteen floats from `at` on are within `length`, which every pointer has; fetching ahead reads
        // nothing, whatever the address.
        unsafe {
            let query = queries.map(|query| _mm512_loadu_ps(query.add(at)));
            for r in 0..ROWS {
                let row = _mm512_loadu_ps(rows[r].add(at));
                _mm_prefetch::<_MM_HINT_T0>(rows[r].add(at).cast::<i8>().wrapping_add(AHEAD));
                for q in 0..Q {
                    sums[r][q] = _mm512_fmadd_ps(row, query[q], sums[r][q]);
                }
            }
        }
    }
    let rest = length % LANES;
    if rest > 0 {
        let (mask, at) = ((1_u16 << rest) - 1, length - rest);
        // SAFETY: the mask leaves the `rest` floats up to `length`; others are not read.
        unsafe {
            for r in 0..ROWS {
                let row = _mm512_maskz_loadu_ps(mask, rows[r].add(at));
                for q in 0..Q {
                    let query = _mm512_maskz_loadu_ps(mask, queries[q].add(at));
                    sums[r][q] = _mm512_fmadd_ps(row, query, sums[r][q]);
                }
            }
        }
    }
    sums
}

/// Adds up sixteen times sixteen lanes, halves onto halves; lane `4 a + b` is the sum of register `4 b + a`.
#[inline]
#[target_feature(enable = "avx512f")]
fn add(sums: [__m512; LANES]) -> __m512 {
    let mut eights = [_mm512_setzero_ps(); 8];
    for (pair, half) in eights.iter_mut().enumerate() {
        let (a, b) = (sums[2 * pair], sums[2 * pair + 1]);
        *half = _mm512_add_ps(_mm512_shuffle_f32x4::<0x44>(a, b), _mm512_shuffle_f32x4::<0xee>(a, b));
    }
    let mut fours = [_mm512_setzero_ps(); 4];
    for (pair, half) in fours.iter_mut().enumerate() {
        let (a, b) = (eights[2 * pair], eights[2 * pair + 1]);
        *half = _mm512_add_ps(_mm512_shuffle_f32x4::<0x88>(a, b), _mm512_shuffle_f32x4::<0xdd>(a, b));
    }
    let two = |a, b| _mm512_add_ps(_mm512_shuffle_ps::<0x44>(a, b), _mm512_shuffle_ps::<0xee>(a, b));
    let (a, b) = (two(fours[0], fours[1]), two(fours[2], fours[3]));
    _mm512_add_ps(_mm512_shuffle_ps::<0x88>(a, b), _mm512_shuffle_ps::<0xdd>(a, b))
}
