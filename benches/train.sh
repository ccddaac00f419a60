#!/bin/sh
# Speed of LoRA training on this machine, ours and that of transformers + PEFT, alternating in one run: SmolLM2-135M, 8 × 256 tokens, every one predicted.
set -eu
cd "$(dirname "$0")/.."
export GRADUS_HOME="${GRADUS_HOME:-$PWD/target/gradus-home}"
export GRADUS_TRAIN_SPEED="smollm2-135m --sequences 8 --length 256 --steps 3"
"${CARGO:-cargo}" test --release --locked -q -p gradus-train --lib --no-run >&2
for turn in 1 2 3; do
    "${CARGO:-cargo}" test --release --locked -q -p gradus-train --lib tests::speed -- --ignored --nocapture | grep -o '{.*}'
    sh benches/peers/train.sh --model smollm2-135m --device cpu --dtype float32 --sequences 8 --length 256 --steps 3 --threads 2
done
