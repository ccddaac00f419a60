#!/bin/sh
# Writes what the recipes in this folder train on, into demo-out/tiny/: problems of the synthetic world with right and
# wrong solutions, their soft-labelled copy, and the critics' set. Run it in the repository's root.
set -eu
: "${GRADUS:=gradus}"
OUT=demo-out/tiny

run() {
    printf '\n$ gradus %s\n' "$*"
    "$GRADUS" "$@"
}

mkdir -p "$OUT"
run models pull smollm2-135m
run synth -n 600 --solutions 4 --difficulty 1-2 --families shopping,expression --seed 1 -o "$OUT/world.jsonl"
run data split "$OUT/world.jsonl" --splits train=0.9,eval=0.1 -o "$OUT"

# A stand-in for Monte-Carlo values, as if 7 and 1 of 8 completions had succeeded.
for part in train eval; do
    sed -e 's/"mark":"correct"/"mark":"correct","value":0.875/g' -e 's/"mark":"incorrect"/"mark":"incorrect","value":0.125/g' \
        "$OUT/$part.jsonl" >"$OUT/soft-$part.jsonl"
done

# A model reads every solution for its perplexity, so critics get a part of the world only.
for part in train eval; do
    head -n 40 "$OUT/$part.jsonl" >"$OUT/few-$part.jsonl"
    run train critic-data "$OUT/few-$part.jsonl" --model smollm2-135m -o "$OUT/critic-$part.jsonl"
done
