//! Block kinds decoded with AVX2, 32 weights at a time, to f32 or straight into sums of products.
//!
//! As in `avx512.rs` a kind ([`Expand`]) hands chunks of 32 weights to a destination ([`Sink`]), with the arithmetic of
//! `scalar.rs` and the same bits. Q2K and Q3K, which hardly anyone uses, are left to
//! `scalar.rs`.

use super::{BlockKind, ROWS, scalar, side_by_side};
use core::arch::x86_64::*;

/// Where chunks of 32 weights go.
///
/// The method needs AVX2 and FMA, and room for the chunk at the destination.
trait Sink: Copy {
    /// Weights `32 * chunk ..` of the row, eight in each register.
    unsafe fn chunk(self, chunk: usize, weights: [__m256; 4]);
}

/// A row of f32.
#[derive(Clone, Copy)]
struct F32Row(*mut f32);

impl Sink for F32Row {
    #[inline(always)]
    unsafe fn chunk(self, chunk: usize, weights: [__m256; 4]) {
        for (part, weights) in weights.into_iter().enumerate() {
            // SAFETY: the trait's promise.
            unsafe { _mm256_storeu_ps(self.0.add(chunk * 32 + part * 8), weights) }
        }
    }
}

/// Sums of products with M rows of x, lane by lane: what a row of W would give that was stored as f32 first.
#[derive(Clone, Copy)]
struct Dot<const M: usize> {
    x: [*const f32; M],
    sums: *mut [__m256; M],
}

impl<const M: usize> Sink for Dot<M> {
    #[inline(always)]
    unsafe fn chunk(self, chunk: usize, weights: [__m256; 4]) {
        // SAFETY: the trait's promise.
        unsafe {
            for (x, sum) in self.x.iter().zip(&mut *self.sums) {
                for (part, weights) in weights.into_iter().enumerate() {
                    *sum = _mm256_fmadd_ps(_mm256_loadu_ps(x.add(chunk * 32 + part * 8)), weights, *sum);
                }
            }
        }
    }
}

/// A block kind: decodes the block at `block` into chunks `first ..` of a sink.
trait Expand {
    const KIND: BlockKind;

    /// # Safety
    /// The sink's promises hold, and the whole block is readable.
    unsafe fn block<S: Sink>(block: *const u8, first: usize, sink: S);
}

/// Whether this file decodes a kind.
pub(crate) fn decodes(kind: BlockKind) -> bool {
    !matches!(kind, BlockKind::Q2K | BlockKind::Q3K)
}

/// The value of an expression in which `$e` is the [`Expand`] of a kind.
macro_rules! for_kind {
    ($kind:expr, $e:ident => $value:expr) => {
        for_kind!(@ $kind, $e => $value, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4K, Q5K, Q6K)
    };
    (@ $kind:expr, $e:ident => $value:expr, $($name:ident),*) => {
        match $kind {
            $(BlockKind::$name => { type $e = $name; $value })*
            BlockKind::Q2K | BlockKind::Q3K => unreachable!("not decoded here"),
        }
    };
}

/// Decodes `weights` weights to f32.
///
/// # Safety
/// The level AVX2 is available and this file [`decodes`] the kind; `blocks` holds that many weights in whole blocks and `out`
/// has room.
#[target_feature(enable = "avx2,fma,f16c")]
pub(crate) unsafe fn row_to_f32(kind: BlockKind, blocks: *const u8, out: *mut f32, weights: usize) {
    // SAFETY: the caller's promise.
    unsafe { for_kind!(kind, E => expand_row::<E, _>(blocks, weights, F32Row(out))) }
}

#[inline(always)]
unsafe fn expand_row<E: Expand, S: Sink>(blocks: *const u8, weights: usize, sink: S) {
    for index in 0..weights / E::KIND.block_length() {
        // SAFETY: the callers promise `weights` weights of blocks and of room.
        unsafe {
            let block = blocks.add(index * E::KIND.block_bytes());
            E::block(block, index * (E::KIND.block_length() / 32), sink);
        }
    }
}

