#!/bin/sh
# Installs the peer of training (torch, transformers, peft) into a virtual environment inside target/, then measures it. Arguments go to train.py.
# GRADUS_PEERS names another environment to use; what it has is not installed again.
set -eu
cd "$(dirname "$0")/../.."
venv=${GRADUS_PEERS:-target/peers}
[ -x "$venv/bin/python" ] || python3 -m venv "$venv"
has() { "$venv/bin/python" -c "import sys, importlib.util as u; sys.exit(any(u.find_spec(n) is None for n in sys.argv[1:]))" "$@"; }
# The versions of vLLM's environment, which may be the same one.
has torch transformers || "$venv/bin/pip" install --quiet torch==2.13.0 transformers==5.19.0 >&2
has peft accelerate || "$venv/bin/pip" install --quiet peft==0.21.2 accelerate==1.15.0 >&2
exec "$venv/bin/python" benches/peers/train.py "$@"
