#!/bin/sh
# Grades a million pairs of answers that rules keep or break (generate.py), and prints what was judged wrongly.
#
# PAIRS=1000000 SEED=1 BASES=100 sh crates/grade/tests/metamorphic/run.sh
set -eu
cd "$(dirname "$0")/../../../.."
target=${CARGO_TARGET_DIR:-target}
venv=$target/metamorphic
[ -x "$venv/bin/python" ] || python3 -m venv "$venv"
"$venv/bin/python" -c 'import sympy' 2>/dev/null || "$venv/bin/pip" install --quiet 'sympy==1.14.0'
cargo build --locked --release -p gradus-grade --example metamorphic
"$venv/bin/python" crates/grade/tests/metamorphic/generate.py \
    --pairs "${PAIRS:-1000000}" --seed "${SEED:-1}" --bases "${BASES:-100}" |
    "$target/release/examples/metamorphic"
