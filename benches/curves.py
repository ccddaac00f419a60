#!/usr/bin/env python3
"""How the engine's speed and memory grow with the length of a text, with how many there are, and with the size of the model.

Measures every point in a process of its own with `engine_speed`, appends it to a file of JSON lines, and draws three pictures from them. A
file from a run that was cut off is gone on with. Models have random weights in real shapes (benches/peers/train.py --save).

  curves.py measure --device cpu --program ENGINE_SPEED --models FOLDER --figures FILE
  curves.py draw    --device cpu --figures FILE --images FOLDER

Memory is the process's largest resident size on a CPU, the mapped file included, and on a GPU what nvidia-smi says beyond what was there before.
"""

import argparse
import json
import os
import subprocess
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(__file__))
import chart

SMALL = "smollm2-135m"
# Names, and billions of parameters.
SHAPES = {SMALL: ("135M", 0.135), "qwen2.5-1.5b": ("1.5B", 1.54), "qwen2.5-7b": ("7B", 7.62)}
LENGTHS = [512, 1024, 2048, 4096, 8192, 16384, 32768]
BATCHES = [1, 4, 16, 64, 256]
# What models of all sizes score and generate.
SIZES = {"cpu": ("4x512", "1x32"), "cuda": ("16x2048", "64x64")}


def points(device):
    """All points, as pairs of a shape and a task; the small ones first."""
    tasks = [(SMALL, f"forward:1x{length}") for length in LENGTHS]
    tasks += [(SMALL, f"forward:{batch}x512") for batch in BATCHES if batch > 1]
    tasks += [(SMALL, f"decode:{batch}x64") for batch in BATCHES]
    tasks += [(shape, f"{kind}:{size}") for shape in SHAPES for kind, size in zip(["forward", "decode"], SIZES[device])]
    if device == "cuda":
        tasks += [("qwen2.5-7b", f"forward:1x{length}") for length in LENGTHS]
        tasks += [("qwen2.5-7b", f"decode:{batch}x64") for batch in BATCHES]
    return list(dict.fromkeys(tasks))


def memory_of_gpu():
    command = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"]
    return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()[0]) * 1.048576


def measured(program, folder, device, task):
    """A point's figures: tokens per second, and memory in MB."""
    before = memory_of_gpu() if device == "cuda" else 0
    count, length = map(int, task.split(":")[1].split("x"))
    # Long work is measured once, without a warm-up.
    rounds = 3 if device == "cuda" else 0 if count * length > 8192 else 1
    environment = {**os.environ, "GRADUS_BENCH_DEVICE": device, "GRADUS_BENCH_MODEL": folder, "GRADUS_BENCH_ROUNDS": str(rounds)}
    process = subprocess.Popen([program, task], env=environment, stdout=subprocess.PIPE, text=True)
    most = before
    while device == "cuda" and process.poll() is None:
        most = max(most, memory_of_gpu())
        time.sleep(0.05)
    lines = [json.loads(line) for line in process.communicate()[0].splitlines()]
    if process.returncode or len(lines) != 2:
        return None
    return {"tokens_per_s": round(lines[0]["value"], 1), "memory_mb": round(most - before if device == "cuda" else lines[1]["value"])}


def read(path):
    if not os.path.exists(path):
        return []
    with open(path) as file:
        return [json.loads(line) for line in file]


def measure(options):
    done = {(line["device"], line["model"], line["task"]) for line in read(options.figures)}
    failed = 0
    for shape, task in points(options.device):
        if (options.device, shape, task) in done:
            continue
        found = measured(options.program, os.path.join(options.models, shape), options.device, task)
        failed += found is None
        line = {"device": options.device, "model": shape, "task": task, **(found or {"failed": True})}
        print(json.dumps(line), flush=True)
        if found:
            with open(options.figures, "a") as file:
                file.write(json.dumps(line) + "\n")
    return failed


def draw(options):
    figures = {(line["model"], line["task"]): line for line in read(options.figures) if line["device"] == options.device}
    place = "two CPU cores" if options.device == "cpu" else "one GPU"

    def picture(name, title, x_label, lines):
        """`lines`: names with triples of x, shape and task. Points without a figure are left out."""
        panels = {}
        for label, unit, of in [("Speed", "tokens/s", "tokens_per_s"), ("Memory", "MB", "memory_mb")]:
            drawn = {
                line: [(x, figures[shape, task][of]) for x, shape, task in points if (shape, task) in figures]
                for line, points in lines.items()
            }
            panels[f"{label}: {title}, {place}"] = (unit, {line: found for line, found in drawn.items() if found})
        chart.growth(os.path.join(options.images, f"engine-{options.device}-{name}.svg"), f"{title}, {place}", x_label, panels)

    picture("length", "scoring one text", "tokens", {
        name: [(length, shape, f"forward:1x{length}") for length in LENGTHS] for shape, (name, _) in SHAPES.items()
    })
    scoring = [(batch, SMALL, f"forward:{batch}x512") for batch in BATCHES]
    picture("batch", "many texts at once", "texts", {"scoring texts of 512, 135M": scoring} | {
        f"generating, {name}": [(batch, shape, f"decode:{batch}x64") for batch in BATCHES] for shape, (name, _) in SHAPES.items()
    })
    scored, generated = SIZES[options.device]
    picture("model", "sizes of models", "billion parameters", {
        f"{words} {size.replace('x', ' × ')}": [(billions, shape, f"{kind}:{size}") for shape, (_, billions) in SHAPES.items()]
        for words, kind, size in [("scoring", "forward", scored), ("generating", "decode", generated)]
    })


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("action", choices=["measure", "draw"])
    options.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    options.add_argument("--program", help="engine_speed")
    options.add_argument("--models", help="a folder with a model for each shape")
    options.add_argument("--figures", required=True, help="JSON lines")
    options.add_argument("--images", help="where pictures go")
    options = options.parse_args()
    return measure(options) if options.action == "measure" else draw(options)


if __name__ == "__main__":
    sys.exit(main())
