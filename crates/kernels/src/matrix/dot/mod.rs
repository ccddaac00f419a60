//! Products without AMX: dot products of f32 rows, several at a time in registers.
//!
//! Every output is one chain of fused multiply-adds over lanes of k, then one fixed sum of the lanes, whatever block it is
//! computed in and however it is cut along k.
//!
//! - Many rows of x (`many.rs`): as many rows of W as the second-level cache holds are expanded once, if they are not
//!   stored as f32; pieces of x that it holds beside them pass over them, a piece of k at a time if rows are long.
//! - A few rows of x, one for instance (`few.rs`): f32 and bf16 are multiplied where they lie. Quantized weights are decoded in
//!   registers and never stored (`quantized.rs`); where there is no such code, a piece of twelve rows is expanded, used and
//!   forgotten.
//!
//! Matrices of few columns have a product of their own (`columns.rs`).

mod columns;
mod few;
mod lanes;
mod many;
#[cfg(target_arch = "x86_64")]
mod quantized;

use super::parallel::{Shared, share};
use super::{Activations, Matrix, Storage};
use crate::blocks::dequantize_at;
use crate::cpu::Level;
pub(super) use columns::{Columns, FEW_COLUMNS};
pub(super) use many::PackedRows;
use std::ops::Range;

/// Rows of W that are a unit of work. Every kernel's number of outputs divides it.
const GROUP: usize = 24;
/// Up to so many rows of x are few: expanding W takes longer than multiplying.
const FEW: usize = 3;

/// Columns as stored: padded with zeros so that no kernel has a ragged end.
pub(super) fn padded(columns: usize) -> usize {
    columns.next_multiple_of(32)
}

/// See [`Matrix::multiply`]; sizes are checked there.
pub(super) fn product(matrix: &Matrix, x: &Activations<'_>, wanted: Option<&[usize]>, y: &mut [f32]) {
    let (columns, padded) = (matrix.columns, padded(matrix.columns));
    let m = x.count() / columns;
    let outputs = wanted.map_or(matrix.rows, <[usize]>::len);

    let pack = || PackedRows::new(x.values(), columns, matrix.level);
    let own;
    let packed = match x.packed(pack) {
        Some(shared) => shared,
        None => {
            own = pack();
            &own
        }
    };
    packed.check(columns, matrix.level);
    let product =
        Product { matrix, wanted, x: packed.start(), m, padded, y: Shared::new(y.as_mut_ptr()), outputs };
    let nanoseconds = (outputs * columns) as f64 * (m as f64 / 40.0 + 0.2);
    share(outputs.div_ceil(GROUP), nanoseconds, |range| {
        let range = range.start * GROUP..outputs.min(range.end * GROUP);
        // SAFETY: the matrix was made for a level that exists, x has m padded rows, y m rows of outputs, and tasks
        // write different outputs.
        unsafe {
            match m <= FEW {
                true => few::run(&product, range),
                false => many::run(&product, range),
            }
        }
    });
}

/// What is multiplied, and where the results go.
struct Product<'a> {
    matrix: &'a Matrix,
    wanted: Option<&'a [usize]>,
    /// `m` padded rows; many are packed in blocks.
    x: Shared<f32>,
    m: usize,
    padded: usize,
    /// `m` rows of `outputs`.
    y: Shared<f32>,
    outputs: usize,
}

impl Product<'_> {
    /// The row of W behind an output.
    fn row(&self, output: usize) -> usize {
        self.wanted.map_or(output, |wanted| wanted[output])
    }

    /// Some columns of the row of W behind an output, as f32: in place where they are stored so, else expanded into `room`.
    ///
    /// # Safety
    /// `room` has room for these columns, whole blocks of padded ones.
    unsafe fn weights(&self, output: usize, columns: Range<usize>, room: *mut f32) -> *const f32 {
        let row = self.row(output);
        let at = row * self.padded + columns.start;
        if let Storage::F32(weights) = &self.matrix.storage {
            return weights[at..][..columns.len()].as_ptr();
        }
        // SAFETY: the caller's promise; scratch memory is initialized.
        let out = unsafe { std::slice::from_raw_parts_mut(room, columns.len()) };
        match &self.matrix.storage {
            Storage::Bf16(weights) => {
                for (out, weight) in out.iter_mut().zip(&weights[at..]) {
                    *out = f32::from_bits(u32::from(weight.to_bits()) << 16);
                }
            }
            Storage::Blocks(blocks) => {
                let bytes = |columns| blocks.kind.bytes_of(columns).expect("whole blocks");
                let blocks_of = &blocks.row(row)[bytes(columns.start)..bytes(columns.end)];
                dequantize_at(self.matrix.level, blocks.kind, blocks_of, out);
            }
            _ => unreachable!("tiles and columns have products of their own"),
        }
        room
    }

    fn level(&self) -> Level {
        self.matrix.level
    }
}

/// Writes `unsafe fn run(level, arguments)`, which calls `body::<L, M, N>(arguments)` with the lanes of the level, and with
/// M rows of x by N outputs in registers.
macro_rules! for_level {
    ($name:ident, $body:ident($($arg:ident: $ty:ty),*), avx512 $a:tt, avx2 $b:tt, neon $c:tt, portable $d:tt) => {
        /// # Safety
        /// That of the body; the level is available.
        unsafe fn $name(level: $crate::cpu::Level, $($arg: $ty),*) {
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
            unsafe fn avx512($($arg: $ty),*) {
                // SAFETY: the caller's promise.
                unsafe { for_level!(@call $body, core::arch::x86_64::__m512, $a, $($arg),*) }
            }
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma")]
            unsafe fn avx2($($arg: $ty),*) {
                // SAFETY: the caller's promise.
                unsafe { for_level!(@call $body, core::arch::x86_64::__m256, $b, $($arg),*) }
            }
            // SAFETY: the caller's promise.
            unsafe {
                match level {
                    #[cfg(target_arch = "x86_64")]
                    $crate::cpu::Level::Amx | $crate::cpu::Level::Avx512 => avx512($($arg),*),
                    #[cfg(target_arch = "x86_64")]
                    $crate::cpu::Level::Avx2 => avx2($($arg),*),
                    #[cfg(target_arch = "aarch64")]
                    $crate::cpu::Level::Neon => {
                        for_level!(@call $body, core::arch::aarch64::float32x4_t, $c, $($arg),*)
                    }
                    _ => for_level!(@call $body, [f32; 8], $d, $($arg),*),
                }
            }
        }
    };
    (@call $body:ident, $lanes:ty, ($m:literal, $n:literal), $($arg:ident),*) => {
        $body::<$lanes, $m, $n>($($arg),*)
    };
}
use for_level;
