#!/bin/sh
# Training data of the default PRM, from public datasets: reference solutions of GSM8K's and MATH's training sets, as they are and as language models would
# write them, each with corrupted copies; people's step labels (PRM800K's ratings, MR-Ben, MR-GSM8K, ReasonEval, StepVerify), with corrupted copies of the
# steps that people found right; and PRM800K's rated continuations of the same steps (phase 1), steps joined at random into paragraphs, each label once. Problems
# that occur in ProcessBench, PRMBench, MATH-500 or the best-of-n sets, exactly or nearly, are removed; every count is printed. Needs GRADUS (the program) and
# GRADUS_DATA (the datasets: recipes/README.md says which, and where they come from); writes into OUT:
#   references.jsonl.zst, human.jsonl.zst   to train on
#   prefixes.jsonl.zst                      to train on: rated continuations, in paragraphs; left out with PREFIXES=no
#   eic.jsonl.zst                           to train on, with EIC=yes: errors of nine kinds that GPT-4 wrote into right solutions, in paragraphs
#   eval.jsonl.zst                          a seventh of the problems that people labelled, to choose by
set -eu
: "${GRADUS:=gradus}" "${GRADUS_DATA:?names the folder of datasets}" "${OUT:=data-out/default}" "${PREFIXES:=yes}" "${EIC:=no}"
data=$GRADUS_DATA
set -- gsm8k/train.jsonl math/train.jsonl prm800k/ratings_subset.jsonl step_labels/mr_ben_math.json step_labels/mr_gsm8k_subset.json \
    step_labels/mr_math_invalid_errors.json step_labels/mr_math_redundant_errors.json step_labels/stepverify.json
if [ "$PREFIXES" = yes ]; then set -- "$@" prm800k/phase1_train_prefixes.jsonl.gz; fi
if [ "$EIC" = yes ]; then set -- "$@" step_labels/eic.jsonl.gz; fi
for file in "$@"; do
    [ -e "$data/$file" ] || { echo "$data/$file is not there: recipes/README.md says where it comes from" >&2; exit 3; }
done
mkdir -p "$OUT"

# Not `contradiction`: it puts in short wrong steps, and people find errors in long ones.
kinds=number,propagated,operator,premise,unit,opposite
set --
for file in "$data"/processbench/*.json "$data/prmbench/prmbench.jsonl" "$data/math/math500.jsonl" "$data"/best_of_n/*; do
    if [ -e "$file" ]; then set -- "$@" --against "$file"; else echo "not there, so its problems are not removed: $file"; fi
done
echo "== People's labels"
"$GRADUS" data convert "$data/prm800k/ratings_subset.jsonl" "$data/step_labels/mr_ben_math.json" "$data/step_labels/mr_gsm8k_subset.json" \
    "$data/step_labels/mr_math_invalid_errors.json" "$data/step_labels/mr_math_redundant_errors.json" "$data/step_labels/stepverify.json" \
    -o "$OUT/labelled.jsonl"
"$GRADUS" data dedup "$OUT/labelled.jsonl" "$@" --show 0 -o "$OUT/labelled-clean.jsonl"
"$GRADUS" data split "$OUT/labelled-clean.jsonl" --parts train=0.86,eval=0.14 --seed 0 -o "$OUT/split"
"$GRADUS" data convert "$OUT/split/eval.jsonl" -o "$OUT/eval.jsonl.zst"
"$GRADUS" data corrupt "$OUT/split/train.jsonl" --solutions --copies 1 --kinds $kinds -o "$OUT/human.jsonl.zst"
echo "== References"
"$GRADUS" data corrupt "$data/gsm8k/train.jsonl" "$data/math/train.jsonl" --layouts 2 --copies 3 --kinds $kinds -o "$OUT/corrupted.jsonl"
"$GRADUS" data dedup "$OUT/corrupted.jsonl" "$@" --against "$OUT/split/eval.jsonl" --show 0 -o "$OUT/clean.jsonl"
"$GRADUS" data convert "$OUT/clean.jsonl" -o "$OUT/references.jsonl.zst"
if [ "$PREFIXES" = yes ]; then
    echo "== Rated continuations"
    # Problems that are marked as PRMBench's leave here, and those that occur in the files above through --against, whatever part of PRMBench is there.
    gzip -dc "$data/prm800k/phase1_train_prefixes.jsonl.gz" | grep -v '"in_prmbench": *true' > "$OUT/phase1.jsonl"
    # One record a problem, so that all that begins alike is one tree.
    "$GRADUS" data merge "$OUT/phase1.jsonl" -o "$OUT/continued.jsonl"
    "$GRADUS" data dedup "$OUT/continued.jsonl" "$@" --against "$OUT/split/eval.jsonl" --show 0 -o "$OUT/continued-clean.jsonl"
    "$GRADUS" data convert "$OUT/continued-clean.jsonl" --merge-steps --seed 0 --labels-once -o "$OUT/prefixes.jsonl.zst"
    rm "$OUT/phase1.jsonl" "$OUT/continued.jsonl" "$OUT/continued-clean.jsonl"
fi
if [ "$EIC" = yes ]; then
    echo "== Errors written in"
    "$GRADUS" data dedup "$data/step_labels/eic.jsonl.gz" "$@" --against "$OUT/split/eval.jsonl" --show 0 -o "$OUT/eic.jsonl"
    "$GRADUS" data convert "$OUT/eic.jsonl" --merge-steps --seed 0 -o "$OUT/eic.jsonl.zst"
    rm "$OUT/eic.jsonl"
fi
rm -r "$OUT/corrupted.jsonl" "$OUT/clean.jsonl" "$OUT/labelled.jsonl" "$OUT/labelled-clean.jsonl" "$OUT/split"
set -- "$OUT/references.jsonl.zst" "$OUT/human.jsonl.zst"
if [ "$PREFIXES" = yes ]; then set -- "$@" "$OUT/prefixes.jsonl.zst"; fi
if [ "$EIC" = yes ]; then set -- "$@" "$OUT/eic.jsonl.zst"; fi
"$GRADUS" data stats "$@"
