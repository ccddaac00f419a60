//! ggml's quantized block formats: what the tensors of a GGUF file are made of.
//!
//! A row of a matrix is a run of blocks. The plain kinds hold 32 weights and one or two f16 numbers;
//! the K kinds hold 256 weights, with small scales for each 16 or 32 of them. `scalar.rs` is the
//! definition of every kind; `avx512.rs` and `avx2.rs` give the same bits faster. Quantizing is left out:
//! files come ready.

#[cfg(target_arch = "x86_64")]
pub(crate) mod avx2;
#[cfg(target_arch = "x86_64")]
pub(crate) mod avx512;
mod scalar;
#[cfg(test)]
mod tests;

use crate::cpu::Level;

/// A ggml block format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names are ggml's own")]
pub enum BlockKind {
    Q4_0,
    Q4_1,
    Q5_0,
    Q5_1,
    Q8_0,
    Q2K,
    Q3K,
    Q4K,
    Q5K,
    Q6K,
}

impl BlockKind {
    /// Every kind.
    #[cfg(test)]
    pub(crate) const ALL: [BlockKind; 10] = [
        BlockKind::Q4_0,
        BlockKind::Q4_1,
        BlockKind::Q5_0,
        BlockKind::Q5_1,
        BlockKind::Q8_0,
        BlockKind::Q2K,
        BlockKind::Q3K,
        BlockKind::Q4K,
        BlockKind::Q5K,
        BlockKind::Q6K,
    ];

    /// Weights in a block.
    pub(crate) const fn block_length(self) -> usize {
        match self {
            BlockKind::Q4_0 | BlockKind::Q4_1 | BlockKind::Q5_0 | BlockKind::Q5_1 | BlockKind::Q8_0 => 32,
            BlockKind::Q2K | BlockKind::Q3K | BlockKind::Q4K | BlockKind::Q5K | BlockKind::Q6K => 256,
        }
    }

    /// Bytes of a block.
    pub(crate) const fn block_bytes(self) -> usize {
        match self {
            BlockKind::Q4_0 => 18,
            BlockKind::Q4_1 => 20,
            BlockKind::Q5_0 => 22,
            BlockKind::Q5_1 => 24,
            BlockKind::Q8_0 => 34,
            BlockKind::Q2K => 84,
            BlockKind::Q3K => 110,
            BlockKind::Q4K => 144,
            BlockKind::Q5K => 176,
            BlockKind::Q6K => 210,
        }
    }

    /// Bytes of `weights` weights, or `None` when they do not fill whole blocks.
    ///
    /// ```
    /// use gradus_kernels::BlockKind;
    /// assert_eq!(BlockKind::Q4_0.bytes_of(576), Some(18 * 18));
    /// assert_eq!(BlockKind::Q4K.bytes_of(576), None);
    /// ```
    pub const fn bytes_of(self, weights: usize) -> Option<usize> {
        if weights.is_multiple_of(self.block_length()) {
            Some(weights / self.block_length() * self.block_bytes())
        } else {
            None
        }
    }
}

/// The weights in `bytes` as f32, the same bits on every machine.
///
/// ```
/// use gradus_kernels::{BlockKind, dequantize};
/// let mut block = vec![0u8; 34];
/// block[..2].copy_from_slice(&[0x00, 0x38]); // 0.5 as f16
/// block[2] = 6;
/// let mut weights = [0f32; 32];
/// dequantize(BlockKind::Q8_0, &block, &mut weights);
/// assert_eq!(weights[0], 3.0);
/// ```
///
/// # Panics
/// When `out` is not whole blocks or `bytes` is not exactly its blocks.
pub fn dequantize(kind: BlockKind, bytes: &[u8], out: &mut [f32]) {
    dequantize_at(Level::current(), kind, bytes, out);
}

/// [`dequantize`] with the code of `level`, which this machine must have.
pub(crate) fn dequantize_at(level: Level, kind: BlockKind, bytes: &[u8], out: &mut [f32]) {
    assert_eq!(
        kind.bytes_of(out.len()),
        Some(bytes.len()),
        "{} weights of kind {kind:?} do not fill {} bytes",
        out.len(),
        bytes.len()
    );
    assert!(level <= Level::detected());
    match level {
        // SAFETY: the level is available, and the lengths agree.
        #[cfg(target_arch = "x86_64")]
        Level::Amx | Level::Avx512 => unsafe {
            avx512::row_to_f32(kind, bytes.as_ptr(), out.as_mut_ptr(), out.len());
        },
        // SAFETY: the level is available, the kind is decoded there, and the lengths agree.
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 if avx2::decodes(kind) => unsafe {
            avx2::row_to_f32(kind, bytes.as_ptr(), out.as_mut_ptr(), out.len());
        },
        // SAFETY: the level is available.
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 => unsafe { scalar::dequantize_avx2(kind, bytes, out) },
        _ => scalar::dequantize(kind, bytes, out),
    }
}

/// Rows of W whose products with x are made side by side: enough chains of additions that none waits for another.
#[cfg(target_arch = "x86_64")]
pub(crate) const ROWS: usize = 4;

/// Calls `decode` with each block of [`ROWS`] rows, in the order of their columns: the number of the row, the block, and the
/// number of its first chunk of 32 weights. Rows are short and lie one behind the other, which the processor does not see in
/// time, so the same block of the next rows is prefetched.
///
/// # Safety
/// Every row holds `weights` weights in whole blocks.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn side_by_side(
    kind: BlockKind,
    rows: [*const u8; ROWS],
    weights: usize,
    mut decode: impl FnMut(usize, *const u8, usize),
) {
    use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    let (bytes, count) = (kind.block_bytes(), weights / kind.block_length());
    for index in 0..count {
        for (row, start) in rows.into_iter().enumerate() {
            // SAFETY: the caller's promise; what is fetched early need not exist.
            unsafe {
                let block = start.add(index * bytes);
                for line in (0..bytes).step_by(64) {
                    _mm_prefetch::<_MM_HINT_T0>(block.wrapping_add(ROWS * count * bytes + line).cast());
                }
                decode(row, block, index * (kind.block_length() / 32));
            }
        }
    }
}
