//! What the tests of this family share.

mod products;
mod projections;

use super::Precision;
use crate::BlockKind;
use crate::cpu::Level;
use half::f16;
use rand::{Rng, RngExt};
use rand_chacha::ChaCha8Rng;

pub(super) fn numbers(random: &mut ChaCha8Rng, count: usize) -> Vec<f32> {
    (0..count).map(|_| random.random_range(-1.0..1.0)).collect()
}

/// Random blocks whose f16 scales are small and finite.
pub(super) fn blocks(random: &mut ChaCha8Rng, kind: BlockKind, weights: usize) -> Vec<u8> {
    let scales_at: &[usize] = match kind {
        BlockKind::Q4_0 | BlockKind::Q5_0 | BlockKind::Q8_0 => &[0],
        BlockKind::Q4_1 | BlockKind::Q5_1 | BlockKind::Q4K | BlockKind::Q5K => &[0, 2],
        BlockKind::Q2K => &[80, 82],
        BlockKind::Q3K => &[108],
        BlockKind::Q6K => &[208],
    };
    let mut bytes = vec![0u8; kind.bytes_of(weights).unwrap()];
    random.fill_bytes(&mut bytes);
    for block in bytes.chunks_exact_mut(kind.block_bytes()) {
        for at in scales_at {
            let scale = f16::from_f32(random.random_range(-0.1..0.1));
            block[*at..at + 2].copy_from_slice(&scale.to_le_bytes());
        }
    }
    bytes
}

pub(super) fn levels_and_precisions() -> impl Iterator<Item = (Level, Precision)> {
    Level::available().flat_map(move |level| Precision::ALL.map(|precision| (level, precision)))
}
