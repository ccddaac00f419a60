"""Golden files for `src/blocks/tests.rs`: random blocks, decoded by the Python package `gguf`.

    pip install gguf==0.19.0 numpy && python make.py

Writes `KIND.blocks` (raw blocks, four for the kinds of 32 weights, two for those of 256) and `KIND.f32`
(little-endian weights). The contents of a block are random bytes; its f16 scales are random but finite.
"""

import pathlib

import numpy as np
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType as Kind
from gguf.quants import dequantize

SCALES_AT = {  # byte offsets of the f16 numbers
    Kind.Q4_0: [0], Kind.Q4_1: [0, 2], Kind.Q5_0: [0], Kind.Q5_1: [0, 2], Kind.Q8_0: [0],
    Kind.Q2_K: [80, 82], Kind.Q3_K: [108], Kind.Q4_K: [0, 2], Kind.Q5_K: [0, 2], Kind.Q6_K: [208],
}

here = pathlib.Path(__file__).parent
random = np.random.default_rng(20)
for kind, offsets in SCALES_AT.items():
    length, size = GGML_QUANT_SIZES[kind]
    count = 128 // length or 2
    blocks = random.integers(0, 256, (count, size), dtype=np.uint8)
    for at in offsets:
        scale = random.normal(0, 0.1, count).astype(np.float16)
        blocks[:, at:at + 2] = scale.view(np.uint8).reshape(count, 2)
    name = kind.name.replace("_K", "K")
    (here / f"{name}.blocks").write_bytes(blocks.tobytes())
    (here / f"{name}.f32").write_bytes(dequantize(blocks, kind).astype("<f4").tobytes())
