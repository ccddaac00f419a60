"""A real training run, followed by Weights & Biases and MLflow as they are, without a network."""

import json
import os
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mlflow
import pytest
from wandb.proto import wandb_internal_pb2

import gradus
from gradus.program import program_path
from gradus.training import TrainingRun

pytestmark = pytest.mark.skipif("GRADUS_HOME" not in os.environ, reason="GRADUS_HOME does not name a folder with smollm2-135m")

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
total = 4
eval_every = 2
checkpoint_every = 2

[prm]
profile = "brief"
"""


@pytest.fixture(scope="module")
def followed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with a run that both trackers followed while it trained."""
    folder = tmp_path_factory.mktemp("followed")
    gradus.run("synth", output=folder / "data.jsonl", n=4, solutions=2, seed=3)
    (folder / "recipe.toml").write_text(RECIPE)
    environment = {
        **os.environ,
        "WANDB_MODE": "offline",
        "WANDB_DIR": str(folder),
        "MLFLOW_TRACKING_URI": f"sqlite:///{folder}/mlflow.db",
    }
    command = [program_path(), "train", "prm", "recipe.toml", "-o", "prm"]
    training = subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True)
    while not (folder / "prm" / "run.json").is_file():
        assert training.poll() in (None, 0), training.communicate()
    follow = [sys.executable, "-m", "gradus.training", "prm", "--wandb", "our-project", "--mlflow", "our-experiment"]
    following = subprocess.run(follow, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert training.wait() == 0, training.communicate()
    assert following.returncode == 0, following.stderr
    assert following.stderr.endswith(f"{len(TrainingRun(folder / 'prm').metrics())} lines sent\n")
    yield folder


def expected(folder: Path) -> dict[tuple[str, int], float]:
    """Every metric of a run by name and step, as metrics.jsonl has it."""
    lines = TrainingRun(folder / "prm").metrics()
    values = {
        (f"{line['split']}/{name}", line["step"]): value
        for line in lines
        for name, value in line.items()
        if name not in {"step", "time", "split"}
    }
    assert {name for name, _ in values} >= {"train/loss", "eval/loss"}
    return values


def wandb_records(path: Path) -> Iterator[Any]:
    """The records of wandb's file: blocks of 32 KiB, and pieces with a checksum, a length and a kind."""
    data, place, record = path.read_bytes(), 7, b""
    assert data[:4] == b":W&B"
    while place + 7 <= len(data):
        left = 32768 - place % 32768
        if left < 7:
            place += left
            continue
        _, length, kind = struct.unpack("<IHB", data[place : place + 7])
        record += data[place + 7 : place + 7 + length]
        place += 7 + length
        # Whole, or the last piece.
        if kind in (1, 4):
            yield wandb_internal_pb2.Record.FromString(record)
            record = b""


def test_wandb_has_every_metric(followed: Path) -> None:
    [file] = followed.glob("wandb/offline-run-*/*.wandb")
    records = list(wandb_records(file))
    [run] = [record.run for record in records if record.HasField("run")][-1:]
    assert (run.project, run.display_name) == ("our-project", "prm")
    configuration = {item.key or item.nested_key[0]: json.loads(item.value_json) for item in run.config.update}
    assert configuration["seed"] == TrainingRun(followed / "prm").record["seed"]
    values = {}
    for record in records:
        if not record.HasField("history"):
            continue
        row = {item.key or item.nested_key[0]: json.loads(item.value_json) for item in record.history.item}
        step = row.pop("step")
        values |= {(name, step): value for name, value in row.items() if not name.startswith("_")}
    assert values == pytest.approx(expected(followed))


def test_mlflow_has_every_metric(followed: Path) -> None:
    client = mlflow.MlflowClient(f"sqlite:///{followed}/mlflow.db")
    experiment = client.get_experiment_by_name("our-experiment")
    assert experiment is not None
    [run] = client.search_runs([experiment.experiment_id])
    assert run.info.run_name == "prm"
    assert run.info.status == "FINISHED"
    assert run.data.params["seed"] == str(TrainingRun(followed / "prm").record["seed"])
    values = {
        (name, point.step): point.value for name in run.data.metrics for point in client.get_metric_history(run.info.run_id, name)
    }
    assert values == pytest.approx(expected(followed))


def test_tensorboard_reads_the_same(followed: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(followed / "prm"))
    events.Reload()
    values = {(name, event.step): event.value for name in events.Tags()["scalars"] for event in events.Scalars(name)}
    wanted = expected(followed)
    assert {key: values[key] for key in wanted if key in values} == pytest.approx({k: v for k, v in wanted.items() if k in values}, rel=1e-6)
    assert ("train/loss", 4) in values
