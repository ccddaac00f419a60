#!/bin/sh
# Do two builds of the program write the same bytes? Runs a fixed set of commands with each, on data that the synthetic
# world writes and on the tiny models of the tests, and compares every file.
# Usage: scripts/same_outputs.sh OLD_PROGRAM NEW_PROGRAM [FOLDER]
# Options are spelled as the older program knows them. What a run measures (times, dates) is taken out before comparing.
set -eu
old=$(realpath "$1")
new=$(realpath "$2")
out=${3:-target/same-outputs}
models=$(pwd)/crates/engine/tests/reference/models
rm -rf "$out"
mkdir -p "$out/old" "$out/new"
export HF_HUB_OFFLINE=1

# run NAME COMMAND…: what it prints goes to NAME.txt, its exit status to NAME.rc.
run() {
    name=$1
    shift
    "$program" "$@" > "$name.txt" 2> "$name.err" < /dev/null && echo 0 > "$name.rc" || echo $? > "$name.rc"
}

for which in old new; do
    program=$([ $which = old ] && echo "$old" || echo "$new")
    echo "$which: $program"
    (
        cd "$out/$which"
        export GRADUS_HOME="$PWD/home"
        run synth synth -n 60 --solutions 3 --seed 5 -o world.jsonl
        for format in processbench trl math-shepherd prm800k openrlhf; do
            run convert-$format data convert world.jsonl --to $format -o world.$format.jsonl
            run parquet-$format data convert world.$format.jsonl --from $format --to $format -o rows.parquet
            run back-$format data convert rows.parquet --from $format --to $format -o back.$format.jsonl
            rm -f rows.parquet
        done
        run gzip data convert world.jsonl -o world.jsonl.gz
        run stats data stats world.jsonl.gz --json
        run check data check world.processbench.jsonl --json
        run dedup data dedup world.jsonl -o unique.jsonl --json
        run split data split world.jsonl --parts train=0.8,eval=0.2 -o parts
        run corrupt data corrupt world.jsonl -o wrong.jsonl --json
        run grade grade --data world.jsonl --json
        run grade-one grade '\frac{\sqrt{3}}{3}' '1/\sqrt{3}' --json
        run steps steps world.jsonl --json
        head -n 12 world.jsonl > few.jsonl
        run score score few.jsonl --model "$models/qwen2" --profile plain --name tiny --precision f32 -o scored.jsonl --json
        run score-prm score few.jsonl --model "$models/qwen2-prm" --precision f32 -o scored-prm.jsonl --json
        run select select scored.jsonl --scores tiny --by all --json
        run perplexity perplexity --data few.jsonl --model "$models/llama" --precision f32 --json
        run generate generate 'Two plus two' --model "$models/llama" --precision f32 --raw --max-tokens 12 --seed 3 --json
        run embed embed 'a cat' 'a dog' --model "$models/bert-mean" -o vectors.npy
        run pool pool build world.jsonl -o world.pool --encoder "$models/bert-mean" --dimensions 4
        run pool-search pool search 'How many apples are left?' --pool world.pool --encoder "$models/bert-mean" --json
        run pool-examples pool examples few.jsonl --pool world.pool --encoder "$models/bert-mean" -o examples.jsonl
        for benchmark in processbench best-of-n drift labels; do
            run bench-$benchmark bench $benchmark scored.jsonl --scores tiny -o bench-$benchmark --json
        done
        run compare bench compare bench-processbench bench-processbench --json
        run sample sample few.jsonl -n 2 --limit 3 --max-tokens 12 --model "$models/llama" --precision f32 --jobs jobs.sqlite -o sampled.jsonl --json
        run monte-carlo annotate monte-carlo few.jsonl --limit 3 -k 2 --max-tokens 12 --model "$models/llama" --precision f32 --jobs jobs.sqlite -o mc.jsonl --json
        run both score scored.jsonl --model "$models/llama" --profile plain --name other --precision f32 -o both.jsonl --json
        run consensus annotate consensus both.jsonl --from-scores '*:0.5' -o agreed.jsonl --json
        run export annotate export world.jsonl --to trl --balance -o export.jsonl --json
        cat > prm.toml <<TOML
objective = "prm"
seed = 0
[model]
base = "$models/qwen2"
precision = "f32"
[lora]
rank = 4
alpha = 8
targets = ["all-linear"]
[data]
train = ["few.jsonl"]
max_tokens = 512
[optimiser]
learning_rate = 1e-3
[batch]
tokens = 2048
examples = 4
[steps]
total = 4
checkpoint_every = 2
[prm]
profile = "plain"
TOML
        run train train prm prm.toml -o run --json
        rm -rf home jobs.sqlite*
    )
done

python3 - "$out" <<'PYTHON'
import json, os, re, sys
root = sys.argv[1]
MEASURED = re.compile(r'"?(time|started|finished|seconds|[a-z_]*_seconds|tokens_per_second|created|date|version|command|memory_gib|elapsed)"?: ?("[^"]*"|\[[^]]*\]|[-0-9.e+]+|null)')

def files(which):
    base = os.path.join(root, which)
    found = {}
    for folder, _, names in os.walk(base):
        for name in names:
            path = os.path.join(folder, name)
            found[os.path.relpath(path, base)] = path
    return found

def content(path):
    data = open(path, "rb").read()
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return data
    text = text.replace(os.path.abspath(os.path.join(root, "old")), "HERE").replace(os.path.abspath(os.path.join(root, "new")), "HERE")
    return MEASURED.sub(r"\1: -", text)

old, new = files("old"), files("new")
different = [name for name in sorted(set(old) & set(new)) if content(old[name]) != content(new[name])]
words = [name for name in different if name.endswith((".txt", ".err", ".html", ".toml", ".md"))]
bytes_ = [name for name in different if name not in words]
print(f"{len(set(old) & set(new)) - len(different)} files are equal; {len(words)} pages, notes and messages and {len(bytes_)} other files differ")
for title, names in (("only old", sorted(set(old) - set(new))), ("only new", sorted(set(new) - set(old))), ("words", words), ("DIFFERENT", bytes_)):
    for name in names:
        print(f"  {title}: {name}")
unusable = [name for name in sorted(old) if name.endswith(".rc") and content(old[name]).strip() != "0"]
if unusable:
    print("the older program refuses these, so they show nothing: " + ", ".join(unusable))
failed = [name for name in sorted(new) if name.endswith(".rc") and content(new[name]).strip() != content(old.get(name, new[name])).strip()]
sys.exit(1 if bytes_ or failed or unusable else 0)
PYTHON
