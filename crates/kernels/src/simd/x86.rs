//! AVX2 with FMA, and AVX-512 (F, BW, DQ, VL).

#![expect(clippy::needless_range_loop, reason = "loops over registers, which index several arrays alike")]

use super::Simd;
use std::arch::x86_64::*;

/// Eight lanes.
#[derive(Clone, Copy)]
pub(crate) struct Avx2;

/// Sixteen lanes.
#[derive(Clone, Copy)]
pub(crate) struct Avx512;

/// A method that is one intrinsic.
macro_rules! intrinsics {
    ($($name:ident($($arg:ident),*) = $intrinsic:ident;)*) => { $(
        #[inline(always)]
        fn $name(self, $($arg: Self::V),*) -> Self::V {
            // SAFETY: a value of this type exists only where the processor has the instruction.
            unsafe { $intrinsic($($arg),*) }
        }
    )* };
}

/// Eight lanes on for the first n.
#[inline(always)]
unsafe fn first(n: usize) -> __m256i {
    // SAFETY: called by the AVX2 methods only.
    unsafe { _mm256_cmpgt_epi32(_mm256_set1_epi32(n as i32), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7)) }
}

impl Simd for Avx2 {
    type V = __m256;
    const LANES: usize = 8;
    const TILE: usize = 2;

    intrinsics! {
        add(a, b) = _mm256_add_ps;
        sub(a, b) = _mm256_sub_ps;
        mul(a, b) = _mm256_mul_ps;
        div(a, b) = _mm256_div_ps;
        fma(a, b, c) = _mm256_fmadd_ps;
        max(a, b) = _mm256_max_ps;
        min(a, b) = _mm256_min_ps;
    }
    #[inline(always)]
    fn splat(self, x: f32) -> __m256 {
        // SAFETY: the type proves AVX2.
        unsafe { _mm256_set1_ps(x) }
    }
    #[inline(always)]
    unsafe fn load(self, from: *const f32) -> __m256 {
        // SAFETY: the caller vouches for the memory, the type for AVX2.
        unsafe { _mm256_loadu_ps(from) }
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f32, v: __m256) {
        // SAFETY: the caller vouches for the memory, the type for AVX2.
        unsafe { _mm256_storeu_ps(to, v) }
    }
    #[inline(always)]
    unsafe fn load_part(self, from: *const f32, n: usize) -> __m256 {
        // SAFETY: lanes beyond n are not touched.
        unsafe { _mm256_maskload_ps(from, first(n)) }
    }
    #[inline(always)]
    unsafe fn store_part(self, to: *mut f32, v: __m256, n: usize) {
        // SAFETY: lanes beyond n are not touched.
        unsafe { _mm256_maskstore_ps(to, first(n), v) }
    }
    #[inline(always)]
    fn round(self, a: __m256) -> __m256 {
        // SAFETY: the type proves AVX2.
        unsafe { _mm256_round_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(a) }
    }
    #[inline(always)]
    fn times_power(self, a: __m256, n: __m256) -> __m256 {
        // SAFETY: the type proves AVX2. n = −127 makes the bits of 0.0.
        unsafe {
            let n = _mm256_cvtps_epi32(_mm256_max_ps(n, _mm256_set1_ps(-127.0)));
            let power = _mm256_slli_epi32::<23>(_mm256_add_epi32(n, _mm256_set1_epi32(127)));
            _mm256_mul_ps(a, _mm256_castsi256_ps(power))
        }
    }
    #[inline(always)]
    fn sum(self, a: __m256) -> f32 {
        self.sums([a; 4])[0]
    }
    #[inline(always)]
    fn sums(self, [a, b, c, d]: [__m256; 4]) -> [f32; 4] {
        // SAFETY: the type proves AVX2.
        unsafe {
            let ab = _mm256_hadd_ps(a, b);
            let cd = _mm256_hadd_ps(c, d);
            let abcd = _mm256_hadd_ps(ab, cd);
            let sums = _mm_add_ps(_mm256_castps256_ps128(abcd), _mm256_extractf128_ps::<1>(abcd));
            std::mem::transmute::<__m128, [f32; 4]>(sums)
        }
    }
    #[inline(always)]
    fn largest(self, a: __m256) -> f32 {
        // SAFETY: the type proves AVX2.
        unsafe {
            let four = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps::<1>(a));
            let two = _mm_max_ps(four, _mm_movehl_ps(four, four));
            _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)))
        }
    }
    #[inline(always)]
    unsafe fn transpose(self, rows: &[*const f32], to: *mut f32, stride: usize) {
        assert_eq!(rows.len(), 8);
        // SAFETY: the caller vouches for eight values at each row and eight rows at `to`.
        unsafe {
            let mut t = [_mm256_setzero_ps(); 8];
            for i in 0..4 {
                // Halves of rows i and i + 4 side by side: the low half of `t` holds columns 0–3.
                let (low, high) = (_mm256_loadu_ps(rows[i]), _mm256_loadu_ps(rows[i + 4]));
                t[i] = _mm256_permute2f128_ps::<0x20>(low, high);
                t[i + 4] = _mm256_permute2f128_ps::<0x31>(low, high);
            }
            for half in 0..2 {
                let r = &t[half * 4..half * 4 + 4];
                let ab_low = _mm256_unpacklo_ps(r[0], r[1]);
                let ab_high = _mm256_unpackhi_ps(r[0], r[1]);
                let cd_low = _mm256_unpacklo_ps(r[2], r[3]);
                let cd_high = _mm256_unpackhi_ps(r[2], r[3]);
                let to = to.add(half * 4 * stride);
                _mm256_storeu_ps(to, _mm256_shuffle_ps::<0x44>(ab_low, cd_low));
                _mm256_storeu_ps(to.add(stride), _mm256_shuffle_ps::<0xee>(ab_low, cd_low));
                _mm256_storeu_ps(to.add(2 * stride), _mm256_shuffle_ps::<0x44>(ab_high, cd_high));
                _mm256_storeu_ps(to.add(3 * stride), _mm256_shuffle_ps::<0xee>(ab_high, cd_high));
            }
        }
    }
}

