#!/bin/sh
# make bench-python: installs the wheel and its peers into a virtual environment inside target/ and runs benches/python.py.
set -eu
cd "$(dirname "$0")/.."
: "${WHEELS:=target/wheels/$(uname -m)}" "${OUT:=target/bench-python}"
[ -x "$OUT/bin/python" ] || python3 -m venv "$OUT"
"$OUT/bin/pip" install -q 'math-verify==0.9.0' peft transformers torch jinja2 gguf
"$OUT/bin/pip" install -q --force-reinstall --no-deps "$WHEELS"/*.whl
exec "$OUT/bin/python" benches/python.py "$@"
