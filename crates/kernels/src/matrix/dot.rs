//! Products without AMX: dot products of f32 rows, several at a time in registers.
//!
//! Every output is one chain of fused multiply-adds over lanes of k, then one fixed sum of the lanes,
//! whatever block it is computed in. Rows that are not stored as f32 are expanded into scratch memory,
//! a group at a time, and used for all rows of x. There is no blocking along k, so very long rows
//! (beyond about 10,000 columns) run at the speed of the second-level cache.

use super::parallel::{Shared, share};
use super::scratch::Scratch;
use super::{Matrix, Storage};
use crate::blocks::dequantize_at;
use crate::cpu::Level;

/// Rows of W that are expanded and multiplied together.
const GROUP: usize = 24;
/// Rows of x that pass over a group while they lie in the second-level cache.
const X_BYTES: usize = 256 << 10;

/// Columns as stored: padded with zeros so that no kernel has a ragged end.
pub(super) fn padded(columns: usize) -> usize {
    columns.next_multiple_of(32)
}

/// See [`Matrix::multiply`]; sizes are checked there.
pub(super) fn product(matrix: &Matrix, x: &[f32], wanted: Option<&[usize]>, y: &mut [f32]) {
    let (columns, padded) = (matrix.columns, padded(matrix.columns));
    let m = x.len() / columns;
    let outputs = wanted.map_or(matrix.rows, <[usize]>::len);

    let mut room = Scratch::with_bytes(if columns == padded { 0 } else { m * padded * 4 });
    let x =
        if columns == padded { x.as_ptr() } else { pad_rows(x, columns, padded, room.as_mut_ptr().cast()) };
    let (x, y) = (Shared::new(x.cast_mut()), Shared::new(y.as_mut_ptr()));

    let groups = outputs.div_ceil(GROUP);
    let nanoseconds = (outputs * columns) as f64 * (m as f64 / 40.0 + 0.2);
    share(groups, nanoseconds, |range| {
        let mut room = Scratch::with_bytes(GROUP * padded * 4);
        for group in range {
            let first = group * GROUP;
            let count = GROUP.min(outputs - first);
            let row_of = |i: usize| wanted.map_or(first + i, |wanted| wanted[first + i]);
            let mut weights = [std::ptr::null(); GROUP];
            for (i, weights) in weights.iter_mut().enumerate() {
                // The last group repeats a row where it has none; nobody looks at its products.
                let row = row_of(i.min(count - 1));
                // SAFETY: the scratch has room for GROUP rows.
                let room = unsafe { room.as_mut_ptr().cast::<f32>().add(i * padded) };
                *weights = expand(matrix, row, padded, room);
            }
            let task = Task {
                x: x.get(),
                m,
                padded,
                weights,
                count,
                // SAFETY: `first` is an output of the first row of y.
                y: unsafe { y.get().add(first) },
                outputs,
            };
            // SAFETY: the matrix was made for a level that exists, all pointers cover what the task says, and
            // groups write different outputs.
            unsafe { task.run(matrix.level) }
        }
    });
}

/// Row `row` as f32: in place where it is stored so, else expanded into `room`.
fn expand(matrix: &Matrix, row: usize, padded: usize, room: *mut f32) -> *const f32 {
    if let Storage::F32(weights) = &matrix.storage {
        return weights[row * padded..][..padded].as_ptr();
    }
    // SAFETY: the caller's room holds a padded row of initialized memory.
    let out = unsafe { std::slice::from_raw_parts_mut(room, padded) };
    match &matrix.storage {
        Storage::Bf16(weights) => {
            for (out, weight) in out.iter_mut().zip(&weights[row * padded..]) {
                *out = f32::from_bits(u32::from(weight.to_bits()) << 16);
            }
        }
        Storage::Blocks(blocks) => dequantize_at(matrix.level, blocks.kind, blocks.row(row), out),
        _ => unreachable!("tiles are multiplied by the AMX kernels"),
    }
    room
}