/// Adds the products of M rows of x with [`ROWS`] rows of blocks of `weights` weights to `sums`, in the order of the columns.
///
/// # Safety
/// The level AVX2 is available and this file [`decodes`] the kind; every row holds that many weights in whole blocks, and
/// every row of x as many numbers.
#[target_feature(enable = "avx2,fma,f16c")]
pub(crate) unsafe fn dot<const M: usize>(
    kind: BlockKind,
    rows: [*const u8; ROWS],
    x: [*const f32; M],
    weights: usize,
    sums: &mut [[__m256; M]; ROWS],
) {
    // SAFETY: the caller's promise.
    unsafe { for_kind!(kind, E => dot_rows::<E, M>(rows, x, weights, sums)) }
}

#[inline(always)]
unsafe fn dot_rows<E: Expand, const M: usize>(
    rows: [*const u8; ROWS],
    x: [*const f32; M],
    weights: usize,
    to: &mut [[__m256; M]; ROWS],
) {
    let mut sums = *to;
    // SAFETY: the caller promises `weights` weights of blocks in every row, and as many numbers of x.
    unsafe {
        side_by_side(E::KIND, rows, weights, |row, block, chunk| {
            E::block(block, chunk, Dot { x, sums: &mut sums[row] });
        });
    }
    *to = sums;
}

/// The f16 number at `at`.
#[inline(always)]
unsafe fn scalar_half_at(at: *const u8) -> f32 {
    // SAFETY: the caller reads within its block.
    unsafe {
        let bits = i32::from(at.cast::<u16>().read_unaligned());
        _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(bits)))
    }
}

/// The f16 number at `at` in every lane.
#[inline(always)]
unsafe fn half_at(at: *const u8) -> __m256 {
    // SAFETY: the caller reads within its block.
    unsafe { _mm256_cvtph_ps(_mm_set1_epi16(at.cast::<i16>().read_unaligned())) }
}

/// 32 signed bytes as f32.
#[inline(always)]
unsafe fn floats(bytes: __m256i) -> [__m256; 4] {
    // SAFETY: AVX2 is there, as for every caller.
    unsafe {
        let (low, high) = (_mm256_castsi256_si128(bytes), _mm256_extracti128_si256::<1>(bytes));
        [low, _mm_srli_si128::<8>(low), high, _mm_srli_si128::<8>(high)]
            .map(|eight| _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(eight)))
    }
}

/// 32 codes from 16 bytes: their low halves, then their high halves.
#[inline(always)]
unsafe fn nibbles(at: *const u8) -> __m256i {
    // SAFETY: the caller reads within its block.
    unsafe {
        let bytes = _mm_loadu_si128(at.cast());
        let both = _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(bytes), _mm_srli_epi16::<4>(bytes));
        _mm256_and_si256(both, _mm256_set1_epi8(15))
    }
}

/// 16 in each byte whose bit is set.
#[inline(always)]
unsafe fn fifth_bits(bits: u32) -> __m256i {
    // SAFETY: AVX2 is there, as for every caller.
    unsafe {
        const OF_BYTE: [i64; 4] = [0, 0x0101_0101_0101_0101, 0x0202_0202_0202_0202, 0x0303_0303_0303_0303];
        let [a, b, c, d] = OF_BYTE;
        let spread = _mm256_shuffle_epi8(_mm256_set1_epi32(bits as i32), _mm256_setr_epi64x(a, b, c, d));
        // A bit of its own in each of eight bytes.
        let own = _mm256_set1_epi64x(0x8040_2010_0804_0201_u64 as i64);
        let is_set = _mm256_cmpeq_epi8(_mm256_and_si256(spread, own), own);
        _mm256_and_si256(is_set, _mm256_set1_epi8(16))
    }
}

