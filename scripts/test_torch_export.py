#!/usr/bin/env python3
"""make test-torch-export: runs of `gradus train` against their exports, trained by PyTorch.

    scripts/test_torch_export.py [--only prm,orpo] [--base smollm2-135m] [--steps 50]

Each case is trained three times: by `gradus train`, and from its export by train.py on one process and on two (gloo, on the
CPU). Losses of every step must agree to a relative 1e-3, and so must the scores of the two results, by `gradus score` (for
SFT and ORPO: the perplexities, by `gradus perplexity`). One case is killed and resumed, one
critic is trained by TRL, and accelerate loads both configurations. Neither FSDP nor DeepSpeed is run: accelerate has them on
GPUs only, and on CPU processes it falls back to plain data parallelism without a word. Needs GRADUS (the program) and PYTHON, which has the packages of
assets/export/torch/requirements*.txt; the critic needs the wheel of gradus, too, and is skipped without it.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
GRADUS = os.environ.get("GRADUS", str(ROOT / "target/debug/gradus"))
PYTHON = os.environ.get("PYTHON", sys.executable)
MODELS = ROOT / "crates/engine/tests/reference/models"
BOUND = 1e-3
WORLD = "--families geometry --styles equations --difficulty 1 --errors misread_given,wrong_operand"

RECIPE = """
objective = "{objective}"
seed = 3
[model]
base = "{base}"
precision = "f32"
{tuning}
[data]
train = ["train.jsonl"]
eval = ["eval.jsonl"]
max_tokens = {tokens}
[optimizer]
learning_rate = {rate}
schedule = "cosine"
warmup = 0.1
weight_decay = 0.01
[batch]
tokens = {tokens}
examples = {examples}
[steps]
{length}
checkpoint_every = 20
{section}
"""
LORA = '[lora]\nrank = 8\nalpha = 16\ndropout = 0.0\ntargets = ["all-linear"]'
BRIEF = '[{objective}]\nprofile = "brief"\n'
VALUE = """name = "value"
description = ""
[input]
kind = "tagged"
before = "{{ problem }}\\n\\n"
step = "{{ step }}"
tag = "\\n"
[score]
kind = "value"
"""

# Objective, its section, other settings. Odd batches leave processes with unequal shares, and epochs with a short last one.
CASES = {
    "prm": ("prm", BRIEF, {}),
    "orm": ("orm", BRIEF, {}),
    "sft": ("sft", "", {}),
    "orpo": ("orpo", "[orpo]\nlambda = 0.2\n", {}),
    "soft": ("prm", BRIEF + 'loss = "squared_error"\nwrong_weight = 2.0\n', {}),
    "soft-entropy": ("prm", BRIEF + 'loss = "soft_cross_entropy"\nwrong_weight = 2.0\n', {}),
    "vocabulary": ("prm", BRIEF + 'readout = "vocabulary"\nby_problem = true\n', {"examples": 3}),
    "epochs": ("prm", BRIEF, {"length": "epochs = 1", "examples": 7}),
    "prompts": ("prm", '[prm]\nprofile = "retrieval-prm"\n', {"model": "qwen2", "tokens": 4096, "examples": 2}),
    "classes": ("prm", '[prm]\nprofile = "qwen2.5-math-prm"\nhead = "classes"\n', {"model": "qwen2-prm"}),
    "value": ("prm", '[prm]\nprofile = "value-profile.toml"\nhead = "value"\n', {}),
    "full": ("prm", BRIEF, {"tuning": "[full]", "rate": 1e-3}),
}
MAIN = ("prm", "orm", "sft", "orpo")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", help="names of cases, separated by commas")
    parser.add_argument("--base", help="train this base, in the four objectives only, instead of tiny models")
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--examples", type=int, default=5, help="examples per step")
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--keep", type=Path, help="work in this folder and keep it")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        work = (args.keep or Path(temporary)).resolve()
        work.mkdir(parents=True, exist_ok=True)
        gradus(work, f"synth -n 60 --solutions 2 --seed 7 {WORLD} -o train.jsonl")
        gradus(work, f"synth -n 6 --solutions 2 --seed 8 {WORLD} -o eval.jsonl")
        (work / "value-profile.toml").write_text(VALUE)
        names = args.only.split(",") if args.only else MAIN if args.base else [*CASES, *EXTRAS]
        faults = []
        for name in names:
            began = time.time()
            found = EXTRAS[name](work) if name in EXTRAS else case(work, name, args)
            faults += [f"{name}: {fault}" for fault in found]
            print(f"{name}: {'; '.join(found) or 'ok'} ({time.time() - began:.0f} s)", flush=True)
    print("\n".join(faults) or "all of it agrees")
    return 1 if faults else 0


def write_recipe(work: Path, name: str, base: str | None = None, steps: int = 50, examples: int = 5) -> str:
    """Writes a case's recipe, and returns its objective."""
    objective, section, other = CASES[name]
    settings = {
        "objective": objective,
        "base": base or MODELS / other.get("model", "llama"),
        "tuning": LORA,
        "tokens": 512 if objective in ("prm", "orm") or base else 2048,
        "rate": 5e-4 if base else 1e-3,
        "examples": examples,
        "length": f"total = {steps}",
        "section": section.format(objective=objective),
        **{key: value for key, value in other.items() if key != "model"},
    }
    (work / f"{name}.toml").write_text(RECIPE.format(**settings))
    return objective


