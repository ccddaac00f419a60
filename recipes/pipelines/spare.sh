#!/bin/sh
# SPARE (Rizvi et al., AAAI 2026), end to end: samples, reference-guided labels, SPARE-PRM and SPARE-ORPO, best-of-N.
#
#   SMALL=1 sh recipes/pipelines/spare.sh
#   ENDPOINT=http://localhost:8000 TRAIN=gsm8k/train.jsonl TEST=gsm8k/test.jsonl sh recipes/pipelines/spare.sh
#
# TRAIN has problems with reference solutions, TEST has problems with gold answers. recipes/pipelines/common.sh lists
# the other settings. ORPO's base is a GGUF file (QBASE), as the paper trains over 8 bits.
set -eu
: "${OUT:=runs/pipelines/spare}"
. "$(dirname "$0")/common.sh"
if [ -n "$SMALL" ]; then
    small_problems
    TRAIN=$OUT/problems/train.jsonl TEST=$OUT/problems/test.jsonl
    : "${QBASE:=smollm2-135m}"
    samples=1 candidates=4 sampling="--max-tokens 96" labeling="--limit 8 --shots 1 --response-retries 0 --max-tokens 320"
    # This model solves nothing, so right solutions are the synthetic ones, and their labels do not depend on it.
    pairs="--set orpo.pairs=outcome"
    # Its tokenizer does not know the paper's tag after each step.
    profile="--set prm.profile=brief"
else
    : "${TRAIN:?names the problems to train on}" "${TEST:?names the problems to test on}"
    : "${QBASE:=models/Meta-Llama-3-8B-Instruct.Q8_0.gguf}"
    samples=16 candidates=20 sampling="--max-tokens 1024" labeling="" pairs="" profile=""
fi

# Samples; solutions that TRAIN has stay with them.
gradus sample "$TRAIN" -n $samples $sampling -o "$OUT/sampled.jsonl" $generator
gradus data merge "$TRAIN" "$OUT/sampled.jsonl" -o "$OUT/solutions.jsonl"

# Labels: one request per solution, compared with the reference.
gradus annotate reference "$OUT/solutions.jsonl" $labeling -o "$OUT/labeled.jsonl" $generator
gradus data split "$OUT/labeled.jsonl" --splits train=0.8,eval=0.2 --seed 1 -o "$OUT/labeled"

# Training: a PRM on all step labels, and ORPO on pairs that outcome and labels agree on.
train prm recipes/prm/spare-prm.toml "$OUT/prm" "$OUT/labeled" --set data.annotator=reference $profile
train orpo recipes/orpo/spare-orpo.toml "$OUT/orpo" "$OUT/labeled" --set "model.base=$QBASE" $pairs

# Best-of-N with the PRM, and its page.
gradus sample "$TEST" -n $candidates $sampling --seed 1 -o "$OUT/candidates.jsonl" $generator
gradus score "$OUT/candidates.jsonl" --model "$OUT/prm/adapter" --device "$DEVICE" --name spare-prm --show 0 -o "$OUT/scored.jsonl"
gradus bench best-of-n "$OUT/scored.jsonl" --scores spare-prm -o "$OUT/report"
