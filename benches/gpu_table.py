#!/usr/bin/env python3
"""The table of `make bench DEVICE=cuda`: each work with its peer, the ratio, the goal, what the GPU could do at most and how much of that we reach.

Reads the JSON lines of benches/gpu.sh; ours are measured before and after the peer, and the mean counts. A limit is a calculation: operations at the
rate of the measured product, or bytes at the rate of the measured copy, whichever takes longer, for what the work cannot do without.
"""

import json
import sys

# Layers, hidden, inner, query heads · dim, key heads · dim, vocabulary.
SHAPES = {"smollm2-135m": (30, 576, 1536, 576, 192, 49_152), "qwen2.5-7b": (28, 3584, 18_944, 3584, 512, 152_064)}
GOALS = {
    ("smollm2-135m", "forward:64x512"): "1.5 × transformers",
    ("smollm2-135m", "decode:192x160"): "100,000",
    ("smollm2-135m", "train 32x512"): "3 × transformers",
    ("qwen2.5-7b", "decode:1x128"): "225",
    ("qwen2.5-7b", "decode:64x64"): "60 %",
    ("qwen2.5-7b", "forward:1x32767"): "1 × transformers",
    ("qwen2.5-7b", "train 4x1024"): "18,000",
    ("qwen2.5-7b", "train 1x16384"): "12,000",
    ("qwen2.5-7b", "train 1x32768"): "9,000",
}


def limit(model, task, flops, memory):
    """Tokens per second at most."""
    layers, hidden, inner, wide, narrow, vocabulary = SHAPES[model]
    weights = layers * (2 * hidden * wide + 2 * hidden * narrow + 3 * hidden * inner)
    kind, size = task.replace(" ", ":").split(":")
    count, length = map(int, size.split("x"))
    if kind == "decode":
        output = hidden * vocabulary
        return 1 / max(2 * (weights + output) / (flops * 1e9), 2 * (weights + output) / count / (memory * 1e9))
    attention = layers * 2 * 2 * wide * length / 2
    if kind == "forward":
        return flops * 1e9 / (2 * weights + attention)
    # Forward, and the gradients of activations; attention's gradient is two and a half times its forward pass.
    return flops * 1e9 / (4 * (weights + hidden * vocabulary) + 3.5 * attention)


def main():
    lines = [json.loads(line) for line in open(sys.argv[1]) if line.startswith("{")]
    rates = {line["task"]: line["value"] for line in lines if line["peer"] == "limit"}
    found = {}
    for line in lines:
        if line["peer"] == "limit":
            continue
        task = line["task"]
        if task.startswith("train") and "sequences" in line:
            task = f"train {line['sequences']}x{line['length']}"
        model = line.get("model") or line["task"].split()[-1]
        found.setdefault((model, task), {}).setdefault(line["peer"], []).append(line["value"])
    rows = [("model", "work", "peer", "theirs", "ours", "ratio", "goal", "limit", "share")]
    for (model, task), peers in found.items():
        ours = peers.pop("gradus", None)
        if not ours:
            continue
        mean, most = sum(ours) / len(ours), limit(model, task, rates["products"], rates["reading memory"])
        peer, theirs = next(((name, values[0]) for name, values in peers.items()), ("", 0))
        ratio = f"{mean / theirs:.2f}" if theirs else ""
        goal = GOALS.get((model, task), "")
        rows.append((model, task, peer, f"{theirs:,.0f}" if peer else "", f"{mean:,.0f}", ratio, goal, f"{most:,.0f}", f"{mean / most:.0%}"))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        print("  ".join(cell.ljust(width) if column < 3 else cell.rjust(width) for column, (cell, width) in enumerate(zip(row, widths))).rstrip())


if __name__ == "__main__":
    main()