impl Simd for Avx512 {
    type V = __m512;
    const LANES: usize = 16;
    const TILE: usize = 4;

    intrinsics! {
        add(a, b) = _mm512_add_ps;
        sub(a, b) = _mm512_sub_ps;
        mul(a, b) = _mm512_mul_ps;
        div(a, b) = _mm512_div_ps;
        fma(a, b, c) = _mm512_fmadd_ps;
        max(a, b) = _mm512_max_ps;
        min(a, b) = _mm512_min_ps;
        times_power(a, n) = _mm512_scalef_ps;
    }
    #[inline(always)]
    fn splat(self, x: f32) -> __m512 {
        // SAFETY: the type proves AVX-512.
        unsafe { _mm512_set1_ps(x) }
    }
    #[inline(always)]
    unsafe fn load(self, from: *const f32) -> __m512 {
        // SAFETY: the caller vouches for the memory, the type for AVX-512.
        unsafe { _mm512_loadu_ps(from) }
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f32, v: __m512) {
        // SAFETY: the caller vouches for the memory, the type for AVX-512.
        unsafe { _mm512_storeu_ps(to, v) }
    }
    #[inline(always)]
    unsafe fn load_part(self, from: *const f32, n: usize) -> __m512 {
        // SAFETY: lanes beyond n are not touched.
        unsafe { _mm512_maskz_loadu_ps((1 << n) - 1, from) }
    }
    #[inline(always)]
    unsafe fn store_part(self, to: *mut f32, v: __m512, n: usize) {
        // SAFETY: lanes beyond n are not touched.
        unsafe { _mm512_mask_storeu_ps(to, (1 << n) - 1, v) }
    }
    // The rest of −∞ is 0 here, and `scalef` by −∞ is 0 without the slow path that underflow takes.
    #[inline(always)]
    fn split(self, t: __m512) -> (__m512, __m512) {
        // SAFETY: the type proves AVX-512.
        unsafe {
            let rest = _mm512_reduce_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(t);
            (_mm512_sub_ps(t, rest), rest)
        }
    }
    #[inline(always)]
    fn round(self, a: __m512) -> __m512 {
        // SAFETY: the type proves AVX-512.
        unsafe { _mm512_roundscale_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(a) }
    }
    #[inline(always)]
    fn sum(self, a: __m512) -> f32 {
        // SAFETY: the type proves AVX-512.
        unsafe { _mm512_reduce_add_ps(a) }
    }
    #[inline(always)]
    fn sums(self, [a, b, c, d]: [__m512; 4]) -> [f32; 4] {
        // SAFETY: the type proves AVX-512.
        unsafe {
            let ab = _mm512_add_ps(_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b));
            let cd = _mm512_add_ps(_mm512_unpacklo_ps(c, d), _mm512_unpackhi_ps(c, d));
            let abcd = _mm512_add_ps(_mm512_shuffle_ps::<0x44>(ab, cd), _mm512_shuffle_ps::<0xee>(ab, cd));
            let half = _mm256_add_ps(_mm512_castps512_ps256(abcd), _mm512_extractf32x8_ps::<1>(abcd));
            let sums = _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps::<1>(half));
            std::mem::transmute::<__m128, [f32; 4]>(sums)
        }
    }
    #[inline(always)]
    fn largest(self, a: __m512) -> f32 {
        // SAFETY: the type proves AVX-512.
        unsafe { _mm512_reduce_max_ps(a) }
    }
    #[inline(always)]
    unsafe fn transpose(self, rows: &[*const f32], to: *mut f32, stride: usize) {
        assert_eq!(rows.len(), 16);
        // SAFETY: the caller vouches for sixteen values at each row and sixteen rows at `to`.
        unsafe {
            let mut t = [_mm512_setzero_ps(); 16];
            for i in 0..16 {
                t[i] = _mm512_loadu_ps(rows[i]);
            }
            let t = transpose16(t);
            for i in 0..16 {
                _mm512_storeu_ps(to.add(i * stride), t[i]);
            }
        }
    }
}

