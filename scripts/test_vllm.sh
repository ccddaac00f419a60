#!/bin/sh
# make test-vllm: a real vLLM beside `gradus serve`, with the two small models of crates/server/tests/vllm. The same requests to both
# must give the same fields, shapes and numbers; then our own client asks vLLM. RECORD=1 keeps vLLM's answers, which `make test`
# compares our server with. Needs GRADUS, the program. Installs vLLM's CPU build (gigabytes) into VENV.
set -eu
gradus=$(realpath "${GRADUS:?names the program}")
out=${OUT:-target/vllm}
venv=${VENV:-$out/venv}
models=crates/server/tests/vllm
mkdir -p "$out"
scripts/install_vllm.sh "$venv"

free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
# start NAME PORT COMMAND: runs it, and waits until it answers.
pids=
start() {
  name=$1 port=$2
  shift 2
  "$@" > "$out/$name.log" 2>&1 &
  pid=$!
  pids="$pids $pid"
  until curl -sf "http://127.0.0.1:$port/health" > /dev/null || curl -sf "http://127.0.0.1:$port/healthz" > /dev/null; do
    kill -0 $pid || { tail -30 "$out/$name.log"; exit 1; }
    sleep 1
  done
}
trap 'kill $pids 2> /dev/null || true' EXIT
export VLLM_CPU_KVCACHE_SPACE=1 HF_HUB_OFFLINE=1 VLLM_NO_USAGE_STATS=1
tag=$(python3 -c "
import json
print(next(token['id'] for token in json.load(open('$models/prm/tokenizer.json'))['added_tokens'] if token['content'] == '<extra_0>'))")
for kind in prm lm; do
  ours=$(free_port)
  start gradus-$kind "$ours" "$gradus" serve --model $kind="$models/$kind" --listen 127.0.0.1:"$ours"
  port=$(free_port)
  pooling=$([ $kind = prm ] && echo "--runner pooling --pooler-config {\"pooling_type\":\"STEP\",\"step_tag_id\":$tag,\"returned_token_ids\":[0,1]}" || echo)
  # shellcheck disable=SC2086
  start vllm-$kind "$port" "$venv/bin/vllm" serve "$models/$kind" --served-model-name $kind --dtype float32 --max-model-len 1024 --port "$port" $pooling
  python3 scripts/test_vllm.py "http://127.0.0.1:$ours" "http://127.0.0.1:$port" $kind ${RECORD:+--record "$models/$kind.jsonl"}
  if [ $kind = prm ]; then prm=$port; else lm=$port; fi
done

# Our own client, live.
"$gradus" synth -n 4 --solutions 2 --seed 5 -o "$out/world.jsonl"
"$gradus" score "$out/world.jsonl" --model "$models/prm" -o "$out/local.jsonl" --show 0
"$gradus" score "$out/world.jsonl" --endpoint "http://127.0.0.1:$prm" --model prm --api pooling --profile qwen2.5-math-prm \
  --tokenizer "$models/prm" -o "$out/remote.jsonl" --show 0
python3 - "$out/local.jsonl" "$out/remote.jsonl" <<'PYTHON'
import json
import sys

def scores(path):
    records = map(json.loads, open(path))
    return [step for record in records for solution in record["solutions"] for found in solution["scores"].values() for step in found]

local, remote = map(scores, sys.argv[1:])
assert local and len(local) == len(remote), (len(local), len(remote))
far = max(abs(one - two) for one, two in zip(local, remote))
assert far < 1e-3, far
print(f"scores through vLLM's /pooling: {len(local)} steps, at most {far:.1e} from the local ones")
PYTHON
"$gradus" sample "$out/world.jsonl" --endpoint "http://127.0.0.1:$lm/v1" --model lm -n 2 --max-tokens 16 -o "$out/sampled.jsonl"
"$gradus" annotate monte-carlo "$out/world.jsonl" --endpoint "http://127.0.0.1:$lm/v1" --model lm -k 2 --max-tokens 8 \
  --no-request-seed -o "$out/labeled.jsonl"
