#!/bin/sh
# Writes the book's source into a folder: docs/ as it is, and a page of help for every command, as the program prints it.
#
#     GRADUS=target/debug/gradus sh scripts/docs_reference.sh target/docs
set -eu
: "${GRADUS:=target/debug/gradus}"
out=${1:?usage: docs_reference.sh FOLDER}
cd "$(dirname "$0")/.."

rm -rf "$out"
mkdir -p "$out"
cp -R docs/. "$out/"
mkdir -p "$out/reference/commands"

# The names below a line "Commands:" of a help text, without `help` itself.
subcommands() {
    "$GRADUS" "$@" --help | awk '/^Commands:/ { on = 1; next } on && /^$/ { exit } on && /^  [a-z]/ && $1 != "help" { print $1 }'
}

# describe LEVEL WORDS…: the heading and help of a command, then of those below it.
describe() {
    level=$1
    shift
    printf '%s gradus %s\n\n```text\n' "$level" "$*"
    "$GRADUS" "$@" --help
    printf '```\n\n'
    for below in $(subcommands "$@"); do
        (describe "#$level" "$@" "$below")
    done
}

pages=$out/reference/commands/pages.txt
: >"$pages"
for command in $(subcommands); do
    describe '#' "$command" >"$out/reference/commands/$command.md"
    printf '  - [gradus %s](reference/commands/%s.md)\n' "$command" "$command" >>"$pages"
done
awk -v pages="$pages" '{ print } /\(reference\/commands.md\)/ { while ((getline line < pages) > 0) print line }' \
    docs/SUMMARY.md >"$out/SUMMARY.md"
rm "$pages"
