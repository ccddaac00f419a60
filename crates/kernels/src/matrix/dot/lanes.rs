//! Registers of f32 lanes for dot products: one add of products, and sums of lanes that are always added in the same order.

/// A register of f32 lanes. The methods need the instruction set of the type.
pub(super) trait Lanes: Copy {
    const COUNT: usize;
    unsafe fn zero() -> Self;
    unsafe fn load(at: *const f32) -> Self;
    /// Numbers in bf16.
    unsafe fn load_bf16(at: *const u16) -> Self;
    /// self · by + to.
    unsafe fn multiply_add(self, by: Self, to: Self) -> Self;
    /// The sum of the lanes, always in the same order.
    unsafe fn total(self) -> f32;
    /// The totals of four registers, with the bits of [`Lanes::total`].
    #[inline(always)]
    unsafe fn totals(four: [Self; 4]) -> [f32; 4] {
        // SAFETY: the caller's promise.
        four.map(|lanes| unsafe { lanes.total() })
    }
    /// [`Lanes::total`] of every register, four at a time.
    #[inline(always)]
    unsafe fn all_totals<const M: usize, const N: usize>(sums: [[Self; N]; M]) -> [[f32; N]; M] {
        let mut totals = [[0.0; N]; M];
        let each = |i: usize| (i / N, i % N);
        let mut done = 0;
        // SAFETY: the caller's promise.
        unsafe {
            while done + 4 <= M * N {
                let at = [done, done + 1, done + 2, done + 3].map(each);
                let four = Self::totals(at.map(|(i, j)| sums[i][j]));
                for ((i, j), total) in at.into_iter().zip(four) {
                    totals[i][j] = total;
                }
                done += 4;
            }
            while done < M * N {
                let (i, j) = each(done);
                totals[i][j] = sums[i][j].total();
                done += 1;
            }
        }
        totals
    }
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
    unsafe fn load_bf16(at: *const u16) -> Self {
        // SAFETY: the caller has eight numbers there.
        unsafe { at.cast::<[u16; 8]>().read_unaligned().map(|bits| f32::from_bits(u32::from(bits) << 16)) }
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
        unsafe fn load_bf16(at: *const u16) -> Self {
            // SAFETY: as above.
            unsafe { vreinterpretq_f32_u32(vshlq_n_u32::<16>(vmovl_u16(vld1_u16(at)))) }
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
        #[inline(always)]
        unsafe fn totals([a, b, c, d]: [Self; 4]) -> [f32; 4] {
            // SAFETY: as above. Neighbors are added, as `vaddvq_f32` adds them.
            unsafe {
                let sums = vpaddq_f32(vpaddq_f32(a, b), vpaddq_f32(c, d));
                core::mem::transmute::<float32x4_t, [f32; 4]>(sums)
            }
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
        unsafe fn load_bf16(at: *const u16) -> Self {
            // SAFETY: the trait's promise.
            unsafe {
                let bits = _mm256_cvtepu16_epi32(_mm_loadu_si128(at.cast()));
                _mm256_castsi256_ps(_mm256_slli_epi32::<16>(bits))
            }
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
        #[inline(always)]
        unsafe fn totals([a, b, c, d]: [Self; 4]) -> [f32; 4] {
            // SAFETY: the trait's promise.
            unsafe { totals_of_halves(halves(a, b), halves(c, d)) }
        }
    }

    /// The upper half of each added to its lower half.
    #[inline(always)]
    unsafe fn halves(a: __m256, b: __m256) -> __m256 {
        // SAFETY: AVX2 is there, as for every caller.
        unsafe { _mm256_add_ps(_mm256_permute2f128_ps::<0x20>(a, b), _mm256_permute2f128_ps::<0x31>(a, b)) }
    }

    /// The sums of four times four lanes: a, b and c, d.
    #[inline(always)]
    unsafe fn totals_of_halves(ab: __m256, cd: __m256) -> [f32; 4] {
        // SAFETY: AVX2 is there, as for every caller.
        unsafe {
            // Lanes 0, 1 of a and c, then of b and d.
            let two = _mm256_add_ps(_mm256_shuffle_ps::<0x44>(ab, cd), _mm256_shuffle_ps::<0xee>(ab, cd));
            let one = _mm256_add_ps(two, _mm256_movehdup_ps(two));
            // In lanes 0 and 2: a and c, then b and d.
            let (ac, bd) = (_mm256_castps256_ps128(one), _mm256_extractf128_ps::<1>(one));
            let sums = _mm_unpacklo_ps(_mm_shuffle_ps::<0x08>(ac, ac), _mm_shuffle_ps::<0x08>(bd, bd));
            let mut out = [0f32; 4];
            _mm_storeu_ps(out.as_mut_ptr(), sums);
            out
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
        unsafe fn load_bf16(at: *const u16) -> Self {
            // SAFETY: the trait's promise.
            unsafe {
                let bits = _mm512_cvtepu16_epi32(_mm256_loadu_si256(at.cast()));
                _mm512_castsi512_ps(_mm512_slli_epi32::<16>(bits))
            }
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
        #[inline(always)]
        unsafe fn totals([a, b, c, d]: [Self; 4]) -> [f32; 4] {
            // SAFETY: the trait's promise.
            unsafe {
                let halves = |a: __m512, b: __m512| {
                    _mm512_add_ps(_mm512_shuffle_f32x4::<0x44>(a, b), _mm512_shuffle_f32x4::<0xee>(a, b))
                };
                // Quarters 0, 1 are of a (c), quarters 2, 3 of b (d); then a quarter of each: a, b, c, d.
                let (ab, cd) = (halves(a, b), halves(c, d));
                let four =
                    _mm512_add_ps(_mm512_shuffle_f32x4::<0x88>(ab, cd), _mm512_shuffle_f32x4::<0xdd>(ab, cd));
                let two = _mm512_add_ps(four, _mm512_permute_ps::<0x4e>(four));
                let one = _mm512_add_ps(two, _mm512_permute_ps::<0xb1>(two));
                let firsts = _mm512_setr_epi32(0, 4, 8, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
                let mut out = [0f32; 4];
                let sums = _mm512_permutexvar_ps(firsts, one);
                _mm_storeu_ps(out.as_mut_ptr(), _mm512_castps512_ps128(sums));
                out
            }
        }
    }
}
