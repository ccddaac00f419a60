#!/bin/sh
# The critics' experiment at a small size: does GRPO make a critic biased against what it finds surprising, and do weights by perplexity keep it fair?
# A warm-up on solutions written as equations, then training and a benchmark with equations, prose and enumerations, which the three 'generators' of an
# OPS-style benchmark are: the same problems with the same right and wrong answers. Needs GRADUS (the program); writes into OUT:
#   answers.jsonl             the warm-up's critiques (recipes/critic/sft.toml)
#   ops.jsonl                 the benchmark, for gradus bench preference --critic
#   train.jsonl, eval.jsonl   what GRPO learns from and is watched with, with perplexities under the warm-up's adapter: when that is trained, run this again
set -eu
: "${GRADUS:=gradus}" "${OUT:=data-out/critic}" "${ADAPTER:=runs/critic-sft/adapter}" "${DEVICE:=cpu}"
mkdir -p "$OUT"

# Easy problems, and an error that a model of this size can learn to see; wrong answers that follow from it, so that several solutions share one.
world() {
    "$GRADUS" synth --difficulty 1-1 --families shopping,geometry --errors wrong_operator --propagate 1 "$@"
}

if [ ! -e "$OUT/answers.jsonl" ]; then
    world -n 500 --solutions 6 --styles equations --seed 1 -o "$OUT/warm.jsonl"
    "$GRADUS" train critic-data "$OUT/warm.jsonl" --device "$DEVICE" --sft-output "$OUT/answers.jsonl" -o "$OUT/warm-critic.jsonl"
    world -n 300 --solutions 36 --seed 2 -o "$OUT/many.jsonl"
    "$GRADUS" bench preference build "$OUT/many.jsonl" --limit 100 -o "$OUT/ops.jsonl"
    rm "$OUT/warm.jsonl" "$OUT/warm-critic.jsonl" "$OUT/many.jsonl"
fi
[ -e "$ADAPTER" ] || { echo "now train the warm-up: gradus train sft recipes/critic/sft.toml -o runs/critic-sft"; exit 0; }
world -n 240 --solutions 8 --seed 3 -o "$OUT/world.jsonl"
"$GRADUS" data split "$OUT/world.jsonl" --splits train=0.9,eval=0.1 --seed 0 -o "$OUT/split"
for part in train eval; do
    "$GRADUS" train critic-data "$OUT/split/$part.jsonl" --device "$DEVICE" --adapter "$ADAPTER" -o "$OUT/$part.jsonl"
done
rm -r "$OUT/world.jsonl" "$OUT/split"
