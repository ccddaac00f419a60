//! A few rows of x times quantized rows of W with AVX-512 or AVX2: weights are decoded in registers, multiplied there with
//! every row of x, and never stored.

use super::lanes::Lanes;
use super::{FEW, Product};
use crate::blocks::{BlockKind, ROWS, avx2, avx512};
use crate::cpu::Level;
use crate::matrix::Blocks;
use core::arch::x86_64::{__m256, __m512};
use std::array::from_fn;
use std::ops::Range;

/// Whether there is such a product for blocks of this kind.
pub(super) fn is_for(level: Level, kind: BlockKind) -> bool {
    level >= Level::Avx512 || level == Level::Avx2 && avx2::decodes(kind)
}

/// All rows of x times some rows of W.
///
/// # Safety
/// The level of the matrix is available and [`is_for`] says so, x and y are as the product says, there are at most [`FEW`]
/// rows, and nobody else writes these outputs.
pub(super) unsafe fn run(product: &Product<'_>, blocks: &Blocks, outputs: Range<usize>) {
    // SAFETY: the caller's promise.
    unsafe {
        match product.m {
            0 => (),
            1 => rows::<1>(product, blocks, outputs),
            2 => rows::<2>(product, blocks, outputs),
            FEW => rows::<FEW>(product, blocks, outputs),
            many => unreachable!("{many} rows are many"),
        }
    }
}

/// # Safety
/// That of [`run`], with M rows.
unsafe fn rows<const M: usize>(product: &Product<'_>, blocks: &Blocks, outputs: Range<usize>) {
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")]
    unsafe fn avx512<const M: usize>(product: &Product<'_>, blocks: &Blocks, outputs: Range<usize>) {
        // SAFETY: the caller's promise.
        unsafe { rows_in::<__m512, M>(product, blocks, outputs) }
    }
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn avx2<const M: usize>(product: &Product<'_>, blocks: &Blocks, outputs: Range<usize>) {
        // SAFETY: the caller's promise.
        unsafe { rows_in::<__m256, M>(product, blocks, outputs) }
    }
    // SAFETY: the caller's promise.
    unsafe {
        match product.level() >= Level::Avx512 {
            true => avx512::<M>(product, blocks, outputs),
            false => avx2::<M>(product, blocks, outputs),
        }
    }
}

/// # Safety
/// The lanes' instructions are available, and that of [`run`], with M rows.
#[inline(always)]
unsafe fn rows_in<L: Decode, const M: usize>(product: &Product<'_>, blocks: &Blocks, outputs: Range<usize>) {
    let Product { x, padded, y, outputs: width, .. } = *product;
    // SAFETY: x has M padded rows.
    let x = from_fn(|row| unsafe { x.get().add(row * padded).cast_const() });
    for first in outputs.clone().step_by(ROWS) {
        let count = ROWS.min(outputs.end - first);
        // The last row is there again where there are too few; nobody looks at its products.
        let weights = from_fn(|i| blocks.row(product.row(first + i.min(count - 1))).as_ptr());
        // SAFETY: blocks are whole, so rows are not padded; the caller's promise.
        unsafe {
            let mut sums = [[L::zero(); M]; ROWS];
            L::dot(blocks.kind, weights, x, padded, &mut sums);
            let totals = L::all_totals(sums);
            for (i, totals) in totals.iter().enumerate().take(count) {
                for (row, total) in totals.iter().enumerate() {
                    y.get().add(row * width + first + i).write(*total);
                }
            }
        }
    }
}

/// Registers that blocks are decoded to.
trait Decode: Lanes {
    /// Adds the products of M rows of x with [`ROWS`] rows of blocks to `sums`.
    ///
    /// # Safety
    /// That of the function of the same name for these registers.
    unsafe fn dot<const M: usize>(
        kind: BlockKind,
        rows: [*const u8; ROWS],
        x: [*const f32; M],
        weights: usize,
        sums: &mut [[Self; M]; ROWS],
    );
}

macro_rules! decode {
    ($lanes:ty, $level:ident) => {
        impl Decode for $lanes {
            #[inline(always)]
            unsafe fn dot<const M: usize>(
                kind: BlockKind,
                rows: [*const u8; ROWS],
                x: [*const f32; M],
                weights: usize,
                sums: &mut [[Self; M]; ROWS],
            ) {
                // SAFETY: the caller's promise.
                unsafe { $level::dot(kind, rows, x, weights, sums) }
            }
        }
    };
}
decode!(__m512, avx512);
decode!(__m256, avx2);
