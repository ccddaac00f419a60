#!/bin/sh
# The critics' table in docs/experiments.md: GRPO from the same warm-up five ways, three seeds each, measured on the OPS-style benchmark. Needs GRADUS (the program), the
# data of recipes/critic/data.sh in IN and the warm-up's adapter; DEVICE is cpu or cuda. What is killed goes on where it was when it is started again.
set -eu
: "${GRADUS:=gradus}" "${IN:=data-out/critic}" "${RUNS:=runs/critic}" "${ADAPTER:=runs/critic-sft/adapter}" "${DEVICE:=cuda}"
arm() {
    run=$RUNS/$1-$seed
    shift
    "$GRADUS" train grpo recipes/critic/grpo.toml -o "$run" --set seed=$seed --set model.device="$DEVICE" --set "model.adapter=\"$ADAPTER\"" \
        --set "data.train=[\"$IN/train.jsonl\"]" --set "data.eval=[\"$IN/eval.jsonl\"]" "$@"
    "$GRADUS" bench preference "$IN/ops.jsonl" --critic --model smollm2-135m --adapter "$run/adapter" --device "$DEVICE" --max-tokens 200 -o "$run/ops"
}
for seed in 1 2 3; do
    arm vanilla --set grpo.perplexity_aware=false --set grpo.class_level=false
    arm dr --set grpo.perplexity_aware=false --set grpo.class_level=false --set grpo.advantage_std=false --set 'grpo.length="constant"'
    arm vanilla-class --set grpo.perplexity_aware=false
    arm perplexity --set grpo.class_level=false
    arm perplexity-class
done
