#!/bin/sh
# make test-pipelines: the small form of each pipeline in recipes/pipelines, from data to a report page.
#   PIPELINES   which ones (default: all four)
#   BACKENDS    who samples and annotates: `local`, the engine; `llama.cpp`, a real server (default: both)
#   ENDPOINT, MODEL   instead of llama.cpp's: another server, such as vLLM's, and the model's name there
#   KILLS       kills each so many times at random instants, starts it again, and compares what an undisturbed run wrote
# Needs GRADUS (the program) and GRADUS_HOME with smollm2-135m and all-minilm-l6-v2.
set -eu
: "${PIPELINES:=retrieval-prm spare perplexity-grpo lessons}" "${BACKENDS:=local llama.cpp}" "${KILLS:=0}"
: "${ENDPOINT:=}" "${MODEL:=smollm2-135m}"
out=${OUT:-target/pipelines}
GRADUS=$(realpath "${GRADUS:?names the program}")
export GRADUS SMALL=1
mkdir -p "$out"

# pipeline NAME FOLDER LOG
pipeline() {
    OUT=$2 sh "recipes/pipelines/$1.sh" >> "$3" 2>&1
}

# whole NAME FOLDER: from an empty folder to its pages; sets `took`.
whole() {
    rm -rf "$2" && : > "$2.log"
    started=$(date +%s)
    pipeline "$1" "$2" "$2.log" || { tail -20 "$2.log"; exit 1; }
    took=$(($(date +%s) - started))
    echo "$(basename "$2"): $took s, $(ls "$2"/report*/report.html | wc -l) report pages"
}

# killed NAME FOLDER: like `whole`, with kills on the way; compares with what `whole` wrote.
killed() {
    rm -rf "$2-killed" && : > "$2-killed.log"
    for kill in $(seq "$KILLS"); do
        setsid sh -c 'OUT=$1 exec sh "recipes/pipelines/$0.sh" >> "$1.log" 2>&1' "$1" "$2-killed" &
        group=$!
        instant=$(awk -v seed="$(date +%N)" -v most="$took" 'BEGIN { srand(seed); printf "%.1f", 1 + rand() * most / 2 }')
        timeout "$instant" tail --pid="$group" -f /dev/null || true
        kill -s KILL -- "-$group" 2> /dev/null && echo "  killed after $instant s" || echo "  had ended before $instant s"
        wait "$group" 2> /dev/null || true
    done
    pipeline "$1" "$2-killed" "$2-killed.log" || { tail -20 "$2-killed.log"; exit 1; }
    python3 scripts/same_pipelines.py "$2" "$2-killed"
}

for backend in $BACKENDS; do
    if [ "$backend" = local ]; then
        for name in $PIPELINES; do
            whole "$name" "$out/$name"
            [ "$KILLS" -eq 0 ] || killed "$name" "$out/$name"
        done
        continue
    fi
    if [ -z "$ENDPOINT" ]; then
        . scripts/llama_server.sh
        llama_server "$out/server" "$("$GRADUS" models path smollm2-135m)" || continue
        ENDPOINT=$url
    fi
    export ENDPOINT MODEL
    for name in $PIPELINES; do
        # Only these sample or annotate in their small form.
        case $name in spare | lessons) whole "$name" "$out/$name-$backend" ;; esac
    done
done
