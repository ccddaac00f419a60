#!/bin/sh
# make bench-engine: our figures and the peers' from one run on one machine, and their ratios. Ours are measured before and after
# each peer, because machines that others share change their speed within minutes. Arguments choose tasks: score, long, generate,
# batch, embed, memory. OUT names the file of JSON lines, which is written anew. Run it on an idle machine.
set -eu
cd "$(dirname "$0")/.."
: "${CARGO:=cargo}" "${OUT:=target/bench-engine.jsonl}"
target=${CARGO_TARGET_DIR:-target}
$CARGO build --release --locked -q -p gradus-engine --example engine_speed
$CARGO build --release --locked -q -p gradus-kernels --example machine_limits
$CARGO build --locked -q -p gradus
"$target/debug/gradus" models pull smollm2-135m
"$target/debug/gradus" models pull all-minilm-l6-v2
[ $# -gt 0 ] || set -- score long generate batch embed memory
theirs=$(printf '%s\n' "$@" | grep -vx memory || true)
mkdir -p target
ours() { "$target/release/examples/engine_speed" "$@" | tee -a "$OUT"; }
"$target/release/examples/machine_limits" | tee "$OUT"
ours "$@"
for peer in transformers llama.cpp vllm sentence-transformers; do
  # shellcheck disable=SC2086 # a list of words
  sh benches/peers/engine.sh --peers $peer $theirs | tee -a "$OUT"
  # shellcheck disable=SC2086
  ours $theirs
done
python3 benches/table.py "$OUT"
