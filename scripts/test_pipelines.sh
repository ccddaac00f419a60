#!/bin/sh
# make test-pipelines: the small form of each pipeline in recipes/pipelines, from data to a report page, on the local engine.
#   PIPELINES   which ones (default: all four)
#   KILLS       kills each so many times at random instants, starts it again, and compares what an undisturbed run wrote
#   ENDPOINT, MODEL   sample and annotate over a server instead
# Needs GRADUS (the program) and GRADUS_HOME with smollm2-135m and all-minilm-l6-v2.
set -eu
: "${PIPELINES:=retrieval-prm spare perplexity-grpo lessons}" "${KILLS:=0}"
out=${OUT:-target/pipelines}
GRADUS=$(realpath "${GRADUS:?names the program}")
export GRADUS SMALL=1

# pipeline NAME FOLDER LOG
pipeline() {
    OUT=$2 sh "recipes/pipelines/$1.sh" >> "$3" 2>&1
}

for name in $PIPELINES; do
    rm -rf "$out/$name" "$out/$name-killed" && mkdir -p "$out"
    : > "$out/$name.log"
    started=$(date +%s)
    pipeline "$name" "$out/$name" "$out/$name.log" || { tail -20 "$out/$name.log"; exit 1; }
    took=$(($(date +%s) - started))
    pages=$(ls "$out/$name"/report*/report.html | wc -l)
    echo "$name: $took s, $pages report pages"
    [ "$KILLS" -gt 0 ] || continue
    : > "$out/$name-killed.log"
    for kill in $(seq "$KILLS"); do
        setsid sh -c 'OUT=$1 exec sh "recipes/pipelines/$0.sh" >> "$2" 2>&1' "$name" "$out/$name-killed" "$out/$name-killed.log" &
        group=$!
        instant=$(awk -v seed="$(date +%N)" -v most="$took" 'BEGIN { srand(seed); printf "%.1f", 1 + rand() * most / 2 }')
        sleep "$instant"
        kill -9 -- "-$group" 2> /dev/null && echo "  killed after $instant s" || echo "  had ended before $instant s"
        wait "$group" 2> /dev/null || true
    done
    pipeline "$name" "$out/$name-killed" "$out/$name-killed.log" || { tail -20 "$out/$name-killed.log"; exit 1; }
    python3 scripts/same_pipelines.py "$out/$name" "$out/$name-killed"
done
