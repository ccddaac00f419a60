#!/bin/sh
# The main job so far, on data that the synthetic world writes: convert → check → stats → grade.
set -eu
: "${GRADUS:=target/debug/gradus}" "${OUT:=demo-out}"

run() {
    printf '\n\033[1m$ gradus %s\033[0m\n' "$*"
    "$GRADUS" "$@"
}

mkdir -p "$OUT"
echo "Problems with right and wrong solutions, every step labelled, from a seed:"
run synth -n 200 --seed 1 -o "$OUT/world.jsonl.gz"

echo
echo "Into other tools' formats and containers:"
run data convert "$OUT/world.jsonl.gz" --to processbench -o "$OUT/world.processbench.json"
run data convert "$OUT/world.processbench.json" --to trl -o "$OUT/world.trl.parquet"

echo
echo "Is it sound? What is in it?"
run data check "$OUT/world.processbench.json"
run data stats "$OUT/world.processbench.json"

echo
echo "Are the final answers right?"
run grade --data "$OUT/world.jsonl.gz"
run grade '\frac{\sqrt{3}}{3}' '1/\sqrt{3}'

echo
echo "Where would a free-form solution be cut?"
printf 'First, half of 48 is\n\\[ 48 / 2 = 24. \\]\n\nThen 48 + 24 = 72.\n\nThe answer is 72.\n' >"$OUT/solution.txt"
run steps "$OUT/solution.txt"

echo
echo "The files are in $OUT/; \`$GRADUS --help\` lists the commands."
