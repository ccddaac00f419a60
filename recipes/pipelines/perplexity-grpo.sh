#!/bin/sh
# Perplexity-aware GRPO for critics (2026), end to end: solutions of several models, an OPS-style benchmark, a warm-up on
# ideal critiques, GRPO with weights by perplexity and class-level averaging, and the bias between the models.
#
#   SMALL=1 sh recipes/pipelines/perplexity-grpo.sh
#   ENDPOINTS='http://localhost:8000 http://localhost:8001 http://localhost:8002' \
#       MODELS='Qwen/Qwen2.5-7B-Instruct meta-llama/Llama-3.1-8B-Instruct mistralai/Mistral-7B-Instruct-v0.3' \
#       TRAIN=math/train.jsonl TEST=math/math500.jsonl PRM=models/Qwen2.5-Math-PRM-7B sh recipes/pipelines/perplexity-grpo.sh
#
# TRAIN and TEST have problems with gold answers; PRM says where a wrong solution first errs. recipes/pipelines/common.sh
# lists the other settings.
set -eu
: "${OUT:=runs/pipelines/perplexity-grpo}"
. "$(dirname "$0")/common.sh"
if [ -n "$SMALL" ]; then
    # Three styles of writing stand for three models; first errors are known.
    world="--difficulty 1-1 --families shopping --errors wrong_operator --propagate 1"
    gradus synth -n 20 --solutions 12 $world --seed 1 -o "$OUT/train.jsonl"
    gradus synth -n 20 --solutions 24 $world --seed 2 -o "$OUT/test.jsonl"
    critics="" size="--limit 6" answer="--max-tokens 48"
    grpo="--set grpo.group=2 --set grpo.max_new_tokens=48 --set data.max_tokens=1024"
    sft="--set data.max_tokens=1024"
else
    : "${TRAIN:?names the problems to train on}" "${TEST:?names the problems to test on}"
    : "${MODELS:?names the models that write solutions}" "${ENDPOINTS:?names their servers}" "${PRM:?names a reward model}"
    for split in train test; do
        problems=$([ $split = train ] && echo "$TRAIN" || echo "$TEST")
        servers=$ENDPOINTS files=""
        for model in $MODELS; do
            server=${servers%% *} servers=${servers#* }
            file=$OUT/$split-$(basename "$model").jsonl files="$files $file"
            gradus sample $problems -n 8 --model "$model" --endpoint "$server" -o "$file"
        done
        gradus data merge $files -o "$OUT/$split-sampled.jsonl"
        gradus score "$OUT/$split-sampled.jsonl" --model "$PRM" --device "$DEVICE" --name prm --show 0 -o "$OUT/$split.jsonl"
    done
    critics="--scores prm" size="" answer="--max-tokens 512" grpo="" sft=""
fi

# The benchmark: the same problems and answers by each model, half of them correct.
gradus bench preference build "$OUT/test.jsonl" $size -o "$OUT/ops.jsonl"
gradus data split "$OUT/train.jsonl" --splits train=0.8,eval=0.2 --seed 1 -o "$OUT/split"

# The warm-up: ideal critiques teach the form.
mkdir -p "$OUT/ideal" "$OUT/critic"
for part in train eval; do
    gradus train critic-data "$OUT/split/$part.jsonl" $critics --model "$BASE" --device "$DEVICE" \
        --sft-output "$OUT/ideal/$part.jsonl" -o "$OUT/ideal/$part-critic.jsonl"
done
train sft recipes/critic/sft.toml "$OUT/sft" "$OUT/ideal" $sft

# GRPO, with perplexities under the warm-up's adapter.
for part in train eval; do
    gradus train critic-data "$OUT/split/$part.jsonl" $critics --adapter "$OUT/sft/adapter" --device "$DEVICE" -o "$OUT/critic/$part.jsonl"
done
train grpo recipes/critic/grpo.toml "$OUT/grpo" "$OUT/critic" --set "model.adapter=$OUT/sft/adapter" $grpo

# Bias and accuracy by model, before and after.
for stage in sft grpo; do
    gradus bench preference "$OUT/ops.jsonl" --critic --adapter "$OUT/$stage/adapter" --device "$DEVICE" $answer -o "$OUT/report-$stage"
done
gradus bench compare "$OUT/report-sft" "$OUT/report-grpo"
