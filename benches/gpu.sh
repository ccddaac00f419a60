#!/bin/sh
# make bench DEVICE=cuda: the rows of docs/performance.md's table that need an NVIDIA GPU, beside transformers on the same GPU, in one run of
# perhaps ten minutes. Models have random weights in the shapes of SmolLM2-135M and Qwen2.5-7B, made here (16 GB of disk).
# ENGINE_SPEED and TRAIN_SPEED name programs that were built elsewhere; else they are built, with the compiler of `make cuda-toolkit` or
# another. Needs a python3 with torch (CUDA) and transformers; PEFT where training is compared. What fails is a line of the table.
set -eu
cd "$(dirname "$0")/.."
: "${CARGO:=cargo}" "${OUT:=target/bench-gpu.jsonl}" "${MODELS:=target/bench-models}" "${ENGINE_SPEED:=}" "${TRAIN_SPEED:=}"
target=${CARGO_TARGET_DIR:-target}
mkdir -p "$(dirname "$OUT")" "$MODELS"
part=$OUT.part
missing() {
  echo "benches/gpu.sh: $1" >&2
  exit 1
}

python3 -c 'import torch, transformers; assert torch.cuda.is_available(), "torch sees no GPU"' ||
  missing "python3 needs torch with a GPU, and transformers: pip install torch transformers peft"
has_peft=true
python3 -c 'import peft' 2>"$part" || has_peft=false

# The compiler of `make cuda-toolkit` has a stub in the driver's place: programs made with it need the driver itself, and CUDA's libraries.
with_driver=
if [ -z "$ENGINE_SPEED" ] || [ -z "$TRAIN_SPEED" ]; then
  if [ -x target/cuda-toolkit/bin/pip ]; then
    # shellcheck disable=SC1091
    . scripts/cuda-toolkit.sh
    set -e
    driver=$(ldconfig -p | sed -n 's/.*libcuda\.so\.1 .*=> //p' | head -1)
    [ -n "$driver" ] || missing "the driver's libcuda.so.1 is not on this machine"
    with_driver="env LD_PRELOAD=$driver LD_LIBRARY_PATH=$CUDA_HOME/lib"
  fi
  home=${CUDA_HOME:-${CUDA_PATH:-}}
  nvcc=${NVCC:-${home:+$home/bin/}nvcc}
  command -v "$nvcc" >/dev/null ||
    missing "no CUDA compiler ($nvcc): run make cuda-toolkit, set CUDA_HOME, or name programs in ENGINE_SPEED and TRAIN_SPEED"
fi
if [ -z "$ENGINE_SPEED" ]; then
  $CARGO build --release --locked -q --features cuda -p gradus-engine --example engine_speed
  ENGINE_SPEED=$target/release/examples/engine_speed
fi
if [ -z "$TRAIN_SPEED" ]; then
  $CARGO test --release --locked -q --features cuda -p gradus-train --lib --no-run --message-format=json >"$part"
  TRAIN_SPEED=$(sed -n 's/.*"executable":"\([^"]*\)".*/\1/p' "$part" | tail -1)
fi
[ -x "$ENGINE_SPEED" ] || missing "ENGINE_SPEED is $ENGINE_SPEED, which is no program"
[ -x "$TRAIN_SPEED" ] || missing "TRAIN_SPEED is $TRAIN_SPEED, which is no program"

export GRADUS_BENCH_DEVICE=cuda
: >"$OUT"

# record MODEL PEER TASKS COMMAND…: adds the JSON lines that a command prints, and a line with a note for each task that a failure leaves without one.
record() {
  model=$1 peer=$2 expected=$3 status=0
  shift 3
  "$@" >"$part" 2>"$part.errors" || status=$?
  cat "$part.errors" >&2
  sed -n "s/.*{\(.*\)}.*/{\"model\":\"$model\",\1}/p" "$part" >"$part.lines"
  if [ $status != 0 ]; then
    note=failed
    if grep -qi 'out of memory' "$part.errors"; then note="out of memory"; fi
    for task in $expected; do
      grep -q "\"task\": *\"$task\"" "$part.lines" ||
        echo "{\"model\":\"$model\",\"peer\":\"$peer\",\"task\":\"$task\",\"value\":0,\"unit\":\"tokens/s\",\"note\":\"$note\"}" >>"$part.lines"
    done
  fi
  cat "$part.lines"
  cat "$part.lines" >>"$OUT"
}
# shellcheck disable=SC2086 # lists of words
ours() { record $shape gradus "$tasks" env GRADUS_BENCH_MODEL="$MODELS/$shape" $with_driver "$ENGINE_SPEED" $tasks; }
# shellcheck disable=SC2086
ours_trained() {
  record $shape gradus "train:$size" \
    env GRADUS_TRAIN_SPEED="$MODELS/$shape --device cuda --sequences ${size%x*} --length ${size#*x} --steps 4 --keep 80" \
    $with_driver "$TRAIN_SPEED" of_training --ignored --nocapture
}
theirs_trained() {
  record $shape "transformers + peft bfloat16" "train:$size" \
    python3 benches/peers/train.py --model $shape --device cuda --dtype bfloat16 --sequences "${size%x*}" --length "${size#*x}" --steps 4 "$@"
}

record "" limit "" python3 benches/peers/gpu.py limits
for shape in smollm2-135m qwen2.5-7b; do
  if [ ! -e "$MODELS/$shape" ]; then
    # Under another name until it is whole.
    rm -rf "$MODELS/$shape.part"
    python3 benches/peers/train.py --model $shape --device cuda --dtype bfloat16 --steps 0 --save "$MODELS/$shape.part"
    mv "$MODELS/$shape.part" "$MODELS/$shape"
  fi
  case $shape in
    smollm2-135m) tasks="forward:64x512 decode:192x160 decode:16x160 decode:1x160" trained="32x512" ;;
    *) tasks="forward:16x2048 forward:1x16384 forward:1x32767 decode:256x64 decode:64x64 decode:1x128" trained="4x1024 1x16384 1x32768" ;;
  esac
  ours
  # shellcheck disable=SC2086
  record $shape transformers "$tasks" python3 benches/peers/gpu.py $shape $tasks
  ours
  for size in $trained; do
    ours_trained
    if $has_peft; then
      theirs_trained
      theirs_trained --checkpointing
    else
      echo "python3 has no peft: training at $size is not compared" >&2
    fi
    ours_trained
  done
done
rm -f "$part" "$part.errors" "$part.lines"
echo
python3 benches/gpu_table.py "$OUT"
