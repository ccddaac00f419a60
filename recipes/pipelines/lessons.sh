#!/bin/sh
# The Lessons of Developing Process Reward Models (Zhang et al., 2025), end to end: samples, Monte Carlo and judge labels,
# their consensus, a PRM on Monte Carlo labels and one on the consensus, ProcessBench, and the difference of the two.
#
#   SMALL=1 sh recipes/pipelines/lessons.sh
#   ENDPOINT=http://localhost:8000 JUDGE=Qwen/Qwen2.5-72B-Instruct JUDGE_ENDPOINT=http://localhost:8001 \
#       TRAIN=math/train.jsonl TEST='processbench/gsm8k.json processbench/math.json' sh recipes/pipelines/lessons.sh
#
# TRAIN has problems with gold answers, TEST has solutions with first errors. recipes/pipelines/common.sh lists the other
# settings.
set -eu
: "${OUT:=runs/pipelines/lessons}"
. "$(dirname "$0")/common.sh"
if [ -n "$SMALL" ]; then
    small_problems
    TRAIN=$OUT/problems/train.jsonl TEST=$OUT/problems/test.jsonl
    samples=1 sampling="--max-tokens 96" rollouts="-k 2 --max-tokens 48" splits=train=0.6,eval=0.4
    # This model's tokenizer does not know Qwen's token after each step, and its completions find no correct solution to
    # measure F1 with.
    profile="${PROFILE:---set prm.profile=gradus}"' --set steps.best={metric="loss",is="lowest"}'
else
    : "${TRAIN:?names the problems to train on}" "${TEST:?names the benchmark}"
    : "${JUDGE:=Qwen/Qwen2.5-72B-Instruct}" "${JUDGE_ENDPOINT:=$ENDPOINT}"
    samples=6 sampling="--max-tokens 2048" rollouts="-k 8 --max-tokens 2048" splits=train=0.95,eval=0.05 profile=""
fi

gradus sample "$TRAIN" -n $samples $sampling -o "$OUT/sampled.jsonl" $generator
gradus data merge "$TRAIN" "$OUT/sampled.jsonl" -o "$OUT/solutions.jsonl"

# Monte Carlo labels, soft: the share of completions that reach the answer.
gradus annotate monte-carlo "$OUT/solutions.jsonl" $rollouts --labels soft -o "$OUT/mc.jsonl" $generator

# A second opinion: a large judge, or in the small form, where no model here can judge, the reward model that ships (or
# the one that SCORER has options for). Its THRESHOLD is high, for the small model's completions find errors in most
# solutions, and a few must be agreed upon.
if [ -n "$SMALL" ]; then
    gradus score "$OUT/mc.jsonl" ${SCORER:-} --name prm --show 0 -o "$OUT/judged.jsonl"
    gradus annotate consensus "$OUT/judged.jsonl" --from-scores "prm:${THRESHOLD:-0.9}" -o "$OUT/agreed.jsonl"
else
    gradus annotate judge "$OUT/solutions.jsonl" --protocol qwen --model "$JUDGE" --endpoint "$JUDGE_ENDPOINT" -o "$OUT/judged.jsonl"
    gradus annotate consensus "$OUT/mc.jsonl" "$OUT/judged.jsonl" -o "$OUT/agreed.jsonl"
fi

# A PRM on each, hard labels, and ProcessBench.
for labels in mc agreed; do
    gradus data split "$OUT/$labels.jsonl" --splits $splits --seed 1 -o "$OUT/$labels"
    annotator=$([ $labels = mc ] && echo monte-carlo || echo consensus)
    train prm recipes/prm/qwen-style.toml "$OUT/prm-$labels" "$OUT/$labels" --set data.annotator=$annotator $profile
    gradus bench processbench $TEST --model "$OUT/prm-$labels/adapter" --device "$DEVICE" -o "$OUT/report-$labels"
done
gradus bench compare "$OUT/report-mc" "$OUT/report-agreed"
