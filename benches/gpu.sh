#!/bin/sh
# make bench DEVICE=cuda: the rows of docs/performance.md's table that need an NVIDIA GPU, beside transformers on the same GPU, in one run of
# about five minutes. Models have random weights in the shapes of SmolLM2-135M and Qwen2.5-7B, made here (16 GB of disk).
# ENGINE_SPEED and TRAIN_SPEED name programs that were built elsewhere; else they are built, with the compiler of scripts/cuda-toolkit.sh.
# Needs a python3 with torch (CUDA) and transformers; PEFT where training is compared.
set -eu
cd "$(dirname "$0")/.."
: "${CARGO:=cargo}" "${OUT:=target/bench-gpu.jsonl}" "${MODELS:=target/bench-models}"
target=${CARGO_TARGET_DIR:-target}
if [ -z "${ENGINE_SPEED:-}" ]; then
  $CARGO build --release --locked -q --features cuda -p gradus-engine --example engine_speed
  ENGINE_SPEED=$target/release/examples/engine_speed
fi
if [ -z "${TRAIN_SPEED:-}" ]; then
  TRAIN_SPEED=$($CARGO test --release --locked --features cuda -p gradus-train --lib --no-run --message-format=json | sed -n 's/.*"executable":"\([^"]*\)".*/\1/p' | tail -1)
fi
export GRADUS_BENCH_DEVICE=cuda
peer() { python3 benches/peers/gpu.py "$@" | tee -a "$OUT"; }
mkdir -p "$(dirname "$OUT")" "$MODELS"
: >"$OUT"
peer limits
for shape in smollm2-135m qwen2.5-7b; do
  [ -e "$MODELS/$shape" ] || python3 benches/peers/train.py --model $shape --device cuda --dtype bfloat16 --steps 0 --save "$MODELS/$shape"
  case $shape in
    smollm2-135m) tasks="forward:64x512 decode:192x160 decode:16x160 decode:1x160" trained="32x512" ;;
    *) tasks="forward:16x2048 forward:1x16384 forward:1x32767 decode:64x64 decode:1x128" trained="4x1024 1x16384 1x32768" ;;
  esac
  # shellcheck disable=SC2086 # a list of words
  ours() { GRADUS_BENCH_MODEL="$MODELS/$shape" "$ENGINE_SPEED" $tasks | sed "s/\"peer\"/\"model\":\"$shape\",\"peer\"/" | tee -a "$OUT"; }
  ours
  # shellcheck disable=SC2086
  peer $shape $tasks
  ours
  for size in $trained; do
    GRADUS_TRAIN_SPEED="$MODELS/$shape --device cuda --sequences ${size%x*} --length ${size#*x} --steps 4 --keep 80" \
      "$TRAIN_SPEED" of_lora_training --ignored --nocapture | grep -o '{.*}' | sed "s/\"peer\"/\"model\":\"$shape\",\"peer\"/" | tee -a "$OUT"
    # Without PEFT the peer's row is missing, and says so.
    python3 benches/peers/train.py --model $shape --device cuda --dtype bfloat16 --sequences "${size%x*}" --length "${size#*x}" --steps 4 --checkpointing |
      tee -a "$OUT" || echo "transformers + PEFT could not train $shape at $size"
  done
done
echo
python3 benches/gpu_table.py "$OUT"
