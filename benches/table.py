#!/usr/bin/env python3
"""The table of `make bench`: each work with its peers, the ratio, the goal, what the machine could do at most and how much of that we reach.

Reads JSON lines {"peer", "task", "value", "unit", …} in the order in which they were measured; ours have the peer `gradus`, the machine's
limits the peer `limit`. A peer's figure is compared with the mean of ours before and after it, since machines that others share change their
speed within minutes.

A limit is a calculation, not a measurement: multiplications at the rate of the widest unit, or bytes at the rate of memory, whichever
takes longer, for what the work cannot do without.
"""

import json
import sys

# SmolLM2-135M: weights of its 30 layers, and of the output layer that only generated tokens need; bytes of the Q4_1 file.
LAYERS = 30 * (2 * 576 * 576 + 2 * 576 * 192 + 3 * 576 * 1536)
OUTPUT = 49_152 * 576
FILE_BYTES = 98.4e6


def attention(tokens):
    """Multiplications and additions of attention for a token in a text of so many, on average."""
    return 30 * 2 * 2 * 9 * 64 * tokens / 2


def limit(flops, file_reads, unit, memory):
    """Tokens per second at most, of so many operations and readings of the file for each."""
    rates = [unit * 1e9 / flops] + [memory * 1e9 / (FILE_BYTES * file_reads)] * (file_reads > 0)
    return min(rates)


# Task: what it is, goals by peer, operations and readings of the file per token.
WORKS = {
    "score": ("score 64 solutions", {"vLLM bf16": 1.5, "transformers bf16": 2.5}, (2 * LAYERS + attention(170), 0)),
    "long": ("score 2,000 tokens", {}, (2 * LAYERS + attention(2000), 0)),
    "generate": ("generate, 1 sequence", {"llama.cpp": 2.0}, (2 * (LAYERS + OUTPUT), 1)),
    "generate, batch 16": ("generate, 16 sequences", {"vLLM bf16": 3.0}, (2 * (LAYERS + OUTPUT), 1 / 16)),
    "embed": ("embed 1,000 problems", {"sentence-transformers": 4.0}, None),
    "train": ("train LoRA, 8 × 256", {"transformers + peft float32": 2.5}, None),
    "start": ("start to first score", {}, None),
}
# What the peers call it, where that is not what we do.
NAMES = {"batch": "generate, batch 16", "embed-best": "embed"}

lines = [json.loads(line) for line in open(sys.argv[1]) if line.startswith("{")]
limits = {line["task"].split(",")[0]: line["value"] for line in lines if line["peer"] == "limit"}


def task_of(line):
    return "train" if line["task"].startswith("train ") else NAMES.get(line["task"], line["task"])


def ours(task, at):
    """Our figures of a task, the last one before a line and the first one after it."""
    values = [(number, line["value"]) for number, line in enumerate(lines) if line["peer"] == "gradus" and task_of(line) == task]
    return [value for number, value in values if number < at][-1:] + [value for number, value in values if number > at][:1]


rows = [("work", "peer", "theirs", "ours", "before, after", "ratio", "goal", "limit", "share")]
for task, (work, goals, needs) in WORKS.items():
    most = limit(*needs, limits["products"], limits["reading memory"]) if needs and limits else None
    found = [(at, line) for at, line in enumerate(lines) if task_of(line) == task]
    peers = [(at, line) for at, line in found if line["peer"] not in ("gradus", "limit")]
    for at, line in peers or found[-1:]:
        values = ours(task, at) if peers else [line["value"]]
        if not values:
            continue
        mean = sum(values) / len(values)
        named = [line["peer"], line.get("version", ""), f"batch {line['batch']}" if "batch" in line else ""]
        goal = goals.get(line["peer"])
        rows.append((
            work,
            " ".join(part for part in named if part) if peers else "",
            f"{line['value']:,.4g}" if peers else "",
            f"{mean:,.4g} {line['unit']}",
            ", ".join(f"{value:,.4g}" for value in values) if peers else "",
            f"{mean / line['value']:.2f}" if peers else "",
            f"{goal:.1f}" if goal else "",
            f"{most:,.0f}" if most else "",
            f"{mean / most:.0%}" if most else "",
        ))
widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
for row in rows:
    print("  ".join(cell.ljust(width) if column < 2 else cell.rjust(width) for column, (cell, width) in enumerate(zip(row, widths))).rstrip())
for line in lines:
    if line["peer"] == "limit" or "memory" in line["task"]:
        print(f"{line['task']}: {line['value']:,.0f} {line['unit']}")
