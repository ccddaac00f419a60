//! The definition of every block kind in plain Rust, after `ggml-quants.c` and the Python package `gguf`.
//!
//! Each function decodes one block. Numbers in a block are little-endian; `d` and `dmin` are f16. Every
//! weight is rounded as the Python package rounds it (a product, then a difference; never fused), so
//! that golden files compare bit by bit.

use super::BlockKind;

/// Decodes whole blocks.
pub(super) fn dequantize(kind: BlockKind, bytes: &[u8], out: &mut [f32]) {
    each_block(kind, bytes, out);
}

/// [`dequantize`], compiled for AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
pub(super) fn dequantize_avx2(kind: BlockKind, bytes: &[u8], out: &mut [f32]) {
    each_block(kind, bytes, out);
}

#[inline(always)]
fn each_block(kind: BlockKind, bytes: &[u8], out: &mut [f32]) {
    // Not a function that is handed the decoder: called through a pointer, it would be compiled without AVX2.
    macro_rules! run {
        ($bytes:literal, $length:literal, $decode:ident) => {{
            let (blocks, _) = bytes.as_chunks::<$bytes>();
            let (groups, _) = out.as_chunks_mut::<$length>();
            for (block, group) in blocks.iter().zip(groups) {
                $decode(block, group);
            }
        }};
    }
    match kind {
        BlockKind::Q4_0 => run!(18, 32, q4_0),
        BlockKind::Q4_1 => run!(20, 32, q4_1),
        BlockKind::Q5_0 => run!(22, 32, q5_0),
        BlockKind::Q5_1 => run!(24, 32, q5_1),
        BlockKind::Q8_0 => run!(34, 32, q8_0),
        BlockKind::Q2K => run!(84, 256, q2k),
        BlockKind::Q3K => run!(110, 256, q3k),
        BlockKind::Q4K => run!(144, 256, q4k),
        BlockKind::Q5K => run!(176, 256, q5k),
        BlockKind::Q6K => run!(210, 256, q6k),
    }
}

#[inline(always)]
fn half_at(block: &[u8], at: usize) -> f32 {
    let bits = u32::from(u16::from_le_bytes([block[at], block[at + 1]]));
    // Exponent and fraction in their new places, then the exponent's new bias; subnormal numbers come out right, too.
    let (magnitude, sign) = (bits & 0x7fff, (bits & 0x8000) << 16);
    let finite = f32::from_bits(magnitude << 13) * f32::from_bits((254 - 15) << 23);
    let magnitude =
        if magnitude >= 0x7c00 { 0x7f80_0000 | (magnitude & 0x3ff) << 13 } else { finite.to_bits() };
    f32::from_bits(magnitude | sign)
}

/// d (2 bytes), 16 bytes of nibbles: low ones are weights 0–15, high ones 16–31. w = d·(q − 8).
#[inline(always)]
fn q4_0(block: &[u8; 18], out: &mut [f32; 32]) {
    let d = half_at(block, 0);
    for i in 0..16 {
        out[i] = d * f32::from((block[2 + i] & 15) as i8 - 8);
    }
    for i in 0..16 {
        out[16 + i] = d * f32::from((block[2 + i] >> 4) as i8 - 8);
    }
}

/// d, m, 16 bytes of nibbles. w = d·q + m.
#[inline(always)]
fn q4_1(block: &[u8; 20], out: &mut [f32; 32]) {
    let (d, m) = (half_at(block, 0), half_at(block, 2));
    for i in 0..16 {
        out[i] = d * f32::from(block[4 + i] & 15) + m;
    }
    for i in 0..16 {
        out[16 + i] = d * f32::from(block[4 + i] >> 4) + m;
    }
}

