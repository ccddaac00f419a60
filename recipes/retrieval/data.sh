#!/bin/sh
# RetrievalPRM's ablation at a small size: training and test sets with reference questions and steps, one or neither, from a pool of solved problems.
# Needs GRADUS (the program), GRADUS_DATA (the datasets), and the default PRM's data (recipes/default/data.sh) in IN; writes into OUT:
#   train-QS.jsonl.zst, test-QS.jsonl.zst   Q and S are 1 where reference questions and reference steps are there
#   test-QS-large.jsonl.zst                 the same tests with more than twice the pool, for models that were trained with the small one
#   layouts-QS.jsonl.zst                    the default PRM's own kind of data for the same fifth of the problems (recipes/retrieval/classes.toml)
set -eu
: "${GRADUS:=gradus}" "${GRADUS_DATA:?names the folder of datasets}" "${IN:=data-out/default}" "${OUT:=data-out/retrieval}"
mkdir -p "$OUT"

# A fifth of the problems to train on, three tenths as the pool, the rest to enlarge it with at test time only. One right and one wrong solution of each.
"$GRADUS" data corrupt "$GRADUS_DATA/gsm8k/train.jsonl" "$GRADUS_DATA/math/train.jsonl" --copies 1 --kinds number,operator,premise,unit,opposite --seed 1 -o "$OUT/all.jsonl"
set --
for file in "$GRADUS_DATA"/processbench/*.json "$GRADUS_DATA/math/math500.jsonl"; do
    set -- "$@" --against "$file"
done
"$GRADUS" data dedup "$OUT/all.jsonl" "$@" --show 0 -o "$OUT/clean.jsonl"
"$GRADUS" data split "$OUT/clean.jsonl" --splits train=0.2,pool=0.3,more=0.5 --seed 1 -o "$OUT"
"$GRADUS" pool build "$OUT/pool.jsonl" "$IN/human.jsonl.zst" -o "$OUT/small.pool"
"$GRADUS" pool build "$OUT/pool.jsonl" "$IN/human.jsonl.zst" "$OUT/more.jsonl" -o "$OUT/large.pool"
"$GRADUS" data split "$IN/references.jsonl.zst" --splits train=0.2,pool=0.3,more=0.5 --seed 1 -o "$OUT/layouts"
for questions in 0 1; do
    for steps in 0 1; do
        name=$questions$steps
        if [ $name = 00 ]; then
            "$GRADUS" data convert "$OUT/train.jsonl" -o "$OUT/train-00.jsonl.zst"
            "$GRADUS" data convert "$OUT/layouts/train.jsonl" -o "$OUT/layouts-00.jsonl.zst"
            "$GRADUS" data convert "$GRADUS_DATA"/processbench/*.json -o "$OUT/test-00.jsonl.zst"
            continue
        fi
        set -- -k $((2 * questions)) -r $steps --as records
        "$GRADUS" pool examples "$OUT/train.jsonl" --pool "$OUT/small.pool" "$@" -o "$OUT/train-$name.jsonl.zst"
        "$GRADUS" pool examples "$OUT/layouts/train.jsonl" --pool "$OUT/small.pool" "$@" -o "$OUT/layouts-$name.jsonl.zst"
        "$GRADUS" pool examples "$GRADUS_DATA"/processbench/*.json --pool "$OUT/small.pool" "$@" -o "$OUT/test-$name.jsonl.zst"
        "$GRADUS" pool examples "$GRADUS_DATA"/processbench/*.json --pool "$OUT/large.pool" "$@" -o "$OUT/test-$name-large.jsonl.zst"
    done
done
rm "$OUT/all.jsonl" "$OUT/clean.jsonl" "$OUT/train.jsonl" "$OUT/pool.jsonl" "$OUT/more.jsonl" "$OUT"/layouts/*
rmdir "$OUT/layouts"
