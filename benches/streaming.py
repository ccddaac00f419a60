#!/usr/bin/env python3
"""Labels five million solutions on one machine and draws how much memory that takes.

    benches/streaming.py PROGRAM SCRIPTED_SERVER FOLDER

SOLUTIONS (5,000,000) solutions, five to a problem, are judged by a server that answers at once, into shards of 100,000.
FOLDER needs about 3 kB for a solution and is kept: a second call goes on where the first one stopped. It gets
memory.json (one sample per second) and memory.svg.
"""
import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import chart

SOLUTIONS = int(os.environ.get("SOLUTIONS", 5_000_000))
PER_PROBLEM = 5
SHARD = 100_000
LIMIT_MB = 500


def write_input(path):
    """Solutions of a few short steps. Every fourth problem has its solutions in rows of their own, the last of them at the
    end of the file, as when the outputs of two models are put together."""
    draw = random.Random(5)
    partial = path.with_suffix(".part")
    second_model = []
    with open(partial, "w", buffering=1 << 20) as out:
        for number in range(SOLUTIONS // PER_PROBLEM):
            one, two, three = (draw.randrange(2, 9999) for _ in range(3))
            text = (f"Shop {number} sells {one} pens on Monday and {two} on Tuesday. On Wednesday {three} come back. "
                    "How many pens are gone?")
            problem = {"id": f"p{number}", "text": text, "answer": str(one + two - three)}
            solutions = [
                {"id": f"p{number}/{at}", "problem_id": f"p{number}",
                 "steps": [f"Way {at}: on both days {one} + {two} = {one + two} pens are sold.",
                           f"Then {three} come back, so {one + two} - {three} = {one + two - three + at % 2}.",
                           f"The answer is {one + two - three + at % 2}."]}
                for at in range(PER_PROBLEM)
            ]
            rows = [solutions] if number % 4 else [[solution] for solution in solutions]
            lines = [json.dumps({"gradus": 1, "problem": problem, "solutions": row}) + "\n" for row in rows]
            second_model += lines[1:][-1:]
            out.writelines(lines[:1] + lines[1:-1])
        out.writelines(second_model)
    partial.rename(path)


def resident(process):
    """Resident memory in MB: all of it, and what no file stands behind."""
    fields = {}
    with open(f"/proc/{process}/status") as status:
        for line in status:
            name, _, value = line.partition(":")
            if name in ("VmRSS", "RssAnon"):
                fields[name] = int(value.split()[0]) / 1024
    return fields["VmRSS"], fields["RssAnon"]


def main():
    program, server, folder = (Path(word).resolve() for word in sys.argv[1:4])
    folder.mkdir(parents=True, exist_ok=True)
    data = folder / "solutions.jsonl"
    if not data.exists():
        began = time.monotonic()
        write_input(data)
        print(f"{SOLUTIONS:,} solutions, {data.stat().st_size / 1e9:.2f} GB, written in "
              f"{time.monotonic() - began:.0f} s", flush=True)
    log = folder / "progress.log"
    answering = subprocess.Popen([server], stdout=subprocess.PIPE, text=True)
    began = time.monotonic()
    samples, shards = [], []
    try:
        address = answering.stdout.readline().strip()
        with open(log, "ab") as progress:
            judging = subprocess.Popen(
                [program, "annotate", "judge", data, "-o", folder / "labels/labels.jsonl.zst", "--shard-size", str(SHARD),
                 "--endpoint", address, "--model", "scripted", "--concurrency", os.environ.get("CONCURRENCY", "64"),
                 "--json"],
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=progress, text=True,
                env=dict(os.environ, GRADUS_HOME=str(folder / "home")))
        while judging.poll() is None:
            try:
                samples.append((time.monotonic() - began, *resident(judging.pid)))
            except (FileNotFoundError, KeyError):
                break
            written = len(list((folder / "labels").glob("labels-*.zst"))) if (folder / "labels").exists() else 0
            if len(shards) < written:
                shards += [samples[-1][0]] * (written - len(shards))
            time.sleep(1)
        status = judging.wait()
    finally:
        answering.kill()
    seconds = time.monotonic() - began
    assert status == 0, log.read_text()[-2000:]
    result = json.loads(judging.stdout.read())
    manifest = json.loads((folder / "labels/labels.manifest.json").read_text())
    peak = max(sample[1] for sample in samples)
    print(json.dumps(result)[:600])
    print(f"{SOLUTIONS:,} solutions in {seconds:.0f} s, {SOLUTIONS / seconds:,.0f}/s; resident memory at most "
          f"{peak:.0f} MB ({max(sample[2] for sample in samples):.0f} MB without mapped files); "
          f"{len(manifest['shards'])} shards, the first after {shards[0]:.0f} s")
    (folder / "memory.json").write_text(json.dumps({"seconds": seconds, "samples": samples, "shards": shards}))
    # The highest of a few neighbors each: no peak is lost, and the picture stays small.
    some = max(1, len(samples) // 400)
    peaks = [max(samples[at:at + some], key=lambda sample: sample[1]) for at in range(0, len(samples), some)]
    minutes = [(second / 60, whole, anonymous) for second, whole, anonymous in peaks]
    chart.lines(
        folder / "memory.svg", f"Resident memory while {SOLUTIONS:,} solutions are labeled", "minutes", "MB",
        {"resident": [sample[:2] for sample in minutes],
         "of it not from mapped files": [(sample[0], sample[2]) for sample in minutes]},
        marks=[(shards[0] / 60, "first shard"), (shards[-1] / 60, "last shard")], limit=(LIMIT_MB, f"limit {LIMIT_MB} MB"))
    assert peak < LIMIT_MB, f"{peak:.0f} MB"


if __name__ == "__main__":
    sys.exit(main())