/// d, 32 fifth bits, 16 bytes of nibbles. w = d·(q − 16).
#[inline(always)]
fn q5_0(block: &[u8; 22], out: &mut [f32; 32]) {
    let d = half_at(block, 0);
    let fifth = u32::from_le_bytes([block[2], block[3], block[4], block[5]]);
    for i in 0..16 {
        let byte = block[6 + i];
        let low = (byte & 15) | (((fifth >> i) & 1) << 4) as u8;
        let high = (byte >> 4) | (((fifth >> (i + 16)) & 1) << 4) as u8;
        out[i] = d * f32::from(low as i8 - 16);
        out[i + 16] = d * f32::from(high as i8 - 16);
    }
}

/// d, m, 32 fifth bits, 16 bytes of nibbles. w = d·q + m.
#[inline(always)]
fn q5_1(block: &[u8; 24], out: &mut [f32; 32]) {
    let (d, m) = (half_at(block, 0), half_at(block, 2));
    let fifth = u32::from_le_bytes([block[4], block[5], block[6], block[7]]);
    for i in 0..16 {
        let byte = block[8 + i];
        let low = (byte & 15) | (((fifth >> i) & 1) << 4) as u8;
        let high = (byte >> 4) | (((fifth >> (i + 16)) & 1) << 4) as u8;
        out[i] = d * f32::from(low) + m;
        out[i + 16] = d * f32::from(high) + m;
    }
}

/// d, 32 signed bytes. w = d·q.
#[inline(always)]
fn q8_0(block: &[u8; 34], out: &mut [f32; 32]) {
    let d = half_at(block, 0);
    for i in 0..32 {
        out[i] = f32::from(block[2 + i] as i8) * d;
    }
}

/// 16 bytes of scale and minimum (a nibble each, for 16 weights), 64 bytes of 2-bit weights, d, dmin.
/// w = d·scale·q − dmin·minimum.
#[inline(always)]
fn q2k(block: &[u8; 84], out: &mut [f32; 256]) {
    let (d, dmin) = (half_at(block, 80), half_at(block, 82));
    for group in 0..16 {
        let packed = block[group];
        let (scale, minimum) = (d * f32::from(packed & 15), dmin * f32::from(packed >> 4));
        // Groups 0–7 are in the first 32 bytes: two groups for each pair of bits.
        let (first, shift) = (16 + group / 8 * 32 + group % 2 * 16, (group % 8 / 2 * 2) as u32);
        for i in 0..16 {
            let q = (block[first + i] >> shift) & 3;
            out[group * 16 + i] = scale * f32::from(q) - minimum;
        }
    }
}

/// 32 bytes of third bits, 64 bytes of 2-bit weights, 12 bytes of 6-bit scales, d.
/// w = d·(scale − 32)·(q − 4), where the third bit is worth 4.
#[inline(always)]
fn q3k(block: &[u8; 110], out: &mut [f32; 256]) {
    let d = half_at(block, 108);
    let scales = q3k_scales(block[96..108].try_into().expect("12 bytes"));
    for group in 0..16 {
        let scale = d * f32::from(scales[group]);
        let (first, shift) = (32 + group / 8 * 32 + group % 2 * 16, (group % 8 / 2 * 2) as u32);
        for i in 0..16 {
            let low = (block[first + i] >> shift) & 3;
            let third = (block[group % 2 * 16 + i] >> (group / 2)) & 1;
            let q = (low | (third << 2)) as i8 - 4;
            out[group * 16 + i] = scale * f32::from(q);
        }
    }
}

/// The sixteen scales of a Q3K block, less 32: four low bits from the first 8 bytes, two high bits from the rest.
#[inline(always)]
pub(super) fn q3k_scales(packed: &[u8; 12]) -> [i8; 16] {
    core::array::from_fn(|i| {
        let low = (packed[i % 8] >> (i / 8 * 4)) & 15;
        let high = (packed[8 + i % 4] >> (i / 4 * 2)) & 3;
        (low | (high << 4)) as i8 - 32
    })
}

