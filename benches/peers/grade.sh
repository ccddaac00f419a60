#!/bin/sh
# Installs math-verify into a virtual environment inside target/ and grades the same pairs with it and with Gradus.
set -eu
cd "$(dirname "$0")/../.."
venv=target/peers
[ -x "$venv/bin/python" ] || python3 -m venv "$venv"
"$venv/bin/python" -c 'import math_verify' 2>/dev/null || "$venv/bin/pip" install --quiet 'math-verify==0.9.0'
cargo build --locked --release -p gradus-grade --benches
exec "$venv/bin/python" benches/peers/grade.py "$@"
