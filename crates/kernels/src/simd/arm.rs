//! NEON.

use super::Simd;
use std::arch::aarch64::*;

/// Four lanes.
#[derive(Clone, Copy)]
pub(crate) struct Neon;

/// A method that is one intrinsic.
macro_rules! intrinsics {
    ($($name:ident($($arg:ident),*) = $intrinsic:ident;)*) => { $(
        #[inline(always)]
        fn $name(self, $($arg: Self::V),*) -> Self::V {
            // SAFETY: every 64-bit ARM processor has NEON.
            unsafe { $intrinsic($($arg),*) }
        }
    )* };
}

impl Simd for Neon {
    type V = float32x4_t;
    const LANES: usize = 4;
    const TILE: usize = 4;

    intrinsics! {
        add(a, b) = vaddq_f32;
        sub(a, b) = vsubq_f32;
        mul(a, b) = vmulq_f32;
        div(a, b) = vdivq_f32;
        // Where one is NaN, the other: as the other levels do.
        max(a, b) = vmaxnmq_f32;
        min(a, b) = vminnmq_f32;
        round(a) = vrndnq_f32;
    }
    #[inline(always)]
    fn splat(self, x: f32) -> float32x4_t {
        // SAFETY: every 64-bit ARM processor has NEON; so for the others.
        unsafe { vdupq_n_f32(x) }
    }
    #[inline(always)]
    unsafe fn load(self, from: *const f32) -> float32x4_t {
        // SAFETY: the caller vouches for the memory.
        unsafe { vld1q_f32(from) }
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f32, v: float32x4_t) {
        // SAFETY: the caller vouches for the memory.
        unsafe { vst1q_f32(to, v) }
    }
    #[inline(always)]
    unsafe fn load_part(self, from: *const f32, n: usize) -> float32x4_t {
        let mut part = [0.0; 4];
        // SAFETY: the caller vouches for n values.
        unsafe {
            part[..n].copy_from_slice(std::slice::from_raw_parts(from, n));
            vld1q_f32(part.as_ptr())
        }
    }
    #[inline(always)]
    unsafe fn store_part(self, to: *mut f32, v: float32x4_t, n: usize) {
        let mut part = [0.0; 4];
        // SAFETY: the caller vouches for n values.
        unsafe {
            vst1q_f32(part.as_mut_ptr(), v);
            std::slice::from_raw_parts_mut(to, n).copy_from_slice(&part[..n]);
        }
    }
    #[inline(always)]
    fn fma(self, a: float32x4_t, b: float32x4_t, c: float32x4_t) -> float32x4_t {
        // SAFETY: see `splat`.
        unsafe { vfmaq_f32(c, a, b) }
    }
    #[inline(always)]
    fn times_power(self, a: float32x4_t, n: float32x4_t) -> float32x4_t {
        // SAFETY: see `splat`. n = −127 makes the bits of 0.0.
        unsafe {
            let n = vcvtnq_s32_f32(vmaxq_f32(n, vdupq_n_f32(-127.0)));
            let power = vshlq_n_s32::<23>(vaddq_s32(n, vdupq_n_s32(127)));
            vmulq_f32(a, vreinterpretq_f32_s32(power))
        }
    }
    #[inline(always)]
    fn sum(self, a: float32x4_t) -> f32 {
        // SAFETY: see `splat`.
        unsafe { vaddvq_f32(a) }
    }
    #[inline(always)]
    fn sums(self, a: [float32x4_t; 4]) -> [f32; 4] {
        a.map(|v| self.sum(v))
    }
    #[inline(always)]
    fn largest(self, a: float32x4_t) -> f32 {
        // SAFETY: see `splat`.
        unsafe { vmaxvq_f32(a) }
    }
    #[inline(always)]
    unsafe fn transpose(self, rows: &[*const f32], to: *mut f32, stride: usize) {
        assert_eq!(rows.len(), 4);
        // SAFETY: the caller vouches for four values at each row and four rows at `to`.
        unsafe {
            let [a, b, c, d] = [0, 1, 2, 3].map(|row| vld1q_f32(rows[row]));
            let (ab, cd) = (vtrnq_f32(a, b), vtrnq_f32(c, d));
            let pairs = |x: float32x4_t, y: float32x4_t| {
                let (x, y) = (vreinterpretq_f64_f32(x), vreinterpretq_f64_f32(y));
                (vreinterpretq_f32_f64(vtrn1q_f64(x, y)), vreinterpretq_f32_f64(vtrn2q_f64(x, y)))
            };
            let ((first, third), (second, fourth)) = (pairs(ab.0, cd.0), pairs(ab.1, cd.1));
            for (row, values) in [first, second, third, fourth].into_iter().enumerate() {
                vst1q_f32(to.add(row * stride), values);
            }
        }
    }
}
