"""Shards in, shards out: the bytes of the program, with any number of actors, after kills, and again."""

import json
import os
import random
import shutil
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import ray

import gradus
from gradus.ray import embed_shards, monte_carlo_shards, sample_shards, score_shards, shards

SHARDS = 5
PER_SHARD = 4
PLAIN = {"profile": "plain"}
SAMPLE = {"solutions": 2, "max_tokens": 10, "seed": 4}
ROLLOUTS = {"samples": 3, "max_tokens": 8, "labels": "soft", "seed": 2}
STAGES: dict[str, tuple[Any, list[str], dict[str, Any], str]] = {
    "score": (score_shards, ["score"], PLAIN, "jsonl"),
    "sample": (sample_shards, ["sample"], SAMPLE, "jsonl.zst"),
    "monte-carlo": (monte_carlo_shards, ["annotate", "monte-carlo"], ROLLOUTS, "parquet"),
    "embed": (embed_shards, ["embed"], {}, "npy"),
}


@pytest.fixture(scope="module")
def problems(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of problems."""
    chance = random.Random(3)
    file = tmp_path_factory.mktemp("problems") / "problems.jsonl"
    with open(file, "w", encoding="utf-8") as out:
        for number in range(SHARDS * PER_SHARD):
            first, second = chance.randint(1, 99), chance.randint(1, 99)
            problem = {"id": f"p{number}", "problem": f"What is {first} + {second}?", "answer": str(first + second)}
            out.write(json.dumps(problem) + "\n")
    return file


@pytest.fixture(scope="module")
def sampled(problems: Path, model: str) -> Path:
    """Shards with a manifest, as the program writes them."""
    folder = problems.parent / "sampled"
    jobs, name = problems.parent / "jobs", folder / "sampled.jsonl.zst"
    gradus.run("sample", problems, output=name, model=model, jobs=jobs, progress=False, shard_size=PER_SHARD, **SAMPLE)
    assert len(list(folder.iterdir())) == SHARDS + 1
    return folder


def data(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if not path.name.endswith(".manifest.json"))


def by_the_program(command: list[str], inputs: Path, folder: Path, ending: str, **options: Any) -> list[bytes]:
    """What the program writes for each shard."""
    written = []
    for number, shard in enumerate(data(inputs)):
        target = folder / f"expected-{number}.{ending}"
        if command == ["embed"]:
            from gradus.program import program_path

            line = [program_path(), "embed", "--data", str(shard), "-o", str(target), "--model", options["model"]]
            assert os.spawnv(os.P_WAIT, line[0], line) == 0
        else:
            jobs = {} if command == ["score"] else {"jobs": folder / "jobs.sqlite"}
            gradus.run(*command, shard, output=target, progress=False, **jobs, **options)
        written.append(target.read_bytes())
    return written


@pytest.mark.parametrize("stage", STAGES)
def test_shards_are_the_bytes_of_the_program(stage: str, sampled: Path, model: str, tmp_path: Path) -> None:
    run, command, options, ending = STAGES[stage]
    options = {**options, "model": model}
    expected = by_the_program(command, sampled, tmp_path, ending, **options)
    for actors, per_task in ((1, SHARDS), (2, 1), (2, 2)):
        folder = tmp_path / f"out-{actors}-{per_task}"
        report = run(sampled, folder / f"out.{ending}", actors=actors, shards_per_task=per_task, **options)
        assert [path.read_bytes() for path in data(folder)] == expected
        assert [path.name for path in data(folder)][0] == f"out-00000-of-0000{SHARDS}.{ending}"
        assert (report.shards, report.kept, report.failed) == (SHARDS, 0, 0)
        assert report.records == SHARDS * PER_SHARD
        manifest = json.loads(report.manifest.read_text(encoding="utf-8"))
        assert manifest["complete"] and len(manifest["shards"]) == SHARDS


def test_the_whole_is_what_the_program_writes_with_shard_size(sampled: Path, model: str, tmp_path: Path) -> None:
    options = {**ROLLOUTS, "model": model}
    alone, together = tmp_path / "alone" / "mc.jsonl.zst", tmp_path / "together" / "mc.jsonl.zst"
    line = ["annotate", "monte-carlo", str(sampled)]
    gradus.run(*line, output=alone, shard_size=PER_SHARD, jobs=tmp_path / "jobs", progress=False, **options)
    monte_carlo_shards(sampled, together, actors=2, **options)
    assert [path.name for path in data(alone.parent)] == [path.name for path in data(together.parent)]
    assert [path.read_bytes() for path in data(alone.parent)] == [path.read_bytes() for path in data(together.parent)]
    # The next command reads them, manifest and all.
    assert len(gradus.Dataset.read(together.parent)) == SHARDS * PER_SHARD
    assert score_shards(together.parent, tmp_path / "scored" / "s.jsonl", model=model, **PLAIN).shards == SHARDS


@pytest.mark.parametrize("ending", ["jsonl", "jsonl.gz", "jsonl.zst", "parquet"])
def test_every_container_is_read_and_written(ending: str, sampled: Path, model: str, tmp_path: Path) -> None:
    inputs = tmp_path / "in"
    inputs.mkdir()
    for number, shard in enumerate(data(sampled)[:2]):
        gradus.Dataset.read(shard).write(inputs / f"part-{number}.{ending}")
    options = {**PLAIN, "model": model}
    expected = by_the_program(["score"], inputs, tmp_path, ending, **options)
    score_shards([inputs], tmp_path / "out" / f"scored.{ending}", actors=2, **options)
    assert [path.read_bytes() for path in data(tmp_path / "out")] == expected


class Reporting(shards._ScoreShard):
    """Writes a line for each shard that it starts, and takes its time."""

    log = ""

    def __init__(self, log: str, **options: Any) -> None:
        super().__init__(**options)
        self.log = log

    def write(self, shard: gradus.Dataset, target: Path) -> tuple[int, int]:
        with open(self.log, "a", encoding="utf-8") as log:
            print(os.getpid(), ray.get_runtime_context().get_node_id(), target.name, file=log)
        time.sleep(0.5)
        return super().write(shard, target)


def kill_one(log: Path, killed: list[str]) -> None:
    """Kills an actor in its second shard."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and not killed:
        lines = [line.split() for line in log.read_text().splitlines()] if log.exists() else []
        processes = [process for process, _, _ in lines]
        for process, _, name in lines:
            if processes.count(process) >= 2:
                os.kill(int(process), signal.SIGKILL)
                killed.append(name)
                return
        time.sleep(0.01)


def test_an_actor_that_is_killed_costs_its_shard_only(
    sampled: Path, model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = by_the_program(["score"], sampled, tmp_path, "jsonl", model=model, **PLAIN)
    log, killed = tmp_path / "shards.log", []
    monkeypatch.setattr(shards, "_ScoreShard", Reporting)
    killer = threading.Thread(target=kill_one, args=[log, killed])
    killer.start()
    output = tmp_path / "out" / "scored.jsonl"
    report = score_shards(sampled, output, actors=2, model=model, log=str(log), **PLAIN)
    killer.join()
    lines = [line.split() for line in log.read_text().splitlines()]
    assert killed and len(lines) > SHARDS, "a shard was begun again"
    assert len({node for _, node, _ in lines}) == 2, "both nodes scored"
    assert len({process for process, _, _ in lines}) == 3, "the killed actor was replaced"
    assert [path.read_bytes() for path in data(output.parent)] == expected
    assert report.shards == SHARDS


def test_whole_shards_are_left_alone(sampled: Path, model: str, tmp_path: Path) -> None:
    output = tmp_path / "out" / "scored.jsonl"
    options = {**PLAIN, "model": model}
    score_shards(sampled, output, **options)
    first = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in data(output.parent)}
    one, two, *others = first
    one.unlink()
    two.write_bytes(first[two][0].replace(b"0", b"1", 1))
    report = score_shards(sampled, output, actors=2, **options)
    assert report.kept == SHARDS - 2
    assert {path: path.read_bytes() for path in data(output.parent)} == {path: first[path][0] for path in first}
    assert all(path.stat().st_mtime_ns == first[path][1] for path in others)
    assert score_shards(sampled, output, **options).kept == SHARDS
    with pytest.raises(gradus.GradusError, match="lists shards of other work"):
        score_shards(sampled, output, name="other", **options)


def test_what_a_model_cannot_take_is_refused_or_counted(model: str, tmp_path: Path) -> None:
    inputs = tmp_path / "in"
    inputs.mkdir()
    rows = [
        {"id": "a", "problem": "long " * 2_000, "answer": "none"},
        {"id": "b", "problem": "What is 2 + 3?", "answer": "5"},
    ]
    (inputs / "part.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    with pytest.raises(ray.exceptions.RayError, match="context holds 2048"):
        sample_shards(inputs, tmp_path / "out" / "s.jsonl", model=model, **SAMPLE)
    report = sample_shards(inputs, tmp_path / "skip" / "s.jsonl", model=model, on_error="skip", **SAMPLE)
    assert (report.records, report.failed) == (1, 1)
    how = {"jobs": tmp_path / "jobs", "skip_failed": True, "progress": False, "model": model}
    gradus.run("sample", inputs, output=tmp_path / "cli.jsonl", **how, **SAMPLE)
    assert data(tmp_path / "skip")[0].read_bytes() == (tmp_path / "cli.jsonl").read_bytes()
    again = sample_shards(inputs, tmp_path / "skip" / "s.jsonl", model=model, on_error="skip", **SAMPLE)
    assert again.kept == 0, "a shard that lacks something is tried again"


def test_wrong_inputs_are_refused_before_anything_is_started(sampled: Path, model: str, tmp_path: Path) -> None:
    with pytest.raises(gradus.GradusError, match="there is no file or folder"):
        score_shards(tmp_path / "nowhere", tmp_path / "out.jsonl")
    (tmp_path / "empty").mkdir()
    with pytest.raises(gradus.GradusError, match="has no data files"):
        score_shards(tmp_path / "empty", tmp_path / "out.jsonl")
    with pytest.raises(gradus.GradusError, match="written as .npy or .jsonl"):
        embed_shards(sampled, tmp_path / "vectors.parquet")
    copy = tmp_path / "copy"
    shutil.copytree(sampled, copy)
    manifest = next(copy.glob("*.manifest.json"))
    told = json.loads(manifest.read_text(encoding="utf-8"))
    manifest.write_text(json.dumps({**told, "complete": False}), encoding="utf-8")
    with pytest.raises(gradus.GradusError, match="is not complete"):
        score_shards(copy, tmp_path / "out.jsonl")
    manifest.write_text(json.dumps(told), encoding="utf-8")
    data(copy)[0].unlink()
    with pytest.raises(gradus.GradusError, match="missing or not the shard"):
        score_shards(copy, tmp_path / "out.jsonl")
    with pytest.raises(gradus.GradusError, match="is a shard of other work"):
        (tmp_path / "out-00000-of-00099.jsonl").touch()
        score_shards(sampled, tmp_path / "out.jsonl", model=model)


def test_an_actor_gets_a_gpu_and_uses_it(sampled: Path, model: str, tmp_path: Path) -> None:
    options = {**PLAIN, "model": model}
    with pytest.raises(ray.exceptions.RayError, match="(?i)cuda"):
        score_shards(sampled, tmp_path / "gpu" / "s.jsonl", num_gpus=1, **options)
    report = score_shards(sampled, tmp_path / "cpu" / "s.jsonl", actors=2, num_gpus=0.5, device="cpu", **options)
    assert report.shards == SHARDS
