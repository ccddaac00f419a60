#!/bin/sh
# Builds the wheel: the library with the program beside it, so that `pip install` puts `gradus` on the PATH.
#
#   PLATFORM=x86_64 sh scripts/wheel.sh     for any Linux with glibc 2.28 (2018) or newer; or PLATFORM=aarch64
#   PROGRAM=target/release/gradus sh scripts/wheel.sh     for this machine alone, with a program that is built already
#
# PLATFORM compiles with zig's C compiler and linker, which have every glibc and both processors, and need no container.
# FEATURES=cuda builds a wheel for NVIDIA GPUs (after `. scripts/cuda-toolkit.sh`; PROGRAM must be such a program, too).
set -eu
cd "$(dirname "$0")/.."
: "${PROFILE:=release}" "${OUT:=target/wheels}" "${CARGO_TARGET_DIR:=target}"
tools=$PWD/target/wheel/tools
[ -x "$tools/bin/python" ] || python3 -m venv "$tools"
"$tools/bin/pip" install -q maturin==1.16.0
PATH=$tools/bin:$PATH
if [ -n "${PLATFORM:-}" ]; then
    target=$PLATFORM-unknown-linux-gnu
    "$tools/bin/pip" install -q cargo-zigbuild==0.24.0 ziglang==0.17.0
    rustup target add "$target"
    cargo-zigbuild rustc --locked --release -p gradus --bin gradus --target "$target.2.28" -- -C strip=symbols
    PROGRAM=$CARGO_TARGET_DIR/$target/release/gradus
    # What the library may link to is checked against this platform.
    set -- --zig --target "$target" --compatibility manylinux_2_28
else
    : "${PROGRAM:?the program that goes into the wheel, or PLATFORM to build it}"
    set -- --compatibility linux
fi
scripts=target/wheel/gradus.data/scripts
mkdir -p "$scripts"
cp "$PROGRAM" "$scripts/gradus"
if [ -z "${PLATFORM:-}" ]; then
    strip "$scripts/gradus" 2>/dev/null || echo "strip is not installed: the program keeps its symbols" >&2
fi
rm -rf "$OUT"
maturin build --locked --profile "$PROFILE" ${FEATURES:+--features "$FEATURES"} --out "$OUT" "$@"
