#!/bin/sh
# make bench-engine: our figures and the peers' from one run on one machine, and their ratios. Ours are measured before and after
# each peer, because machines that others share change their speed within minutes; scoring also with the instructions that most
# CPUs have (AVX2), beside llama.cpp. Arguments choose tasks: score, long, generate, batch, embed, memory. OUT names the file of
# JSON lines, which is written anew; REPEAT says how often a peer does each, of which the best counts (3). Run it on an idle machine.
set -eu
cd "$(dirname "$0")/.."
: "${CARGO:=cargo}" "${OUT:=target/bench-engine.jsonl}" "${REPEAT:=3}"
target=${CARGO_TARGET_DIR:-target}
$CARGO build --release --locked -q -p gradus-engine --example engine_speed
$CARGO build --release --locked -q -p gradus-kernels --example machine_limits
$CARGO build --release --locked -q -p gradus
"$target/release/gradus" models pull smollm2-135m
"$target/release/gradus" models pull all-minilm-l6-v2
[ $# -gt 0 ] || set -- score long generate batch embed memory
theirs=$(printf '%s\n' "$@" | grep -vx memory || true)
mkdir -p target
ours() { "$target/release/examples/engine_speed" "$@" | tee -a "$OUT"; }
ours_with_avx2() {
  case " $theirs " in *score*) ;; *) return ;; esac
  [ "$(uname -m)" = x86_64 ] || return 0
  GRADUS_CPU=avx2 "$target/release/examples/engine_speed" score | sed 's/"score"/"score, AVX2"/' | tee -a "$OUT"
}
# By default embeddings are in bf16x3, which is as exact as f32.
ours_in_bf16() {
  case " $theirs " in *embed*) ;; *) return ;; esac
  GRADUS_BENCH_PRECISION=bf16 "$target/release/examples/engine_speed" embed | sed 's/"embed"/"embed, bf16"/' | tee -a "$OUT"
}
"$target/release/examples/machine_limits" | tee "$OUT"
ours "$@"
for peer in transformers llama.cpp vllm sentence-transformers runtimes; do
  [ $peer != llama.cpp ] || ours_with_avx2
  # shellcheck disable=SC2086 # a list of words
  sh benches/peers/engine.sh --repeat "$REPEAT" --peers $peer $theirs | tee -a "$OUT"
  [ $peer != llama.cpp ] || ours_with_avx2
  case $peer in sentence-transformers | runtimes) ours_in_bf16 ;; esac
  # shellcheck disable=SC2086
  ours $theirs
done
python3 benches/table.py "$OUT"
