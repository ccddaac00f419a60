#!/bin/sh
# make bench-curves: how speed and memory grow with the length of a text, the number of texts and the size of the model, as pictures. On an
# idle machine; 18 GB of disk for models with random weights, which are made here, and with DEVICE=cpu as much memory for the largest.
# DEVICE=cuda: ENGINE_SPEED and PYTHON name a program that was built with CUDA and a python3 with torch and transformers.
set -eu
cd "$(dirname "$0")/.."
: "${CARGO:=cargo}" "${DEVICE:=cpu}" "${MODELS:=target/bench-models}" "${FIGURES:=target/curves.jsonl}" "${IMAGES:=target}"
: "${ENGINE_SPEED:=}" "${PYTHON:=}"
if [ -z "$ENGINE_SPEED" ]; then
  $CARGO build --release --locked -q -p gradus-engine --example engine_speed
  ENGINE_SPEED=${CARGO_TARGET_DIR:-target}/release/examples/engine_speed
fi
if [ -z "$PYTHON" ]; then
  PYTHON=${GRADUS_PEERS:-target/peers}/bin/python
  scripts/install_vllm.sh "${GRADUS_PEERS:-target/peers}" >&2
fi
mkdir -p "$MODELS" "$IMAGES"
for shape in smollm2-135m qwen2.5-1.5b qwen2.5-7b; do
  if [ ! -e "$MODELS/$shape" ]; then
    # Under another name until it is whole.
    rm -rf "$MODELS/$shape.part"
    "$PYTHON" benches/peers/train.py --model $shape --device "$DEVICE" --dtype bfloat16 --steps 0 --save "$MODELS/$shape.part"
    mv "$MODELS/$shape.part" "$MODELS/$shape"
  fi
done
python3 benches/curves.py measure --device "$DEVICE" --program "$ENGINE_SPEED" --models "$MODELS" --figures "$FIGURES"
python3 benches/curves.py draw --device "$DEVICE" --figures "$FIGURES" --images "$IMAGES"
