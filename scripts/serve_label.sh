#!/bin/sh
# gradus serve with a labeling project, for scripts/test_label_page.py:
#   serve_label.sh FOLDER PORT RECORDS PEOPLE_PER_ITEM
# Makes the project out of RECORDS where FOLDER is not there yet. LABEL_KEY is the key that it asks for, if any. Its first line of
# output says that it is ready. Needs GRADUS, the program.
set -eu
model=$(dirname "$0")/../crates/engine/tests/reference/models/qwen2-prm
[ -e "$1" ] || "${GRADUS:?names the program}" label create "$3" -o "$1" --order file --people-per-item "$4" > "$1.txt"
export GRADUS_LOG=warn
exec "$GRADUS" serve --model prm="$model" --listen 127.0.0.1:"$2" --label "$1" ${LABEL_KEY:+--key-env LABEL_KEY} 2>&1
