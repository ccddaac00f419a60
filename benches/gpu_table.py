#!/usr/bin/env python3
"""The table of `make bench DEVICE=cuda`: each work with its peer, the ratio, the goal and whether it is met, what the GPU could do at most and how
much of that we reach; then why goals are missed.

Reads the JSON lines of benches/gpu.sh; ours are measured before and after the peer, and the mean counts. Of a peer's several ways (batch sizes,
gradient checkpointing) the best counts. A limit is a calculation: operations at the rate of the measured product, or bytes at the rate of the
measured copy, whichever takes longer, for what the work cannot do without.
"""

import json
import sys

from rows import WRITTEN, show, verdict

SMALL, LARGE = "smollm2-135m", "qwen2.5-7b"
# Layers, hidden, inner, query heads · dim, key heads · dim, vocabulary.
SHAPES = {SMALL: (30, 576, 1536, 576, 192, 49_152), LARGE: (28, 3584, 18_944, 3584, 512, 152_064)}
# What a goal counts: our tokens per second, how often that is the peer's, or its share of the limit.
GOALS = {
    (SMALL, "forward:64x512"): ("ratio", 1.5),
    (SMALL, "decode:192x160"): ("rate", 100_000),
    (SMALL, "train 32x512"): ("ratio", 3),
    (LARGE, "decode:1x128"): ("rate", 225),
    (LARGE, "decode:64x64"): ("share", 0.6),
    (LARGE, "decode:256x64"): ("share", 0.6),
    (LARGE, "forward:1x32767"): ("ratio", 1),
    (LARGE, "train 4x1024"): ("rate", 18_000),
    (LARGE, "train 1x16384"): ("rate", 12_000),
    (LARGE, "train 1x32768"): ("rate", 9_000),
}
BATCHES = "not profiled; from five rows on, queries, keys and values are three products, and the halves of SwiGLU two"
GRADIENT = "the gradient of attention makes seven products where five are needed, without Hopper's own instructions (wgmma), which cuDNN's has"
# From docs/performance.md, measured on an H200.
REASONS = {
    (SMALL, "decode:192x160"): "360 kernels a token, and the host takes in each token's text before the next pass starts",
    (SMALL, "train 32x512"): "not profiled",
    (LARGE, "decode:1x128"): "230 kernels a token, 28 layers of eight: their gaps and tails are 1.7 of 5.05 ms",
    (LARGE, "decode:64x64"): BATCHES,
    (LARGE, "decode:256x64"): BATCHES,
    (LARGE, "forward:1x32767"): "attention takes 25.4 ms a layer, where FlashAttention-2 takes 22.4 and cuDNN 12.1",
    (LARGE, "train 4x1024"): "the gradient of attention takes 0.684 ms a layer, where cuDNN takes 0.436: 7 of a step's 240 ms",
    (LARGE, "train 1x16384"): GRADIENT,
    (LARGE, "train 1x32768"): GRADIENT,
}
COLUMNS = ("model", "work", "peer", "theirs", "ours", "before, after", "ratio", "goal", "", "limit", "share", "notes")
LEFT = {"model", "work", "peer", "", "notes"}


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


def work_of(line):
    """The model and the task of a line; training has one name for all who do it."""
    task = line["task"]
    if task.startswith("train") and "sequences" in line:
        task = f"train {line['sequences']}x{line['length']}"
    return line["model"], task.replace("train:", "train ")


def place(work):
    """Where a work stands in the table: prompts, generation, training; many sequences first."""
    model, task = work
    kind, size = task.replace(" ", ":").split(":")
    count, length = map(int, size.split("x"))
    return list(SHAPES).index(model), ["forward", "decode", "train"].index(kind), -count, length


def row_of(work, lines, rates):
    """A row of the table, and whether its goal is missed."""
    model, task = work
    ours = [line["value"] for line in lines if line["peer"] == "gradus" and line["value"]]
    peer = max((line for line in lines if line["peer"] != "gradus"), key=lambda line: line["value"], default=None)
    theirs = peer["value"] if peer else 0
    mean = sum(ours) / len(ours) if ours else None
    most = limit(model, task, rates["products"], rates["reading memory"]) if len(rates) == 2 else None
    reached = {"rate": mean, "ratio": mean / theirs if mean and theirs else None, "share": mean / most if mean and most else None}
    kind, goal = GOALS.get(work, (None, None))
    judged = verdict(kind, goal, reached.get(kind))
    notes = [f"ours {line['note']}" for line in lines if line["peer"] == "gradus" and "note" in line]
    notes += [f"theirs {line['note']}" for line in lines if line["peer"] != "gradus" and "note" in line]
    if theirs:
        notes += [f"batch {peer['batch']}"] if "batch" in peer else []
        notes += ["gradient checkpointing"] if peer.get("checkpointing") else []
    row = (
        model,
        task,
        peer["peer"] if peer else "",
        f"{theirs:,.0f}" if theirs else "not measured",
        f"{mean:,.0f}" if mean else "not measured",
        ", ".join(f"{value:,.0f}" for value in ours),
        f"{reached['ratio']:.2f}" if reached["ratio"] else "",
        WRITTEN[kind].format(goal) if kind else "",
        judged,
        f"{most:,.0f}" if most else "",
        f"{reached['share']:.0%}" if reached["share"] else "",
        "; ".join(dict.fromkeys(notes)),
    )
    return row, judged == "missed"


def main():
    with open(sys.argv[1]) as file:
        lines = [json.loads(line) for line in file if line.startswith("{")]
    limits = [line for line in lines if line["peer"] == "limit"]
    rates = {line["task"]: line["value"] for line in limits}
    works = {work: [] for work in GOALS}
    memory = {line["model"]: line for line in lines if line["task"] == "peak memory"}
    for line in lines:
        if line["peer"] != "limit" and line["task"] != "peak memory":
            works.setdefault(work_of(line), []).append(line)
    rows, missed = [], []
    for work in sorted(works, key=place):
        row, is_missed = row_of(work, works[work], rates)
        rows.append(row)
        missed += [work] if is_missed else []
    show(COLUMNS, rows, LEFT)
    print()
    for model, task in missed:
        print(f"{model}, {task} misses its goal: {REASONS.get((model, task), 'no reason is known')}")
    print("GPU:", ", ".join(dict.fromkeys(line["device"] for line in limits)) or "unknown, its limits were not measured")
    print("Peers:", "; ".join(dict.fromkeys(line["version"] for line in lines if "version" in line and line["peer"] == "transformers")) or "none")
    for line in limits:
        print(f"{line['task']}: {line['value']:,.0f} {line['unit']}")
    for model, line in memory.items():
        print(f"{model}: our process took {line['value']:,.0f} {line['unit']} of the machine's memory at most")


if __name__ == "__main__":
    main()
