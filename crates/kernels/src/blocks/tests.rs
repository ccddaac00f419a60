//! Every block kind against the Python package `gguf` (`tests/blocks/make.py` wrote the golden files), and every level
//! against the others.

use super::*;
use rand::{Rng, SeedableRng};

#[test]
fn blocks_decode_as_the_python_package_decodes_them() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/blocks");
    for kind in BlockKind::ALL {
        let bytes = std::fs::read(folder.join(format!("{kind:?}.blocks"))).unwrap();
        let golden = std::fs::read(folder.join(format!("{kind:?}.f32"))).unwrap();
        let expected: Vec<f32> =
            golden.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
        let mut weights = vec![0f32; expected.len()];
        dequantize(kind, &bytes, &mut weights);
        for (index, (weight, expected)) in weights.iter().zip(&expected).enumerate() {
            assert_eq!(weight, expected, "{kind:?}, weight {index}");
        }
    }
}

#[test]
fn every_level_gives_the_same_bits() {
    let mut random = rand_chacha::ChaCha8Rng::seed_from_u64(1);
    for kind in BlockKind::ALL {
        let mut bytes = vec![0u8; 64 * kind.block_bytes()];
        random.fill_bytes(&mut bytes);
        let mut reference = vec![0f32; 64 * kind.block_length()];
        scalar::dequantize(kind, &bytes, &mut reference);
        for level in Level::available() {
            let mut out = vec![0f32; reference.len()];
            dequantize_at(level, kind, &bytes, &mut out);
            for (index, (a, b)) in out.iter().zip(&reference).enumerate() {
                assert!(
                    a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan(),
                    "{kind:?} at {level:?}, weight {index}: {a} is not {b}"
                );
            }
        }
    }
}