/// 32 bytes shifted right by `bits` within each byte, cut to `mask`.
#[inline(always)]
pub(super) unsafe fn bits_at(at: *const u8, bits: usize, mask: i8) -> __m256i {
    // SAFETY: the caller reads within its block.
    unsafe {
        let shifted = _mm256_srl_epi16(_mm256_loadu_si256(at.cast()), _mm_cvtsi32_si128(bits as i32));
        _mm256_and_si256(shifted, _mm256_set1_epi8(mask))
    }
}

/// scale · code − minimum, each step rounded.
#[inline(always)]
unsafe fn scaled(codes: __m256i, scale: f32, minimum: f32) -> [__m256; 4] {
    // SAFETY: AVX2 is there, as for every caller.
    unsafe {
        let (scale, minimum) = (_mm256_set1_ps(scale), _mm256_set1_ps(minimum));
        floats(codes).map(|codes| _mm256_sub_ps(_mm256_mul_ps(scale, codes), minimum))
    }
}

/// The eight scales and minimums of a Q4K or Q5K block, multiplied by `d` and `dmin`.
#[inline(always)]
pub(super) unsafe fn k_scales(block: *const u8) -> ([f32; 8], [f32; 8]) {
    // SAFETY: the caller's block is readable, and each array has room for 8 numbers.
    unsafe {
        let (d, dmin) = (scalar_half_at(block), scalar_half_at(block.add(2)));
        let (scales, minimums) = scalar::k_scales(&block.add(4).cast::<[u8; 12]>().read_unaligned());
        let times = |bytes: [u8; 8], factor: f32| {
            let dwords = _mm256_cvtepu8_epi32(_mm_cvtsi64_si128(i64::from_le_bytes(bytes)));
            let mut out = [0f32; 8];
            let product = _mm256_mul_ps(_mm256_cvtepi32_ps(dwords), _mm256_set1_ps(factor));
            _mm256_storeu_ps(out.as_mut_ptr(), product);
            out
        };
        (times(scales, d), times(minimums, dmin))
    }
}

struct Q4_0;
impl Expand for Q4_0 {
    const KIND: BlockKind = BlockKind::Q4_0;
    #[inline(always)]
    unsafe fn block<S: Sink>(block: *const u8, first: usize, sink: S) {
        // SAFETY: the trait's promise.
        unsafe {
            let d = half_at(block);
            let codes = _mm256_sub_epi8(nibbles(block.add(2)), _mm256_set1_epi8(8));
            sink.chunk(first, floats(codes).map(|codes| _mm256_mul_ps(d, codes)));
        }
    }
}

struct Q4_1;
impl Expand for Q4_1 {
    const KIND: BlockKind = BlockKind::Q4_1;
    #[inline(always)]
    unsafe fn block<S: Sink>(block: *const u8, first: usize, sink: S) {
        // SAFETY: the trait's promise. d·q has no more bits than f32, so that it is rounded once, fused or not.
        unsafe {
            let (d, m) = (half_at(block), half_at(block.add(2)));
            let codes = nibbles(block.add(4));
            sink.chunk(first, floats(codes).map(|codes| _mm256_fmadd_ps(d, codes, m)));
        }
    }
}

struct Q5_0;
impl Expand for Q5_0 {
    const KIND: BlockKind = BlockKind::Q5_0;
    #[inline(always)]
    unsafe fn block<S: Sink>(block: *const u8, first: usize, sink: S) {
        // SAFETY: the trait's promise.
        unsafe {
            let d = half_at(block);
            let fifth = fifth_bits(block.add(2).cast::<u32>().read_unaligned());
            let codes = _mm256_or_si256(nibbles(block.add(6)), fifth);
            let codes = _mm256_sub_epi8(codes, _mm256_set1_epi8(16));
            sink.chunk(first, floats(codes).map(|codes| _mm256_mul_ps(d, codes)));
        }
    }
}

