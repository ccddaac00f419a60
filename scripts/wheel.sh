#!/bin/sh
# Builds the wheel: the library with the program beside it, so that `pip install` puts `gradus` on the PATH.
#
#   PROGRAM=target/release/gradus PROFILE=release OUT=target/wheels sh scripts/wheel.sh
#
# FEATURES=cuda builds a wheel for NVIDIA GPUs (after `. scripts/cuda-toolkit.sh`; PROGRAM must be such a program, too).
set -eu
cd "$(dirname "$0")/.."
: "${PROGRAM:?the program that goes into the wheel}" "${PROFILE:=release}" "${OUT:=target/wheels}"
tools=target/wheel/tools
if [ ! -x "$tools/bin/maturin" ]; then
    python3 -m venv "$tools"
    "$tools/bin/pip" install -q "maturin==1.16.0"
fi
scripts=target/wheel/gradus.data/scripts
mkdir -p "$scripts"
cp "$PROGRAM" "$scripts/gradus"
strip "$scripts/gradus" 2>/dev/null || echo "strip is not installed: the program keeps its symbols" >&2
rm -rf "$OUT"
# What the library may link to is checked against this platform; a newer glibc than it needs a newer platform.
"$tools/bin/maturin" build --locked --profile "$PROFILE" ${FEATURES:+--features "$FEATURES"} \
    --compatibility "${COMPATIBILITY:-linux}" --out "$OUT"
