#!/bin/sh
# make bench: the table of docs/performance.md in one run on an idle machine: scoring, generation, embeddings, training, start, beside
# vLLM, transformers, llama.cpp, sentence-transformers, ONNX Runtime and OpenVINO, which are installed first. It takes about an hour on two cores.
set -eu
cd "$(dirname "$0")/.."
: "${CARGO:=cargo}"
target=${CARGO_TARGET_DIR:-target}
out=target/bench.jsonl
$CARGO build --release --locked -q -p gradus
OUT=$out CARGO=$CARGO sh benches/engine.sh
python3 benches/start.py "$target/release/gradus" | tee -a $out
sh benches/train.sh | tee -a $out
echo
python3 benches/table.py $out
