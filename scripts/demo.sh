#!/bin/sh
# The main jobs so far: scores for every step from a real model, and convert → check → stats → grade on data that the
# synthetic world writes.
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
echo "Two small real models (about 190 MB, once):"
run models pull smollm2-135m
run models pull all-minilm-l6-v2

echo
echo "Every step scored in one pass per solution, by the reward model that the program carries."
run synth -n 3 --solutions 2 --difficulty 2-3 --seed 4 -o "$OUT/few.jsonl"
run score "$OUT/few.jsonl" --show 4 -o "$OUT/scored.jsonl"

echo
echo "How good is it at that? With intervals, beside a coin and the published models; and a page of charts."
run synth -n 30 --solutions 2 --difficulty 1-3 --seed 6 -o "$OUT/bench.jsonl"
run bench processbench "$OUT/bench.jsonl" -o "$OUT/bench"

echo
echo "A problem solved step by step, the reward model choosing what to go on with, within 400 tokens:"
run solve 'Ann has 3 apples and buys 4 more. How many apples has she now?' --scorer gradus-prm --strategy beam --beam-width 2 --expansions 2 --max-step-tokens 48 --budget 400

echo
echo "Is a step right? Completions from there are graded. Killed at any instant, the same command goes on. This model is too small to be believed."
run annotate monte-carlo "$OUT/few.jsonl" --limit 2 -k 2 --max-tokens 64 -o "$OUT/labelled.jsonl" --jobs "$OUT/jobs.sqlite"
run jobs list --jobs "$OUT/jobs.sqlite"

echo
echo "Which problems resemble each other?"
run embed 'How many apples are left?' 'How many pears remain?' 'Find the area of the circle.' --as similarity

echo
echo "Text from the same model, held to a JSON schema:"
run generate 'Name a city and its country.' --max-tokens 40 \
    --schema '{"type":"object","properties":{"city":{"type":"string"},"country":{"type":"string"}},"required":["city","country"]}'

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
echo "\`$GRADUS serve\` shows your own solutions step by step, at http://127.0.0.1:8080"
