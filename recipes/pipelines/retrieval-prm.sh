#!/bin/sh
# RetrievalPRM (Zhu et al., 2025), end to end: a pool of solved problems, training data with retrieved questions and steps,
# the prompted PRM with and without references, ProcessBench, and the difference of the two.
#
#   SMALL=1 sh recipes/pipelines/retrieval-prm.sh
#   TRAIN='prm800k.jsonl math_shepherd.jsonl' TEST='processbench/gsm8k.json processbench/math.json' \
#       sh recipes/pipelines/retrieval-prm.sh
#
# TRAIN has solutions with step labels, TEST has solutions with first errors. recipes/pipelines/common.sh lists the other
# settings. Nothing is sampled here: the labels come with the data, as in the paper.
set -eu
: "${OUT:=runs/pipelines/retrieval-prm}"
. "$(dirname "$0")/common.sh"
if [ -n "$SMALL" ]; then
    small_problems
    TRAIN=$OUT/problems/train.jsonl TEST=$OUT/problems/test.jsonl
    length="--set data.max_tokens=2048"
else
    : "${TRAIN:?names the labeled solutions to train on}" "${TEST:?names the benchmark}"
    length=""
fi

# Problems of the benchmark are left out of pool and training data.
against=""
for file in $TEST; do against="$against --against $file"; done
gradus data dedup $TRAIN $against --show 0 -o "$OUT/clean.jsonl"
gradus data split "$OUT/clean.jsonl" --splits train=0.5,eval=0.1,pool=0.4 --seed 1 -o "$OUT/split"
# A pool is there whole or not at all; one that is there is not built again.
[ -e "$OUT/pool" ] || gradus pool build "$OUT/split/pool.jsonl" -o "$OUT/pool"

# The paper's row with reference questions and steps, and its row with neither.
mkdir -p "$OUT/with" "$OUT/without"
for part in train eval; do
    gradus pool examples "$OUT/split/$part.jsonl" --pool "$OUT/pool" --as records -o "$OUT/with/$part.jsonl"
    gradus pool examples "$OUT/split/$part.jsonl" --pool "$OUT/pool" -k 0 -r 0 --as records -o "$OUT/without/$part.jsonl"
done
train prm recipes/prm/retrieval-prm.toml "$OUT/prm-with" "$OUT/with" $length
train prm recipes/prm/retrieval-prm.toml "$OUT/prm-without" "$OUT/without" $length --set prm.profile=plain

gradus bench processbench $TEST --model "$OUT/prm-with/adapter" --pool "$OUT/pool" --device "$DEVICE" -o "$OUT/report-with"
gradus bench processbench $TEST --model "$OUT/prm-without/adapter" --device "$DEVICE" -o "$OUT/report-without"
gradus bench compare "$OUT/report-without" "$OUT/report-with"