fn pad_rows(x: &[f32], columns: usize, padded: usize, room: *mut f32) -> *const f32 {
    for (row, values) in x.chunks_exact(columns).enumerate() {
        // SAFETY: the caller's room holds as many padded rows as x has rows.
        let out = unsafe { std::slice::from_raw_parts_mut(room.add(row * padded), padded) };
        out[..columns].copy_from_slice(values);
        out[columns..].fill(0.0);
    }
    room
}

/// All rows of x times one group of rows of W.
struct Task {
    x: *const f32,
    m: usize,
    padded: usize,
    weights: [*const f32; GROUP],
    count: usize,
    y: *mut f32,
    outputs: usize,
}

impl Task {
    /// # Safety
    /// The level is available; `x` holds `m` padded rows, each of `weights` one, and `y` is valid for
    /// `count` outputs of every row and written by nobody else.
    unsafe fn run(&self, level: Level) {
        // SAFETY: the caller's promise.
        unsafe {
            match level {
                #[cfg(target_arch = "x86_64")]
                Level::Amx | Level::Avx512 => self.run_avx512(),
                #[cfg(target_arch = "x86_64")]
                Level::Avx2 => self.run_avx2(),
                #[cfg(target_arch = "aarch64")]
                Level::Neon => self.blocks::<core::arch::aarch64::float32x4_t, 4, 6>(),
                _ => self.blocks::<[f32; 8], 2, 4>(),
            }
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    unsafe fn run_avx512(&self) {
        // SAFETY: as for `run`.
        unsafe { self.blocks::<core::arch::x86_64::__m512, 4, 6>() }
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn run_avx2(&self) {
        // SAFETY: as for `run`.
        unsafe { self.blocks::<core::arch::x86_64::__m256, 4, 3>() }
    }

    /// Goes over x in pieces that stay in cache, M rows by N outputs at a time.
    #[inline(always)]
    unsafe fn blocks<L: Lanes, const M: usize, const N: usize>(&self) {
        let piece = (X_BYTES / (self.padded * 4)).max(1).next_multiple_of(M);
        for start in (0..self.m).step_by(piece) {
            let end = (start + piece).min(self.m);
            for output in (0..self.count).step_by(N) {
                let mut row = start;
                // SAFETY: as for `run`; N divides GROUP, so all N rows of weights exist.
                unsafe {
                    while row + M <= end {
                        self.block::<L, M, N>(row, output);
                        row += M;
                    }
                    while row < end {
                        self.block::<L, 1, N>(row, output);
                        row += 1;
                    }
                }
            }
        }
    }

    #[inline(always)]
    unsafe fn block<L: Lanes, const M: usize, const N: usize>(&self, row: usize, output: usize) {
        // SAFETY: as for `run`.
        unsafe {
            let x: [*const f32; M] = std::array::from_fn(|i| self.x.add((row + i) * self.padded));
            let w: [*const f32; N] = std::array::from_fn(|j| self.weights[output + j]);
            let mut sums = [[L::zero(); N]; M];
            for k in (0..self.padded).step_by(L::COUNT) {
                let w: [L; N] = std::array::from_fn(|j| L::load(w[j].add(k)));
                for i in 0..M {
                    let x = L::load(x[i].add(k));
                    for j in 0..N {
                        sums[i][j] = x.multiply_add(w[j], sums[i][j]);
                    }
                }
            }
            for (i, sums) in sums.iter().enumerate() {
                for (j, sum) in sums.iter().enumerate().take(self.count - output) {
                    *self.y.add((row + i) * self.outputs + output + j) = sum.total();
                }
            }
        }
    }
}

/// A register of f32 lanes. The methods need the instruction set of the type.
trait Lanes: Copy {
    const COUNT: usize;
    unsafe fn zero() -> Self;
    unsafe fn load(at: *const f32) -> Self;
    /// self · by + to.
    unsafe fn multiply_add(self, by: Self, to: Self) -> Self;
    /// The sum of the lanes, always in the same order.
    unsafe fn total(self) -> f32;
}

impl Lanes for [f32; 8] {
    const COUNT: usize = 8;
    #[inline(always)]
    unsafe fn zero() -> Self {
        [0.0; 8]
    }
    #[inline(always)]
    unsafe fn load(at: *const f32) -> Self {
        // SAFETY: the caller has eight numbers there.
        unsafe { at.cast::<[f32; 8]>().read_unaligned() }
    }
    #[inline(always)]
    unsafe fn multiply_add(self, by: Self, to: Self) -> Self {
        // Without the instruction, a fused multiply-add is a slow library call.
        if cfg!(any(target_arch = "aarch64", target_feature = "fma")) {
            std::array::from_fn(|i| self[i].mul_add(by[i], to[i]))
        } else {
            std::array::from_fn(|i| self[i] * by[i] + to[i])
        }
    }
    #[inline(always)]
    unsafe fn total(self) -> f32 {
        let [a, b, c, d, e, f, g, h] = self;
        ((a + e) + (b + f)) + ((c + g) + (d + h))
    }
}

#[cfg(target_arch = "aarch64")]
mod arm {
    use super::Lanes;
    use core::arch::aarch64::*;

    impl Lanes for float32x4_t {
        const COUNT: usize = 4;
        #[inline(always)]
        unsafe fn zero() -> Self {
            // SAFETY: the trait's promise; so for the others.
            unsafe { vdupq_n_f32(0.0) }
        }
        #[inline(always)]
        unsafe fn load(at: *const f32) -> Self {
            // SAFETY: as above.
            unsafe { vld1q_f32(at) }
        }
        #[inline(always)]
        unsafe fn multiply_add(self, by: Self, to: Self) -> Self {
            // SAFETY: as above.
            unsafe { vfmaq_f32(to, self, by) }
        }
        #[inline(always)]
        unsafe fn total(self) -> f32 {
            // SAFETY: as above.
            unsafe { vaddvq_f32(self) }
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::Lanes;
    use core::arch::x86_64::*;

    impl Lanes for __m256 {
        const COUNT: usize = 8;
        #[inline(always)]
        unsafe fn zero() -> Self {
            // SAFETY: the trait's promise.
            unsafe { _mm256_setzero_ps() }
        }
        #[inline(always)]
        unsafe fn load(at: *const f32) -> Self {
            // SAFETY: the trait's promise.
            unsafe { _mm256_loadu_ps(at) }
        }
        #[inline(always)]
        unsafe fn multiply_add(self, by: Self, to: Self) -> Self {
            // SAFETY: the trait's promise.
            unsafe { _mm256_fmadd_ps(self, by, to) }
        }
        #[inline(always)]
        unsafe fn total(self) -> f32 {
            // SAFETY: the trait's promise.
            unsafe {
                let four = _mm_add_ps(_mm256_castps256_ps128(self), _mm256_extractf128_ps::<1>(self));
                let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
                _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)))
            }
        }
    }

    impl Lanes for __m512 {
        const COUNT: usize = 16;
        #[inline(always)]
        unsafe fn zero() -> Self {
            // SAFETY: the trait's promise.
            unsafe { _mm512_setzero_ps() }
        }
        #[inline(always)]
        unsafe fn load(at: *const f32) -> Self {
            // SAFETY: the trait's promise.
            unsafe { _mm512_loadu_ps(at) }
        }
        #[inline(always)]
        unsafe fn multiply_add(self, by: Self, to: Self) -> Self {
            // SAFETY: the trait's promise.
            unsafe { _mm512_fmadd_ps(self, by, to) }
        }
        #[inline(always)]
        unsafe fn total(self) -> f32 {
            // SAFETY: the trait's promise.
            unsafe {
                let eight = _mm256_add_ps(_mm512_castps512_ps256(self), _mm512_extractf32x8_ps::<1>(self));
                <__m256 as Lanes>::total(eight)
            }
        }
    }
}
