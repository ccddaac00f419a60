#!/bin/sh
# A C compiler and an emulator for 64-bit ARM (Debian's packages) and Rust's standard library for it, where they are missing.
set -eu
if ! command -v aarch64-linux-gnu-gcc >/dev/null || ! command -v qemu-aarch64-static >/dev/null; then
  sudo=$([ "$(id -u)" = 0 ] || echo sudo)
  $sudo apt-get update -qq
  $sudo apt-get install -y -qq --no-install-recommends gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user-static
fi
if command -v rustup >/dev/null; then rustup -q target add aarch64-unknown-linux-gnu; fi
