"""Training runs of `gradus train`: their metrics, live, and for experiment trackers.

>>> run = gradus.TrainingRun("runs/prm")          # doctest: +SKIP
>>> for line in run.follow():                     # until the run ends
...     print(line["step"], line["split"], line.get("loss"))

To a tracker, while the run trains (in a program of its own: `python -m gradus.training runs/prm --wandb my-project`):

>>> from gradus.training import WandbTracker, track
>>> track("runs/prm", WandbTracker(project="my-project"))   # doctest: +SKIP
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

from gradus._gradus import GradusError
from gradus.notebook import frame
from gradus.program import program_path

__all__ = ["MlflowTracker", "Tracker", "TrainingRun", "WandbTracker", "track"]

# What a line says about itself; all others are metrics.
_ABOUT = {"step", "time", "split"}


class TrainingRun:
    """The folder of a training run, finished or not."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        if not (self.folder / "run.json").is_file():
            raise GradusError(f"{self.folder}: is no training run: there is no run.json in it")

    @property
    def record(self) -> dict[str, Any]:
        """Versions, seed, inputs with hashes, machine, command line: `run.json`."""
        record: dict[str, Any] = json.loads((self.folder / "run.json").read_text(encoding="utf-8"))
        return record

    @property
    def is_finished(self) -> bool:
        """Whether its result is there."""
        return (self.folder / "README.md").is_file()

    @property
    def is_running(self) -> bool:
        """Whether a process is writing it now."""
        try:
            import fcntl

            with open(self.folder / "lock", "rb") as lock:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
                return False
        except BlockingIOError:
            return True
        except (ImportError, OSError):
            return False

    def metrics(self) -> list[dict[str, Any]]:
        """All lines of `metrics.jsonl`: step, time, split, and the metrics by name."""
        return list(_whole_lines(self.folder / "metrics.jsonl"))

    def follow(self, *, poll_seconds: float = 1.0, wait_seconds: float = 10.0) -> Iterator[dict[str, Any]]:
        """Lines as they are written, from the first on, until the run is finished.

        A run that was stopped is waited for `wait_seconds`, in case it is resumed. Steps that are trained again after a
        resumption come once.
        """
        sent: dict[str, int] = {}
        idle_since = time.monotonic()
        while True:
            ended = self.is_finished or not self.is_running
            for line in _whole_lines(self.folder / "metrics.jsonl"):
                if line["step"] > sent.get(line["split"], -1):
                    sent[line["split"]] = line["step"]
                    idle_since = time.monotonic()
                    yield line
            if ended and (self.is_finished or time.monotonic() - idle_since > wait_seconds):
                return
            time.sleep(poll_seconds)

    def __repr__(self) -> str:
        state = "finished" if self.is_finished else "running" if self.is_running else "stopped"
        return f"TrainingRun({str(self.folder)!r}, {state})"

    def _repr_html_(self) -> str:
        """How Jupyter shows it: its curves."""
        with tempfile.TemporaryDirectory() as scratch:
            page = Path(scratch) / "curves.html"
            command = [program_path(), "train", "plot", str(self.folder), "-o", str(page)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                raise GradusError(done.stderr.strip().removeprefix("gradus: "))
            return frame(page.read_text(encoding="utf-8"))


def _whole_lines(path: Path) -> Iterator[dict[str, Any]]:
    """The lines that are written to their end; one that a kill damaged is passed over, as the program does."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return
    for line in text[: text.rfind("\n") + 1].splitlines():
        try:
            parsed = json.loads(line)
        except ValueError:
            continue
        if isinstance(parsed, dict) and isinstance(parsed.get("step"), int) and isinstance(parsed.get("split"), str):
            yield parsed


class Tracker(Protocol):
    """Somewhere that metrics are shown."""

    def begin(self, run: TrainingRun) -> None:
        """Called once, before the first metrics."""

    def log(self, step: int, metrics: dict[str, float]) -> None:
        """Metrics of one step, such as `train/loss`."""

    def end(self) -> None:
        """Called once, when the run is finished or stopped."""


class WandbTracker:
    """Weights & Biases. Its keyword arguments are those of `wandb.init`."""

    def __init__(self, **init: Any) -> None:
        self._init = init
        self._run: Any = None

    def begin(self, run: TrainingRun) -> None:
        """Opens a run of the same name, with `run.json` as its configuration."""
        import wandb

        settings = {"name": run.folder.name, "config": run.record, **self._init}
        self._run = wandb.init(**settings)
        # A run that resumes from a checkpoint goes back some steps, where wandb's own step only grows.
        self._run.define_metric("*", step_metric="step")

    def log(self, step: int, metrics: dict[str, float]) -> None:
        """Sends the metrics of one step."""
        self._run.log({**metrics, "step": step})

    def end(self) -> None:
        """Closes the run."""
        self._run.finish()


class MlflowTracker:
    """MLflow. Its keyword arguments are those of `mlflow.start_run`."""

    def __init__(self, **start_run: Any) -> None:
        self._start_run = start_run
        self._client: Any = None
        self._id = ""

    def begin(self, run: TrainingRun) -> None:
        """Opens a run of the same name, with the seed and the command as its parameters."""
        import mlflow

        settings = {"run_name": run.folder.name, **self._start_run}
        self._id = mlflow.start_run(**settings).info.run_id
        self._client = mlflow
        record = run.record
        mlflow.log_params({"seed": record["seed"], "gradus": record["gradus"], "command": " ".join(record["command"])})

    def log(self, step: int, metrics: dict[str, float]) -> None:
        """Sends the metrics of one step."""
        self._client.log_metrics(metrics, step=step, run_id=self._id)

    def end(self) -> None:
        """Closes the run."""
        self._client.end_run()


def track(run: str | os.PathLike[str] | TrainingRun, *trackers: Tracker, wait_seconds: float = 10.0) -> int:
    """Sends a run's metrics to trackers while it trains, until it ends. Returns the number of lines sent."""
    run = run if isinstance(run, TrainingRun) else TrainingRun(run)
    for tracker in trackers:
        tracker.begin(run)
    sent = 0
    try:
        for line in run.follow(wait_seconds=wait_seconds):
            # A loss that is not finite is null.
            numbers = {f"{line['split']}/{name}": value for name, value in line.items() if name not in _ABOUT}
            numbers = {name: float("nan") if value is None else float(value) for name, value in numbers.items()}
            for tracker in trackers:
                tracker.log(line["step"], numbers)
            sent += 1
    finally:
        for tracker in trackers:
            tracker.end()
    return sent


def main(arguments: list[str] | None = None) -> int:
    """`python -m gradus.training RUN --wandb PROJECT --mlflow EXPERIMENT`."""
    parser = argparse.ArgumentParser(prog="python -m gradus.training", description=track.__doc__)
    parser.add_argument("run", help="folder of a training run")
    parser.add_argument("--wandb", metavar="PROJECT", help="send to this project of Weights & Biases")
    parser.add_argument("--mlflow", metavar="EXPERIMENT", help="send to this experiment of MLflow")
    parser.add_argument("--wait", type=float, default=60.0, metavar="SECONDS", help="how long a stopped run is waited for")
    options = parser.parse_args(arguments)
    trackers: list[Tracker] = []
    if options.wandb:
        trackers.append(WandbTracker(project=options.wandb))
    if options.mlflow:
        import mlflow

        mlflow.set_experiment(options.mlflow)
        trackers.append(MlflowTracker())
    if not trackers:
        parser.error("name a tracker: --wandb PROJECT or --mlflow EXPERIMENT")
    try:
        sent = track(options.run, *trackers, wait_seconds=options.wait)
    except GradusError as error:
        print(f"gradus: {error}", file=sys.stderr)
        return 3
    print(f"{sent} lines sent", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
