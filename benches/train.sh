#!/bin/sh
# Speed of LoRA training on this machine, ours and that of transformers + PEFT, alternating in one run: SmolLM2-135M, 8 × 256 tokens, every one predicted.
set -eu
cd "$(dirname "$0")/.."
export GRADUS_HOME="${GRADUS_HOME:-$PWD/target/gradus-home}"
cargo build --release --locked --workspace --example train_speed
ours="${CARGO_TARGET_DIR:-target}/release/examples/train_speed"
for turn in 1 2 3; do
    "$ours" smollm2-135m --sequences 8 --length 256 --steps 3
    sh benches/peers/train.sh --model smollm2-135m --device cpu --dtype float32 --sequences 8 --length 256 --steps 3 --threads 2
done
