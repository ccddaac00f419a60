"""Did two runs of a pipeline write the same? Datasets, adapters, pools and judgments to the byte, reports but for times.

Usage: same_pipelines.py FOLDER OTHER
"""

import json
import pathlib
import sys

# What a run says about itself: when, how long, which command line.
ABOUT = {"run.json", "metrics.jsonl", "README.md", "compare.html", "report.html", "facts.jsonl"}
# Lines come as they are found, several at a time: their order is nobody's.
JOURNALS = {"judged.jsonl"}
MEASURED = {"created", "seconds", "resumed", "tokens", "time", "path"}
KINDS = {".jsonl", ".json", ".safetensors", ".npy", ".toml", ".bin"}


def without_measured(value):
    if isinstance(value, dict):
        return {key: without_measured(item) for key, item in value.items() if key not in MEASURED}
    return [without_measured(item) for item in value] if isinstance(value, list) else value


def content(path, root):
    data = path.read_bytes()
    if path.suffix == ".json":
        return without_measured(json.loads(data.replace(str(root).encode(), b"HERE")))
    if path.name in JOURNALS:
        return sorted(data.splitlines())
    return data.replace(str(root).encode(), b"HERE")


def files(root):
    found = (path for path in root.rglob("*") if path.is_file() and path.suffix in KINDS)
    return {str(path.relative_to(root)): path for path in found if path.name not in ABOUT and "checkpoints" not in path.parts}


first, second = (pathlib.Path(argument) for argument in sys.argv[1:3])
ours, theirs = files(first), files(second)
missing = sorted(set(ours) ^ set(theirs))
different = [name for name in sorted(set(ours) & set(theirs)) if content(ours[name], first) != content(theirs[name], second)]
print(f"  {len(ours) - len(different)} of {len(ours)} files are the same after the kills")
for name in missing:
    print(f"  only in one of the two: {name}")
for name in different:
    print(f"  different: {name}")
sys.exit(1 if missing or different else 0)
