#!/bin/sh
# Best-of-N of every PRM in the best-of-n files, by us and by the numpy twin, in one run: times, and the largest difference.
# Needs GRADUS (the program), GRADUS_DATA (the datasets) and python3 with numpy (PYTHON; a fresh one is made without it).
set -eu
data=${GRADUS_DATA:?names the folder of datasets}/best_of_n
out=${OUT:-target/best-of-n}
python=${PYTHON:-$out/venv/bin/python}
mkdir -p "$out"
if [ ! -x "$python" ]; then
  python3 -m venv "$out/venv" && "$out/venv/bin/pip" -q install numpy==2.4.6
fi
rm -rf "$out/run"
time "$GRADUS" bench best-of-n "$data/gsm8k_n32.jsonl.gz" "$data/math500_n32.jsonl.gz" -o "$out/run" > "$out/table.txt"
cat "$out/table.txt"
for set in gsm8k_n32 math500_n32; do
  "$python" benches/peers/best_of_n.py --data "$data/$set.jsonl.gz" --groups "$out/run/groups.jsonl" --against "$out/run/report.json"
done
