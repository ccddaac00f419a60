#!/bin/sh
# Speed of training on this machine, ours and that of transformers (and PEFT), alternating in one run: SmolLM2-135M, 8 × 256 tokens, every one
# predicted; LoRA and all weights, in bf16 and in what stands for f32 (ours: bf16x3). TURNS says how often a peer is measured (1).
set -eu
cd "$(dirname "$0")/.."
export GRADUS_HOME="${GRADUS_HOME:-$PWD/target/gradus-home}"
: "${CARGO:=cargo}" "${TURNS:=1}"
$CARGO test --release --locked -q -p gradus-train --lib --no-run >&2
ours() {
  GRADUS_TRAIN_SPEED="smollm2-135m --sequences 8 --length 256 --steps 3 --tuning $1 --precision $2" \
    $CARGO test --release --locked -q -p gradus-train --lib tests::speed -- --ignored --nocapture | grep -o '{.*}'
}
for tuning in lora all; do
  for precision in bf16x3 bf16; do
    dtype=bfloat16
    [ $precision = bf16 ] || dtype=float32
    turn=0
    ours $tuning $precision
    while [ $turn -lt "$TURNS" ]; do
      sh benches/peers/train.sh --model smollm2-135m --device cpu --dtype $dtype --tuning $tuning --sequences 8 --length 256 --steps 3 --threads 2
      ours $tuning $precision
      turn=$((turn + 1))
    done
  done
done