/// The transpose of a 16 × 16 block of 32-bit values: first within blocks of 4 × 4, then the blocks.
#[inline(always)]
pub(crate) unsafe fn transpose16(r: [__m512; 16]) -> [__m512; 16] {
    // SAFETY: called where AVX-512 is on.
    unsafe {
        // After this, 128-bit lane b of s[4 · i + c] holds column 4 · b + c of rows 4 · i to 4 · i + 3.
        let mut s = r;
        for i in 0..4 {
            let q = &r[4 * i..4 * i + 4];
            let ab_low = _mm512_unpacklo_ps(q[0], q[1]);
            let ab_high = _mm512_unpackhi_ps(q[0], q[1]);
            let cd_low = _mm512_unpacklo_ps(q[2], q[3]);
            let cd_high = _mm512_unpackhi_ps(q[2], q[3]);
            s[4 * i] = _mm512_shuffle_ps::<0x44>(ab_low, cd_low);
            s[4 * i + 1] = _mm512_shuffle_ps::<0xee>(ab_low, cd_low);
            s[4 * i + 2] = _mm512_shuffle_ps::<0x44>(ab_high, cd_high);
            s[4 * i + 3] = _mm512_shuffle_ps::<0xee>(ab_high, cd_high);
        }
        let mut out = r;
        for c in 0..4 {
            // Lanes (0, 1) and (2, 3) of the first two and of the last two groups of rows.
            let top_low = _mm512_shuffle_f32x4::<0x44>(s[c], s[4 + c]);
            let top_high = _mm512_shuffle_f32x4::<0xee>(s[c], s[4 + c]);
            let bottom_low = _mm512_shuffle_f32x4::<0x44>(s[8 + c], s[12 + c]);
            let bottom_high = _mm512_shuffle_f32x4::<0xee>(s[8 + c], s[12 + c]);
            out[c] = _mm512_shuffle_f32x4::<0x88>(top_low, bottom_low);
            out[4 + c] = _mm512_shuffle_f32x4::<0xdd>(top_low, bottom_low);
            out[8 + c] = _mm512_shuffle_f32x4::<0x88>(top_high, bottom_high);
            out[12 + c] = _mm512_shuffle_f32x4::<0xdd>(top_high, bottom_high);
        }
        out
    }
}
