#!/bin/sh
# make bench-engine: our figures and the peers' from one run on one machine, and their ratios. Arguments choose tasks: score, long, generate, batch,
# embed, memory. Run it on an idle machine.
set -eu
cd "$(dirname "$0")/.."
: "${CARGO:=cargo}"
$CARGO build --release --locked -q -p gradus-engine --example engine_speed
$CARGO build --locked -q -p gradus
"${CARGO_TARGET_DIR:-target}/debug/gradus" models pull smollm2-135m
"${CARGO_TARGET_DIR:-target}/debug/gradus" models pull all-minilm-l6-v2
theirs=$(printf '%s\n' "$@" | grep -vx -e batch -e memory || true)
"${CARGO_TARGET_DIR:-target}/release/examples/engine_speed" "$@" | tee target/bench-engine.jsonl
# shellcheck disable=SC2086 # a list of words
sh benches/peers/engine.sh $theirs | tee -a target/bench-engine.jsonl
python3 benches/peers/engine_ratios.py target/bench-engine.jsonl
