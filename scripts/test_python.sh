#!/bin/sh
# make test-python: the wheel as a user gets it, in a virtual environment of its own. WHEELS is its folder; GRADUS_HOME has
# smollm2-135m and all-minilm-l6-v2.
set -eu
cd "$(dirname "$0")/.."
: "${WHEELS:?the folder of the wheel to test}" "${OUT:=target/python}"
wheel=$(ls "$WHEELS"/*.whl)
# The tests must not find the sources of the package instead of the wheel.
rm -rf "$OUT/tests" && mkdir -p "$OUT" && cp -r python/tests "$OUT/tests"
[ -x "$OUT/venv/bin/python" ] || python3 -m venv "$OUT/venv"
tools="pytest==9.1.1 hypothesis==6.168.0 pyarrow pandas polars tqdm mypy pyright[nodejs] abi3audit twine"
"$OUT/venv/bin/pip" install -q $tools || { echo "skipped: the test tools cannot be installed here"; exit 0; }
"$OUT/venv/bin/pip" install -q --force-reinstall "$wheel"
"$OUT/venv/bin/twine" check "$wheel"
"$OUT/venv/bin/abi3audit" "$wheel"
# The modules of frameworks are checked where those are installed.
"$OUT/venv/bin/python" python/tests/guide.py "$OUT/examples"
"$OUT/venv/bin/mypy" --strict -m gradus -m gradus.batching -m gradus.chat -m gradus.columns -m gradus.metrics -m gradus.notebook -m gradus.program -m gradus.progress -m gradus.training
"$OUT/venv/bin/mypy" --strict "$OUT"/examples/*.py
"$OUT/venv/bin/pyright" --pythonpath "$OUT/venv/bin/python" "$OUT"/examples/*.py
"$OUT/venv/bin/python" -m pytest -q -rs "$OUT/tests" --ignore "$OUT/tests/frameworks"
