"""Reads the JSON lines of our figures and the peers', and prints how many times as fast we are."""

import json
import sys

lines = [json.loads(line) for line in open(sys.argv[1])]
ours = {line["task"]: line["value"] for line in lines if line["peer"] == "gradus"}
# Sixteen of ours at once are compared with one of theirs: that is what a user of either can have.
ours_for = {"generate": ["generate", "generate, batch 16"], "embed-best": ["embed"]}
print(f"\n{'task':24} {'peer':34} {'theirs':>10} {'ours':>10} {'ratio':>7}")
for line in lines:
    if line["peer"] == "gradus":
        continue
    for task in ours_for.get(line["task"], [line["task"]]):
        if task in ours:
            ratio = ours[task] / line["value"]
            peer = " ".join(str(part) for part in [line["peer"], f"batch {line['batch']}" if "batch" in line else ""] if part)
            print(f"{task:24} {peer:34} {line['value']:10.1f} {ours[task]:10.1f} {ratio:7.2f}  {line['unit']}")
for task in ("memory of a 4,000-token pass over the loaded model", "peak memory"):
    if task in ours:
        print(f"{task}: {ours[task]:.0f} MB")
