"""Reads the JSON lines of our figures and the peers', in the order in which they were measured, and prints how many times as fast we are.

A peer's figure is compared with the mean of ours before and after it.
"""

import json
import sys

lines = [json.loads(line) for line in open(sys.argv[1])]
# What the peers call it, where that is not what we do.
NAMES = {"batch": "generate, batch 16", "embed-best": "embed"}


def ours(task, at):
    """Our figures of a task, the last one before a line and the first one after it."""
    values = [(number, line["value"]) for number, line in enumerate(lines) if line["peer"] == "gradus" and line["task"] == task]
    before = [value for number, value in values if number < at][-1:]
    after = [value for number, value in values if number > at][:1]
    return before + after


print(f"\n{'task':20} {'peer':34} {'theirs':>10} {'ours':>10} {'before, after':>20} {'ratio':>7}")
for at, line in enumerate(lines):
    found = ours(NAMES.get(line["task"], line["task"]), at)
    if line["peer"] == "gradus" or not found:
        continue
    mean = sum(found) / len(found)
    peer = " ".join(str(part) for part in [line["peer"], f"batch {line['batch']}" if "batch" in line else ""] if part)
    both = ", ".join(f"{value:.1f}" for value in found)
    print(f"{line['task']:20} {peer:34} {line['value']:10.1f} {mean:10.1f} {both:>20} {mean / line['value']:7.2f}  {line['unit']}")
for task in ("memory of a 4,000-token pass over the loaded model", "peak memory"):
    if found := [line["value"] for line in lines if line["task"] == task]:
        print(f"{task}: {found[0]:.0f} MB")
