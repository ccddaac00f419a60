#!/bin/sh
# Training data of the default PRM, from public datasets: reference solutions of GSM8K's and MATH's training sets, as they are and as language models would
# write them, each with corrupted copies; people's step labels (PRM800K's ratings, MR-Ben, MR-GSM8K, ReasonEval, StepVerify), with corrupted copies of the
# steps that people found right, and once more in paragraphs; PRM800K's rated continuations of the same steps (phase 1), in two kinds of paragraphs, each label
# once; late errors (PRM800K's phase 2); and errors that GPT-4 wrote into right solutions (EIC). Problems that occur in ProcessBench, MATH-500 or the best-of-n
# sets, exactly or nearly, are removed everywhere; those of PRMBench from the references, EIC and what is held out, but not from PRM800K's labels: PRMBench was
# made of its solutions, so its figures are of problems partly seen. Every count is printed. Needs GRADUS (the program) and GRADUS_DATA (the datasets:
# recipes/README.md says which, and where they come from); writes into OUT:
#   references.jsonl.zst, references-half.jsonl.zst     all, and the half that is trained on
#   human.jsonl.zst, human-paragraphs.jsonl.zst         people's labels
#   continued-0.jsonl.zst, continued-1.jsonl.zst        rated continuations
#   eic.jsonl.zst, late.jsonl.zst
#   eval.jsonl.zst                                      a seventh of the problems that people labelled, held out, to choose by
set -eu
: "${GRADUS:=gradus}" "${GRADUS_DATA:?names the folder of datasets}" "${OUT:=data-out/default}"
data=$GRADUS_DATA
labels="prm800k/ratings_subset.jsonl step_labels/mr_ben_math.json step_labels/mr_gsm8k_subset.json step_labels/mr_math_invalid_errors.json
step_labels/mr_math_redundant_errors.json step_labels/stepverify.json"
for file in gsm8k/train.jsonl math/train.jsonl $labels prm800k/phase1_train_prefixes.jsonl.gz step_labels/prm800k_phase2_natural.jsonl.gz step_labels/eic.jsonl.gz; do
    [ -e "$data/$file" ] || { echo "$data/$file is not there: recipes/README.md says where it comes from" >&2; exit 3; }
done
mkdir -p "$OUT"
work=$OUT/work
mkdir -p "$work"

# Not `contradiction`: it puts in short wrong steps, and people find errors in long ones.
kinds=number,propagated,operator,premise,unit,opposite
set --
for file in "$data"/processbench/*.json "$data/math/math500.jsonl" "$data"/best_of_n/*; do
    if [ -e "$file" ]; then set -- "$@" --against "$file"; else echo "not there, so its problems are not removed: $file"; fi
done
prmbench=$data/prmbench/prmbench.jsonl
[ -e "$prmbench" ] || { echo "not there, so its problems are not removed: $prmbench"; prmbench=; }

echo "== People's labels"
(
    set --
    for file in $labels; do set -- "$@" "$data/$file"; done
    "$GRADUS" data convert "$@" -o "$work/labelled.jsonl"
)
"$GRADUS" data dedup "$work/labelled.jsonl" "$@" ${prmbench:+--against "$prmbench"} --show 0 -o "$work/held-out.jsonl"
"$GRADUS" data split "$work/held-out.jsonl" --splits train=0.86,eval=0.14 --seed 0 -o "$work/split"
"$GRADUS" data convert "$work/split/eval.jsonl" -o "$OUT/eval.jsonl.zst"
set -- "$@" --against "$OUT/eval.jsonl.zst"
"$GRADUS" data dedup "$work/labelled.jsonl" "$@" --show 0 -o "$work/human.jsonl"
"$GRADUS" data corrupt "$work/human.jsonl" --solutions --copies 1 --kinds $kinds -o "$OUT/human.jsonl.zst"
"$GRADUS" data convert "$work/human.jsonl" --merge-steps --seed 5 -o "$OUT/human-paragraphs.jsonl.zst"
echo "== Rated continuations"
# One record a problem, so that all that begins alike is one tree.
"$GRADUS" data merge "$data/prm800k/phase1_train_prefixes.jsonl.gz" -o "$work/continued.jsonl"
"$GRADUS" data dedup "$work/continued.jsonl" "$@" --show 0 -o "$work/continued-clean.jsonl"
for seed in 0 1; do
    "$GRADUS" data convert "$work/continued-clean.jsonl" --merge-steps --seed $seed --labels-once -o "$OUT/continued-$seed.jsonl.zst"
done
echo "== Late errors"
"$GRADUS" data dedup "$data/step_labels/prm800k_phase2_natural.jsonl.gz" "$@" --show 0 -o "$work/late.jsonl"
"$GRADUS" data convert "$work/late.jsonl" --merge-steps --seed 0 -o "$OUT/late.jsonl.zst"
set -- "$@" ${prmbench:+--against "$prmbench"}
echo "== Errors written in"
"$GRADUS" data dedup "$data/step_labels/eic.jsonl.gz" "$@" --show 0 -o "$work/eic.jsonl"
"$GRADUS" data convert "$work/eic.jsonl" --merge-steps --seed 0 -o "$OUT/eic.jsonl.zst"
echo "== References"
"$GRADUS" data corrupt "$data/gsm8k/train.jsonl" "$data/math/train.jsonl" --layouts 2 --copies 3 --kinds $kinds -o "$work/corrupted.jsonl"
"$GRADUS" data dedup "$work/corrupted.jsonl" "$@" --show 0 -o "$work/references.jsonl"
"$GRADUS" data convert "$work/references.jsonl" -o "$OUT/references.jsonl.zst"
"$GRADUS" data split "$work/references.jsonl" --splits half=0.5,rest=0.5 --seed 0 -o "$work/references"
"$GRADUS" data convert "$work/references/half.jsonl" -o "$OUT/references-half.jsonl.zst"
rm -r "$work"
"$GRADUS" data stats "$OUT/references-half.jsonl.zst" "$OUT/human.jsonl.zst" "$OUT/human-paragraphs.jsonl.zst" "$OUT/continued-0.jsonl.zst" \
    "$OUT/continued-1.jsonl.zst" "$OUT/eic.jsonl.zst" "$OUT/late.jsonl.zst"
