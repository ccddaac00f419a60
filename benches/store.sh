#!/bin/sh
# Tasks per second of our stores, of a plain queue and of Graphile Worker (npm), in one run against one PostgreSQL.
#   scripts/postgres_server.py -- sh benches/store.sh PROGRAM
set -eu
"$1"
command -v npm >/dev/null || { echo "Graphile Worker is left out: npm is not installed"; exit 0; }
folder=${CARGO_TARGET_DIR:-target}/graphile-worker
mkdir -p "$folder"
cp "$(dirname "$0")"/graphile_worker/* "$folder"
cd "$folder"
npm install --silent --no-audit --no-fund
node bench.mjs
