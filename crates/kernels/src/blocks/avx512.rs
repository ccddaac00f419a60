//! Block kinds decoded with AVX-512, 32 weights at a time: to f32, straight to the rows of AMX tiles, or straight into sums
//! of products.
//!
//! A kind ([`Expand`]) hands chunks of 32 weights to a destination ([`Sink`]). Where a group shares one
//! scale and has at most 32 codes, the kind computes the value of each code once and the sink looks the
//! weights up; for bf16 the table itself is rounded, so a weight costs a fraction of an instruction.
//! The arithmetic is that of `scalar.rs`, step by step, and gives the same bits.

use super::avx2::{bits_at, k_scales};
use super::{BlockKind, ROWS, scalar, side_by_side};
use crate::amx::to_bf16;
use core::arch::x86_64::*;

/// Where chunks of 32 weights go.
///
/// All methods need AVX-512 F, BW, DQ, VL, and room for the chunk at the destination.
trait Sink: Copy {
    /// Weights `32 * chunk ..` of the row are `low` (16 of them), then `high`.
    unsafe fn pair(self, chunk: usize, low: __m512, high: __m512);

    /// The weights are `table[code & 15]`: the low halves of sixteen bytes are the first codes, the high halves the others.
    #[inline(always)]
    unsafe fn nibbles16(self, chunk: usize, table: __m512, at: *const u8) {
        // SAFETY: the trait's promise, and the caller reads within its block.
        // A look-up heeds the low four bits of 32: bytes need no words on the way.
        unsafe {
            let codes = _mm512_cvtepu8_epi32(_mm_loadu_si128(at.cast()));
            let low = _mm512_permutexvar_ps(codes, table);
            let high = _mm512_permutexvar_ps(_mm512_srli_epi32::<4>(codes), table);
            self.pair(chunk, low, high);
        }
    }

    /// The low halves of 32 bytes as the codes of one chunk, and the high halves as those of the next.
    #[inline(always)]
    unsafe fn nibbles32(self, chunk: usize, [first, second]: [__m512; 2], at: *const u8) {
        // SAFETY: the trait's promise, and the caller reads within its block.
        unsafe {
            let codes = [at, at.add(16)].map(|at| _mm512_cvtepu8_epi32(_mm_loadu_si128(at.cast())));
            let [low, high] = codes.map(|codes| _mm512_permutexvar_ps(codes, first));
            self.pair(chunk, low, high);
            let [low, high] = codes.map(|codes| _mm512_permutexvar_ps(_mm512_srli_epi32::<4>(codes), second));
            self.pair(chunk + 1, low, high);
        }
    }

    /// The weights are `table[code & 31]`, with 16 entries in each half of the table.
    #[inline(always)]
    unsafe fn table32(self, chunk: usize, table: (__m512, __m512), codes: __m512i) {
        // SAFETY: the trait's promise.
        unsafe {
            let (low, high) = to_dwords(codes);
            let low = _mm512_permutex2var_ps(table.0, low, table.1);
            let high = _mm512_permutex2var_ps(table.0, high, table.1);
            self.pair(chunk, low, high);
        }
    }
}

#[inline(always)]
unsafe fn to_dwords(words: __m512i) -> (__m512i, __m512i) {
    // SAFETY: AVX-512 F is there, as for every caller.
    unsafe {
        (
            _mm512_cvtepu16_epi32(_mm512_castsi512_si256(words)),
            _mm512_cvtepu16_epi32(_mm512_extracti64x4_epi64::<1>(words)),
        )
    }
}

/// A row of f32.
#[derive(Clone, Copy)]
struct F32Row(*mut f32);

impl Sink for F32Row {
    #[inline(always)]
    unsafe fn pair(self, chunk: usize, low: __m512, high: __m512) {
        // SAFETY: the trait's promise.
        unsafe {
            _mm512_storeu_ps(self.0.add(chunk * 32), low);
            _mm512_storeu_ps(self.0.add(chunk * 32 + 16), high);
        }
    }
}

/// A row of consecutive tiles, `step` bytes apart, in bf16. Needs AVX-512 BF16.
#[derive(Clone, Copy)]
struct Bf16Row {
    first: *mut u8,
    step: usize,
}

impl Bf16Row {
    #[inline(always)]
    unsafe fn store(self, chunk: usize, weights: __m512i) {
        // SAFETY: the trait's promise.
        unsafe { _mm512_storeu_si512(self.first.add(chunk * self.step).cast(), weights) }
    }

