"""Answers graded per second, on one core and on all: Gradus against math-verify, on the same pairs in the same run.

Pairs are (gold answer, whole solution text) of the best-of-n sets in GRADUS_DATA, evenly sampled. Both sides find the answer in
the text and compare it; reading the file is not counted. math-verify runs in one process with its default settings (its
time-out included, as its users run it). Prints both rates, the ratio, and how often the two agree.
"""

import argparse
import glob
import gzip
import json
import os
import subprocess
import time

from math_verify import parse, verify


def pairs(folder, count):
    found = []
    for path in sorted(glob.glob(os.path.join(folder, "best_of_n", "*_n32.jsonl.gz"))):
        with gzip.open(path, "rt") as lines:
            for line in lines:
                record = json.loads(line)
                for candidate in record["candidates"]:
                    found.append({"gold": record["gold_answer"], "text": candidate["solution"]})
    if not found:
        raise SystemExit(f"no best-of-n files in {folder}: set GRADUS_DATA")
    step = max(1, len(found) // count)
    return found[::step][:count]


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--pairs", type=int, default=1500)
    arguments = arguments.parse_args()
    sample = pairs(os.environ.get("GRADUS_DATA", "../shared/data"), arguments.pairs)
    path = os.path.abspath("target/bench-grade-pairs.jsonl")
    with open(path, "w") as out:
        for pair in sample:
            out.write(json.dumps(pair) + "\n")

    command = ["cargo", "bench", "--locked", "-q", "-p", "gradus-grade", "--bench", "grade", "--", path]
    ours = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)

    equal = 0
    started = time.perf_counter()
    for pair in sample:
        gold = parse(f"${pair['gold']}$")
        equal += bool(verify(gold, parse(pair["text"])))
    theirs = len(sample) / (time.perf_counter() - started)

    print(f"pairs                 {len(sample)}")
    print(f"Gradus                {ours['per_second']:>10,.0f} pairs/s on one core ({ours['equal']} equal)")
    print(f"math-verify           {theirs:>10,.0f} pairs/s on one core ({equal} equal)")
    print(f"ratio                 {ours['per_second'] / theirs:>10,.0f} ×")
    print(f"Gradus                {ours['per_second_all_cores']:>10,.0f} pairs/s on {ours['cores']} cores")
    print(f"ratio to one process  {ours['per_second_all_cores'] / theirs:>10,.0f} ×")


if __name__ == "__main__":
    main()
