#!/bin/sh
# make test-frameworks: the integrations with the real frameworks, each in a virtual environment of its own (gigabytes).
#
#   FRAMEWORKS="trl verl" make test-frameworks
#
# A framework has a folder in python/tests/frameworks with its tests and pinned requirements; without-dependencies.txt names
# packages whose own pins ask for what the tests do not need. WHEELS is the folder of the wheel, GRADUS_HOME has smollm2-135m
# and all-minilm-l6-v2.
set -eu
cd "$(dirname "$0")/.."
: "${WHEELS:?the folder of the wheel to test}" "${OUT:=target/frameworks}"
: "${FRAMEWORKS:=$(cd python/tests/frameworks && ls -d */ | tr -d /)}"
for framework in $FRAMEWORKS; do
    venv=$OUT/$framework
    [ -x "$venv/bin/python" ] || python3 -m venv "$venv"
    folder=python/tests/frameworks/$framework
    "$venv/bin/pip" install -q pytest hypothesis -r "$folder/requirements.txt"
    [ ! -f "$folder/without-dependencies.txt" ] || "$venv/bin/pip" install -q --no-deps -r "$folder/without-dependencies.txt"
    "$venv/bin/pip" install -q --force-reinstall --no-deps "$WHEELS"/*.whl
    echo "== $framework"
    "$venv/bin/pip" install -q mypy
    "$venv/bin/mypy" --strict -m "gradus.$framework"
    "$venv/bin/python" -m pytest -q -rs "$folder"
done