    /// The weights are `table[code & 15]`, with a code in each of 32 words.
    #[inline(always)]
    unsafe fn table16(self, chunk: usize, table: __m512, codes: __m512i) {
        // SAFETY: the trait's promise. The table is there twice, so the fifth bit of a code does not matter.
        unsafe {
            let table = to_bf16(table, table);
            self.store(chunk, _mm512_permutexvar_epi16(codes, table));
        }
    }
}

impl Sink for Bf16Row {
    #[inline(always)]
    unsafe fn pair(self, chunk: usize, low: __m512, high: __m512) {
        // SAFETY: the trait's promise.
        unsafe { self.store(chunk, to_bf16(low, high)) }
    }

    #[inline(always)]
    unsafe fn nibbles16(self, chunk: usize, table: __m512, at: *const u8) {
        // SAFETY: the trait's promise, and the caller reads within its block.
        unsafe { self.table16(chunk, table, nibbles(at)) }
    }

    #[inline(always)]
    unsafe fn nibbles32(self, chunk: usize, tables: [__m512; 2], at: *const u8) {
        // SAFETY: the trait's promise, and the caller reads within its block.
        unsafe {
            let codes = words_at(at);
            self.table16(chunk, tables[0], codes);
            self.table16(chunk + 1, tables[1], _mm512_srli_epi16::<4>(codes));
        }
    }

    #[inline(always)]
    unsafe fn table32(self, chunk: usize, table: (__m512, __m512), codes: __m512i) {
        // SAFETY: the trait's promise.
        unsafe {
            let table = to_bf16(table.0, table.1);
            self.store(chunk, _mm512_permutexvar_epi16(codes, table));
        }
    }
}

/// A row of consecutive pairs of tiles: the weights in bf16, then what bf16 left out. Needs AVX-512 BF16.
#[derive(Clone, Copy)]
struct SplitRow {
    first: *mut u8,
    step: usize,
}

impl Sink for SplitRow {
    #[inline(always)]
    unsafe fn pair(self, chunk: usize, low: __m512, high: __m512) {
        // SAFETY: the trait's promise.
        unsafe {
            let (main, rest) = to_split(low, high);
            let at = self.first.add(chunk * self.step);
            _mm512_storeu_si512(at.cast(), main);
            _mm512_storeu_si512(at.add(crate::matrix::TILE_BYTES).cast(), rest);
        }
    }
}

/// 32 numbers as a sum of two in bf16; about 16 bits of their 24 survive.
///
/// # Safety
/// The CPU has AVX-512 F and BF16.
#[inline(always)]
pub(crate) unsafe fn to_split(low: __m512, high: __m512) -> (__m512i, __m512i) {
    // SAFETY: the caller's promise.
    unsafe {
        let main = to_bf16(low, high);
        let (main_low, main_high) = to_dwords(main);
        let rest_low = _mm512_sub_ps(low, _mm512_castsi512_ps(_mm512_slli_epi32::<16>(main_low)));
        let rest_high = _mm512_sub_ps(high, _mm512_castsi512_ps(_mm512_slli_epi32::<16>(main_high)));
        (main, to_bf16(rest_low, rest_high))
    }
}

/// Sums of products with M rows of x, lane by lane: what a row of W would give that was stored as f32 first.
#[derive(Clone, Copy)]
struct Dot<const M: usize> {
    x: [*const f32; M],
    sums: *mut [__m512; M],
}

