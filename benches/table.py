#!/usr/bin/env python3
"""The table of `make bench`: each work with its peers, the ratio, the goal and whether it is met, what the machine could do at most and how much
of that we reach; then why goals are missed.

Reads JSON lines {"peer", "task", "value", "unit", …} in the order in which they were measured; ours have the peer `gradus`, the machine's
limits the peer `limit`. A peer's figure is compared with the mean of ours before and after it, since machines that others share change their
speed within minutes.

A limit is a calculation, not a measurement: multiplications at the rate of the widest unit, or bytes at the rate of memory, whichever
takes longer, for what the work cannot do without.
"""

import json
import sys
from dataclasses import dataclass, field

from rows import WRITTEN, show, verdict

# SmolLM2-135M: weights of its 30 layers, and of the output layer that only generated tokens need; bytes of the Q4_1 file.
LAYERS = 30 * (2 * 576 * 576 + 2 * 576 * 192 + 3 * 576 * 1536)
OUTPUT = 49_152 * 576
FILE_BYTES = 98.4e6
# all-MiniLM-L6-v2: weights of its 6 layers.
ENCODER = 6 * (4 * 384 * 384 + 2 * 384 * 1536)


def attention(tokens):
    """Multiplications and additions of attention for a token in a text of so many, on average."""
    return 30 * 2 * 2 * 9 * 64 * tokens / 2


# Forward, and the gradients of activations and, when all are trained, of weights; every token is predicted.
LORA = 2 * 2 * (LAYERS + OUTPUT) + 3.5 * attention(256)
FULL = 3 * 2 * (LAYERS + OUTPUT) + 3.5 * attention(256)


@dataclass
class Work:
    words: str
    # Goals as ratios by peer; `best` is the fastest of all.
    goals: dict = field(default_factory=dict)
    # Operations per unit, and how often the file is read for it; without any, no limit is known.
    operations: float = 0
    reads: float = 0
    # What the peers call it, where that is not what we do.
    theirs: str = ""
    # Peers that it is compared with; all without any.
    peers: tuple = ()


WORKS = {
    "score": Work("score 64 solutions", {"vLLM bf16": 1.5, "transformers bf16": 2.5}, 2 * LAYERS + attention(170)),
    "score, AVX2": Work("score 64, AVX2 alone", {"llama.cpp": 1.0}, theirs="score", peers=("llama.cpp",)),
    "long": Work("score 2,000 tokens", {}, 2 * LAYERS + attention(2000)),
    "generate": Work("generate, 1 sequence", {"llama.cpp": 2.0}, 2 * (LAYERS + OUTPUT), 1),
    "generate, batch 16": Work("generate, 16 sequences", {"vLLM bf16": 3.0}, 2 * (LAYERS + OUTPUT), 1 / 16, theirs="batch"),
    "embed": Work("embed 1,000 problems", {"best": 4.0}, 115 * 2 * ENCODER),
    "embed, bf16": Work("embed in bf16", {"best": 4.0}, 115 * 2 * ENCODER, theirs="embed"),
    "train lora f32": Work("train LoRA, 8 × 256", {"best": 2.5}, LORA),
    "train lora bf16": Work("train LoRA in bf16", {"best": 2.5}, LORA),
    "train all f32": Work("train all weights, 8 × 256", {"best": 2.5}, FULL),
    "train all bf16": Work("train all in bf16", {"best": 2.5}, FULL),
    "start": Work("start to first score"),
}
START_SECONDS = 0.5
COLUMNS = ("work", "peer", "theirs", "ours", "before, after", "ratio", "goal", "", "limit", "share")
LEFT = {"work", "peer", ""}
# From profiles, see docs/performance.md.
REASONS = {
    "score": "58 % of a pass are products, at a third of what tiles in registers reach; 21 % are attention, 5 % SiLU",
    "generate": "it waits for memory, 70 % of whose rate it uses; twice llama.cpp's rate would need more than all of it",
    "generate, batch 16": "33 % of the time goes to expanding 4-bit weights, 22 % to attention, 12 % to products",
    "embed": "bf16x3, the default, is as exact as f32 and makes three products of one: 56 % of the time; attention takes 14 %, GELU 9 %",
    "embed, bf16": "not profiled",
}


def task_of(line):
    """What a line measures; training says how and in which arithmetic."""
    task = line["task"]
    if task.startswith("train "):
        is_bf16 = "bf16" == line.get("precision") or "bfloat16" in line["peer"]
        return f"train {line['tuning']} {'bf16' if is_bf16 else 'f32'}"
    return "embed" if task == "embed-best" else task


def most(work, limits):
    """Units per second at most."""
    if not work.operations or not limits:
        return None
    rates = [limits["products"] * 1e9 / work.operations]
    rates += [limits["reading memory"] * 1e9 / (FILE_BYTES * work.reads)] if work.reads else []
    return min(rates)


def rows_of(task, work, lines, limits):
    """A work's rows, one for each peer, and whether a goal is missed."""
    our_lines = [(at, line["value"]) for at, line in enumerate(lines) if line["peer"] == "gradus" and task_of(line) == task]
    peers = [
        (at, line) for at, line in enumerate(lines)
        if line["peer"] not in ("gradus", "limit") and task_of(line) == (work.theirs or task) and (not work.peers or line["peer"] in work.peers)
    ]
    best = max((line["value"] for _, line in peers), default=0)
    limit = most(work, limits)
    rows, is_missed = [], False
    unit = next((line["unit"] for line in lines if line["peer"] == "gradus" and task_of(line) == task), "")
    for at, line in peers or ([(len(lines), None)] if our_lines else []):
        ours = [value for number, value in our_lines if number < at][-1:] + [value for number, value in our_lines if number > at][:1]
        mean = sum(ours) / len(ours) if ours else None
        if line is None:
            kind, goal, reached = ("seconds", START_SECONDS, mean) if task == "start" else (None, None, None)
            cells = ["", ""]
        else:
            goal = work.goals.get("best") if line["value"] == best else None
            goal = work.goals.get(line["peer"], goal)
            kind, reached = "ratio" if goal else None, mean / line["value"] if mean else None
            named = [line["peer"], line.get("version", ""), f"batch {line['batch']}" if "batch" in line else ""]
            cells = [" ".join(part for part in named if part), f"{line['value']:,.4g}"]
        judged = verdict(kind, goal, reached)
        is_missed |= judged == "missed"
        rows.append((
            work.words,
            *cells,
            f"{mean:,.4g} {unit}" if mean else "not measured",
            ", ".join(f"{value:,.4g}" for value in ours) if line else "",
            f"{reached:.2f}" if line and reached else "",
            WRITTEN[kind].format(goal) if kind else "",
            judged,
            f"{limit:,.0f}" if limit else "",
            f"{mean / limit:.0%}" if limit and mean else "",
        ))
    return rows, is_missed


def main():
    with open(sys.argv[1]) as file:
        lines = [json.loads(line) for line in file if line.startswith("{")]
    limits = {line["task"].split(",")[0]: line["value"] for line in lines if line["peer"] == "limit"}
    rows, missed = [], []
    for task, work in WORKS.items():
        found, is_missed = rows_of(task, work, lines, limits)
        rows += found
        missed += [task] if is_missed else []
    show(COLUMNS, rows, LEFT)
    print()
    for task in missed:
        print(f"{WORKS[task].words} ({task}) misses its goal: {REASONS.get(task, 'no reason is known')}")
    for line in lines:
        if line["peer"] == "limit" or "memory" in line["task"]:
            print(f"{line['task']}: {line['value']:,.0f} {line['unit']}")


if __name__ == "__main__":
    main()
