#!/bin/sh
# make test-llm-server: every annotator on 6 problems of GSM8K, against a real server (llama.cpp's, from PyPI, with SmolLM2-135M) and on the local engine.
# Nothing may crash, and everything must be accounted for; what a model of this size says is mostly wrong or undecided, and the summaries show it.
# Needs GRADUS (the program), GRADUS_HOME with the model, and GRADUS_DATA (the datasets); says so and passes where the data or the server cannot be had.
set -eu
out=${OUT:-target/llm-server}
gradus=$(realpath "${GRADUS:?names the program}")
data=${GRADUS_DATA:?names the folder of datasets}/gsm8k/test.jsonl
[ -e "$data" ] || { echo "skipped: no $data"; exit 0; }
. scripts/llama_server.sh
llama_server "$out" "$("$gradus" models path smollm2-135m)" || exit 0
rm -rf "$out/work" && mkdir -p "$out/work"

# run NAME COMMAND…: the summary as JSON, checked by the script below.
run() {
    name=$1
    shift
    started=$(date +%s)
    "$gradus" "$@" --jobs "$out/work/jobs.sqlite" --json > "$out/work/$name.json"
    echo "$name: $(($(date +%s) - started)) s"
}
for where in server here; do
    if [ $where = server ]; then
        set -- --endpoint "$url" --model smollm2-135m --concurrency 2 --cache "$out/work/answers"
    else
        set -- --model smollm2-135m
    fi
    file=$out/work/$where
    run $where-sample sample "$data" --limit 6 -n 1 --max-tokens 160 -o "$file-sampled.jsonl" "$@"
    run $where-monte-carlo annotate monte-carlo "$file-sampled.jsonl" -k 2 --max-tokens 96 -o "$file-mc.jsonl" "$@"
    run $where-judge annotate judge "$file-sampled.jsonl" --max-tokens 128 -o "$file-judge.jsonl" "$@"
    run $where-reference annotate reference "$file-sampled.jsonl" --shots 1 --attempts 0 --max-tokens 240 -o "$file-reference.jsonl" "$@"
    "$gradus" annotate report "$file-mc.jsonl" "$file-judge.jsonl" "$file-reference.jsonl" --resamples 200 > "$file-report.txt" 2> "$file-report.err" ||
        grep -q 'no solution has labels from a model' "$file-report.err"
done
"$python" scripts/check_llm_server.py "$out/work"