impl<const M: usize> Sink for Dot<M> {
    #[inline(always)]
    unsafe fn pair(self, chunk: usize, low: __m512, high: __m512) {
        // SAFETY: the trait's promise.
        unsafe {
            for (x, sum) in self.x.iter().zip(&mut *self.sums) {
                let x = x.add(chunk * 32);
                *sum = _mm512_fmadd_ps(_mm512_loadu_ps(x), low, *sum);
                *sum = _mm512_fmadd_ps(_mm512_loadu_ps(x.add(16)), high, *sum);
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

/// The value of an expression in which `$e` is the [`Expand`] of a kind.
macro_rules! for_kind {
    ($kind:expr, $e:ident => $value:expr) => {
        for_kind!(@ $kind, $e => $value, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2K, Q3K, Q4K, Q5K, Q6K)
    };
    (@ $kind:expr, $e:ident => $value:expr, $($name:ident),*) => {
        match $kind {
            $(BlockKind::$name => { type $e = $name; $value })*
        }
    };
}

/// Decodes `weights` weights to f32.
///
/// # Safety
/// The level AVX-512 is available; `blocks` holds that many weights in whole blocks and `out` has room.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,f16c")]
pub(crate) unsafe fn row_to_f32(kind: BlockKind, blocks: *const u8, out: *mut f32, weights: usize) {
    // SAFETY: the caller's promise.
    unsafe { for_kind!(kind, E => expand_row::<E, _>(blocks, weights, F32Row(out))) }
}

/// Decodes `weights` weights to bf16, 32 of them at `first`, the next 32 `step` bytes further, and so on.
///
/// # Safety
/// The level AMX is available; `blocks` holds that many weights in whole blocks and every destination is writable.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,f16c")]
pub(crate) unsafe fn row_to_bf16(
    kind: BlockKind,
    blocks: *const u8,
    weights: usize,
    first: *mut u8,
    step: usize,
) {
    // SAFETY: the caller's promise.
    unsafe { for_kind!(kind, E => expand_row::<E, _>(blocks, weights, Bf16Row { first, step })) }
}

/// Like [`row_to_bf16`], with the remainders one tile further.
///
/// # Safety
/// That of [`row_to_bf16`], for both tiles.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,f16c")]
pub(crate) unsafe fn row_to_split(
    kind: BlockKind,
    blocks: *const u8,
    weights: usize,
    first: *mut u8,
    step: usize,
) {
    // SAFETY: the caller's promise.
    unsafe { for_kind!(kind, E => expand_row::<E, _>(blocks, weights, SplitRow { first, step })) }
}

/// Adds the products of M rows of x with [`ROWS`] rows of blocks of `weights` weights to `sums`, in the order of the columns.
///
/// # Safety
/// The level AVX-512 is available; every row holds that many weights in whole blocks, and every row of x as many numbers.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,f16c")]
pub(crate) unsafe fn dot<const M: usize>(
    kind: BlockKind,
    rows: [*const u8; ROWS],
    x: [*const f32; M],
    weights: usize,
    sums: &mut [[__m512; M]; ROWS],
) {
    // SAFETY: the caller's promise.
    unsafe { for_kind!(kind, E => dot_rows::<E, M>(rows, x, weights, sums)) }
}

#[inline(always)]
unsafe fn dot_rows<E: Expand, const M: usize>(
    rows: [*const u8; ROWS],
    x: [*const f32; M],
    weights: usize,
    to: &mut [[__m512; M]; ROWS],
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

/// The codes 0 to 15, plus `first`, as f32.
///
/// # Safety
/// The CPU has AVX-512 F.
#[inline(always)]
pub(crate) unsafe fn codes_from(first: f32) -> __m512 {
    // SAFETY: the caller's promise.
    unsafe {
        let codes = _mm512_setr_ps(0., 1., 2., 3., 4., 5., 6., 7., 8., 9., 10., 11., 12., 13., 14., 15.);
        _mm512_add_ps(codes, _mm512_set1_ps(first))
    }
}

/// The f16 number at `at` in every lane.
#[inline(always)]
unsafe fn half_at(at: *const u8) -> __m512 {
    // SAFETY: the caller reads within its block.
    unsafe { _mm512_cvtph_ps(_mm256_set1_epi16(at.cast::<i16>().read_unaligned())) }
}

/// The two f16 numbers at `at`, each in every lane.
#[inline(always)]
unsafe fn halves_at(at: *const u8) -> (__m512, __m512) {
    // SAFETY: the caller reads within its block.
    unsafe {
        let pairs = _mm512_cvtph_ps(_mm256_set1_epi32(at.cast::<i32>().read_unaligned()));
        (_mm512_moveldup_ps(pairs), _mm512_movehdup_ps(pairs))
    }
}

/// 32 words from 16 bytes: the bytes, then the bytes shifted right by 4. Upper bits are not cleared.
#[inline(always)]
unsafe fn nibbles(at: *const u8) -> __m512i {
    // SAFETY: the caller reads within its block.
    unsafe {
        let twice = _mm256_broadcastsi128_si256(_mm_loadu_si128(at.cast()));
        let shifts = _mm512_inserti64x4::<1>(_mm512_setzero_si512(), _mm256_set1_epi16(4));
        _mm512_srlv_epi16(_mm512_cvtepu8_epi16(twice), shifts)
    }
}

/// Codes of five bits: the low four of `low`, and a fifth where the mask has a bit.
#[inline(always)]
unsafe fn with_fifth_bit(low: __m512i, fifth: u32) -> __m512i {
    // SAFETY: AVX-512 BW is there, as for every caller.
    unsafe {
        let low = _mm512_and_si512(low, _mm512_set1_epi16(15));
        _mm512_mask_add_epi16(low, fifth, low, _mm512_set1_epi16(16))
    }
}

/// 32 words from 32 bytes.
#[inline(always)]
unsafe fn words_at(at: *const u8) -> __m512i {
    // SAFETY: the caller reads within its block.
    unsafe { _mm512_cvtepu8_epi16(_mm256_loadu_si256(at.cast())) }
}

/// 32 signed bytes as f32.
#[inline(always)]
unsafe fn signed_bytes(bytes: __m256i) -> (__m512, __m512) {
    // SAFETY: AVX-512 F is there, as for every caller.
    unsafe {
        let low = _mm512_cvtepi8_epi32(_mm256_castsi256_si128(bytes));
        let high = _mm512_cvtepi8_epi32(_mm256_extracti128_si256::<1>(bytes));
        (_mm512_cvtepi32_ps(low), _mm512_cvtepi32_ps(high))
    }
}

/// Sixteen numbers, to be broadcast one by one.
#[inline(always)]
unsafe fn to_array(numbers: __m512) -> [f32; 16] {
    let mut out = [0f32; 16];
    // SAFETY: `out` has room for 16 numbers.
    unsafe { _mm512_storeu_ps(out.as_mut_ptr(), numbers) };
    out
}

struct Q4_0;
impl Expand for Q4_0 {
    const KIND: BlockKind = BlockKind::Q4_0;
    #[inline(always)]
    unsafe fn block<S: Sink>(block: *const u8, first: usize, sink: S) {
        // SAFETY: the trait's promise.
        unsafe {
            let table = _mm512_mul_ps(half_at(block), codes_from(-8.0));
            sink.nibbles16(first, table, block.add(2));
        }
    }
}

struct Q4_1;
impl Expand for Q4_1 {
    const KIND: BlockKind = BlockKind::Q4_1;
    #[inline(always)]
    unsafe fn block<S: Sink>(block: *const u8, first: usize, sink: S) {
        // SAFETY: the trait's promise.
        unsafe {
            let (d, m) = halves_at(block);
            let table = _mm512_add_ps(_mm512_mul_ps(d, codes_from(0.0)), m);
            sink.nibbles16(first, table, block.add(4));
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
            let table = (_mm512_mul_ps(d, codes_from(-16.0)), _mm512_mul_ps(d, codes_from(0.0)));
            let fifth = block.add(2).cast::<u32>().read_unaligned();
            sink.table32(first, table, with_fifth_bit(nibbles(block.add(6)), fifth));
        }
    }
}

struct Q5_1;
impl Expand for Q5_1 {
    const KIND: BlockKind = BlockKind::Q5_1;
    #[inline(always)]
    unsafe fn block<S: Sink>(block: *const u8, first: usize, sink: S) {
        // SAFETY: the trait's promise.
        unsafe {
            let (d, m) = halves_at(block);
            let table = (
                _mm512_add_ps(_mm512_mul_ps(d, codes_from(0.0)), m),
                _mm512_add_ps(_mm512_mul_ps(d, codes_from(16.0)), m),
            );
            let fifth = block.add(4).cast::<u32>().read_unaligned();
            sink.table32(first, table, with_fifth_bit(nibbles(block.add(8)), fifth));
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
            let (low, high) = signed_bytes(_mm256_loadu_si256(block.add(2).cast()));
            sink.pair(first, _mm512_mul_ps(low, d), _mm512_mul_ps(high, d));
        }
    }
}

struct Q2K;
impl Expand for Q2K {
    const KIND: BlockKind = BlockKind::Q2K;
    #[inline(always)]
    unsafe fn block<S: Sink>(block: *const u8, first: usize, sink: S) {
        // SAFETY: the trait's promise.
        unsafe {
            let packed = _mm512_cvtepu8_epi32(_mm_loadu_si128(block.cast()));
            let scales = _mm512_cvtepi32_ps(_mm512_and_si512(packed, _mm512_set1_epi32(15)));
            let minimums = _mm512_cvtepi32_ps(_mm512_srli_epi32::<4>(packed));
            let scales = to_array(_mm512_mul_ps(scales, half_at(block.add(80))));
            let minimums = to_array(_mm512_mul_ps(minimums, half_at(block.add(82))));
            for chunk in 0..8 {
                let codes = bits_at(block.add(16 + chunk / 4 * 32), chunk % 4 * 2, 3);
                let (low, high) = signed_bytes(codes);
                let weights = |codes, group| {
                    let scaled = _mm512_mul_ps(codes, _mm512_set1_ps(scales[group]));
                    _mm512_sub_ps(scaled, _mm512_set1_ps(minimums[group]))
                };
                let (low, high) = (weights(low, chunk * 2), weights(high, chunk * 2 + 1));
                sink.pair(first + chunk, low, high);
            }
        }
    }
}

struct Q3K;
impl Expand for Q3K {
    const KIND: BlockKind = BlockKind::Q3K;
    #[inline(always)]
    unsafe fn block<S: Sink>(block: *const u8, first: usize, sink: S) {
        // SAFETY: the trait's promise.
        unsafe {
            let scales = scalar::q3k_scales(&block.add(96).cast::<[u8; 12]>().read_unaligned());
            let scales = _mm512_cvtepi8_epi32(_mm_loadu_si128(scales.as_ptr().cast()));
            let scales = _mm512_mul_ps(_mm512_cvtepi32_ps(scales), half_at(block.add(108)));
            let scales = to_array(scales);
            let third_bits = _mm256_loadu_si256(block.cast());
            let four = _mm256_set1_epi8(4);
            for chunk in 0..8 {
                let codes = bits_at(block.add(32 + chunk / 4 * 32), chunk % 4 * 2, 3);
                let third = _mm256_test_epi8_mask(third_bits, _mm256_set1_epi8((1 << chunk) as i8));
                let codes = _mm256_mask_sub_epi8(codes, !third, codes, four);
                let (low, high) = signed_bytes(codes);
                let low = _mm512_mul_ps(low, _mm512_set1_ps(scales[chunk * 2]));
                let high = _mm512_mul_ps(high, _mm512_set1_ps(scales[chunk * 2 + 1]));
                sink.pair(first + chunk, low, high);
            }
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
            let table = |group: usize| {
                let scaled = _mm512_mul_ps(_mm512_set1_ps(scales[group]), codes_from(0.0));
                _mm512_sub_ps(scaled, _mm512_set1_ps(minimums[group]))
            };
            for pair in 0..4 {
                let tables = [table(pair * 2), table(pair * 2 + 1)];
                sink.nibbles32(first + pair * 2, tables, block.add(16 + pair * 32));
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
            let table = |group: usize| {
                let scale = _mm512_set1_ps(scales[group]);
                let minimum = _mm512_set1_ps(minimums[group]);
                (
                    _mm512_sub_ps(_mm512_mul_ps(scale, codes_from(0.0)), minimum),
                    _mm512_sub_ps(_mm512_mul_ps(scale, codes_from(16.0)), minimum),
                )
            };
            let fifth_bits = words_at(block.add(16));
            let fifth = |group: usize| _mm512_test_epi16_mask(fifth_bits, _mm512_set1_epi16(1 << group));
            for pair in 0..4 {
                let group = pair * 2;
                let low = words_at(block.add(48 + pair * 32));
                let codes = with_fifth_bit(low, fifth(group));
                sink.table32(first + group, table(group), codes);
                let codes = with_fifth_bit(_mm512_srli_epi16::<4>(low), fifth(group + 1));
                sink.table32(first + group + 1, table(group + 1), codes);
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
            let scales = _mm512_cvtepi8_epi32(_mm_loadu_si128(block.add(192).cast()));
            let scales = _mm512_mul_ps(_mm512_cvtepi32_ps(scales), half_at(block.add(208)));
            let scales = to_array(scales);
            for chunk in 0..8 {
                let (half, quarter) = (chunk / 4, chunk % 4);
                let low = bits_at(block.add(half * 64 + quarter % 2 * 32), quarter / 2 * 4, 15);
                let high = bits_at(block.add(128 + half * 32), quarter * 2, 3);
                let codes = _mm256_or_si256(low, _mm256_slli_epi16::<4>(high));
                let codes = _mm256_sub_epi8(codes, _mm256_set1_epi8(32));
                let (low, high) = signed_bytes(codes);
                let low = _mm512_mul_ps(low, _mm512_set1_ps(scales[chunk * 2]));
                let high = _mm512_mul_ps(high, _mm512_set1_ps(scales[chunk * 2 + 1]));
                sink.pair(first + chunk, low, high);
            }
        }
    }
}