def case(work: Path, name: str, args: argparse.Namespace) -> list[str]:
    objective = write_recipe(work, name, args.base, args.steps, args.examples)
    gradus(work, f"train {objective} {name}.toml -o {name}-ours")
    gradus(work, f"train export {name}.toml --to torch -o {name}-export")
    ours = metrics(work / f"{name}-ours")
    faults = []
    for processes in args.processes:
        run = work / f"{name}-torch-{processes}"
        launch(work / f"{name}-export", run, processes)
        theirs = metrics(run)
        for split in "train", "eval":
            if [line["step"] for line in ours[split]] != [line["step"] for line in theirs[split]]:
                faults.append(f"{processes} processes: other {split} steps")
                continue
            differences = {}
            for key in set(ours[split][0]) - {"step", "time", "split", "tokens_per_second", "memory_gib"}:
                if key.endswith(("accuracy", "f1", "acc_err", "acc_cor")):
                    continue
                pairs = [(one[key], other[key]) for one, other in zip(ours[split], theirs[split])]
                differences[key] = max(abs(a - b) / max(abs(a), 1e-12) for a, b in pairs)
            print(f"  {processes} processes, {split}, {len(ours[split])} lines: loss {differences['loss']:.1e}", end="")
            worst = max(differences, key=differences.get)
            print(f", largest {worst} {differences[worst]:.1e}", flush=True)
            if differences["loss"] > BOUND:
                faults.append(f"{processes} processes: {split} losses differ by {differences['loss']:.1e}")
        difference = compare_results(work, name, objective, run)
        print(f"  {processes} processes, scores of the results: {difference:.1e}", flush=True)
        if difference > BOUND:
            faults.append(f"{processes} processes: scores differ by {difference:.1e}")
    return faults


def compare_results(work: Path, name: str, objective: str, run: Path) -> float:
    """The largest difference between what the two results say about the evaluation set."""
    kind = "model" if (run / "model").exists() else "adapter"
    found = []
    for folder in work / f"{name}-ours" / kind, run / kind:
        output = work / "scored.jsonl"
        output.unlink(missing_ok=True)
        if objective in ("prm", "orm"):
            profile = ["--profile", "brief"] if kind == "model" else []
            gradus(work, ["score", "eval.jsonl", "--model", folder, "--precision", "f32", "--name", "x", *profile, "-o", output])
            rows = [json.loads(line) for line in output.read_text().splitlines()]
            found.append([score for row in rows for one in row["solutions"] for score in one["scores"]["x"]])
        else:
            base = json.loads((folder / "gradus.json").read_text())["base"]
            options = ["--model", base, "--adapter", folder, "--precision", "f32"]
            gradus(work, ["perplexity", "--data", "eval.jsonl", *options, "-o", output])
            rows = [json.loads(line) for line in output.read_text().splitlines()]
            found.append([one["metadata"]["perplexity"] for row in rows for one in row["solutions"]])
    return max(abs(one - other) / max(1.0, abs(one)) for one, other in zip(*found, strict=True))


def resumed(work: Path) -> list[str]:
    """A run on two processes that is killed twice ends as one that is not."""
    write_recipe(work, "prm")
    gradus(work, "train export prm.toml --to torch -o killed-export")
    launch(work / "killed-export", work / "whole", 2)
    for stop in 27, 44:
        launch(work / "killed-export", work / "killed", 2, "--stop-after", str(stop), fails=True)
    launch(work / "killed-export", work / "killed", 2)
    whole, killed = metrics(work / "whole"), metrics(work / "killed")
    same = [[line["loss"] for line in lines["train"] + lines["eval"]] for lines in (whole, killed)]
    differs = max(abs(one - other) for one, other in zip(*same, strict=True))
    print(f"  largest difference of losses {differs:.1e}")
    kept = sorted(path.name for path in (work / "killed/checkpoints").iterdir())
    faults = [] if differs < 1e-6 else [f"losses differ by {differs:.1e}"]
    return faults + ([] if kept == ["step-000040", "step-000050"] else [f"checkpoints are {kept}"])


