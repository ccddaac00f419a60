#!/usr/bin/env python3
"""Seconds from the program's start to the scores of one solution by the default PRM, files in the system's cache, as a JSON line: the best of seven runs."""

import json
import os
import subprocess
import sys
import tempfile
import time

RECORD = {"gradus": 1, "problem": {"id": "p", "text": "What is 2 + 3 · 4?", "answer": "14"}, "solutions": [
    {"id": "s", "problem_id": "p", "steps": ["3 · 4 = 12.", "2 + 12 = 14.", "The answer is 14."]},
]}


def main():
    program = os.path.abspath(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "one.jsonl"), "w") as file:
            file.write(json.dumps(RECORD) + "\n")
        seconds = []
        for _ in range(7):
            started = time.perf_counter()
            subprocess.run([program, "score", "one.jsonl", "--json"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
            seconds.append(time.perf_counter() - started)
    print(json.dumps({"peer": "gradus", "task": "start", "value": round(min(seconds), 3), "unit": "s", "all": [round(s, 3) for s in seconds]}))


if __name__ == "__main__":
    main()
