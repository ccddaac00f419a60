//! Every block kind against the Python package `gguf`; `blocks/make.py` wrote the golden files.

use gradus_kernels::{BlockKind, dequantise};

#[test]
fn blocks_decode_as_the_python_package_decodes_them() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/blocks");
    for kind in BlockKind::ALL {
        let bytes = std::fs::read(folder.join(format!("{kind:?}.blocks"))).unwrap();
        let golden = std::fs::read(folder.join(format!("{kind:?}.f32"))).unwrap();
        let expected: Vec<f32> =
            golden.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
        let mut weights = vec![0f32; expected.len()];
        dequantise(kind, &bytes, &mut weights);
        for (index, (weight, expected)) in weights.iter().zip(&expected).enumerate() {
            assert_eq!(weight, expected, "{kind:?}, weight {index}");
        }
    }
}
