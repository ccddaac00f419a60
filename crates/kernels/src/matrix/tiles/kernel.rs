//! The inner loop on AMX: up to 2×2 tiles of C stay in registers while k runs.
//!
//! Either side may hold x: C += X·Wᵀ with x as A, or its transpose with x as B. Both give the same bits,
//! because `tdpbf16ps` sums the same way for either and the partial products of a split come in the
//! same order: x's remainder, then the main parts, then w's remainder.

use crate::amx::{tile_load, tile_multiply, tile_store, tile_zero};

/// Tile registers: C in 0–3 (rows of tiles first), A in 4 and 5, B in 6 and 7.
pub(crate) const A: [usize; 2] = [4, 5];
pub(crate) const B: [usize; 2] = [6, 7];

/// Where the tiles of one side of the product lie, in bytes.
#[derive(Clone, Copy)]
pub(crate) struct Operand {
    pub(crate) base: *const u8,
    /// From the first tile to the second one of the same k.
    pub(crate) tile_step: usize,
    /// From one k to the next.
    pub(crate) k_step: usize,
    /// From the main part of a split tile to its remainder.
    pub(crate) part_step: usize,
    /// From one row of a tile to the next.
    pub(crate) row_step: usize,
}

/// Which side of the tile product x is on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum XIs {
    A,
    B,
}

/// Adds `k_tiles` steps of the product of two operands, whose tiles number 1 or 2 each, to C.
///
/// # Safety
/// The tiles used are configured with fitting shapes, and all tiles of both operands are readable.
#[inline]
pub(crate) unsafe fn accumulate(
    (a, a_tiles): (Operand, usize),
    (b, b_tiles): (Operand, usize),
    k_tiles: usize,
    split: bool,
    x: XIs,
) {
    // SAFETY: the caller's promise.
    unsafe {
        match (a_tiles, b_tiles, split) {
            (1, 1, false) => plain::<1, 1>(a, b, k_tiles),
            (1, _, false) => plain::<1, 2>(a, b, k_tiles),
            (_, 1, false) => plain::<2, 1>(a, b, k_tiles),
            (_, _, false) => plain::<2, 2>(a, b, k_tiles),
            (1, 1, true) => three_products::<1, 1>(a, b, k_tiles, x),
            (1, _, true) => three_products::<1, 2>(a, b, k_tiles, x),
            (_, 1, true) => three_products::<2, 1>(a, b, k_tiles, x),
            (_, _, true) => three_products::<2, 2>(a, b, k_tiles, x),
        }
    }
}

#[inline(always)]
unsafe fn plain<const M: usize, const N: usize>(mut a: Operand, mut b: Operand, k_tiles: usize) {
    for _ in 0..k_tiles {
        // SAFETY: the caller of `accumulate` promises it for each of the k tiles.
        unsafe {
            load_b::<N>(b, 0);
            load_a::<M>(a, 0);
            multiply::<M, N>();
        }
        a.base = a.base.wrapping_add(a.k_step);
        b.base = b.base.wrapping_add(b.k_step);
    }
}

/// w = w₁ + w₂ and x = x₁ + x₂ in bf16: x₂w₁ + x₁w₁ + x₁w₂. What is left out, x₂w₂, is below 2⁻¹⁶ of the whole.
#[inline(always)]
unsafe fn three_products<const M: usize, const N: usize>(
    mut a: Operand,
    mut b: Operand,
    k_tiles: usize,
    x: XIs,
) {
    for _ in 0..k_tiles {
        // SAFETY: the caller of `accumulate` promises it for each of the k tiles, both parts.
        unsafe {
            if x == XIs::A {
                load_b::<N>(b, 0);
                load_a::<M>(a, a.part_step);
                multiply::<M, N>();
                load_a::<M>(a, 0);
                multiply::<M, N>();
                load_b::<N>(b, b.part_step);
                multiply::<M, N>();
            } else {
                load_a::<M>(a, 0);
                load_b::<N>(b, b.part_step);
                multiply::<M, N>();
                load_b::<N>(b, 0);
                multiply::<M, N>();
                load_a::<M>(a, a.part_step);
                multiply::<M, N>();
            }
        }
        a.base = a.base.wrapping_add(a.k_step);
        b.base = b.base.wrapping_add(b.k_step);
    }
}

#[inline(always)]
unsafe fn load_a<const M: usize>(a: Operand, part: usize) {
    // SAFETY: as for `accumulate`.
    unsafe {
        tile_load::<{ A[0] }>(a.base.add(part), a.row_step);
        if M == 2 {
            tile_load::<{ A[1] }>(a.base.add(a.tile_step + part), a.row_step);
        }
    }
}

#[inline(always)]
unsafe fn load_b<const N: usize>(b: Operand, part: usize) {
    // SAFETY: as for `accumulate`.
    unsafe {
        tile_load::<{ B[0] }>(b.base.add(part), b.row_step);
        if N == 2 {
            tile_load::<{ B[1] }>(b.base.add(b.tile_step + part), b.row_step);
        }
    }
}

#[inline(always)]
unsafe fn multiply<const M: usize, const N: usize>() {
    // SAFETY: as for `accumulate`.
    unsafe {
        tile_multiply::<0, { A[0] }, { B[0] }>();
        if N == 2 {
            tile_multiply::<1, { A[0] }, { B[1] }>();
        }
        if M == 2 {
            tile_multiply::<2, { A[1] }, { B[0] }>();
        }
        if M == 2 && N == 2 {
            tile_multiply::<3, { A[1] }, { B[1] }>();
        }
    }
}

/// Sets the used tiles of C to zero.
///
/// # Safety
/// They are configured.
#[inline(always)]
pub(crate) unsafe fn clear(a_tiles: usize, b_tiles: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        tile_zero::<0>();
        if b_tiles == 2 {
            tile_zero::<1>();
        }
        if a_tiles == 2 {
            tile_zero::<2>();
        }
        if a_tiles == 2 && b_tiles == 2 {
            tile_zero::<3>();
        }
    }
}

/// Stores tile (i, j) of C.
///
/// # Safety
/// It is configured, and its rows are writable `stride` bytes apart.
#[inline(always)]
pub(crate) unsafe fn store(i: usize, j: usize, at: *mut f32, stride: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        match (i, j) {
            (0, 0) => tile_store::<0>(at.cast(), stride),
            (0, _) => tile_store::<1>(at.cast(), stride),
            (_, 0) => tile_store::<2>(at.cast(), stride),
            (_, _) => tile_store::<3>(at.cast(), stride),
        }
    }
}

/// Loads tile (i, j) of C.
///
/// # Safety
/// It is configured, and its rows are readable `stride` bytes apart.
#[inline(always)]
pub(crate) unsafe fn load(i: usize, j: usize, at: *const f32, stride: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        match (i, j) {
            (0, 0) => tile_load::<0>(at.cast(), stride),
            (0, _) => tile_load::<1>(at.cast(), stride),
            (_, 0) => tile_load::<2>(at.cast(), stride),
            (_, _) => tile_load::<3>(at.cast(), stride),
        }
    }
}
