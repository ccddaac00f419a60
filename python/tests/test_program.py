"""The command line from Python, and the runs that it trains."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import gradus
from gradus.program import program_path
from gradus.training import TrainingRun, track

SYNTH = {"n": 4, "solutions": 2, "seed": 3}


def test_a_command_and_its_report(tmp_path: Path) -> None:
    data = tmp_path / "data.jsonl"
    gradus.run("synth", output=data, **SYNTH)
    stats = gradus.run("data", "stats", data)
    assert stats.solutions == stats["solutions"] == 8
    assert "solutions" in stats and len(stats) > 3
    with pytest.raises(AttributeError, match="data stats"):
        stats.nothing  # noqa: B018
    assert "<caption>gradus data stats</caption>" in stats._repr_html_()
    assert repr(stats).startswith("Report(data stats: ")


def test_refusals(tmp_path: Path) -> None:
    with pytest.raises(gradus.GradusError, match="No such file"):
        gradus.run("data", "stats", tmp_path / "nowhere.jsonl")
    with pytest.raises(gradus.GradusError, match="unexpected argument"):
        gradus.run("synth", colour="red")


def test_the_program_is_the_package_s() -> None:
    version = subprocess.run([program_path(), "--version"], capture_output=True, text=True, check=True).stdout
    assert version.split()[1] == gradus.__version__
    module = subprocess.run([sys.executable, "-m", "gradus", "--version"], capture_output=True, text=True, check=True)
    assert module.stdout == version


def test_a_benchmark_shows_its_page(tmp_path: Path) -> None:
    pytest.importorskip("tqdm")
    gradus.run("synth", output=tmp_path / "data.jsonl", **SYNTH)
    model = {"model": "smollm2-135m", "profile": "plain"}
    report = gradus.run("bench", "processbench", tmp_path / "data.jsonl", output=tmp_path / "run", **model)
    assert report.benchmark == "processbench"
    assert report._repr_html_().startswith("<iframe srcdoc=")


SLEEPER = """
import gradus, sys
print("begun", flush=True)
gradus.run("score", sys.argv[1], model="smollm2-135m", profile="plain", output=sys.argv[2])
"""


def test_control_c_stops_the_program_and_the_rest_resumes(tmp_path: Path) -> None:
    data, scored = tmp_path / "data.jsonl", tmp_path / "scored.jsonl"
    gradus.run("synth", output=data, n=40, solutions=4, seed=1)
    child = subprocess.Popen(
        [sys.executable, "-c", SLEEPER, str(data), str(scored)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "begun\n"
    journal = tmp_path / "scored.jsonl.journal"
    waited = time.monotonic()
    while not (journal.exists() and journal.stat().st_size > 1000) and time.monotonic() - waited < 60:
        time.sleep(0.1)
    # To Python alone, as a notebook does.
    os.kill(child.pid, signal.SIGINT)
    _, told = child.communicate(timeout=60)
    assert "KeyboardInterrupt" in told
    assert journal.exists()
    report = gradus.run("score", data, model="smollm2-135m", profile="plain", output=scored, progress=False)
    assert report.resumed > 0
    assert report.solutions == 160


def _run_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "prm"
    folder.mkdir()
    record = {"seed": 1, "gradus": "0.1.0", "command": ["gradus", "train", "prm"]}
    (folder / "run.json").write_text(json.dumps(record))
    return folder


class Kept:
    """A tracker that keeps what it hears."""

    def __init__(self) -> None:
        self.heard: list[object] = []

    def begin(self, run: TrainingRun) -> None:
        self.heard.append(run.record["seed"])

    def log(self, step: int, metrics: dict[str, float]) -> None:
        self.heard.append((step, metrics))

    def end(self) -> None:
        self.heard.append("end")


def test_a_run_is_followed_while_it_is_written(tmp_path: Path) -> None:
    folder = _run_folder(tmp_path)
    metrics = folder / "metrics.jsonl"

    def line(step: int, loss: float | None, split: str = "train") -> str:
        return json.dumps({"step": step, "time": 1.0, "split": split, "loss": loss}) + "\n"

    def train() -> None:
        with metrics.open("a") as file:
            for step in [1, 2, 3]:
                file.write(line(step, step / 2))
                file.flush()
                time.sleep(0.3)
            file.write('{"step": 4, "ti')
        # It was killed, and resumes from the checkpoint at step 2.
        metrics.write_text(line(1, 0.5) + line(2, 1.0) + line(3, None) + "damaged\n" + line(3, 0.1, "eval"))
        time.sleep(0.3)
        (folder / "README.md").write_text("done")

    writer = threading.Thread(target=train)
    writer.start()
    tracker = Kept()
    assert track(folder, tracker) == 4
    writer.join()
    assert tracker.heard[0] == 1
    assert tracker.heard[1:3] == [(1, {"train/loss": 0.5}), (2, {"train/loss": 1.0})]
    assert tracker.heard[3][0] == 3  # type: ignore[index]
    assert tracker.heard[-2:] == [(3, {"eval/loss": 0.1}), "end"]
    assert repr(TrainingRun(folder)).endswith("finished)")


def test_a_stopped_run_is_not_waited_for_forever(tmp_path: Path) -> None:
    folder = _run_folder(tmp_path)
    (folder / "metrics.jsonl").write_text('{"step": 1, "time": 1.0, "split": "train", "loss": null}\n')
    assert [line["loss"] for line in TrainingRun(folder).follow(poll_seconds=0.05, wait_seconds=0.2)] == [None]
    assert "stopped" in repr(TrainingRun(folder))
    with pytest.raises(gradus.GradusError, match="is no training run"):
        TrainingRun(tmp_path)


def test_a_real_run_shows_its_curves(tmp_path: Path) -> None:
    gradus.run("synth", output=tmp_path / "data.jsonl", **SYNTH)
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(RECIPE)
    command = [program_path(), "train", "prm", str(recipe), "-o", str(tmp_path / "run")]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr
    run = TrainingRun(tmp_path / "run")
    assert run.is_finished and not run.is_running
    assert [line["step"] for line in run.metrics() if line["split"] == "train"] == [1, 2]
    assert run._repr_html_().startswith("<iframe srcdoc=")
    assert len(list((tmp_path / "run").glob("events.out.tfevents.*"))) == 1


RECIPE = """
objective = "prm"

[model]
base = "smollm2-135m"
precision = "bf16"

[lora]
rank = 4
alpha = 8
dropout = 0.0
targets = ["all-linear"]

[data]
train = ["data.jsonl"]
eval = ["data.jsonl"]
max_tokens = 512

[optimizer]
learning_rate = 5e-4

[batch]
tokens = 512
examples = 2

[steps]
total = 2
checkpoint_every = 2

[prm]
profile = "brief"
"""