struct Q5_1;
impl Expand for Q5_1 {
    const KIND: BlockKind = BlockKind::Q5_1;
    #[inline(always)]
    unsafe fn block<S: Sink>(block: *const u8, first: usize, sink: S) {
        // SAFETY: the trait's promise. As for Q4_1, d·q is exact.
        unsafe {
            let (d, m) = (half_at(block), half_at(block.add(2)));
            let fifth = fifth_bits(block.add(4).cast::<u32>().read_unaligned());
            let codes = _mm256_or_si256(nibbles(block.add(8)), fifth);
            sink.chunk(first, floats(codes).map(|codes| _mm256_fmadd_ps(d, codes, m)));
        }
    }
}

struct Q8_0;
impl Expand for Q8_0 {
    const KIND: BlockKind = BlockKind::Q8_0;
    #[inline(always)]
    unsafe fn block<S: Sink>(block: *const u8, first: usize, sink: S) {
        // SAFETY: the trait's promise.
        unsafe {
            let d = half_at(block);
            let codes = _mm256_loadu_si256(block.add(2).cast());
            sink.chunk(first, floats(codes).map(|codes| _mm256_mul_ps(codes, d)));
        }
    }
}

struct Q4K;
impl Expand for Q4K {
    const KIND: BlockKind = BlockKind::Q4K;
    #[inline(always)]
    unsafe fn block<S: Sink>(block: *const u8, first: usize, sink: S) {
        // SAFETY: the trait's promise.
        unsafe {
            let (scales, minimums) = k_scales(block);
            for group in 0..8 {
                let codes = bits_at(block.add(16 + group / 2 * 32), group % 2 * 4, 15);
                sink.chunk(first + group, scaled(codes, scales[group], minimums[group]));
            }
        }
    }
}

struct Q5K;
impl Expand for Q5K {
    const KIND: BlockKind = BlockKind::Q5K;
    #[inline(always)]
    unsafe fn block<S: Sink>(block: *const u8, first: usize, sink: S) {
        // SAFETY: the trait's promise.
        unsafe {
            let (scales, minimums) = k_scales(block);
            let fifth = _mm256_loadu_si256(block.add(16).cast());
            for group in 0..8 {
                let codes = bits_at(block.add(48 + group / 2 * 32), group % 2 * 4, 15);
                let bit = _mm256_set1_epi8((1u8 << group) as i8);
                let is_set = _mm256_cmpeq_epi8(_mm256_and_si256(fifth, bit), bit);
                let codes = _mm256_or_si256(codes, _mm256_and_si256(is_set, _mm256_set1_epi8(16)));
                sink.chunk(first + group, scaled(codes, scales[group], minimums[group]));
            }
        }
    }
}

struct Q6K;
impl Expand for Q6K {
    const KIND: BlockKind = BlockKind::Q6K;
    #[inline(always)]
    unsafe fn block<S: Sink>(block: *const u8, first: usize, sink: S) {
        // SAFETY: the trait's promise.
        unsafe {
            let d = scalar_half_at(block.add(208));
            let scales = block.add(192).cast::<[i8; 16]>().read_unaligned();
            for chunk in 0..8 {
                let (half, quarter) = (chunk / 4, chunk % 4);
                let low = bits_at(block.add(half * 64 + quarter % 2 * 32), quarter / 2 * 4, 15);
                let high = bits_at(block.add(128 + half * 32), quarter * 2, 3);
                let codes = _mm256_or_si256(low, _mm256_slli_epi16::<4>(high));
                let [a, b, c, d] = {
                    let scale = |index| _mm256_set1_ps(d * f32::from(scales[chunk * 2 + index]));
                    let [a, b, c, d] = floats(_mm256_sub_epi8(codes, _mm256_set1_epi8(32)));
                    let times = |codes, index| _mm256_mul_ps(scale(index), codes);
                    [times(a, 0), times(b, 0), times(c, 1), times(d, 1)]
                };
                sink.chunk(first + chunk, [a, b, c, d]);
            }
        }
    }
}
