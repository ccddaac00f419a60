#!/usr/bin/env bash
# Fuzzes every target for FUZZ_SECONDS (default 60) each, FUZZ_JOBS (default 1) at a time, and stops at the first crash,
# hang or failed assertion. The readers of dataset formats are one target that runs once per format, with a minute for
# each or their share of the time. `fuzz/run.sh grade steps reader:trl` runs only those; `FUZZ_SECONDS=3600 FUZZ_JOBS=16
# fuzz/run.sh` is an hour for each target on sixteen cores. FUZZ_BUILT names a folder with the targets already built.
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=${FUZZ_SECONDS:-60}
jobs=${FUZZ_JOBS:-1}
tools=$PWD/target/tools
version=0.13.2
# Without sanitizers the stable toolchain will do; panics, hangs, deep recursion and memory use are caught all the same.
flags=(--sanitizer none --strip-dead-code)

if [[ -n ${FUZZ_BUILT:-} ]]; then
  built=$FUZZ_BUILT
else
  if [[ ! -x $tools/bin/cargo-fuzz ]]; then
    cargo install cargo-fuzz --version "$version" --locked --root "$tools"
  fi
  "$tools/bin/cargo-fuzz" build "${flags[@]}"
  built=fuzz/target/$(rustc -vV | sed -n 's/^host: //p')/release
fi

# Files of one process, in memory where the machine has such a folder.
[[ -d /dev/shm ]] && export TMPDIR=/dev/shm
TMPDIR=$(mktemp -d)
export TMPDIR
# Every job is a process group, so that its fuzzer ends with it.
set -m
trap 'for job in $(jobs -p); do kill -- -"$job" 2>/dev/null || true; done; rm -rf "$TMPDIR"' EXIT

runs=("$@")
if [[ ${#runs[@]} -eq 0 ]]; then
  runs=(grade checks steps container dedup journal job_rows judge_outputs gguf tokenizer template model_index pool)
  # Every folder of seeds that is not a target's own holds records of one format.
  for folder in fuzz/seeds/*/; do
    name=$(basename "$folder")
    [[ -x $built/$name ]] || runs+=("reader:$name")
  done
fi

readers=$(printf '%s\n' "${runs[@]}" | grep -c '^reader:' || true)
minute=$((seconds < 60 ? seconds : 60))

summary=$TMPDIR/summary
touch "$summary"
print_summary() {
  { echo "target seconds executions coverage crashes"; cat "$summary"; } | column -t
}

# Fuzzes one target, or one reader, for its time; adds a line to the summary.
fuzz() {
  local run=$1 target=${1%%:*} seeds=${1##*:} time=$seconds environment=() failed=0 executions=0 left executed coverage
  local corpus=fuzz/corpus/$target/$seeds artifacts=fuzz/artifacts/$target/$seeds
  local log=$artifacts/log.txt
  mkdir -p "$corpus" "$artifacts"
  local options=(-timeout=10 -rss_limit_mb=2048 -max_len=4096 -print_final_stats=1 -artifact_prefix="$artifacts/")
  [[ -f fuzz/$target.dict ]] && options+=(-dict="fuzz/$target.dict")
  if [[ $target != "$run" ]]; then
    environment=(GRADUS_FUZZ_FORMAT="$seeds")
    time=$((seconds / readers > minute ? seconds / readers : minute))
  fi
  echo "== $run: $time s"
  # Five minutes at a time: templates stay in memory for as long as a process runs.
  for ((left = time; left > 0 && !failed; left -= 300)); do
    nice env "${environment[@]}" "$built/$target" "${options[@]}" -max_total_time=$((left < 300 ? left : 300)) \
      "$corpus" "fuzz/seeds/$seeds" >"$log" 2>&1 || failed=1
    executed=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log" | tail -1)
    executions=$((executions + ${executed:-0}))
  done
  coverage=$(sed -n 's/.* cov: \([0-9]*\) .*/\1/p' "$log" | tail -1)
  echo "$run $time $executions ${coverage:--} $failed" >>"$summary"
  ((failed)) || return 0
  # What went wrong, without the fuzzer's own frames.
  grep -a -A 8 -E 'panicked at|ERROR: libFuzzer|overflowed its stack' "$log" | tail -30 || tail -3 "$log"
  local artifact
  artifact=$(sed -n 's/.*Test unit written to //p' "$log" | tail -1)
  echo
  echo "$run failed; the log is $log"
  if [[ -n $artifact ]]; then
    echo "the input is $artifact"
    echo "to run it again: ${environment[*]:-} $built/$target $artifact"
    echo "to make it small: ${environment[*]:-} $built/$target -minimize_crash=1 -runs=100000 $artifact"
  fi
  return 1
}

running=0
for run in "${runs[@]}"; do
  if ((running == jobs)); then
    wait -n || { print_summary; exit 1; }
    running=$((running - 1))
  fi
  fuzz "$run" &
  running=$((running + 1))
done
while ((running > 0)); do
  wait -n || { print_summary; exit 1; }
  running=$((running - 1))
done
print_summary
