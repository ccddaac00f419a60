#!/bin/sh
# Training data of the default PRM, from public datasets: reference solutions of GSM8K's and MATH's training sets, right and corrupted, and people's step
# labels (PRM800K's ratings, MR-Ben, MR-GSM8K, ReasonEval, StepVerify). Problems that occur in ProcessBench, PRMBench, MATH-500 or the best-of-n sets, exactly
# or nearly, are removed; every count is printed. Needs GRADUS (the program) and GRADUS_DATA (the datasets); writes into OUT.
set -eu
: "${GRADUS:=gradus}" "${GRADUS_DATA:?names the folder of datasets}" "${OUT:=data-out/default}"
data=$GRADUS_DATA
mkdir -p "$OUT"

"$GRADUS" data corrupt "$data/gsm8k/train.jsonl" "$data/math/train.jsonl" --copies 2 --seed 0 -o "$OUT/corrupted.jsonl"
"$GRADUS" data convert "$data/prm800k/ratings_subset.jsonl" "$data/step_labels/mr_ben_math.json" "$data/step_labels/mr_gsm8k_subset.json" \
    "$data/step_labels/mr_math_invalid_errors.json" "$data/step_labels/mr_math_redundant_errors.json" "$data/step_labels/stepverify.json" -o "$OUT/human.jsonl"
set --
for file in "$data"/processbench/*.json "$data/prmbench/prmbench.jsonl" "$data/math/math500.jsonl" "$data"/best_of_n/*; do
    set -- "$@" --against "$file"
done
"$GRADUS" data dedup "$OUT/corrupted.jsonl" "$OUT/human.jsonl" "$@" --show 0 -o "$OUT/clean.jsonl"
"$GRADUS" data split "$OUT/clean.jsonl" --parts train=0.97,eval=0.03 --seed 0 -o "$OUT"
for part in train eval; do
    "$GRADUS" data convert "$OUT/$part.jsonl" -o "$OUT/$part.jsonl.zst"
done
"$GRADUS" data stats "$OUT/train.jsonl.zst"