/// The eight 6-bit scales and minimums of a Q4K or Q5K block.
///
/// Bytes 0–3 hold scales 0–3, bytes 4–7 minimums 0–3, bytes 8–11 the low four bits of scales and
/// minimums 4–7, whose top two bits sit above the first eight.
#[inline(always)]
pub(super) fn k_scales(packed: &[u8; 12]) -> ([u8; 8], [u8; 8]) {
    let word = |at: usize| u32::from_le_bytes([packed[at], packed[at + 1], packed[at + 2], packed[at + 3]]);
    let (a, b, c) = (word(0), word(4), word(8));
    const SIX: u32 = 0x3f3f_3f3f;
    const FOUR: u32 = 0x0f0f_0f0f;
    const TOP: u32 = 0x3030_3030;
    let scales = u64::from(a & SIX) | (u64::from((c & FOUR) | ((a >> 2) & TOP)) << 32);
    let minimums = u64::from(b & SIX) | (u64::from(((c >> 4) & FOUR) | ((b >> 2) & TOP)) << 32);
    (scales.to_le_bytes(), minimums.to_le_bytes())
}

/// The scale and the minimum of each group of a Q4K or Q5K block, which begins with d, dmin and the 12 bytes of
/// [`k_scales`].
#[inline(always)]
fn k_groups(block: &[u8]) -> [(f32, f32); 8] {
    let (d, dmin) = (half_at(block, 0), half_at(block, 2));
    let (scales, minimums) = k_scales(block[4..16].try_into().expect("12 bytes"));
    core::array::from_fn(|group| (d * f32::from(scales[group]), dmin * f32::from(minimums[group])))
}

/// d, dmin, 12 bytes of scales, 128 bytes of nibbles: 32 bytes hold two groups of 32 weights.
/// w = d·scale·q − dmin·minimum.
#[inline(always)]
fn q4k(block: &[u8; 144], out: &mut [f32; 256]) {
    for (group, (scale, minimum)) in k_groups(block).into_iter().enumerate() {
        let shift = (group % 2 * 4) as u32;
        for i in 0..32 {
            let q = (block[16 + group / 2 * 32 + i] >> shift) & 15;
            out[group * 32 + i] = scale * f32::from(q) - minimum;
        }
    }
}

/// d, dmin, 12 bytes of scales, 32 bytes of fifth bits (bit g of byte i is for weight i of group g),
/// 128 bytes of nibbles as in Q4K.
#[inline(always)]
fn q5k(block: &[u8; 176], out: &mut [f32; 256]) {
    for (group, (scale, minimum)) in k_groups(block).into_iter().enumerate() {
        let shift = (group % 2 * 4) as u32;
        for i in 0..32 {
            let low = (block[48 + group / 2 * 32 + i] >> shift) & 15;
            let fifth = (block[16 + i] >> group) & 1;
            out[group * 32 + i] = scale * f32::from(low | (fifth << 4)) - minimum;
        }
    }
}

/// 128 bytes of low nibbles, 64 bytes of high bit pairs, 16 signed scales (one for 16 weights), d.
/// w = d·scale·(q − 32).
#[inline(always)]
fn q6k(block: &[u8; 210], out: &mut [f32; 256]) {
    let d = half_at(block, 208);
    for group in 0..8 {
        // Each half of the block: groups 0, 1 take the low nibbles of 64 bytes, groups 2, 3 the high ones.
        let (half, quarter) = (group / 4, group % 4);
        let low_first = half * 64 + quarter % 2 * 32;
        let (low_shift, high_shift) = ((quarter / 2 * 4) as u32, (quarter * 2) as u32);
        for i in 0..32 {
            let scale = d * f32::from(block[192 + group * 2 + i / 16] as i8);
            let low = (block[low_first + i] >> low_shift) & 15;
            let high = (block[128 + half * 32 + i] >> high_shift) & 3;
            out[group * 32 + i] = scale * f32::from((low | (high << 4)) as i8 - 32);
        }
    }
}
