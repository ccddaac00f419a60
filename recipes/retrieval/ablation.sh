#!/bin/sh
# The table of RetrievalPRM's ablation in docs/experiments.md: gradus-prm goes on with reference questions and steps, one or neither (recipes/retrieval/classes.toml),
# three seeds each, and is measured on ProcessBench with references from the pool it was trained with and, where it has references, from the enlarged one.
# Needs GRADUS (the program) and the sets of recipes/retrieval/data.sh in IN; DEVICE is cpu or cuda. What is killed goes on where it was when it is started again.
set -eu
: "${GRADUS:=gradus}" "${IN:=data-out/retrieval}" "${RUNS:=runs/retrieval}" "${DEVICE:=cuda}"
measure() {
    "$GRADUS" bench processbench "$IN/test-$1.jsonl.zst" --adapter "$run/adapter" --device "$DEVICE" -o "$run/$2"
}
for seed in 0 1 2; do
    for row in 00 10 01 11; do
        run=$RUNS/$row-$seed
        "$GRADUS" train prm recipes/retrieval/classes.toml -o "$run" --set seed=$seed --set model.device="$DEVICE" --set "data.train=[\"$IN/layouts-$row.jsonl.zst\"]"
        measure $row small
        [ $row = 00 ] || measure $row-large large
    done
done