def few_examples(work: Path) -> list[str]:
    """Three processes, two examples a step, and one in the last: somebody has nothing to do."""
    write_recipe(work, "epochs", examples=2)
    sets = ["--set", "batch.examples=2", "--set", "data.limit=9", "--set", "steps.checkpoint_every=5"]
    gradus(work, ["train", "prm", "epochs.toml", *sets, "-o", "few-ours"])
    gradus(work, ["train", "export", "epochs.toml", *sets, "--to", "torch", "-o", "few-export"])
    launch(work / "few-export", work / "few", 3)
    ours, theirs = metrics(work / "few-ours"), metrics(work / "few")
    pairs = [(one["loss"], other["loss"]) for one, other in zip(ours["train"], theirs["train"], strict=True)]
    differs = max(abs(a - b) / a for a, b in pairs)
    print(f"  {len(pairs)} steps, loss {differs:.1e}")
    return [] if differs < BOUND else [f"losses differ by {differs:.1e}"]


def configurations(work: Path) -> list[str]:
    """Accelerate loads both configurations."""
    write_recipe(work, "prm")
    gradus(work, "train export prm.toml --to torch -o config-export")
    code = (
        "import sys; from accelerate.commands.config.config_args import load_config_from_file as load\n"
        "for name in ('fsdp.yaml', 'deepspeed.yaml'): print(load(name).distributed_type.value)\n"
        "import json; json.load(open('deepspeed.json'))"
    )
    said = subprocess.run([PYTHON, "-c", code], cwd=work / "config-export", capture_output=True, text=True)
    return [] if said.stdout.split() == ["FSDP", "DEEPSPEED"] else [said.stdout + said.stderr[-500:]]


def critic(work: Path) -> list[str]:
    """A critic is trained by TRL on two processes, and its adapter is taken."""
    if subprocess.run([PYTHON, "-c", "import gradus.trl"], capture_output=True).returncode:
        print("  skipped: PYTHON has no gradus.trl")
        return []
    base = MODELS / "qwen2"
    gradus(work, f"train critic-data eval.jsonl --model {base} --balance none -o critic.jsonl")
    recipe = RECIPE.format(
        objective="grpo", base=base, tuning=LORA, tokens=4096, rate=1e-3, examples=4, length="total = 3",
        section="[grpo]\ngroup = 2\nmax_new_tokens = 8\nkl = 0.04\nperplexity_aware = true\n",
    )
    recipe = recipe.replace("train.jsonl", "critic.jsonl").replace('eval = ["eval.jsonl"]\n', "")
    (work / "critic.toml").write_text(recipe.replace("checkpoint_every = 20", "checkpoint_every = 2"))
    gradus(work, "train export critic.toml --to torch -o critic-export")
    launch(work / "critic-export", work / "critic-run", 2)
    lines = metrics(work / "critic-run")["train"]
    names = sorted(path.name for path in (work / "critic-run/adapter").iterdir())
    gradus(work, ["generate", "hello", "--model", base, "--adapter", "critic-run/adapter", "--max-tokens", "2"])
    faults = [] if len([line for line in lines if "reward" in line]) == 3 else [f"{len(lines)} lines of metrics"]
    return faults + ([] if "gradus.json" in names else [f"the adapter has {names}"])


EXTRAS = {
    "resumed": resumed,
    "few": few_examples,
    "configurations": configurations,
    "critic": critic,
}


def gradus(work: Path, arguments: str | list) -> str:
    words = arguments.split() if isinstance(arguments, str) else [str(one) for one in arguments]
    done = subprocess.run([GRADUS, *words], cwd=work, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"gradus {' '.join(words)}\n{done.stdout}{done.stderr}")
    return done.stdout


def launch(export: Path, run: Path, processes: int, *more: str, fails: bool = False) -> None:
    """Runs train.py on so many processes of this machine's CPU."""
    # With --cpu, accelerate's own launcher starts one process, whatever --num_processes says.
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node", str(processes)]
    command = [PYTHON, *launcher, "train.py", "--output", str(run), *more]
    environment = {**os.environ, "ACCELERATE_USE_CPU": "true", "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=export, capture_output=True, text=True, env=environment)
    if f"processes: {processes}" not in done.stdout:
        raise SystemExit(f"not {processes} processes: {' '.join(command)}\n{done.stdout[-2000:]}{done.stderr[-4000:]}")
    if bool(done.returncode) != fails:
        raise SystemExit(f"{' '.join(command)}\n{done.stdout[-2000:]}{done.stderr[-4000:]}")


def metrics(run: Path) -> dict[str, list[dict]]:
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return {split: [line for line in lines if line["split"] == split] for split in ("train", "eval")}


if __name__ == "__main__":
    sys.exit(main())
