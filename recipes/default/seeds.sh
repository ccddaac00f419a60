#!/bin/sh
# How far seeds of the default PRM differ, and whether the one that ships comes out the same to the byte: seeds 0, 1, 2 and 1 once more, trained side by side (on a
# GPU best under NVIDIA's MPS), then ProcessBench for each. Needs GRADUS (the program), GRADUS_DATA (the datasets); DEVICE is cpu or cuda; arguments go to
# `gradus train`. What is killed goes on where it was when it is started again.
set -eu
: "${GRADUS:=gradus}" "${GRADUS_DATA:?names the folder of datasets}" "${DEVICE:=cuda}" "${RUNS:=runs/default-seeds}"
export GRADUS GRADUS_DATA
[ -e data-out/default/references-half.jsonl.zst ] || OUT=data-out/default sh recipes/default/data.sh
"$GRADUS" models pull smollm2-135m
mkdir -p "$RUNS"
runs="0 1 2 1-again"
trap 'kill $(jobs -p) 2>/dev/null || true' EXIT
processes=
for run in $runs; do
    "$GRADUS" train prm recipes/default/prm.toml -o "$RUNS/$run" --set seed="${run%-again}" --set model.device="$DEVICE" "$@" >"$RUNS/$run.log" 2>&1 &
    processes="$processes $run:$!"
done
for process in $processes; do
    wait "${process#*:}" || { echo "seed ${process%:*} failed; the end of $RUNS/${process%:*}.log:" >&2; tail -n 5 "$RUNS/${process%:*}.log" >&2; exit 1; }
done
same() { if cmp -s "$1" "$2"; then echo "equal to the byte: $1 and $2"; else echo "NOT equal: $1 and $2"; fi; }
weights=adapter/adapter_model.safetensors
same "$RUNS/1/$weights" "$RUNS/1-again/$weights"
same "$RUNS/1/$weights" assets/prm/adapter_model.safetensors
for run in 0 1 2; do
    echo "== seed $run"
    "$GRADUS" bench processbench "$GRADUS_DATA"/processbench/*.json --adapter "$RUNS/$run/adapter" --device "$DEVICE" -o "$RUNS/$run/processbench"
done
